//! The real runs, as they were recorded.

use std::fs;

use serde_json::{Value, json};
use turnkeep::FileState;

use super::{Moved, prompts, rewind};

#[test]
fn a_real_sub_agents_edits_are_rewound_b104() {
    let moved = Moved::of("transcripts/subagent_checkpoint", "/home/dev/shop");
    moved.import();
    // As the run left them. The client's own rewind to the first prompt makes b.txt the sub-agent's.
    moved.write("a.txt", "ONE-by-main\nTWO-by-sub\n");
    moved.write("b.txt", "bEe-by-main-by-sub\n");
    moved.write("c.txt", "by sub\n");
    let session = moved.session("0aa8f065");
    let report = rewind(&session, &prompts(&session)[0]);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("one\ntwo\n"),
        "{report:?}"
    );
    assert_eq!(moved.read("b.txt").as_deref(), Some("bee\n"));
    assert_eq!(moved.read("c.txt"), None);
    assert_eq!(report.not_covered, []);
}

#[test]
fn every_recorded_state_of_the_real_runs_can_be_looked_at() {
    let mut looked = 0;
    for run in crate::transcripts::RUNS {
        let moved = Moved::of(&format!("transcripts/{run}"), "/home/dev/shop");
        let report = moved.import();
        assert!(!report.partial || run == "torn_tail", "{run}: {report:?}");
        for session in crate::kit::all_sessions(&moved.test.store) {
            for line in session.transcript("").unwrap() {
                let entry: Value = line
                    .entry
                    .map(|entry| serde_json::from_str(&entry).unwrap())
                    .unwrap_or_default();
                let (prompt, files) = match entry["type"].as_str() {
                    Some("file-history-snapshot") => (
                        &entry["messageId"],
                        entry["snapshot"]["trackedFileBackups"].clone(),
                    ),
                    Some("file-history-delta") => {
                        let path = entry["trackingPath"].as_str().unwrap();
                        // Here the sub-agent was first: what the delta keeps is its work.
                        if run == "subagent_checkpoint" && path == "b.txt" {
                            continue;
                        }
                        (&entry["snapshotMessageId"], json!({path: entry["backup"]}))
                    }
                    _ => continue,
                };
                for (name, backup) in files.as_object().unwrap() {
                    let state = session.files().at(prompt.as_str().unwrap(), name).unwrap();
                    let kept = backup["backupFileName"].as_str().map(|name| {
                        let folder = moved.config.join("file-history").join(session.id());
                        fs::read(folder.join(name)).unwrap()
                    });
                    match (state, kept) {
                        (FileState::Absent, None) => {}
                        (FileState::File { content, .. }, Some(kept)) => {
                            assert_eq!(content, kept, "{run} {prompt} {name}");
                        }
                        other => panic!("{run} {prompt} {name}: {other:?}"),
                    }
                    looked += 1;
                }
            }
        }
        assert_eq!(moved.test.store.verify().unwrap().findings, [], "{run}");
    }
    assert!(looked > 30, "{looked}");
}
