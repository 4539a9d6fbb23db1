//! Reported faults of migrations: what a file holds decides, not that it is there.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use turnkeep::{ErrorKind, NewMessage, NewSession, OpenOptions, Store};

use crate::kit::TestStore;

#[test]
fn a_store_of_a_newer_release_is_refused_and_left_alone_b119() {
    let (_folder, path) = closed_store();
    become_newer(&path);
    let bytes = fs::read(&path).unwrap();
    for options in [OpenOptions::new(), OpenOptions::new().read_only(true)] {
        let error = Store::open_with(&path, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NewerSchema, "{error:?}");
        let text = error.to_string();
        assert!(text.contains("store.db") && text.contains("99"), "{text}");
        assert!(error.hint().unwrap().contains("newer release"));
        assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
    }
}

#[test]
fn a_store_that_a_newer_release_migrates_meanwhile_is_not_written_b119() {
    let test = TestStore::new();
    let session = test.store.sessions().create(NewSession::in_project("p"));
    let session = session.unwrap();
    session.messages().append(NewMessage::user("one")).unwrap();
    become_newer(test.store.path());
    let refused = session.messages().append(NewMessage::user("two"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NewerSchema);
    let refused = session.info();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NewerSchema);
}

#[test]
fn a_file_that_is_there_is_not_taken_for_migrated_b119() {
    // A database with our mark and nothing in it, and one that lost its history.
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("bare.db");
    let file = Connection::open(&bare).unwrap();
    file.execute_batch("PRAGMA application_id = 1414219088; CREATE TABLE x (y)")
        .unwrap();
    drop(file);
    let (_keep, forgetful) = closed_store();
    let file = Connection::open(&forgetful).unwrap();
    file.execute_batch("DROP TABLE refinery_schema_history")
        .unwrap();
    drop(file);
    for path in [bare, forgetful] {
        let bytes = fs::read(&path).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error:?}");
        assert!(error.hint().is_some());
        assert!(fs::read(&path).unwrap() == bytes, "the file was changed");
    }
}

/// A closed store with one session.
fn closed_store() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).unwrap();
    store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    (folder, path)
}

/// Does to a store what a later release's migration would.
fn become_newer(path: &Path) {
    let file = Connection::open(path).unwrap();
    file.execute_batch(
        "CREATE TABLE of_later (x);
         INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
         SELECT 99, 'of_later', applied_on, checksum FROM refinery_schema_history LIMIT 1;",
    )
    .unwrap();
}
