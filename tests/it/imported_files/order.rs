//! What comes later than its place: a sub-agent's transcript, and the client's word after a rewind.

use serde_json::json;
use turnkeep::{NewSession, Store};

use super::client::Lines;
use super::{ID, Moved, rewind};

/// The rows of the changes, in order: the file's name, the turn, and the states by their words.
fn rows(store: &Store) -> Vec<[String; 4]> {
    let file = rusqlite::Connection::open(store.path()).unwrap();
    let mut statement = file
        .prepare(
            "SELECT path, coalesce(turn_uuid, ''), before_state, coalesce(after_state, '') FROM file_history ORDER BY change",
        )
        .unwrap();
    let rows = statement.query_map([], |row| {
        let text = |at| row.get::<_, String>(at);
        let name = text(0)?.rsplit('/').next().unwrap_or_default().to_owned();
        Ok([name, text(1)?, text(2)?, text(3)?])
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// A session whose sub-agent writes in the first turn, and whose main agent writes in the second.
fn delegating(moved: &Moved) -> (Lines, Lines) {
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    let launch = json!({"prompt": "work"});
    lines.call("launch", "Agent", launch, "done", None);
    lines.prompt("u2");
    lines.snapshot("u2", json!({}));
    lines.write("t2", "a.txt", Some("by agent\n"), "by main\n");
    lines.delta("u2", "a.txt", Some("a@v1"));
    moved.backup(ID, "a@v1", "by agent\n");
    let mut agent = Lines::of_agent(&moved.work, "ag1", "turn of u1", 1);
    let path = json!(moved.work.join("a.txt"));
    let read = json!({"file_path": path});
    agent.call("a1", "Read", read, "1\tat first\n2\t", None);
    let write = json!({"file_path": path, "content": "by agent\n"});
    agent.call("a2", "Write", write, "updated", None);
    (lines, agent)
}

#[test]
fn a_sub_agents_transcript_that_comes_later_takes_its_place_b104() {
    let moved = Moved::empty();
    let (lines, agent) = delegating(&moved);
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    let row = |turn: &str, after: &str| ["a.txt", turn, "file", after].map(String::from);
    assert_eq!(rows(&moved.test.store), [row("u2", "file")]);
    moved.transcript(&format!("{ID}/subagents/agent-ag1.jsonl"), &agent.entries);
    moved.import();
    assert_eq!(
        rows(&moved.test.store),
        [row("u1", "file"), row("u2", "file")]
    );
    moved.write("a.txt", "by main\n");
    let session = moved.test.only_session();
    rewind(&session, "u1");
    assert_eq!(moved.read("a.txt").as_deref(), Some("at first\n"));
}

#[test]
fn what_comes_behind_a_rewind_made_here_is_left_out_and_said_so_b104() {
    let moved = Moved::empty();
    let (lines, agent) = delegating(&moved);
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "by main\n");
    let session = moved.test.only_session();
    rewind(&session, "u2");
    moved.transcript(&format!("{ID}/subagents/agent-ag1.jsonl"), &agent.entries);
    let report = moved.import();
    assert_eq!(report.file_changes, 0);
    let notes: Vec<&str> = report.notes.iter().map(|note| &*note.what).collect();
    let says = "1 change(s) are older than what was captured or rewound here, and are not covered";
    assert_eq!(notes, [says]);
    let report = rewind(&session, "u1");
    assert!(
        report.not_covered.iter().any(|what| what.what == "Write"),
        "{report:?}"
    );
    session.undo(None).unwrap();
    assert_eq!(moved.read("a.txt").as_deref(), Some("by main\n"));
}

#[test]
fn what_the_client_wrote_after_a_rewind_made_here_goes_on_from_it() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    for (version, text) in [(1, "at first\n"), (2, "after turn 1\n"), (3, "at first\n")] {
        moved.backup(ID, &format!("a@v{version}"), text);
    }
    let file = |version: u32| json!({"a.txt": {"backupFileName": format!("a@v{version}")}});
    lines.prompt("u1");
    lines.snapshot("u1", json!({}));
    lines.delta("u1", "a.txt", Some("a@v1"));
    lines.prompt("u2");
    lines.snapshot("u2", file(2));
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "after turn 2\n");
    let session = moved.test.only_session();
    rewind(&session, "u1");
    assert_eq!(moved.read("a.txt").as_deref(), Some("at first\n"));
    lines.prompt("u3");
    lines.snapshot("u3", file(3));
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "after turn 3\n");
    for (prompt, text) in [
        ("u3", "at first\n"),
        ("u2", "after turn 1\n"),
        ("u1", "at first\n"),
    ] {
        let report = rewind(&session, prompt);
        assert_eq!(
            moved.read("a.txt").as_deref(),
            Some(text),
            "{prompt} {report:?}"
        );
        session.undo(None).unwrap();
    }
}

#[test]
fn what_hooks_captured_is_not_told_twice() {
    let moved = Moved::empty();
    let new = NewSession::in_project("p")
        .id(ID)
        .cwd(moved.work.to_str().unwrap());
    let session = moved.test.store.sessions().create(new).unwrap();
    // The first turn ran without hooks, the second with them.
    moved.write("a.txt", "after turn 1\n");
    session.files().before("t2", ["a.txt"]).unwrap();
    moved.write("a.txt", "after turn 2\n");
    session.files().after("t2", ["a.txt"]).unwrap();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.snapshot("u1", json!({}));
    lines.write("t1", "a.txt", Some("at first\n"), "after turn 1\n");
    lines.delta("u1", "a.txt", Some("a@v1"));
    lines.write("t1b", "b.txt", None, "b\n");
    lines.delta("u1", "b.txt", None);
    lines.prompt("u2");
    let file = |version: u32| json!({"backupFileName": format!("a@v{version}")});
    lines.snapshot(
        "u2",
        json!({"a.txt": file(2), "b.txt": {"backupFileName": "b@v1"}}),
    );
    lines.write("t2", "a.txt", Some("after turn 1\n"), "after turn 2\n");
    lines.prompt("u3");
    lines.snapshot(
        "u3",
        json!({"a.txt": file(3), "b.txt": {"backupFileName": "b@v1"}}),
    );
    let backups = [
        ("a@v1", "at first\n"),
        ("a@v2", "after turn 1\n"),
        ("a@v3", "after turn 2\n"),
        ("b@v1", "b\n"),
    ];
    for (name, text) in backups {
        moved.backup(ID, name, text);
    }
    moved.write("b.txt", "b\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    let report = moved.import();
    let notes: Vec<&str> = report.notes.iter().map(|note| &*note.what).collect();
    let says = "1 change(s) are older than what was captured or rewound here, and are not covered";
    assert_eq!(notes, [says]);
    let report = rewind(&session, "u2");
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("after turn 1\n"),
        "{report:?}"
    );
    assert_eq!(report.not_covered, []);
    session.undo(None).unwrap();
    // What came before the hooks is not known here, and the report says so.
    let report = rewind(&session, "u1");
    assert_eq!(moved.read("b.txt"), None);
    assert_eq!(moved.read("a.txt").as_deref(), Some("after turn 1\n"));
    let counted: Vec<(&str, usize)> = report
        .not_covered
        .iter()
        .map(|what| (what.what.as_str(), what.count))
        .collect();
    assert_eq!(counted, [("Write", 1)], "{report:?}");
}

#[test]
fn what_the_client_noted_after_a_rewind_made_here_is_that_rewind() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.snapshot("u1", json!({}));
    lines.write("t1", "a.txt", Some("0\n"), "1\n");
    lines.delta("u1", "a.txt", Some("a@v1"));
    moved.backup(ID, "a@v1", "0\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "1\n");
    let session = moved.test.only_session();
    rewind(&session, "u1");
    lines.prompt("u2");
    lines.snapshot("u2", json!({"a.txt": {"backupFileName": "a@v1"}}));
    lines.write("t2", "a.txt", Some("0\n"), "2\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    let report = moved.import();
    assert_eq!((report.file_changes, report.notes), (1, Vec::new()));
    moved.write("a.txt", "2\n");
    for point in ["u2", "t2", "u1"] {
        rewind(&session, point);
        assert_eq!(moved.read("a.txt").as_deref(), Some("0\n"), "{point}");
        session.undo(None).unwrap();
    }
}

/// A session that wrote a file twice in a turn, and whose first backup is missing.
fn twice(moved: &Moved) {
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.snapshot("u1", json!({}));
    lines.write("t1", "a.txt", Some("0\n"), "1\n");
    lines.delta("u1", "a.txt", Some("a@v1"));
    lines.write("t2", "a.txt", Some("1\n"), "2\n");
    lines.prompt("u2");
    lines.snapshot("u2", json!({"a.txt": {"backupFileName": "a@v2"}}));
    moved.backup(ID, "a@v2", "2\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "2\n");
}

#[test]
fn calls_take_the_place_of_a_turns_change_once_its_beginning_is_known() {
    let moved = Moved::empty();
    twice(&moved);
    let row = |before: &str| ["a.txt", "u1", before, "file"].map(String::from);
    assert_eq!(rows(&moved.test.store), [row("not_kept")]);
    moved.backup(ID, "a@v1", "0\n");
    moved.import();
    assert_eq!(rows(&moved.test.store), [row("file"), row("file")]);
    let session = moved.test.only_session();
    for (point, text) in [("t2", "1\n"), ("u1", "0\n")] {
        rewind(&session, point);
        assert_eq!(moved.read("a.txt").as_deref(), Some(text), "{point}");
        session.undo(None).unwrap();
    }
}

#[test]
fn a_turns_change_stays_one_where_the_file_was_changed_here_since() {
    let moved = Moved::empty();
    twice(&moved);
    let session = moved.test.only_session();
    session.files().before("here", ["a.txt"]).unwrap();
    moved.write("a.txt", "3\n");
    session.files().after("here", ["a.txt"]).unwrap();
    moved.backup(ID, "a@v1", "0\n");
    let report = moved.import();
    assert_eq!((report.file_changes, report.notes), (0, Vec::new()));
    assert_eq!(rows(&moved.test.store).len(), 2);
    for (point, text) in [("here", "2\n"), ("u1", "0\n")] {
        rewind(&session, point);
        assert_eq!(moved.read("a.txt").as_deref(), Some(text), "{point}");
        session.undo(None).unwrap();
    }
}

#[test]
fn what_a_sub_agent_of_an_earlier_turn_did_goes_back_with_the_turn_that_it_was_done_in() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    for (version, text) in [(1, "0\n"), (2, "1\n"), (3, "by agent\n")] {
        moved.backup(ID, &format!("a@v{version}"), text);
    }
    let file = |version: u32| json!({"a.txt": {"backupFileName": format!("a@v{version}")}});
    lines.prompt("u1");
    lines.snapshot("u1", json!({}));
    lines.write("t1", "a.txt", Some("0\n"), "1\n");
    lines.delta("u1", "a.txt", Some("a@v1"));
    lines.call(
        "launch",
        "Agent",
        json!({"prompt": "work"}),
        "launched",
        None,
    );
    lines.prompt("u2");
    lines.snapshot("u2", file(2));
    let mut agent = Lines::of_agent(&moved.work, "ag1", "turn of u1", lines.clock());
    let path = json!(moved.work.join("a.txt"));
    let read = json!({"file_path": path});
    agent.call("a1", "Read", read, "1\t1\n2\t", None);
    let write = json!({"file_path": path, "content": "by agent\n"});
    agent.call("a2", "Write", write, "updated", None);
    lines.wait_until(agent.clock());
    lines.prompt("u3");
    lines.snapshot("u3", file(3));
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.transcript(&format!("{ID}/subagents/agent-ag1.jsonl"), &agent.entries);
    moved.import();
    let row = |turn: &str| ["a.txt", turn, "file", "file"].map(String::from);
    // The client's checkpoint of the second turn holds the file as it was before the sub-agent.
    assert_eq!(rows(&moved.test.store), [row("u1"), row("u2")]);
    moved.write("a.txt", "by agent\n");
    let session = moved.test.only_session();
    for (point, text) in [("u2", "1\n"), ("u1", "0\n")] {
        let report = rewind(&session, point);
        assert_eq!(moved.read("a.txt").as_deref(), Some(text), "{report:?}");
        session.undo(None).unwrap();
    }
}
