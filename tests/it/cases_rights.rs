//! Reported faults of rights: nobody else may read a session, not even for a moment.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use turnkeep::claude_code::export_config_folder;
use turnkeep::{AppendOptions, Journal, NewMessage, NewSession, OpenOptions, Store};

use crate::case::user;
use crate::children;
use crate::kit::{all_sessions, fixture_path, import};

#[test]
fn everything_is_private_whatever_the_umask_b130() {
    for umask in ["000", "022", "077"] {
        let folder = tempfile::tempdir().unwrap();
        let mut seen = BTreeMap::new();
        let watcher = Watcher::begin(folder.path());
        let arguments = json!({"folder": folder.path()});
        let part = "cases_rights::part_makes_all_there_is";
        let mut child = children::start_under(&format!("umask {umask}"), part, &arguments);
        while let Some(stage) = child.hear() {
            seen.extend(modes(folder.path()));
            child.tell(&stage);
        }
        child.finish();
        seen.extend(watcher.end());
        for (path, mode) in &seen {
            // The client's own backups keep the mode they came with, in a folder nobody may enter.
            if path.starts_with("out/file-history/") && !mode.0 {
                continue;
            }
            assert_eq!(mode.1 & 0o077, 0, "umask {umask}: {path} has {:o}", mode.1);
        }
        for name in [
            "wal/store.db",
            "wal/store.db-wal",
            "wal/store.db-shm",
            "rollback/store.db",
            "rollback/store.db-journal",
            "out/projects",
        ] {
            assert!(
                seen.contains_key(name),
                "umask {umask}: {name} was not seen"
            );
        }
        let history = &seen["out/file-history"];
        assert_eq!((history.0, history.1 & 0o777), (true, 0o700));
        let transcripts = seen
            .keys()
            .filter(|path| path.starts_with("out/projects/") && path.ends_with(".jsonl"));
        assert!(transcripts.count() > 0);
    }
}

#[test]
#[ignore = "a part of another test"]
fn part_makes_all_there_is() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let folder = PathBuf::from(arguments["folder"].as_str().unwrap());
    let stop = |stage: &str| {
        children::say(stage);
        children::listen();
    };
    for (name, journal) in [("wal", Journal::Wal), ("rollback", Journal::Rollback)] {
        let options = OpenOptions::new().journal(Some(journal));
        let store = Store::open_with(folder.join(name).join("store.db"), &options).unwrap();
        stop("opened");
        let session = store.sessions().create(NewSession::in_project("p"));
        let session = session.unwrap();
        session
            .write(|tx| {
                // More than is held in memory, so that it spills.
                let entries = (0..40).map(|at| user(&format!("u{at}"), None, "x".repeat(200_000)));
                tx.append_entries(entries, &AppendOptions::new())?;
                tx.append(NewMessage::user("one more"))?;
                stop("inside a write");
                Ok(())
            })
            .unwrap();
        stop("written");
        if journal == Journal::Wal {
            import(&store, &fixture_path("transcripts/files_sdk"));
            export_config_folder(&folder.join("out"), &all_sessions(&store)).unwrap();
            stop("exported");
        }
    }
}

/// Looks at a folder again and again, to catch what is there for a moment only.
struct Watcher {
    over: Arc<AtomicBool>,
    thread: thread::JoinHandle<BTreeMap<String, (bool, u32)>>,
}

impl Watcher {
    fn begin(folder: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (told, folder) = (Arc::clone(&over), folder.to_owned());
        let thread = thread::spawn(move || {
            let mut seen: BTreeMap<String, (bool, u32)> = BTreeMap::new();
            while !told.load(Ordering::Relaxed) {
                for (path, (is_folder, mode)) in modes(&folder) {
                    let widest = seen.entry(path).or_insert((is_folder, 0));
                    widest.1 |= mode;
                }
                thread::sleep(Duration::from_micros(200));
            }
            seen
        });
        Self { over, thread }
    }

    fn end(self) -> BTreeMap<String, (bool, u32)> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Everything below a folder: whether it is a folder, and its mode.
fn modes(folder: &Path) -> BTreeMap<String, (bool, u32)> {
    let (mut found, mut open) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = open.pop() {
        // What was there a moment ago may be gone.
        for entry in fs::read_dir(at).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(there) = fs::symlink_metadata(&path) else {
                continue;
            };
            let name = path.strip_prefix(folder).unwrap();
            let name = name.to_str().unwrap().to_owned();
            found.insert(name, (there.is_dir(), there.permissions().mode()));
            if there.is_dir() {
                open.push(path);
            }
        }
    }
    found
}

#[test]
fn a_store_that_others_could_read_is_tightened_and_noted_b130() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    drop(Store::open(&path).unwrap());
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    // Who only reads is told, and changes nothing.
    let reader = Store::open_with(&path, &OpenOptions::new().read_only(true)).unwrap();
    assert!(reader.notes()[0].contains("644"), "{:?}", reader.notes());
    assert_eq!(mode(), 0o644);
    drop(reader);
    let store = Store::open(&path).unwrap();
    let noted = store.notes().iter().any(|note| note.contains("store.db"));
    assert!(noted, "{:?}", store.notes());
    assert_eq!(mode(), 0o600);
    drop(store);
    assert!(Store::open(&path).unwrap().notes().is_empty());
}
