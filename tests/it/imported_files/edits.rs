//! Edits that no checkpoint covers: sessions without any, and sub-agents.

use std::fs;

use serde_json::json;
use turnkeep::{FileAction, FileOutcome};

use super::client::Lines;
use super::{ID, Moved, rewind};
use crate::kit::{TestStore, import};

#[test]
fn a_transcript_without_checkpoints_says_so_and_edits_are_known_by_the_tools_b88() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.write("t1", "made.txt", None, "made\n");
    lines.prompt("u2");
    lines.write("t2", "old.txt", Some("old\n"), "new\n");
    let edit =
        json!({"file_path": moved.work.join("odd.txt"), "old_string": "a", "new_string": "b"});
    lines.call("t3", "Edit", edit, "updated", None);
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    let report = moved.import();
    assert_eq!((report.file_changes, report.partial), (3, false));
    let notes: Vec<&str> = report.notes.iter().map(|note| &*note.what).collect();
    let says = "no file checkpoints in this transcript; of 3 edit(s), 2 can be taken back by what the tools answered";
    assert_eq!(notes, [says]);
    assert_eq!(moved.import().notes, [], "nothing new");

    moved.write("made.txt", "made\n");
    moved.write("old.txt", "new\n");
    moved.write("odd.txt", "b\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(0o751);
        fs::set_permissions(moved.work.join("old.txt"), mode).unwrap();
    }
    let session = moved.test.only_session();
    let report = rewind(&session, "u1");
    assert_eq!(
        (moved.read("made.txt"), moved.read("old.txt").as_deref()),
        (None, Some("old\n"))
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let there = fs::metadata(moved.work.join("old.txt")).unwrap();
        assert_eq!(
            there.permissions().mode() & 0o777,
            0o751,
            "the mode is not touched"
        );
    }
    let odd = report
        .files
        .iter()
        .find(|file| file.path.ends_with("odd.txt"))
        .unwrap();
    assert_eq!(
        (odd.action, odd.outcome),
        (FileAction::NotCovered, FileOutcome::Left)
    );
    assert!(
        odd.reason.as_ref().unwrap().contains("does not tell"),
        "{odd:?}"
    );
    assert_eq!(moved.read("odd.txt").as_deref(), Some("b\n"));

    // Undone, it is as it was; and a call is a point too.
    session.undo(None).unwrap();
    assert_eq!(moved.read("old.txt").as_deref(), Some("new\n"));
    let report = rewind(&session, "t2");
    assert_eq!(
        moved.read("old.txt").as_deref(),
        Some("old\n"),
        "{report:?}"
    );
    assert_eq!(moved.read("made.txt").as_deref(), Some("made\n"));
}

#[test]
fn what_the_user_did_after_an_edit_without_a_checkpoint_is_kept_b88() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.write("t1", "a.txt", Some("old\n"), "new\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "new, and the user's own\n");
    let session = moved.test.only_session();
    let report = rewind(&session, "u1");
    assert_eq!(report.conflicts, [moved.work.join("a.txt")]);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("new, and the user's own\n")
    );
}

#[test]
fn a_sub_agents_edits_belong_to_the_turn_that_launched_it_b104() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    let launch = json!({"prompt": "work", "description": "work"});
    lines.call("launch", "Agent", launch, "launched", None);
    lines.prompt("u2");
    lines.write("t2", "b.txt", None, "b\n");
    let path = |name: &str| json!(moved.work.join(name));
    // It goes on while the second turn runs.
    let mut agent = Lines::of_agent(&moved.work, "ag1", "turn of u1", 100);
    agent.call(
        "a1",
        "Read",
        json!({"file_path": path("a.txt")}),
        "1\t0\n2\t",
        None,
    );
    let write = json!({"file_path": path("a.txt"), "content": "by sub-agent\n"});
    agent.call("a2", "Write", write, "updated", None);
    let made = json!({"file_path": path("made.txt"), "content": "m\n"});
    agent.call(
        "a3",
        "Write",
        made,
        "File created successfully at: made.txt",
        None,
    );
    let below = format!("{ID}/subagents/agent-ag1");
    for meta in [Some(json!({"agentType": "x", "toolUseId": "launch"})), None] {
        moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
        moved.transcript(&format!("{below}.jsonl"), &agent.entries);
        let beside = moved
            .config
            .join("projects/p")
            .join(format!("{below}.meta.json"));
        match meta {
            Some(meta) => fs::write(&beside, meta.to_string()).unwrap(),
            None => fs::remove_file(&beside).unwrap(),
        }
        let store = TestStore::new();
        let report = import(&store.store, &moved.config);
        assert_eq!(report.file_changes, 3, "{report:?}");
        moved.write("a.txt", "by sub-agent\n");
        moved.write("made.txt", "m\n");
        moved.write("b.txt", "b\n");
        let session = store.only_session();
        let report = rewind(&session, "u2");
        assert_eq!(moved.read("b.txt"), None, "{report:?}");
        assert_eq!(moved.read("made.txt").as_deref(), Some("m\n"));
        let report = rewind(&session, "u1");
        assert_eq!(moved.read("a.txt").as_deref(), Some("0\n"), "{report:?}");
        assert_eq!(moved.read("made.txt"), None);
        assert_eq!(report.not_covered, [], "{report:?}");
    }
}

#[test]
fn commands_in_an_imported_transcript_are_counted_as_not_covered_b83() {
    for tracked in [true, false] {
        let moved = Moved::empty();
        let mut lines = Lines::new(&moved.work);
        let run = |lines: &mut Lines, id: &str| {
            let input = json!({"command": "echo edited > a.txt"});
            lines.call(id, "Bash", input, "", Some(json!({"stdout": ""})));
        };
        lines.prompt("u0");
        run(&mut lines, "c0");
        lines.prompt("u1");
        lines.snapshot("u1", json!({}));
        run(&mut lines, "c1");
        if tracked {
            let input =
                json!({"file_path": moved.work.join("b.txt"), "content": "edited by tool\n"});
            lines.call("t1", "Write", input, "File created", None);
            lines.delta("u1", "b.txt", None);
            moved.write("b.txt", "edited by tool\n");
        }
        run(&mut lines, "c2");
        moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
        moved.import();
        moved.write("a.txt", "edited\n");
        let report = rewind(&moved.test.only_session(), "u1");
        let counted: Vec<(&str, usize)> = report
            .not_covered
            .iter()
            .map(|what| (what.what.as_str(), what.count))
            .collect();
        assert_eq!(counted, [("Bash", 2)], "{report:?}");
        assert_eq!(moved.read("b.txt"), None);
        assert_eq!(moved.read("a.txt").as_deref(), Some("edited\n"));
    }
}
