//! Real transcripts: in, kept whole, and out again.

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
        std::fs::write(&path, content).unwrap();
        import(&test.store, &path);
    }
    assert_eq!(
        exported(&test.only_session(), ""),
        format!("{line}\n").as_bytes()
    );
}
