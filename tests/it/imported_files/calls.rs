//! The changes of real runs, call by call: whose they are, and what nobody in the session did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{Change, ChangeFilter, ChangeSource, LineOrigin, Session, Store};

use super::client::Lines;
use super::laws::changes;
use super::{ID, Moved, rewind, transcripts_below};
use crate::kit::{TestStore, Turnkeep, all_sessions, import};

const RUNS: [&str; 7] = [
    "files_raw",
    "files_sdk",
    "rewind_conversation_seen",
    "subagent_checkpoint",
    "compact_manual",
    "parallel",
    "kill_in_tool",
];

fn run(name: &str) -> Moved {
    let moved = Moved::of(&format!("transcripts/{name}"), "/home/dev/shop");
    moved.import();
    moved
}

/// A call's id, its tool, its sub-agent and the file it names.
type Told = (String, String, Option<String>, PathBuf);

/// The edits that succeeded, by session, as a look through its transcripts finds them.
fn told(config: &Path) -> BTreeMap<String, BTreeSet<Told>> {
    let mut found: BTreeMap<String, BTreeSet<Told>> = BTreeMap::new();
    for path in transcripts_below(config) {
        let text = fs::read_to_string(&path).unwrap();
        let entries: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let blocks = |entry: &Value| {
            let content = entry["message"]["content"].as_array().cloned();
            content.unwrap_or_default()
        };
        let results = entries.iter().flat_map(blocks);
        let good: BTreeSet<String> = results
            .filter(|block| block["type"] == "tool_result" && block["is_error"] != true)
            .map(|block| block["tool_use_id"].as_str().unwrap().to_owned())
            .collect();
        for entry in &entries {
            for call in blocks(entry) {
                let (id, name) = (call["id"].as_str(), call["name"].as_str());
                let (Some(id), Some(name @ ("Edit" | "Write"))) = (id, name) else {
                    continue;
                };
                if good.contains(id) {
                    let agent = entry["agentId"].as_str().map(str::to_owned);
                    let file = PathBuf::from(call["input"]["file_path"].as_str().unwrap());
                    let session = entry["sessionId"].as_str().unwrap().to_owned();
                    let told = (id.to_owned(), name.to_owned(), agent, file);
                    found.entry(session).or_default().insert(told);
                }
            }
        }
    }
    found
}

fn of(store: &Store, filter: &ChangeFilter) -> Vec<Change> {
    store.audit().changes(filter, None, 1000).unwrap().changes
}

#[test]
fn every_edit_of_the_real_runs_is_a_change_of_its_call() {
    let mut edits = 0;
    for name in RUNS {
        let moved = run(name);
        let told = told(&moved.config);
        for session in all_sessions(&moved.test.store) {
            let expected = told.get(session.id()).cloned().unwrap_or_default();
            for tool in ["Edit", "Write"] {
                let filter = ChangeFilter::new().session(session.key()).tool(tool);
                let changes = of(&moved.test.store, &filter);
                let found: Vec<Told> = changes
                    .iter()
                    .map(|change| {
                        let call = change.call.as_ref().unwrap();
                        assert!(change.prompt.is_some(), "{name} {change:?}");
                        assert!(change.after.is_some(), "{name} {change:?}");
                        let tool = call.tool.clone().unwrap();
                        let agent = change.agent.clone();
                        (call.id.clone(), tool, agent, change.path.clone())
                    })
                    .collect();
                edits += found.len();
                let expected = expected.iter().filter(|told| told.1 == tool);
                let expected: BTreeSet<Told> = expected.cloned().collect();
                assert_eq!(found.len(), expected.len(), "{name} {found:?}");
                assert_eq!(BTreeSet::from_iter(found), expected, "{name}");
            }
        }
    }
    assert!(edits > 25, "{edits}");
}

/// The changes of a session that no prompt is told of.
fn nobodys(moved: &Moved, session: &Session) -> Vec<(String, Change)> {
    let all = of(
        &moved.test.store,
        &ChangeFilter::new().session(session.key()),
    );
    let without = all.into_iter().filter(|change| change.prompt.is_none());
    let name = |change: &Change| change.path.file_name().unwrap().to_string_lossy().into();
    let mut found: Vec<(String, Change)> = without.map(|change| (name(&change), change)).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    found
}

/// The lines of a file, each with the call that wrote it, or the word for its origin.
fn blame(moved: &Moved, name: &str) -> Vec<(String, String)> {
    let blame = moved
        .test
        .store
        .audit()
        .blame(moved.work.join(name))
        .unwrap();
    let line = |line: &turnkeep::BlameLine| {
        let by = match &blame.origins[line.origin] {
            LineOrigin::BeforeTracking => "before".to_owned(),
            LineOrigin::Outside { .. } => "outside".to_owned(),
            LineOrigin::Change { change } => match &change.call {
                Some(call) => call.id[call.id.len() - 6..].to_owned(),
                None => "a turn".to_owned(),
            },
            other => format!("{other:?}"),
        };
        (
            String::from_utf8_lossy(&line.content).trim_end().to_owned(),
            by,
        )
    };
    blame.lines.iter().map(line).collect()
}

fn lines_of(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(line, by): &(&str, &str)| (line.to_string(), by.to_string());
    pairs.iter().map(own).collect()
}

#[test]
fn what_the_client_rewound_is_no_turns_work() {
    let moved = run("files_raw");
    let session = moved.session("e1721b0d");
    let found = nobodys(&moved, &session);
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["existing.txt", "new.txt"]);
    for (_, change) in &found {
        assert_eq!((change.source, &change.call), (ChangeSource::Import, &None));
    }
    let turn = "44444444-0000-4000-8000-000000000004";
    let audit = moved.test.store.audit();
    assert_eq!(audit.files_of_turn(session.key(), turn).unwrap(), []);
    let whole = lines_of(&[("A5", "92ae4c"), ("beta", "before"), ("gamma", "before")]);
    assert_eq!(blame(&moved, "existing.txt"), whole);

    let moved = run("rewind_conversation_seen");
    let found = nobodys(&moved, &moved.session("8b1e4774"));
    let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a.txt", "b.txt"]);
    let whole = lines_of(&[("a1", "before"), ("a2", "before"), ("a3", "before")]);
    assert_eq!(blame(&moved, "a.txt"), whole);

    // A command may have written what no edit tells: that stays the turn's.
    let moved = run("files_sdk");
    let session = moved.session("7bcb77cc");
    assert_eq!(nobodys(&moved, &session).len(), 0);
    let last = blame(&moved, "existing.txt").pop().unwrap();
    assert_eq!(last, ("by bash".to_owned(), "a turn".to_owned()));
}

#[test]
fn a_sub_agents_edit_under_a_checkpoint_of_the_main_agent_is_its_own_b104() {
    let moved = run("subagent_checkpoint");
    let whole = lines_of(&[("ONE-by-main", "96b48b"), ("TWO-by-sub", "46a476")]);
    assert_eq!(blame(&moved, "a.txt"), whole);
    let agent = ChangeFilter::new().agent("aabeff1494ac8562a");
    assert_eq!(of(&moved.test.store, &agent).len(), 3);
}

#[test]
fn a_call_within_a_turn_that_checkpoints_cover_is_a_point() {
    let moved = run("parallel");
    let session = moved.session("3fbd77ca");
    let all = of(&moved.test.store, &ChangeFilter::new().tool("Edit"));
    let call = |end: &str| {
        let mut ids = all.iter().map(|change| &change.call.as_ref().unwrap().id);
        ids.find(|id| id.ends_with(end)).unwrap().clone()
    };
    moved.write("a.txt", "A1\nA2\nA3\n");
    moved.write("b.txt", "B1\n");
    for (end, a, b) in [
        ("afbdf6", "A1\nA2\na3\n", "B1\n"),
        ("b7bdaf", "A1\na2\na3\n", "B1\n"),
        ("f28888", "a1\na2\na3\n", "b1\n"),
    ] {
        let report = rewind(&session, &call(end));
        assert_eq!(moved.read("a.txt").as_deref(), Some(a), "{report:?}");
        assert_eq!(moved.read("b.txt").as_deref(), Some(b), "{report:?}");
        session.undo(None).unwrap();
    }
}

#[test]
fn the_end_of_the_last_turn_is_known_and_what_came_later_is_kept() {
    let moved = run("files_raw");
    let session = moved.session("e1721b0d");
    let turn = "55555555-0000-4000-8000-000000000005";
    moved.write("existing.txt", "A5\nbeta\ngamma\n");
    rewind(&session, turn);
    assert_eq!(
        moved.read("existing.txt").as_deref(),
        Some("alpha\nbeta\ngamma\n")
    );
    session.undo(None).unwrap();
    moved.write("existing.txt", "the user's own\n");
    let report = rewind(&session, turn);
    assert_eq!(report.conflicts, [moved.work.join("existing.txt")]);
    assert_eq!(
        moved.read("existing.txt").as_deref(),
        Some("the user's own\n")
    );
}

#[test]
fn real_runs_that_grow_come_to_the_same_changes() {
    for name in RUNS {
        let moved = run(name);
        let once = changes(&moved.test.store);
        assert_eq!(moved.import().file_changes, 0, "{name}");
        assert_eq!(changes(&moved.test.store), once, "{name}");
        let paths = transcripts_below(&moved.config);
        let texts: Vec<String> = paths
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let longest = texts.iter().map(|text| text.lines().count()).max().unwrap();
        let grown = TestStore::new();
        for count in (1..longest).step_by(5).chain([longest]) {
            for (path, text) in paths.iter().zip(&texts) {
                let lines: Vec<&str> = text.split_inclusive('\n').take(count).collect();
                fs::write(path, lines.concat()).unwrap();
            }
            import(&grown.store, &moved.config);
        }
        // Sessions come in another order.
        let sorted = |mut rows: Vec<Vec<Option<String>>>| {
            rows.sort();
            rows
        };
        assert_eq!(sorted(changes(&grown.store)), sorted(once), "{name}");
    }
}

#[test]
fn a_file_that_differs_is_a_turns_only_if_a_call_of_it_may_have_written() {
    let agent = json!({"prompt": "work"});
    for (tool, input, is_turns) in [
        ("Read", json!({"file_path": "/x"}), false),
        ("TodoWrite", json!({}), false),
        ("Bash", json!({"command": "work"}), true),
        ("mcp__x__y", json!({}), true),
        ("Agent", agent, true),
    ] {
        let moved = Moved::empty();
        let mut lines = Lines::new(&moved.work);
        let file = |version: u32| json!({"a.txt": {"backupFileName": format!("a@v{version}")}});
        for (version, text) in [(1, "0\n"), (2, "1\n"), (3, "the user's\n")] {
            moved.backup(ID, &format!("a@v{version}"), text);
        }
        lines.prompt("u1");
        lines.snapshot("u1", json!({}));
        lines.write("t1", "a.txt", Some("0\n"), "1\n");
        lines.delta("u1", "a.txt", Some("a@v1"));
        lines.prompt("u2");
        lines.snapshot("u2", file(2));
        lines.call("c2", tool, input, "", None);
        lines.prompt("u3");
        lines.snapshot("u3", file(3));
        moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
        moved.import();
        let session = moved.test.only_session();
        assert_eq!(nobodys(&moved, &session).is_empty(), is_turns, "{tool}");
        let audit = moved.test.store.audit();
        let of_turn = audit.files_of_turn(session.key(), "u2").unwrap();
        assert_eq!(of_turn.len(), usize::from(is_turns), "{tool}");
        let origin = if is_turns { "a turn" } else { "outside" };
        assert_eq!(blame(&moved, "a.txt"), lines_of(&[("the user's", origin)]));
        // A rewind puts it back as the client does, whosever it is.
        moved.write("a.txt", "the user's\n");
        for (point, text) in [("u3", "the user's\n"), ("u2", "1\n"), ("t1", "0\n")] {
            let report = rewind(&session, point);
            assert_eq!(moved.read("a.txt").as_deref(), Some(text), "{report:?}");
            if report.operation.is_some() {
                session.undo(None).unwrap();
            }
        }
    }
}

#[test]
fn the_program_says_that_nobodys_change_came_between_turns() {
    let program = Turnkeep::with("transcripts/files_raw");
    let ran = program.run(&["changes", "--session", "e1721b0d"]);
    assert_eq!(ran.out.matches("between turns").count(), 2, "{}", ran.out);
    assert!(!ran.out.contains("TURN-4"), "{}", ran.out);
    assert!(!ran.out.contains("end not known"), "{}", ran.out);
}
