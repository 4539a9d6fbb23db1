//! What happens to a handle whose file, disk or process is no longer the one it was opened with.

use std::fs;

use super::super::Database;
use super::super::schema::tests::extended;
use super::{Spot, beside, count, open, open_error, put, quick, spot, store};
use crate::error::Error;

#[test]
fn a_file_that_was_moved_deleted_or_replaced_is_gone_for_good() {
    let ways: [fn(&Spot); 4] = [
        |spot| fs::remove_file(&spot.path).unwrap(),
        |spot| fs::rename(&spot.path, spot.folder.path().join("moved.db")).unwrap(),
        |spot| {
            let other = spot.folder.path().join("other.db");
            drop(store(&other));
            fs::rename(other, &spot.path).unwrap();
        },
        |spot| fs::remove_dir_all(spot.folder.path()).unwrap(),
    ];
    for way in ways {
        let spot = spot();
        let db = store(&spot.path);
        put(&db, "x").unwrap();
        way(&spot);
        for _ in 0..2 {
            let error = put(&db, "x").unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{error}");
            assert!(matches!(count(&db), Err(Error::Gone { .. })));
        }
        let outcome = db.write(|_| Ok(()));
        assert!(matches!(outcome, Err(Error::Gone { .. })));
    }
}

#[test]
fn a_file_that_goes_during_a_write_takes_the_write_with_it() {
    let spot = spot();
    // Closed once, so that the table is in the file and not in the log, which stays under the old name.
    drop(store(&spot.path));
    let db = open(&spot.path);
    let outcome = db.write(|tx| {
        tx.execute("INSERT INTO scratch (body) VALUES ('x')", [])?;
        fs::rename(&spot.path, spot.folder.path().join("moved.db")).unwrap();
        Ok(())
    });
    assert!(matches!(outcome, Err(Error::Gone { .. })));
    drop(db);
    assert_eq!(
        count(&open(&spot.folder.path().join("moved.db"))).unwrap(),
        0
    );
}

#[test]
fn a_new_file_never_passes_for_the_deleted_one() {
    let spot = spot();
    let db = store(&spot.path);
    for _ in 0..20 {
        fs::remove_file(&spot.path).unwrap();
        let _ = fs::remove_file(beside(&spot.path, "-wal"));
        let _ = fs::remove_file(beside(&spot.path, "-shm"));
        drop(open(&spot.path));
        assert!(matches!(db.write(|_| Ok(())), Err(Error::Gone { .. })));
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_is_stored() {
    let spot = spot();
    let db = store(&spot.path);
    let error = db
        .write(|tx| {
            tx.query_row("PRAGMA max_page_count = 20", [], |_| Ok(()))?;
            for _ in 0..100 {
                tx.execute("INSERT INTO scratch (body) VALUES (?1)", ["x".repeat(8000)])?;
            }
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!(count(&db).unwrap(), 0);
}

#[test]
fn a_store_of_a_newer_release_is_refused_at_the_open_and_by_a_handle_that_was_open_before() {
    let spot = spot();
    let db = store(&spot.path);
    count(&db).unwrap();
    let newer = || extended(&[("more", "CREATE TABLE more (id INTEGER)")]);
    let ahead = Database::open_with(&spot.path, &quick(), newer(), None).unwrap();
    count(&ahead).unwrap();
    assert!(matches!(put(&db, "x"), Err(Error::NewerSchema { .. })));
    assert!(matches!(count(&db), Err(Error::NewerSchema { .. })));
    assert!(matches!(open_error(&spot.path), Error::NewerSchema { .. }));
    assert_eq!(count(&ahead).unwrap(), 0);
}

#[test]
fn a_handle_used_in_another_process_is_refused() {
    let spot = spot();
    let mut db = store(&spot.path);
    db.forge_fork();
    assert!(matches!(put(&db, "x"), Err(Error::ForkedProcess)));
    assert!(matches!(count(&db), Err(Error::ForkedProcess)));
    assert!(matches!(open_error(&spot.path), Error::ForkedProcess));
    drop(db);
    assert!(
        beside(&spot.path, "-wal").exists(),
        "nothing was closed, so the log is left to the parent"
    );
}
