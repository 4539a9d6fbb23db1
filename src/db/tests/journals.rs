//! Which journal a store runs on, and how it changes.

use std::fs;

use rusqlite::Connection;

use super::super::schema::Schema;
use super::super::{Database, Durability, Journal, OpenOptions};
use super::{beside, count, open, put, quick, scratch_table, spot, store};
use crate::error::Error;

#[test]
fn on_a_network_file_system_a_rollback_journal_is_used_and_told() {
    let spot = spot();
    let network = |options: &OpenOptions| {
        Database::open_with(&spot.path, options, Schema::embedded(), Some("NFS"))
    };
    let db = network(&quick()).unwrap();
    assert_eq!(db.journal(), Journal::Rollback);
    assert!(
        db.notes().iter().any(|note| note.contains("NFS")),
        "{:?}",
        db.notes()
    );
    db.write(scratch_table).unwrap();
    put(&db, "x").unwrap();
    assert!(!beside(&spot.path, "-wal").exists() && !beside(&spot.path, "-shm").exists());
    assert!(
        beside(&spot.path, "-journal").exists(),
        "an emptied journal stays"
    );
    let second = network(&quick()).unwrap();
    put(&second, "y").unwrap();
    assert_eq!(count(&db).unwrap(), 2);
    drop((db, second));

    let forced = network(&quick().journal(Some(Journal::Wal))).unwrap();
    assert_eq!(forced.journal(), Journal::Wal);
    assert!(
        forced
            .notes()
            .iter()
            .any(|note| note.contains("one machine"))
    );
}

#[test]
fn a_log_on_a_network_file_system_is_folded_in_or_refused() {
    let spot = spot();
    let local = store(&spot.path);
    put(&local, "x").unwrap();
    let network = || Database::open_with(&spot.path, &quick(), Schema::embedded(), Some("NFS"));
    let error = network().unwrap_err();
    assert!(
        matches!(&error, Error::Conflict(text) if text.contains("NFS") && text.contains("close it")),
        "{error}"
    );
    put(&local, "y").unwrap();
    drop(local);
    let db = network().unwrap();
    assert_eq!((db.journal(), count(&db).unwrap()), (Journal::Rollback, 2));
}

#[test]
fn a_log_left_by_a_crash_is_folded_in_without_shared_memory() {
    let spot = spot();
    let local = store(&spot.path);
    put(&local, "x").unwrap();
    let left = spot.folder.path().join("left.db");
    fs::copy(&spot.path, &left).unwrap();
    fs::copy(beside(&spot.path, "-wal"), beside(&left, "-wal")).unwrap();
    let db = Database::open_with(&left, &quick(), Schema::embedded(), Some("SMB")).unwrap();
    assert_eq!((db.journal(), count(&db).unwrap()), (Journal::Rollback, 1));
    assert!(!beside(&left, "-shm").exists());
}

#[test]
fn a_store_goes_from_one_journal_to_the_other_and_back() {
    let spot = spot();
    let forced = |journal| Database::open(&spot.path, &quick().journal(Some(journal))).unwrap();
    let db = store(&spot.path);
    assert_eq!(db.journal(), Journal::Wal);
    assert!(db.notes().is_empty(), "{:?}", db.notes());
    drop(db);
    let db = forced(Journal::Rollback);
    assert_eq!(db.journal(), Journal::Rollback);
    put(&db, "x").unwrap();
    assert!(!beside(&spot.path, "-wal").exists());
    drop(db);
    let db = open(&spot.path);
    assert_eq!((db.journal(), count(&db).unwrap()), (Journal::Wal, 1));
    let error = Database::open(&spot.path, &quick().journal(Some(Journal::Rollback))).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn where_the_logs_index_cannot_be_had_a_rollback_journal_is_used_and_told() {
    let spot = spot();
    // SQLite follows no link to its index, so one that leads nowhere stands for a file system that refuses it.
    std::os::unix::fs::symlink("/nowhere", beside(&spot.path, "-shm")).unwrap();
    let db = open(&spot.path);
    assert_eq!(db.journal(), Journal::Rollback);
    assert!(
        db.notes()
            .iter()
            .any(|note| note.contains("rollback journal")),
        "{:?}",
        db.notes()
    );
    db.write(scratch_table).unwrap();
    put(&db, "x").unwrap();
    assert_eq!(count(&db).unwrap(), 1);
}

#[test]
fn a_log_that_a_long_reader_made_grow_is_cut_back_without_a_restart() {
    let spot = spot();
    let options = quick().durability(Durability::Normal);
    let db = Database::open(&spot.path, &options).unwrap();
    db.write(scratch_table).unwrap();
    let log = || fs::metadata(beside(&spot.path, "-wal")).unwrap().len();

    let reader = Connection::open(&spot.path).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM scratch;")
        .unwrap();
    let megabyte = "x".repeat(1 << 20);
    for _ in 0..90 {
        put(&db, &megabyte).unwrap();
    }
    assert!(log() > 80 << 20, "{}", log());
    reader.execute_batch("COMMIT").unwrap();
    put(&db, "one more").unwrap();
    put(&db, "and one").unwrap();
    assert!(log() <= 64 << 20, "{}", log());
}
