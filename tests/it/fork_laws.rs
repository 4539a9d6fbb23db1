//! What holds of forks, whatever the session was and whatever is done afterwards.

mod cuts;
mod deeds;
mod sessions;
mod walk;

use std::collections::{HashMap, HashSet};
use std::fs;

use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use turnkeep::{Durability, ErrorKind, OpenOptions, ResumeOptions, Session, SessionKey, Store};

use crate::kit::{TestStore, import};

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

fn new_store() -> TestStore {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().durability(Durability::Normal);
    let store = Store::open_with(folder.path().join("store.db"), &options).unwrap();
    TestStore { folder, store }
}

/// Imports a transcript into a project of a store.
fn imported(test: &TestStore, project: &str, session_id: &str, file: &[u8]) -> Session {
    let folder = test.path(&format!("in-{project}"));
    let path = folder.join(format!("projects/{project}/{session_id}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, file).unwrap();
    import(&test.store, &folder);
    let key = SessionKey::new(project, session_id).unwrap();
    test.store.sessions().get(&key).unwrap()
}

fn context(session: &Session) -> String {
    serde_json::to_string(&session.context("").unwrap().messages).unwrap()
}

/// The lines of a main transcript, without what a fork leaves out.
fn lines(session: &Session) -> Vec<String> {
    let lines = session.transcript("").unwrap().into_iter();
    lines.filter_map(|line| line.entry).collect()
}

fn field(entry: &str, path: &str) -> Option<String> {
    let value: Value = serde_json::from_str(entry).unwrap();
    value.pointer(path)?.as_str().map(String::from)
}

fn uuids(session: &Session) -> Vec<String> {
    let lines = lines(session);
    lines
        .iter()
        .filter_map(|line| field(line, "/uuid"))
        .collect()
}

/// The messages that the session answers to, by uuid.
fn messages(session: &Session) -> Vec<String> {
    let (mut seen, lines) = (HashSet::new(), lines(session));
    let is_message = |line: &&String| {
        let value: Value = serde_json::from_str(line).unwrap();
        let kind = value["type"].as_str().unwrap_or("");
        ["user", "assistant", "system", "attachment"].contains(&kind)
            && value["isSidechain"] != true
    };
    let found = lines
        .iter()
        .filter(is_message)
        .filter_map(|line| field(line, "/uuid"));
    found.filter(|uuid| seen.insert(uuid.clone())).collect()
}

/// No uuid of one session is another's, and each leads to its message in its own session alone.
/// `but` are uuids that were given to several.
fn check_uuids(sessions: &[Session], but: &[String]) {
    let mut owner: HashMap<String, &str> = HashMap::new();
    for session in sessions {
        for uuid in uuids(session)
            .into_iter()
            .filter(|uuid| !but.contains(uuid))
        {
            assert_eq!(*owner.entry(uuid).or_insert(session.id()), session.id());
        }
    }
    for session in sessions {
        for uuid in messages(session)
            .into_iter()
            .filter(|uuid| !but.contains(uuid))
        {
            let at = ResumeOptions::new().at(&uuid);
            assert_eq!(session.resume(&at).unwrap().head, Some(uuid));
            for other in sessions.iter().filter(|other| other.id() != session.id()) {
                assert_eq!(other.resume(&at).unwrap_err().kind(), ErrorKind::NotFound);
            }
        }
    }
}
