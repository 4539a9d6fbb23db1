//! Reported cases of forks: each kind of fault that others met must not happen here.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Column;
use serde_json::{Value, json};
use turnkeep::{ConversationEntry, ForkOptions, NewMessage, Session, Store, TranscriptKey};

use crate::children;
use crate::kit::{TestStore, all_sessions, exported, fixture_path, import, tree, uuids};

pub fn expected(case: &str, file: &str) -> Value {
    let path = fixture_path(&format!("cases/{case}/{file}"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A case's session and its fork up to the message that its facts name.
fn forked(case: &str) -> (TestStore, Value, Session, Session) {
    let (test, _) = TestStore::with(&format!("cases/{case}"));
    let facts = expected(case, "expect.json");
    let source = test.only_session();
    let up_to = facts["fork_up_to"].as_str().unwrap();
    let fork = source.fork(&ForkOptions::new().up_to(up_to)).unwrap();
    (test, facts, source, fork)
}

/// The messages of a transcript, as JSON.
pub fn messages(session: &Session) -> Vec<Value> {
    let lines = session.transcript("").unwrap().into_iter();
    lines
        .map(|line| serde_json::from_str::<Value>(&line.entry.unwrap()).unwrap())
        .filter(|entry| entry["message"].is_object() || entry["type"] == "system")
        .collect()
}

fn texts(session: &Session) -> Vec<String> {
    let said = messages(session).into_iter().map(|entry| {
        let content = &entry["message"]["content"];
        content
            .as_str()
            .or(content[0]["text"].as_str())
            .map(String::from)
    });
    said.flatten().collect()
}

/// The context as it is sent, byte for byte.
pub fn context(session: &Session) -> String {
    serde_json::to_string(&session.context("").unwrap().messages).unwrap()
}

/// Every whole string of a value, but for what `forkedFrom` says and what was said.
fn strings<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "forkedFrom" | "message"))
            .for_each(|(_, value)| strings(value, found)),
        _ => {}
    }
}

/// All rows of a store that belong to a session.
fn rows(store: &Path, session: &Session) -> Vec<Vec<Column>> {
    let db = Connection::open(store).unwrap();
    let id: i64 = db
        .query_row(
            "SELECT id FROM sessions WHERE project_key = ?1 AND session_id = ?2",
            [&session.key().project_key, &session.key().session_id],
            |row| row.get(0),
        )
        .unwrap();
    let mut all = Vec::new();
    for (table, column) in [
        ("sessions", "id"),
        ("transcripts", "session"),
        ("messages", "session"),
        ("tool_calls", "session"),
        ("tool_results", "session"),
        ("listing_marks", "session"),
        ("session_files", "session"),
        ("operations", "session"),
    ] {
        let mut statement = db
            .prepare(&format!("SELECT * FROM {table} WHERE {column} = ?1"))
            .unwrap();
        let columns = statement.column_count();
        let copied = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get(at)).collect();
        all.extend(
            statement
                .query_map([id], copied)
                .unwrap()
                .map(Result::unwrap),
        );
    }
    all
}

#[test]
fn a_fork_has_both_parallel_calls_and_their_results_b43() {
    let (test, facts, source, fork) = forked("B43");
    let entries = messages(&fork);
    assert_eq!(json!(entries.len()), facts["fork_entry_count"]);
    let ids = |kind: &str, name: &str| -> Vec<Value> {
        let blocks = entries
            .iter()
            .flat_map(|entry| entry["message"]["content"].as_array());
        let blocks = blocks.flatten().filter(|block| block["type"] == kind);
        blocks.map(|block| block[name].clone()).collect()
    };
    assert_eq!(json!(ids("tool_use", "id")), facts["fork_pairs"]);
    assert_eq!(
        json!(ids("tool_result", "tool_use_id")),
        facts["fork_pairs"]
    );
    for (entry, was) in entries.iter().zip(messages(&source)) {
        let origin = json!({"sessionId": source.id(), "messageUuid": was["uuid"]});
        assert_eq!(entry["forkedFrom"], origin);
    }
    assert_eq!(uuids(&fork).len(), uuids(&source).len());
    assert_eq!(context(&fork), context(&source));
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn a_fork_of_a_compacted_session_names_only_its_own_messages_b44() {
    let (test, facts, source, fork) = forked("B44");
    let speaks = |entry: &ConversationEntry| entry.kind != "system";
    let origin = |entry: &ConversationEntry| {
        let entry: Value = serde_json::from_str(&entry.entry).unwrap();
        entry["forkedFrom"]["messageUuid"].clone()
    };
    let conversation = fork.conversation("").unwrap().entries;
    let kept = conversation.iter().filter(|entry| speaks(entry));
    let kept: Vec<Value> = kept.map(origin).collect();
    assert_eq!(json!(kept.len()), facts["fork_context_length"]);
    assert_eq!(json!(kept), facts["source_context"]);
    assert_eq!(context(&fork), context(&source));
    let there: HashSet<String> = messages(&source)
        .iter()
        .map(|entry| entry["uuid"].as_str().unwrap().to_owned())
        .collect();
    let entries = messages(&fork);
    let here: HashSet<&str> = entries
        .iter()
        .map(|entry| entry["uuid"].as_str().unwrap())
        .collect();
    let mut named = Vec::new();
    for entry in &entries {
        strings(entry, &mut named);
    }
    let is_uuid = |text: &&&str| uuid_shaped(text) && **text != fork.id();
    let named: Vec<&&str> = named.iter().filter(is_uuid).collect();
    assert!(named.iter().all(|uuid| here.contains(**uuid)), "{named:?}");
    assert!(!named.iter().any(|uuid| there.contains(**uuid)));
    assert!(
        named.len() > entries.len() * 2,
        "links and metadata are there"
    );
    assert_eq!(test.store.verify().unwrap().findings, []);
}

fn uuid_shaped(text: &str) -> bool {
    text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4
}

#[test]
fn a_fork_ends_where_it_was_cut_b46() {
    let (test, facts, source, fork) = forked("B46");
    assert_eq!(json!(texts(&fork)), facts["fork_texts"]);
    assert_eq!(fork.context("").unwrap().messages.len(), 4);
    for (entry, was) in messages(&fork).iter().zip(messages(&source)) {
        assert!(was["timestamp"].is_string());
        assert_eq!(entry["timestamp"], was["timestamp"]);
    }
    let mut file = tree(&fixture_path("cases/B46")).into_iter();
    let (_, bytes) = file.rfind(|(path, _)| path.ends_with(".jsonl")).unwrap();
    assert_eq!(exported(&source, ""), bytes);
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn what_is_done_to_a_fork_reaches_neither_its_source_nor_the_clients_files_b48() {
    let folder = tempfile::tempdir().unwrap();
    let files = tree(&fixture_path("transcripts/subagent_checkpoint"));
    for (path, bytes) in &files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let test = TestStore::new();
    import(&test.store, folder.path());
    let source = all_sessions(&test.store).remove(0);
    let path = test.path("store.db");
    let (before, shown) = (rows(&path, &source), exported(&source, ""));
    assert!(before.len() > 20);
    let fork = source.fork(&ForkOptions::new()).unwrap();
    assert_ne!(fork.id(), source.id());
    let found = test
        .store
        .sessions()
        .resolve(fork.id(), &Default::default())
        .unwrap();
    assert_eq!(
        context(&found),
        context(&source),
        "it can be resumed at once"
    );
    for text in ["one", "two", "three"] {
        fork.messages().append(NewMessage::user(text)).unwrap();
    }
    fork.switch_to(&uuids(&fork)[0]).unwrap();
    fork.rename("mine").unwrap();
    fork.delete().unwrap();
    assert_eq!(rows(&path, &source), before);
    assert_eq!(exported(&source, ""), shown);
    assert_eq!(tree(folder.path()), files);
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
#[ignore = "a part of another test, run in a process of its own"]
fn another_process_reads_a_fork() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    let key = TranscriptKey::main("p", arguments["fork"].as_str().unwrap()).unwrap();
    let session = store.sessions().get(&key.session).unwrap();
    let loaded = store.session_store().load(&key).unwrap().unwrap();
    let export = String::from_utf8(exported(&session, "")).unwrap();
    let lines: Vec<String> = export.lines().map(String::from).collect();
    assert_eq!(loaded, lines);
    let said = json!({"loaded": loaded, "uuids": uuids(&session), "context": context(&session)});
    children::say(&said.to_string());
}

#[test]
fn a_fork_has_its_whole_history_in_another_process_by_every_road_b49() {
    let test = TestStore::new();
    let source = test.session();
    for text in ["one", "two", "three"] {
        source.messages().append(NewMessage::user(text)).unwrap();
        source
            .messages()
            .append(NewMessage::assistant(text))
            .unwrap();
    }
    let fork = source.fork(&ForkOptions::new()).unwrap();
    fork.messages().append(NewMessage::user("mine")).unwrap();
    let arguments = json!({"store": test.path("store.db"), "fork": fork.id()});
    let said = children::start("cases_forks::another_process_reads_a_fork", &arguments).finish();
    let said: Value = serde_json::from_str(&said[0]).unwrap();
    assert_eq!(said["uuids"], json!(uuids(&fork)));
    assert_eq!(said["context"], json!(context(&fork)));
    assert_eq!(said["uuids"].as_array().unwrap().len(), 7);
    assert_eq!(
        said["loaded"].as_array().unwrap().len(),
        8,
        "and the fork's title"
    );
}

#[test]
fn a_clients_fork_that_holds_only_its_own_messages_names_what_is_missing_b49() {
    const CHILD: &str = "0c4d0000-0000-4000-8000-000000000000";
    let (test, _) = TestStore::with("cases/B46");
    let source = test.only_session();
    let last = uuids(&source).pop().unwrap();
    let project = test.path("config/projects/-srv-demo");
    fs::create_dir_all(&project).unwrap();
    let origin = json!({"sessionId": source.id(), "messageUuid": last});
    let own = json!({"type": "user", "uuid": "own", "parentUuid": last, "sessionId": CHILD, "forkedFrom": origin, "message": {"role": "user", "content": "on"}});
    fs::write(project.join(format!("{CHILD}.jsonl")), format!("{own}\n")).unwrap();
    import(&test.store, &test.path("config"));
    let child = test
        .store
        .sessions()
        .resolve(CHILD, &Default::default())
        .unwrap();
    let lineage = child.lineage().unwrap();
    assert_eq!(lineage.ancestors.len(), 1);
    assert_eq!(lineage.ancestors[0].key, *source.key());
    assert_eq!(lineage.forked_at.as_ref(), Some(&last));
    let conversation = child.conversation("").unwrap();
    assert_eq!(conversation.missing_ancestor, Some(last));
    assert_eq!(exported(&child, ""), format!("{own}\n").into_bytes());
}
