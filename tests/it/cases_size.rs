//! Reported faults of size: long chains, deep nesting, huge lines, fat files, growth.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::thread;

use rusqlite::Connection;
use turnkeep::{AppendOptions, Durability, NewMessage, NewSession, OpenOptions, Store};

use crate::case::{assistant, expect, folder, spoken, user};
use crate::kit::{TestStore, exported, import};

/// A thread's stack that recursion over the data would overflow at once.
const SMALL_STACK: usize = 512 << 10;

#[test]
fn a_very_long_chain_is_walked_without_recursion_b13() {
    let expected = expect("B13");
    assert_eq!(expected["no_stack_overflow"], true);
    let mut length = usize::try_from(expected["entries"].as_u64().unwrap()).unwrap();
    if cfg!(debug_assertions) {
        // Still far more than a stack could hold, in a fifth of the time.
        length /= 5;
    }
    let test = TestStore::new();
    let session_id = "6f1d2c3a-0000-4000-8000-00000000b013";
    let mut lines = String::new();
    for at in 0..length {
        let (kind, message) = if at % 2 == 0 {
            ("user", r#"{"role":"user","content":"x"}"#.to_owned())
        } else {
            let id = format!(r#"{{"id":"msg_{at}","#);
            (
                "assistant",
                id + r#""role":"assistant","content":[{"type":"text","text":"y"}]}"#,
            )
        };
        let parent = match at.checked_sub(1) {
            Some(before) => format!("\"{}\"", numbered(before)),
            None => "null".to_owned(),
        };
        let uuid = numbered(at);
        writeln!(
            lines,
            r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}","uuid":"{uuid}","sessionId":"{session_id}","timestamp":"2026-01-02T03:04:05.000Z","message":{message}}}"#
        )
        .unwrap();
    }
    let file = project_file(&test, session_id);
    fs::write(&file, lines).unwrap();
    let store = test.store.clone();
    on_a_small_stack(move || {
        let report = import(&store, &file);
        assert_eq!(report.new_entries, length as u64);
        let session = store.sessions().resolve(session_id, &Default::default());
        let session = session.unwrap();
        let conversation = session.conversation("").unwrap();
        assert_eq!(conversation.entries.len(), length);
        assert_eq!(expected["active_length"], expected["entries"]);
        assert_eq!(conversation.entries[length - 1].uuid, numbered(length - 1));
        assert_eq!(session.context("").unwrap().messages.len(), length);
    });
}

#[test]
fn deep_nesting_is_kept_as_bytes_and_ends_no_process_b13() {
    let deep = fs::read_to_string(folder("B13").join("deep_json.json")).unwrap();
    assert!(deep.contains(&"[".repeat(4000)));
    let test = TestStore::new();
    let file = project_file(&test, "6f1d2c3a-0000-4000-8000-00000000b013");
    let around = user("u1", None, "before");
    fs::write(&file, format!("{around}\n{deep}{around}\n")).unwrap();
    let store = test.store.clone();
    let bytes = fs::read(&file).unwrap();
    on_a_small_stack(move || {
        let report = import(&store, &file);
        assert_eq!(report.malformed_lines, 1);
        assert_eq!(report.problems[0].line, Some(2), "{:?}", report.problems);
        let session = store.sessions().resolve("@last", &Default::default());
        let session = session.unwrap();
        assert!(exported(&session, "") == bytes);
        assert_eq!(spoken(&session.conversation("").unwrap()), ["u1"]);
        let line = deep.trim_end();
        let options = AppendOptions::new();
        let refused = session.messages().append_entries([line], &options);
        assert!(refused.unwrap_err().to_string().contains("entry 1"));
        assert_eq!(store.verify().unwrap().findings, []);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn one_huge_line_is_imported_and_resumed_b25() {
    let expected = expect("B25");
    let size = usize::try_from(expected["sizes"][0].as_u64().unwrap()).unwrap();
    let test = TestStore::new();
    let file = project_file(&test, "b25b25b2-0000-4000-8000-000000000025");
    let lines = [
        user("u1", None, "diff"),
        assistant(
            "a1",
            Some("u1"),
            serde_json::json!([crate::case::call("toolu_B25")]),
        ),
        user(
            "u2",
            Some("a1"),
            serde_json::json!([crate::case::result("toolu_B25", &"+".repeat(size))]),
        ),
        assistant("a2", Some("u2"), "ok"),
    ];
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    assert_eq!(expected["import_ok"], true);
    let report = import(&test.store, &file);
    assert_eq!(
        (report.new_entries, report.partial),
        (4, false),
        "{:?}",
        report.problems
    );
    let session = test.only_session();
    let context = session.context("").unwrap();
    assert_eq!(context.messages.len(), 4);
    assert!(context.messages[2].content.get().len() > size);
    assert!(exported(&session, "") == fs::read(&file).unwrap());

    assert_eq!(expected["listing_does_not_read_the_line"], true);
    let path = test.store.path().to_owned();
    let store = Store::open(&path).unwrap();
    let read = bytes_read(|| {
        let page = store.sessions().list(&Default::default(), None, 10);
        assert_eq!(page.unwrap().sessions.len(), 1);
    });
    assert!(read < size as u64 / 10, "{read} bytes were read for a list");
}

#[cfg(target_os = "linux")]
#[test]
fn sub_agents_lines_in_a_file_cost_its_conversation_nothing_b26() {
    let expected = expect("B26");
    let test = TestStore::new();
    let file = project_file(&test, "6f1d2c3a-0000-4000-8000-00000000b026");
    let progress = |agent: usize, step: usize, parent: &str| {
        serde_json::json!({
            "parentUuid": parent, "uuid": format!("p{agent}.{step}"), "type": "progress",
            "isSidechain": true, "agentId": format!("ag{agent}"),
            "timestamp": "2026-01-02T03:04:05.000Z",
            "data": {"type": "agent_progress", "message": "z".repeat(2500)},
        })
        .to_string()
    };
    let mut lines = Vec::new();
    let length = usize::try_from(expected["active_length"].as_u64().unwrap()).unwrap();
    for at in 0..length {
        let before = at.checked_sub(1).map(|before| format!("c{before}"));
        let uuid = format!("c{at}");
        lines.push(if at % 2 == 0 {
            user(&uuid, before.as_deref(), "x")
        } else {
            assistant(&uuid, before.as_deref(), "y")
        });
        if at == 6 {
            for agent in 0..40 {
                lines.extend((0..85).map(|step| progress(agent, step, &uuid)));
            }
        }
    }
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    let report = import(&test.store, &file);
    assert_eq!(report.new_entries, 14 + 40 * 85);
    let store = Store::open(test.store.path()).unwrap();
    let session = store.sessions().resolve("@last", &Default::default());
    let session = session.unwrap();
    let read = bytes_read(|| {
        let conversation = session.conversation("").unwrap();
        assert_eq!(conversation.entries.len(), length);
        assert_eq!(session.context("").unwrap().messages.len(), length);
    });
    let size = fs::metadata(&file).unwrap().len();
    assert!(read < size / 20, "{read} of {size} bytes were read");
    assert_eq!(expected["title_available"], true);
    assert_eq!(session.info().unwrap().summary.as_deref(), Some("x"));
}

#[test]
fn a_small_append_to_a_large_session_stores_little_b123() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new().durability(Durability::Normal);
    let pages = || -> i64 {
        let store = Store::open_with(&path, &options).unwrap();
        drop(store);
        let file = Connection::open(&path).unwrap();
        file.query_row("PRAGMA page_count", [], |row| row.get(0))
            .unwrap()
    };
    let new = || NewSession::in_project("p").id("s");
    let state = serde_json::json!({"plan": "p".repeat(100_000)});
    {
        let store = Store::open_with(&path, &options).unwrap();
        let session = store.sessions().create(new()).unwrap();
        session.set_metadata(&state).unwrap();
        for _ in 0..50 {
            let message = NewMessage::user("x".repeat(100_000));
            session.messages().append(message).unwrap();
        }
    }
    let before = pages();
    {
        let store = Store::open_with(&path, &options).unwrap();
        let session = store.sessions().get_or_create(new()).unwrap();
        for _ in 0..1000 {
            session.messages().append(NewMessage::user("y")).unwrap();
        }
        for _ in 0..100 {
            session.set_metadata(&state).unwrap();
        }
    }
    let grown = (pages() - before) * 8192;
    // A thousand entries of some 250 bytes, their rows and indexes.
    assert!(grown < 2_000_000, "{grown} bytes");
}

/// A place for a transcript, in a project's folder of the test's own.
fn project_file(test: &TestStore, session: &str) -> PathBuf {
    let folder = test.path("config/projects/-srv-demo");
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{session}.jsonl"))
}

fn numbered(at: usize) -> String {
    format!("b013b013-0000-4000-8000-{at:012}")
}

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(SMALL_STACK);
    thread.spawn(work).unwrap().join().unwrap();
}

/// How many bytes this thread reads from files in `work`.
#[cfg(target_os = "linux")]
pub fn bytes_read(work: impl FnOnce()) -> u64 {
    let so_far = || -> u64 {
        let text = fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.unwrap().parse().unwrap()
    };
    let before = so_far();
    work();
    so_far() - before
}
