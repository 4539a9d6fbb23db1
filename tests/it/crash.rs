//! Processes killed at random moments: what was acknowledged is there, and nothing is there by half.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use turnkeep::{AppendOptions, NewMessage, NewSession, SessionKey, Store};

use crate::case::{assistant, user, uuids};
use crate::children::{self, Child};
use crate::kit::{all_sessions, tree};

/// How many entries a writer appends in one call.
const BATCH: usize = 3;

/// Numbers that look random, from a seed that is printed.
pub struct Dice(u64);

impl Dice {
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let given = std::env::var("SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed: u64 = given.unwrap_or(now.as_nanos() as u64 | 1);
        println!("SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub fn rest(&mut self, at_most_ms: u64) {
        sleep(Duration::from_micros(self.below(at_most_ms * 1000)));
    }
}

#[test]
fn a_writer_killed_at_any_moment_loses_nothing_acknowledged_b67() {
    let mut dice = Dice::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    // How many batches each writer was told are stored, by its name.
    let mut acknowledged: HashMap<String, usize> = HashMap::new();
    let mut kills = 0;
    while kills < 200 {
        let names: Vec<String> = (0..4).map(|at| format!("w{}", kills + at)).collect();
        let mut writers: Vec<(String, Child, usize)> = names
            .into_iter()
            .map(|name| {
                // Two have a session of their own, two share one.
                let session = if dice.below(2) == 0 { "shared" } else { &name };
                let arguments = json!({"store": path, "session": session, "name": name});
                let child = children::start("crash::part_appends_batches", &arguments);
                (name, child, 0)
            })
            .collect();
        // Mostly while they write, sometimes while they open.
        if dice.below(4) > 0 {
            for (_, child, heard) in &mut writers {
                assert_eq!(child.hear().as_deref(), Some("stored 0"));
                *heard = 1;
            }
            dice.rest(25);
        } else {
            dice.rest(60);
        }
        for (name, child, mut heard) in writers {
            for line in child.kill() {
                assert_eq!(line, format!("stored {heard}"));
                heard += 1;
            }
            acknowledged.insert(name, heard);
            kills += 1;
            if dice.below(2) == 0 {
                dice.rest(5);
            }
        }
        let store = Store::open(&path).unwrap();
        if kills % 40 == 0 {
            assert_whole(&store, &acknowledged);
        }
    }
    let store = Store::open(&path).unwrap();
    assert_whole(&store, &acknowledged);
    let batches: usize = acknowledged.values().sum();
    println!("{kills} kills, {batches} batches acknowledged");
    assert!(batches > kills, "the writers were killed before they wrote");
    // And the store goes on.
    let session = store.sessions().create(NewSession::in_project("p"));
    let session = session.unwrap();
    session.messages().append(NewMessage::user("on")).unwrap();
}

/// Checks that every acknowledged batch is there, that at most one more is, and none by half.
fn assert_whole(store: &Store, acknowledged: &HashMap<String, usize>) {
    let mut found: HashMap<String, Vec<usize>> = HashMap::new();
    for session in all_sessions(store) {
        for uuid in uuids(&session, "") {
            let (writer, number) = uuid.split_once('-').unwrap();
            let entries = found.entry(writer.to_owned()).or_default();
            entries.push(number.parse().unwrap());
        }
    }
    for (name, batches) in acknowledged {
        let entries = found.remove(name).unwrap_or_default();
        assert!(
            entries.iter().copied().eq(0..entries.len()),
            "{name}: {entries:?}"
        );
        assert_eq!(entries.len() % BATCH, 0, "{name}: half a batch");
        let stored = entries.len() / BATCH;
        assert!(
            (*batches..=batches + 1).contains(&stored),
            "{name}: {stored} stored, {batches} acknowledged"
        );
    }
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
#[ignore = "a part of another test"]
fn part_appends_batches() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let text = |name: &str| arguments[name].as_str().unwrap();
    let store = Store::open(text("store")).unwrap();
    let new = NewSession::in_project("p").id(text("session"));
    let session = store.sessions().get_or_create(new).unwrap();
    for batch in 0.. {
        let entries = (0..BATCH).map(|at| {
            let uuid = format!("{}-{}", text("name"), batch * BATCH + at);
            assistant(&uuid, None, "an answer of some length, as they come")
        });
        session
            .messages()
            .append_entries(entries, &AppendOptions::new())
            .unwrap();
        children::say(&format!("stored {batch}"));
    }
}

#[test]
fn a_kill_inside_a_transaction_stores_nothing_of_it_b67() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for _ in 0..3 {
        let arguments = json!({"store": path});
        let mut child = children::start("crash::part_stops_inside_a_write", &arguments);
        assert_eq!(child.hear().as_deref(), Some("inside"));
        child.kill();
    }
    let store = Store::open(&path).unwrap();
    let session = store.sessions().resolve("s", &Default::default()).unwrap();
    let info = session.info().unwrap();
    assert_eq!((info.entries, info.messages, info.turns), (3, 3, 3));
    assert_eq!(info.title, None);
    assert_eq!(info.metadata, None);
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
#[ignore = "a part of another test"]
fn part_stops_inside_a_write() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    let new = NewSession::in_project("p").id("s");
    let session = store.sessions().get_or_create(new).unwrap();
    session
        .messages()
        .append(NewMessage::user("whole"))
        .unwrap();
    session
        .write(|tx| {
            tx.append(NewMessage::user("lost"))?;
            tx.set_title("lost")?;
            // More than fits into memory: some of it is in the log when the end comes.
            let filler = (0..64).map(|at| user(&format!("x{at}"), None, "x".repeat(100_000)));
            tx.append_entries(filler, &AppendOptions::new())?;
            tx.set_metadata(&json!("lost"))?;
            children::say("inside");
            children::listen();
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_log_cut_at_any_place_loses_whole_appends_only_b67() {
    let folder = tempfile::tempdir().unwrap();
    let live = folder.path().join("live/store.db");
    let arguments = json!({"store": live, "session": "s", "name": "w"});
    let mut child = children::start("crash::part_appends_batches", &arguments);
    for batch in 0..12 {
        assert_eq!(child.hear(), Some(format!("stored {batch}")));
    }
    let heard = 12 + child.kill().len();
    let files = tree(live.parent().unwrap());
    let log = &files["store.db-wal"];
    // A frame of the log is a page and 24 bytes of header.
    let mut cuts: Vec<usize> = (0..log.len()).step_by(8216 / 3 + 1).collect();
    cuts.push(log.len());
    let mut counts = Vec::new();
    for (number, cut) in cuts.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}/store.db"));
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, &files["store.db"]).unwrap();
        fs::write(with_suffix(&path, "-wal"), &log[..cut]).unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!(store.verify().unwrap().findings, [], "cut at {cut}");
        let key = SessionKey::new("p", "s").unwrap();
        let session = store.sessions().find(&key).unwrap();
        let entries = session.map_or(0, |session| uuids(&session, "").len());
        assert_eq!(entries % BATCH, 0, "cut at {cut}: half a batch");
        counts.push(entries / BATCH);
    }
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(counts[0], 0);
    let last = *counts.last().unwrap();
    assert!((heard..=heard + 1).contains(&last), "{counts:?}");
    counts.dedup();
    assert!(counts.len() > 6, "{counts:?}");
}

#[test]
fn a_first_open_killed_at_any_moment_can_be_done_again_b108() {
    let mut dice = Dice::new();
    let folder = tempfile::tempdir().unwrap();
    for round in 0..30 {
        let path = folder.path().join(format!("{round}/store.db"));
        for _ in 0..2 {
            let arguments = json!({"store": path, "session": "s", "name": "w"});
            let child = children::start("crash::part_appends_batches", &arguments);
            dice.rest(40);
            child.kill();
            if path.exists() {
                let store = Store::open(&path).unwrap();
                assert_eq!(store.verify().unwrap().findings, [], "round {round}");
            }
        }
        let store = Store::open(&path).unwrap();
        let session = store.sessions().create(NewSession::in_project("p"));
        let session = session.unwrap();
        session.messages().append(NewMessage::user("on")).unwrap();
        assert_eq!(store.verify().unwrap().findings, [], "round {round}");
    }
}

fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
