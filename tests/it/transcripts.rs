//! Real transcripts: in, kept whole, and out again.

use std::fs;

use crate::kit::{TestStore, all_sessions, exported, fixture_path, import, tree};
use turnkeep::claude_code::export_config_folder;

pub const RUNS: [&str; 13] = [
    "compact_manual",
    "files_raw",
    "files_sdk",
    "git",
    "kill_in_tool",
    "parallel",
    "plain_stream",
    "resume_at",
    "resume_flags",
    "rewind_conversation_seen",
    "subagent_checkpoint",
    "subagent_foreground",
    "torn_tail",
];

#[test]
fn every_real_run_comes_out_as_it_went_in() {
    for run in RUNS {
        let (test, report) = TestStore::with(&format!("transcripts/{run}"));
        assert_eq!(
            report.entries,
            report.new_entries + report.duplicate_entries,
            "{run}: {report:?}"
        );
        let out = test.path("out");
        export_config_folder(&out, &all_sessions(&test.store)).unwrap();
        let source = fixture_path(&format!("transcripts/{run}"));
        let mut expected = tree(&source);
        expected
            .retain(|path, _| path.starts_with("projects/") || path.starts_with("file-history/"));
        let written = tree(&out);
        assert_eq!(
            written.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "{run}"
        );
        for (path, bytes) in &expected {
            assert!(written[path] == *bytes, "{run}: {path}");
        }
        let again = import(&test.store, &source);
        assert_eq!(
            (again.new_entries, again.entries),
            (0, report.entries),
            "{run}"
        );
        let verified = test.store.verify().unwrap();
        assert_eq!(verified.findings, [], "{run}");
    }
}

#[test]
fn a_file_that_lost_its_last_line_feed_and_got_it_back_is_taken_once() {
    let test = TestStore::new();
    let path = test.path("11111111-1111-4111-8111-111111111111.jsonl");
    let line = r#"{"type":"user","uuid":"u","message":{"role":"user","content":"x"}}"#;
    for content in [format!("{line}\n"), line.to_owned(), format!("{line}\n")] {
        fs::write(&path, content).unwrap();
        import(&test.store, &path);
    }
    assert_eq!(
        exported(&test.only_session(), ""),
        format!("{line}\n").as_bytes()
    );
}

#[test]
fn half_a_line_behind_which_an_app_wrote_is_completed_and_leaves_nothing_behind() {
    let test = TestStore::new();
    let folder = test.path("p");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("0b422282-0000-4000-8000-000000000000.jsonl");
    let line = |uuid: &str, parent: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"message\":{{\"role\":\"user\",\"content\":\"{uuid}\"}}}}\n"
        )
    };
    let lines = [
        line("u1", "null"),
        line("u2", "\"u1\""),
        line("u3", "\"u2\""),
    ];
    fs::write(&file, format!("{}{}", lines[0], &lines[1][..30])).unwrap();
    import(&test.store, &folder);
    let session = test.only_session();
    session.rename("my name").unwrap();
    let fork = session.fork(&turnkeep::ForkOptions::new()).unwrap();
    let forked = exported(&fork, "");
    fs::write(&file, lines.concat()).unwrap();
    let report = import(&test.store, &folder);
    assert_eq!(
        (report.new_entries, report.problems.len()),
        (2, 0),
        "{report:?}"
    );
    let out = String::from_utf8(exported(&session, "")).unwrap();
    let from_file: Vec<&str> = out
        .lines()
        .filter(|line| !line.contains("custom-title"))
        .collect();
    assert_eq!(from_file, lines.map(|line| line.trim_end().to_owned()));
    assert_eq!(exported(&fork, ""), forked, "the fork is as it was");
    let again = import(&test.store, &folder);
    assert_eq!((again.new_entries, again.problems.len()), (0, 0));
    assert_eq!(test.store.verify().unwrap().findings, []);
    assert_eq!(session.context("").unwrap().messages.len(), 1);
}
