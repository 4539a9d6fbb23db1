//! Imports killed at random moments: the next one goes on to the same end.

use std::fs;
use std::path::Path;

use serde_json::json;
use turnkeep::Store;
use turnkeep::claude_code::export_config_folder;

use crate::case::{copy_folder, user};
use crate::children;
use crate::crash::Dice;
use crate::kit::{all_sessions, fixture_path, import, tree};
use crate::processes::write_source;

#[test]
fn an_import_killed_at_any_moment_is_finished_by_the_next_b121() {
    let mut dice = Dice::new();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("config");
    write_source(&source, 3, 60);
    // And one file that takes several transactions.
    let long = (0..44).map(|at| user(&format!("l{at}"), None, "long ".repeat(20_000)) + "\n");
    let name = "projects/-srv-demo/bbbbbbbb-0000-4000-8000-000000000000.jsonl";
    fs::write(source.join(name), long.collect::<String>()).unwrap();
    for run in ["files_sdk", "torn_tail"] {
        let run = fixture_path("transcripts").join(run);
        for part in ["projects", "file-history"] {
            if run.join(part).is_dir() {
                copy_folder(&run.join(part), &source.join(part));
            }
        }
    }
    let undisturbed = Store::open(folder.path().join("undisturbed.db")).unwrap();
    let began = std::time::Instant::now();
    let report = import(&undisturbed, &source);
    let takes = u64::try_from(began.elapsed().as_millis()).unwrap();
    println!("an import takes {takes} ms");
    let expected = export(&undisturbed, &folder.path().join("undisturbed"));

    let (mut kills, mut midway) = (0, 0);
    while kills < 30 {
        let path = folder.path().join(format!("{kills}.db"));
        for _ in 0..3 {
            let arguments = json!({"store": path, "source": source});
            let mut child = children::start("processes::part_imports", &arguments);
            assert_eq!(child.hear().as_deref(), Some("ready"));
            child.tell("go");
            dice.rest(takes.max(10));
            let said = child.kill();
            kills += 1;
            let store = Store::open(&path).unwrap();
            let some = counts(&store);
            midway += usize::from(said.is_empty() && some.1 > 0);
            assert_eq!(store.verify().unwrap().findings, [], "{kills} kills");
        }
        let store = Store::open(&path).unwrap();
        let last = import(&store, &source);
        assert_eq!(last.entries, report.entries, "{kills} kills");
        assert_eq!(counts(&store), counts(&undisturbed), "{kills} kills");
        let out = folder.path().join(format!("out{kills}"));
        assert!(export(&store, &out) == expected, "{kills} kills");
        assert_eq!(store.verify().unwrap().findings, []);
        fs::remove_dir_all(out).unwrap();
    }
    println!("{kills} kills, {midway} of them midway");
    assert!(midway > 3, "{midway} of {kills} kills came midway");
}

/// How many sessions and entries a store holds.
fn counts(store: &Store) -> (usize, u64) {
    let sessions = all_sessions(store);
    let entries = sessions.iter().map(|one| one.info().unwrap().entries).sum();
    (sessions.len(), entries)
}

fn export(store: &Store, out: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    export_config_folder(out, &all_sessions(store)).unwrap();
    tree(out)
}
