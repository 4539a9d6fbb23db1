//! Many processes at one store: nothing fails, nothing is lost, nothing is there twice.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use turnkeep::{Durability, Journal, NewMessage, NewSession, OpenOptions, SessionKey, Store};

use crate::case::{spoken, uuids};
use crate::children::{self, Child};
use crate::kit::{all_sessions, exported, import};

const PROCESSES: usize = 8;
const APPENDS: usize = 200;

#[test]
fn eight_processes_append_each_to_a_session_of_its_own_b107() {
    let store = eight_processes(|process| format!("s{process}"), false);
    let sessions = all_sessions(&store.1);
    assert_eq!(sessions.len(), PROCESSES);
    for session in sessions {
        assert_eq!(session.info().unwrap().entries, APPENDS as u64);
        assert_in_order(&uuids(&session, ""));
        let conversation = session.conversation("").unwrap();
        assert_eq!(spoken(&conversation), uuids(&session, ""));
    }
}

#[test]
fn eight_processes_append_to_one_session_b107() {
    let store = eight_processes(|_| "s".to_owned(), true);
    let sessions = all_sessions(&store.1);
    assert_eq!(sessions.len(), 1);
    let stored = uuids(&sessions[0], "");
    assert_eq!(stored.len(), PROCESSES * APPENDS);
    assert_in_order(&stored);
    // Each hangs from the one before: one chain, in the order of the store.
    let conversation = sessions[0].conversation("").unwrap();
    assert_eq!(spoken(&conversation), stored);
    assert!(conversation.repaired_links.is_empty());
    let seqs: Vec<i64> = sessions[0]
        .transcript("")
        .unwrap()
        .iter()
        .map(|line| line.seq)
        .collect();
    assert!(seqs.iter().copied().eq(1..=1600), "{seqs:?}");
}

/// Has eight processes append at the same time to a store that none of them finds made.
fn eight_processes(session: impl Fn(usize) -> String, reader: bool) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|process| {
            let arguments = json!({
                "store": path, "session": session(process), "process": process, "journal": null,
                "appends": APPENDS,
            });
            children::start("processes::part_appends", &arguments)
        })
        .collect();
    for child in &mut children {
        assert_eq!(child.hear().as_deref(), Some("ready"));
    }
    for child in &mut children {
        child.tell("go");
    }
    // A reader that keeps its snapshot is in nobody's way.
    let snapshot = reader.then(|| {
        for child in &mut children {
            assert_eq!(child.hear().as_deref(), Some("began"));
        }
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let count = |reader: &Connection| -> i64 {
            let sql = "SELECT count(*) FROM messages";
            reader.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        let then = count(&reader);
        (reader, then, count)
    });
    for child in children {
        assert_eq!(child.finish().last().map(String::as_str), Some("done"));
    }
    if let Some((reader, then, count)) = snapshot {
        assert_eq!(count(&reader), then);
    }
    let store = Store::open(&path).unwrap();
    let verified = store.verify().unwrap();
    assert_eq!(verified.findings, []);
    assert_eq!(verified.entries, (PROCESSES * APPENDS) as u64);
    (folder, store)
}

/// What each process appended is there once, in its order.
fn assert_in_order(stored: &[String]) {
    let distinct: HashSet<&String> = stored.iter().collect();
    assert_eq!(distinct.len(), stored.len(), "none twice");
    for process in 0..PROCESSES {
        let prefix = format!("{process}-");
        let own: Vec<usize> = stored
            .iter()
            .filter_map(|uuid| uuid.strip_prefix(&prefix)?.parse().ok())
            .collect();
        assert!(
            own.is_empty() || own.iter().copied().eq(0..APPENDS),
            "{own:?}"
        );
    }
}

#[test]
#[ignore = "a part of another test"]
fn part_appends() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let text = |name: &str| arguments[name].as_str().unwrap().to_owned();
    children::say("ready");
    children::listen();
    let mut options = OpenOptions::new();
    if arguments["journal"] == "rollback" {
        options = options.journal(Some(Journal::Rollback));
    }
    let store = Store::open_with(text("store"), &options).unwrap();
    let new = NewSession::in_project("p").id(text("session"));
    let session = store.sessions().get_or_create(new).unwrap();
    for at in 0..arguments["appends"].as_u64().unwrap() {
        let message = NewMessage::user("a message of some length, as they come");
        let uuid = format!("{}-{at}", arguments["process"]);
        session.messages().append(message.uuid(uuid)).unwrap();
        if at == 0 {
            children::say("began");
        }
    }
    children::say("done");
}

#[test]
fn many_first_opens_at_once_all_work_b108() {
    let text = fs::read_to_string(crate::case::folder("B108").join("sequence.json")).unwrap();
    let sequence: Value = serde_json::from_str(&text).unwrap();
    let processes = sequence["calls"][0]["processes"].as_u64().unwrap();
    let rounds = sequence["calls"][1]["repeat"].as_u64().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..processes)
        .map(|_| children::start("processes::part_opens", &json!({})))
        .collect();
    for child in &mut children {
        assert_eq!(child.hear().as_deref(), Some("ready"));
    }
    for round in 0..rounds {
        let path = folder.path().join(format!("new/{round}/store.db"));
        for child in &mut children {
            child.tell(path.to_str().unwrap());
        }
        let heard: Vec<_> = children.iter_mut().map(Child::hear).collect();
        for answer in heard {
            assert_eq!(answer.as_deref(), Some("opened"), "round {round}");
        }
        let file = Connection::open(&path).unwrap();
        let versions = "SELECT count(DISTINCT version) = count(*) AND count(*) > 0
                        FROM refinery_schema_history";
        let once: bool = file.query_row(versions, [], |row| row.get(0)).unwrap();
        assert!(once, "round {round}");
        drop(file);
        let store = Store::open(&path).unwrap();
        assert_eq!(all_sessions(&store).len(), processes as usize);
        assert_eq!(store.verify().unwrap().findings, []);
        let unfinished = fs::read_dir(path.parent().unwrap())
            .unwrap()
            .filter(|file| {
                let name = file.as_ref().unwrap().file_name();
                !name.to_str().unwrap().starts_with("store.db")
            })
            .count();
        assert_eq!(unfinished, 0, "nothing is left of the makings that lost");
    }
    for child in children {
        child.finish();
    }
}

#[test]
#[ignore = "a part of another test"]
fn part_opens() {
    if children::arguments().is_none() {
        return;
    }
    children::say("ready");
    while let Some(path) = children::listen() {
        // A first write as well: an open that only looks good is none.
        let outcome = Store::open(&path)
            .and_then(|store| store.sessions().create(NewSession::in_project("p")));
        match outcome {
            Ok(_) => children::say("opened"),
            Err(error) => children::say(&format!("failed: {error:?}")),
        }
    }
}

#[test]
fn a_new_session_is_seen_by_the_next_reader_b124() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new().durability(Durability::Normal);
    let one = Store::open_with(&path, &options).unwrap();
    let two = Store::open(&path).unwrap();
    let mut child = children::start("processes::part_finds", &json!({"store": path}));
    assert_eq!(child.hear().as_deref(), Some("ready"));
    for at in 0..1000 {
        let id = format!("s{at}");
        let new = NewSession::in_project("p").id(&id).titled(&id);
        one.sessions().create(new).unwrap();
        child.tell(&id);
        let key = SessionKey::new("p", &id).unwrap();
        assert!(two.sessions().find(&key).unwrap().is_some(), "{id}");
        assert_eq!(child.hear().as_deref(), Some("found"), "{id}");
    }
    child.finish();
}

#[test]
#[ignore = "a part of another test"]
fn part_finds() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    children::say("ready");
    while let Some(id) = children::listen() {
        let newest = store.sessions().resolve("@last", &Default::default());
        let right = newest.is_ok_and(|newest| newest.id() == id);
        children::say(if right { "found" } else { "missing" });
    }
}

#[test]
fn two_importers_of_one_folder_store_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("config");
    let entries = write_source(&source, 3, 3000);
    for round in 0..2 {
        let path = folder.path().join(format!("{round}.db"));
        let arguments = json!({"store": path, "source": source});
        let mut children: Vec<Child> = (0..3)
            .map(|_| children::start("processes::part_imports", &arguments))
            .collect();
        for child in &mut children {
            assert_eq!(child.hear().as_deref(), Some("ready"));
        }
        for child in &mut children {
            child.tell("go");
        }
        let new: u64 = children
            .into_iter()
            .map(|child| child.finish().pop().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(new, entries, "round {round}");
        let store = Store::open(&path).unwrap();
        for session in all_sessions(&store) {
            let file = source.join(format!("projects/-srv-demo/{}.jsonl", session.id()));
            let same = exported(&session, "") == fs::read(file).unwrap();
            assert!(same, "round {round}: {}", session.id());
        }
        assert_eq!(store.verify().unwrap().findings, []);
        let again = import(&store, &source);
        assert_eq!((again.new_entries, again.entries), (0, entries));
    }
}

#[test]
#[ignore = "a part of another test"]
fn part_imports() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    children::say("ready");
    children::listen();
    let report = import(&store, Path::new(arguments["source"].as_str().unwrap()));
    children::say(&report.new_entries.to_string());
}

/// Writes a config folder with so many messages a session, and as many lines that are alike and
/// have no uuid. Beyond 2,000 messages a file takes several transactions. Answers how many entries
/// it holds.
pub fn write_source(config: &Path, sessions: usize, messages: usize) -> u64 {
    let project = config.join("projects/-srv-demo");
    fs::create_dir_all(&project).unwrap();
    let (mut entries, aside) = (0, r#"{"type":"mode","mode":"normal"}"#);
    for session in 0..sessions {
        let mut lines = String::new();
        for at in 0..messages {
            let parent = if at == 0 {
                "null".to_owned()
            } else {
                format!("\"u{}\"", at - 1)
            };
            let text = "word ".repeat(at % 60);
            writeln!(
                lines,
                r#"{{"type":"user","uuid":"u{at}","parentUuid":{parent},"timestamp":"2026-01-02T03:04:05.000Z","message":{{"role":"user","content":"{text}"}}}}"#
            )
            .unwrap();
            entries += 1;
            for _ in 0..at % 3 {
                writeln!(lines, "{aside}").unwrap();
                entries += 1;
            }
        }
        let name = format!("aaaaaaaa-0000-4000-8000-{session:012}.jsonl");
        fs::write(project.join(name), lines).unwrap();
    }
    entries
}
