//! Several writers on one session, and the one that `continue` picks.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, Durability, ErrorKind, Lease, NewMessage, NewSession, OpenOptions, Scope,
    Session, SessionKey, Store,
};

use crate::children;
use crate::kit::{TestStore, all_sessions, fixture_path, import, tree};

const EACH: usize = 60;

fn open(path: &Path) -> Store {
    let options = OpenOptions::new().durability(Durability::Normal);
    Store::open_with(path, &options).unwrap()
}

fn key() -> SessionKey {
    SessionKey::new("p", "s").unwrap()
}

/// Appends `EACH` messages, each under the head that this writer believes in. Says of each which
/// head it was stored under; a refusal must name the head that it is to go on from.
fn write_in_turn(store: &Store, name: &str) -> Vec<(String, Option<String>)> {
    let session = store.sessions().get(&key()).unwrap();
    let (mut stored, mut head): (Vec<(String, Option<String>)>, Option<String>) =
        (Vec::new(), None);
    while stored.len() < EACH {
        let options = match &head {
            Some(head) => AppendOptions::new().expect_head(head),
            None => AppendOptions::new().expect_empty(),
        };
        let uuid = format!("{name}-{}", stored.len());
        let message = NewMessage::user(name).uuid(&uuid);
        match session.messages().append_with(message, &options) {
            Ok(message) => {
                assert!(message.stored);
                stored.push((uuid.clone(), head));
                head = Some(uuid);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                let text = error.to_string();
                let present = text.split('`').nth(1).unwrap().to_owned();
                assert_ne!(Some(&present), head.as_ref(), "{text}");
                head = Some(present);
            }
        }
    }
    stored
}

/// What was stored by all writers is one chain: each message under the head that it was given.
fn check_chain(store: &Store, stored: &[(String, Option<String>)], writers: usize) {
    let session = store.sessions().get(&key()).unwrap();
    let entries = session.conversation("").unwrap().entries;
    assert_eq!(entries.len(), EACH * writers);
    assert_eq!(session.transcript("").unwrap().len(), EACH * writers);
    let mut under: Vec<(String, Option<String>)> = Vec::new();
    let mut before = None;
    for entry in entries {
        under.push((entry.uuid.clone(), before));
        before = Some(entry.uuid);
    }
    let told: HashSet<_> = stored.iter().collect();
    assert_eq!(told, under.iter().collect());
    assert_eq!(session.branches().unwrap().len(), 1);
    assert_eq!(store.verify().unwrap().findings, []);
}

fn with_a_session() -> (TestStore, PathBuf) {
    let test = TestStore::new();
    test.store
        .sessions()
        .create(NewSession::with_key(key()))
        .unwrap();
    let path = test.path("store.db");
    (test, path)
}

#[test]
fn two_threads_append_under_the_head_they_expect_or_are_told_the_present_one() {
    let (test, path) = with_a_session();
    let stored = thread::scope(|scope| {
        let writers = ["a", "b"].map(|name| {
            let store = open(&path);
            scope.spawn(move || write_in_turn(&store, name))
        });
        writers.map(|writer| writer.join().unwrap()).concat()
    });
    check_chain(&test.store, &stored, 2);
}

#[test]
#[ignore = "a part of another test, run in a process of its own"]
fn a_process_writes_in_turn() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = open(Path::new(arguments["store"].as_str().unwrap()));
    let stored = write_in_turn(&store, arguments["name"].as_str().unwrap());
    children::say(&json!(stored).to_string());
}

#[test]
fn three_processes_append_under_the_head_they_expect_or_are_told_the_present_one() {
    let (test, path) = with_a_session();
    let running = ["a", "b", "c"].map(|name| {
        let arguments = json!({"store": path, "name": name});
        children::start("writers::a_process_writes_in_turn", &arguments)
    });
    let mut stored: Vec<(String, Option<String>)> = Vec::new();
    for process in running {
        let said = process.finish();
        stored.extend(serde_json::from_str::<Vec<_>>(&said[0]).unwrap());
    }
    check_chain(&test.store, &stored, 3);
}

fn append(session: &Session, text: &str, lease: Option<&Lease>) -> Result<(), ErrorKind> {
    let options = lease.map_or_else(AppendOptions::new, |lease| {
        AppendOptions::new().with_lease(lease)
    });
    let appended = session
        .messages()
        .append_with(NewMessage::user(text), &options);
    appended.map(drop).map_err(|error| error.kind())
}

#[test]
#[ignore = "a part of another test, run in a process of its own"]
fn a_process_holds_a_lease() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = open(Path::new(arguments["store"].as_str().unwrap()));
    let session = store.sessions().get(&key()).unwrap();
    let lease = session.lease("first", Duration::from_millis(200)).unwrap();
    append(&session, "as the holder", Some(&lease)).unwrap();
    children::say(&lease.token.to_string());
    assert_eq!(children::listen().as_deref(), Some("it was taken over"));
    // It believes that it still holds the lease.
    let refused = append(&session, "as if nothing had happened", Some(&lease));
    assert_eq!(refused, Err(ErrorKind::Conflict));
    session.release(&lease).unwrap();
    let again = session.lease("first", Duration::from_secs(1)).unwrap_err();
    assert!(again.to_string().contains("`second`"), "{again}");
    children::say("refused");
}

#[test]
fn a_process_whose_lease_was_taken_over_is_refused() {
    let test = TestStore::new();
    let session = test
        .store
        .sessions()
        .create(NewSession::with_key(key()))
        .unwrap();
    let arguments = json!({"store": test.path("store.db")});
    let mut first = children::start("writers::a_process_holds_a_lease", &arguments);
    let token: i64 = first.hear().unwrap().parse().unwrap();
    // Refused for as long as it is held; the holder is gone silent, so it ends.
    let second = loop {
        match session.lease("second", Duration::from_secs(600)) {
            Ok(lease) => break lease,
            Err(error) => assert!(error.to_string().contains("`first`"), "{error}"),
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(second.token > token);
    assert_eq!(
        append(&session, "without a lease", None),
        Err(ErrorKind::Conflict)
    );
    first.tell("it was taken over");
    assert_eq!(first.hear().as_deref(), Some("refused"));
    first.finish();
    append(&session, "as the new holder", Some(&second)).unwrap();
    assert_eq!(session.conversation("").unwrap().entries.len(), 2);
    session.release(&second).unwrap();
    append(&session, "free for all", None).unwrap();
}

#[test]
fn continuing_goes_by_the_last_message_and_never_by_file_times_b60() {
    let test = TestStore::new();
    let facts: Value =
        serde_json::from_slice(&fs::read(fixture_path("cases/B60/expect.json")).unwrap()).unwrap();
    let mine = facts["resume_stored_id"].as_str().unwrap();
    let config = test.path("config");
    for (path, bytes) in tree(&fixture_path("cases/B60")) {
        let is_mine = path.ends_with(&format!("{mine}.jsonl"));
        let path = config.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        // The peer's file and the agents' are a day newer.
        let time = 1_767_326_400 + if is_mine { 0 } else { 72_000 };
        let file = fs::File::options().append(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(time))
            .unwrap();
    }
    import(&test.store, &config);
    let sessions = all_sessions(&test.store);
    let peer = sessions
        .iter()
        .find(|session| session.id() == facts["sessions"][0])
        .unwrap();
    let mine = sessions
        .iter()
        .find(|session| session.id() == mine)
        .unwrap();
    let last = |session: &Session| {
        let last = session.conversation("").unwrap().entries.pop();
        last.and_then(|last| last.timestamp_ms).unwrap()
    };
    let scope = Scope {
        project_key: Some(mine.key().project_key.clone()),
        cwd: None,
    };
    let continued = || {
        test.store
            .sessions()
            .continue_last(&scope)
            .unwrap()
            .unwrap()
    };
    // The last conversation entry decides; on a tie the session stored last.
    let newest = [peer, mine]
        .into_iter()
        .max_by_key(|session| last(session))
        .unwrap();
    assert_eq!(continued().id(), newest.id());
    for session in [peer, mine, peer] {
        session
            .messages()
            .append(NewMessage::user("go on"))
            .unwrap();
        assert_eq!(continued().id(), session.id());
        let other = if session.id() == peer.id() {
            mine
        } else {
            peer
        };
        // Neither a sub-agent nor bookkeeping makes a session the one to continue.
        let agent = json!({"type": "user", "uuid": session.id(), "isSidechain": true, "message": {"role": "user", "content": "x"}});
        let options = AppendOptions::new().to_subpath("subagents/agent-x");
        other
            .messages()
            .append_entries([agent.to_string()], &options)
            .unwrap();
        other.rename("a new title").unwrap();
        assert_eq!(continued().id(), session.id());
        let stored = test.store.sessions().get(other.key()).unwrap();
        assert_eq!(
            stored.id(),
            other.id(),
            "a stored id is never replaced by a fresher one"
        );
    }
}

#[test]
fn continuing_finds_a_session_of_any_entry_point_or_says_that_there_is_none_b61() {
    let test = TestStore::new();
    let sessions = test.store.sessions();
    let scope = |project: &str| Scope {
        project_key: Some(project.to_owned()),
        cwd: None,
    };
    assert!(sessions.continue_last(&scope("p")).unwrap().is_none());
    assert!(all_sessions(&test.store).is_empty(), "nothing is made up");
    let entry = json!({"type": "user", "uuid": "u", "parentUuid": null, "entrypoint": "sdk-py", "cwd": "/srv/demo", "message": {"role": "user", "content": "hello"}});
    let made = key().transcript("");
    test.store
        .session_store()
        .append(&made, [entry.to_string()])
        .unwrap();
    let found = sessions.continue_last(&scope("p")).unwrap().unwrap();
    assert_eq!(*found.key(), key());
    let in_folder = Scope {
        project_key: None,
        cwd: Some("/srv/demo".to_owned()),
    };
    assert_eq!(
        *sessions.continue_last(&in_folder).unwrap().unwrap().key(),
        key()
    );
    assert!(sessions.continue_last(&scope("q")).unwrap().is_none());
    assert_eq!(all_sessions(&test.store).len(), 1);
}
