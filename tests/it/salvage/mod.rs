//! Damaged stores: what can be read is saved into a new one, and what cannot is said.

mod contents;
mod crash;
mod forks;
mod healthy;
mod pages;
mod refused;
mod rows;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use turnkeep::{
    AppendOptions, Durability, Error, ForkOptions, NewMessage, NewSession, OpenOptions, Salvaged,
    Session, SessionFilter, SessionInfo, SessionKey, Store, WatchOptions,
};

use crate::kit::{all_sessions, exported, fixture_path, import};

const PAGE: usize = 8192;

/// A closed store with real runs and sessions of an app, and a place to salvage it to.
struct Victim {
    folder: TempDir,
    picture: Picture,
}

const RUNS: [&str; 5] = [
    "files_raw",
    "compact_manual",
    "subagent_checkpoint",
    "parallel",
    "torn_tail",
];

impl Victim {
    fn new() -> Self {
        Self::with(|store| {
            for run in RUNS {
                import(store, &fixture_path(&format!("transcripts/{run}")));
            }
            for number in 0..6 {
                desk(store, number, 40);
            }
            let gone = desk(store, 6, 30);
            gone.delete().unwrap();
            forks::family(store);
        })
    }

    fn with(fill: impl FnOnce(&Store)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let options = OpenOptions::new().durability(Durability::Normal);
        let store = Store::open_with(&path, &options).unwrap();
        fill(&store);
        assert_eq!(store.verify().unwrap().findings, []);
        drop(store);
        // The last connection, which folds the log in, may be closed by another thread.
        while folder.path().join("store.db-wal").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let picture = Picture::of(&path);
        Self { folder, picture }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    /// A damaged copy, in a folder of its own.
    fn damaged(&self, damage: impl FnOnce(&mut Vec<u8>)) -> Damaged {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = fs::read(self.path()).unwrap();
        damage(&mut bytes);
        fs::write(folder.path().join("store.db"), bytes).unwrap();
        Damaged { folder }
    }
}

struct Damaged {
    folder: TempDir,
}

impl Damaged {
    fn from(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    fn to(&self) -> PathBuf {
        self.folder.path().join("saved.db")
    }

    /// Salvages it, and makes sure that the original stays and the new store is whole.
    fn salvage(&self) -> (Salvaged, Picture) {
        let before = hashes(self.folder.path());
        let salvaged = Store::salvage(self.from(), self.to()).unwrap();
        let mut after = hashes(self.folder.path());
        assert!(after.remove("saved.db").is_some());
        assert_eq!(
            before, after,
            "the original is as it was, and nothing lies beside it"
        );
        let store = Store::open(self.to()).unwrap();
        assert_eq!(store.verify().unwrap().findings, []);
        drop(store);
        let picture = Picture::of(&self.to());
        assert_eq!(salvaged.sessions, picture.sessions.len() as u64);
        assert_eq!(salvaged.entries as usize, picture.entries());
        (salvaged, picture)
    }
}

fn hashes(folder: &Path) -> BTreeMap<String, [u8; 32]> {
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, *blake3::hash(&fs::read(path).unwrap()).as_bytes())
    });
    files.collect()
}

/// A session of an app, with calls and results; some entries overflow their page.
fn desk(store: &Store, number: usize, turns: usize) -> Session {
    let new =
        NewSession::in_project(format!("shop-{}", number % 2)).titled(format!("desk {number}"));
    let desk = store.sessions().create(new).unwrap();
    for turn in 0..turns {
        let long = "orders ".repeat(turn * number * 40 % 3000);
        let id = format!("toolu_{number}_{turn}");
        let call = serde_json::json!([{"type": "tool_use", "id": id, "name": "Read", "input": {"n": turn}}]);
        desk.write(|tx| {
            tx.append(NewMessage::user(format!("order {turn} {long}")))?;
            tx.append(NewMessage::assistant(call))?;
            tx.append(NewMessage::tool_result(&id, "done"))
        })
        .unwrap();
    }
    desk
}

/// What a store holds and shows, by the number of each session's row.
#[derive(PartialEq, Debug)]
struct Picture {
    sessions: BTreeMap<i64, Shown>,
    /// The rows that are stored, also those that only forks show, by session, subpath and seq.
    stored: BTreeMap<(i64, String, i64), Content>,
    /// The scratchpad of each session.
    notes: BTreeMap<i64, BTreeMap<String, serde_json::Value>>,
    /// The session of every number, as it was named when it was made.
    keys: BTreeMap<SessionKey, i64>,
}

type Content = (Option<String>, Option<Vec<u8>>);

#[derive(PartialEq, Debug)]
struct Shown {
    info: SessionInfo,
    /// What is shown, by subpath and seq: the record, and the bytes where they differ.
    lines: BTreeMap<(String, i64), Content>,
    exports: BTreeMap<String, Vec<u8>>,
    conversation: Vec<String>,
}

impl Picture {
    fn of(path: &Path) -> Self {
        let conn = reading(path);
        let mut statement = conn
            .prepare("SELECT project_key, session_id, id FROM sessions WHERE deleted_ms IS NULL")
            .unwrap();
        let keys: BTreeMap<SessionKey, i64> = statement
            .query_map([], |row| {
                let key = SessionKey::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?);
                Ok((key.unwrap(), row.get(2)?))
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let store = Store::open(path).unwrap();
        let sessions = all_sessions(&store)
            .iter()
            .map(|session| (keys[session.key()], Shown::of(session)))
            .collect();
        let notes = all_sessions(&store)
            .iter()
            .map(|session| (keys[session.key()], session.scratchpad().list().unwrap()))
            .collect();
        let mut statement = conn
            .prepare("SELECT session, subpath, seq, entry, raw FROM messages")
            .unwrap();
        let stored = statement
            .query_map([], |row| {
                let place = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok((place, (row.get(3)?, row.get(4)?)))
            })
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        Self {
            sessions,
            stored,
            notes,
            keys,
        }
    }

    fn entries(&self) -> usize {
        let live = |session: &i64| self.sessions.contains_key(session);
        let entries = self
            .stored
            .iter()
            .filter(|((session, ..), line)| live(session) && line.0.is_some());
        entries.count()
    }
}

impl Shown {
    fn of(session: &Session) -> Self {
        let mut lines = BTreeMap::new();
        let mut exports = BTreeMap::new();
        let mut subpaths = session.subpaths().unwrap();
        subpaths.push(String::new());
        for subpath in subpaths {
            for line in session.transcript(&subpath).unwrap() {
                lines.insert((subpath.clone(), line.seq), (line.entry, line.raw));
            }
            exports.insert(subpath.clone(), exported(session, &subpath));
        }
        let conversation = session.conversation("").unwrap().entries;
        Self {
            info: session.info().unwrap(),
            lines,
            exports,
            conversation: conversation.into_iter().map(|entry| entry.uuid).collect(),
        }
    }
}

fn reading(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

/// Every row of every table, as SQL sees it; but for the search index, which is derived.
fn rows(path: &Path) -> BTreeMap<String, Vec<Vec<Value>>> {
    let conn = reading(path);
    let mut statement = conn
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'refinery_schema_history'
             AND name NOT LIKE 'search%'",
        )
        .unwrap();
    let tables: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let all = |table: &String| {
        let mut statement = conn
            .prepare(&format!("SELECT * FROM {table} ORDER BY 1, 2"))
            .unwrap();
        let columns = statement.column_count();
        let rows = statement
            .query_map([], |row| (0..columns).map(|at| row.get(at)).collect())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        (table.clone(), rows)
    };
    tables.iter().map(all).collect()
}

/// Makes sure that what was saved is what was there, and that a loss is told.
fn compare(name: &str, original: &Picture, salvaged: &Salvaged, saved: &Picture) {
    let notes_lost = salvaged
        .lost
        .iter()
        .any(|lost| lost.starts_with("scratchpad: "));
    let mut all_there = saved.stored.len() == original.stored.len();
    for (place, line) in &saved.stored {
        let same = Some(line) == original.stored.get(place);
        assert!(same, "{name}: {place:?}");
    }
    for (number, shown) in &saved.sessions {
        let renamed = shown.info.project_key == "salvaged";
        let Some(before) = original.sessions.get(number) else {
            // One that was deleted and lost its row comes back with what forks show of it.
            let was_there = original.stored.keys().any(|(owner, _, _)| owner == number);
            assert!(
                renamed && was_there,
                "{name}: session {:?} was made up",
                shown.info.key()
            );
            continue;
        };
        assert!(renamed || shown.info.key() == before.info.key(), "{name}");
        let whole = shown.lines == before.lines && !renamed;
        if whole && !notes_lost {
            assert_eq!(saved.notes[number], original.notes[number], "{name}");
        }
        if whole {
            assert!(
                shown == before,
                "{name}: {:?}, was {:?}",
                shown.info,
                before.info
            );
        }
        all_there &= whole;
    }
    all_there &= saved.keys == original.keys;
    assert!(
        all_there || !salvaged.lost.is_empty(),
        "{name}: a loss is not told"
    );
}

/// Numbers that are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// Where the page of this number begins in a file, past the file's header.
fn head_of(number: usize) -> usize {
    number * PAGE + if number == 0 { 100 } else { 0 }
}

/// The number, from 0, of the page on which a table begins.
fn root_of(table: &str, path: &Path) -> usize {
    let sql = "SELECT rootpage - 1 FROM sqlite_schema WHERE name = ?1";
    let root: i64 = reading(path)
        .query_row(sql, [table], |row| row.get(0))
        .unwrap();
    root as usize
}

fn is_index(bytes: &[u8], number: usize) -> bool {
    matches!(bytes[head_of(number)], 0x02 | 0x0a)
}

/// The numbers of the pages of a table without row ids.
fn pages_of(table: &str, path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).unwrap();
    let mut pages = vec![root_of(table, path)];
    let mut at = 0;
    while at < pages.len() {
        let page = &bytes[pages[at] * PAGE..(pages[at] + 1) * PAGE];
        let word = |at: usize| u32::from_be_bytes(page[at..at + 4].try_into().unwrap()) as usize;
        if page[0] == 0x02 {
            let cells = usize::from(u16::from_be_bytes([page[3], page[4]]));
            let cell = |cell: usize| 12 + 2 * cell;
            let child = |at: usize| usize::from(u16::from_be_bytes([page[at], page[at + 1]]));
            pages.extend((0..cells).map(|number| word(child(cell(number))) - 1));
            pages.push(word(8) - 1);
        }
        at += 1;
    }
    pages
}
