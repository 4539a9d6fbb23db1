//! Reported faults of imports: all there is comes in, and one bad thing stops nothing else.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::Value;
use turnkeep::{SessionFilter, Store};

use crate::case::{checked, expect, folder, spoken, strings};
use crate::kit::{TestStore, all_sessions, exported, fixture_path, import, tree};

#[test]
fn an_import_takes_all_there_is_and_leaves_its_source_alone_b120() {
    for run in [
        "parallel",
        "files_sdk",
        "subagent_foreground",
        "subagent_checkpoint",
        "compact_manual",
        "torn_tail",
    ] {
        let source = fixture_path(&format!("transcripts/{run}"));
        let before = tree(&source);
        let (test, report) = TestStore::with(&format!("transcripts/{run}"));
        assert!(tree(&source) == before, "{run}: the source was changed");
        let there = counts_in_files(&before);
        let stored = counts_in_store(&test.store);
        assert_eq!(stored, there, "{run}: {:?}", report.problems);
        assert_eq!(report.file_backups, there["backups"], "{run}");
    }
}

/// What the transcripts of a config folder hold.
fn counts_in_files(files: &BTreeMap<String, Vec<u8>>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::from(["agents", "calls", "results"].map(|what| (what, 0)));
    for (path, bytes) in files {
        let mut add = |what, count: usize| *counts.entry(what).or_default() += count as u64;
        add("backups", usize::from(path.starts_with("file-history/")));
        if !path.starts_with("projects/") || !path.ends_with(".jsonl") {
            continue;
        }
        add("agents", usize::from(path.contains("/subagents/")));
        for line in bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            add("lines", 1);
            let entry: Value = serde_json::from_slice(line).unwrap_or_default();
            add("entries", usize::from(entry.is_object()));
            let content = entry["message"]["content"].as_array();
            for block in content.into_iter().flatten() {
                match block["type"].as_str().unwrap_or_default() {
                    "tool_use" => add("calls", 1),
                    "tool_result" => add("results", 1),
                    _ => add("blocks", 1),
                }
            }
        }
    }
    counts
}

/// The same, of a store, by its tables where they have it.
fn counts_in_store(store: &Store) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    let mut add = |what, count: u64| *counts.entry(what).or_default() += count;
    for session in all_sessions(store) {
        let mut subpaths = session.subpaths().unwrap();
        add("agents", subpaths.len() as u64);
        subpaths.push(String::new());
        for subpath in &subpaths {
            for line in session.transcript(subpath).unwrap() {
                // A sub-agent's metadata stands in a file beside its transcript.
                if line.kind == "agent_metadata" {
                    continue;
                }
                add("lines", 1);
                let entry: Value = line
                    .entry
                    .map(|entry| serde_json::from_str(&entry).unwrap())
                    .unwrap_or_default();
                add("entries", u64::from(entry.is_object()));
                let content = entry["message"]["content"].as_array();
                let other = content.into_iter().flatten().filter(|block| {
                    !matches!(block["type"].as_str(), Some("tool_use" | "tool_result"))
                });
                add("blocks", other.count() as u64);
            }
        }
    }
    let file = Connection::open(store.path()).unwrap();
    for (what, sql) in [
        ("calls", "SELECT count(*) FROM tool_calls"),
        ("results", "SELECT count(*) FROM tool_results"),
        (
            "backups",
            "SELECT count(*) FROM session_files WHERE path LIKE 'file-history/%'",
        ),
    ] {
        let count: i64 = file.query_row(sql, [], |row| row.get(0)).unwrap();
        add(what, count as u64);
    }
    counts
}

#[test]
fn one_bad_row_does_not_stop_the_others_b121() {
    let expected = expect("B121");
    let (test, report) = TestStore::with("cases/B121");
    assert!(report.partial);
    let listed = test.store.sessions();
    let listed = listed.list(&SessionFilter::new(), None, 10).unwrap();
    let ids: Vec<&str> = listed
        .sessions
        .iter()
        .map(|info| &info.session_id[..])
        .collect();
    assert_eq!(ids, strings(&expected["imported_sessions"]));
    let good = test
        .store
        .sessions()
        .get(&listed.sessions[0].key())
        .unwrap();
    assert_eq!(spoken(&good.conversation("").unwrap()).len(), 4);
    checked(&good.context("").unwrap());
    // Three things were wrong, and each is named.
    let mut named: Vec<String> = report
        .problems
        .iter()
        .map(|problem| {
            let name = problem.file.file_name().unwrap();
            name.to_string_lossy().into_owned()
        })
        .collect();
    named.sort();
    assert_eq!(
        named.len(),
        strings(&expected["reported"]).len(),
        "{report:?}"
    );
    assert!(named[0].starts_with("0eb9eb33"), "the folder");
    assert!(named[1].starts_with("d1a69edf"), "the bad line");
    assert_eq!(named[2], "not-a-uuid.jsonl");
    assert_eq!(expected["rerun_completes"], true);
    let bytes = exported(&good, "");
    let again = import(&test.store, &folder("B121"));
    assert_eq!((again.new_entries, again.entries), (0, report.entries));
    assert!(exported(&good, "") == bytes);
    assert_eq!(test.store.verify().unwrap().findings, []);
}
