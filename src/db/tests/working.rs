//! Writing and reading through one handle, and waiting for others.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::super::{Database, OpenOptions};
use super::{count, open, put, quick, scratch_table, spot, store};
use crate::error::{Error, Result};

#[test]
fn what_was_written_is_seen_by_every_other_connection_at_once() {
    let spot = spot();
    let (one, two) = (store(&spot.path), open(&spot.path));
    for n in 1..=300 {
        put(&one, "x").unwrap();
        assert_eq!(count(&two).unwrap(), n);
    }
    drop((one, two));
    assert_eq!(count(&open(&spot.path)).unwrap(), 300);
}

#[test]
fn a_store_that_is_closed_leaves_one_file() {
    let spot = spot();
    put(&store(&spot.path), "x").unwrap();
    let names: Vec<_> = fs::read_dir(spot.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["store.db"]);
}

#[test]
fn a_write_that_fails_or_panics_stores_nothing_and_the_next_one_works() {
    let spot = spot();
    let db = store(&spot.path);
    let failed: Result<()> = db.write(|tx| {
        tx.execute("INSERT INTO scratch (body) VALUES ('lost')", [])?;
        Err(Error::Conflict("no".into()))
    });
    assert!(matches!(failed, Err(Error::Conflict(_))));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.write(|tx| -> Result<()> {
            tx.execute("INSERT INTO scratch (body) VALUES ('lost')", [])?;
            panic!("the closure's own fault")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(count(&db).unwrap(), 0);
    put(&db, "kept").unwrap();
    assert_eq!(count(&db).unwrap(), 1);
}

#[test]
fn a_commit_cut_before_stores_nothing_and_one_cut_after_stores_all() {
    let _alone = fail::FailScenario::setup();
    let own = thread::current().id();
    for (at, stored) in [(1, 0), (2, 1), (3, 1)] {
        let spot = spot();
        let db = store(&spot.path);
        let passed = AtomicI64::new(0);
        fail::cfg_callback("turnkeep::commit", move || {
            let mine = thread::current().id() == own;
            if mine && passed.fetch_add(1, Ordering::Relaxed) + 1 == at {
                std::panic::resume_unwind(Box::new("cut"));
            }
        })
        .unwrap();
        let cut = catch_unwind(AssertUnwindSafe(|| {
            put(&db, "first").unwrap();
            put(&db, "second").unwrap();
        }));
        fail::remove("turnkeep::commit");
        assert!(cut.is_err());
        assert_eq!(count(&db).unwrap(), stored);
    }
}

#[test]
fn a_write_whose_transaction_sqlite_ended_is_not_called_stored() {
    let spot = spot();
    let db = store(&spot.path);
    let outcome = db
        .write(|tx| Ok(tx.execute_batch("INSERT INTO scratch (body) VALUES ('lost'); ROLLBACK")?));
    assert!(outcome.is_err());
    assert_eq!(count(&db).unwrap(), 0);
}

#[test]
fn a_reader_cannot_write_and_sees_one_moment() {
    let spot = spot();
    let db = store(&spot.path);
    let outcome = db.read(|conn| Ok(conn.execute("INSERT INTO scratch (body) VALUES ('x')", [])?));
    assert!(outcome.is_err());
    db.read(|conn| {
        let before: i64 = conn.query_row("SELECT count(*) FROM scratch", [], |row| row.get(0))?;
        put(&db, "x")?;
        let after: i64 = conn.query_row("SELECT count(*) FROM scratch", [], |row| row.get(0))?;
        assert_eq!(before, after);
        Ok(())
    })
    .unwrap();
    assert_eq!(count(&db).unwrap(), 1);
}

#[test]
fn a_write_inside_a_write_is_refused_at_once() {
    let spot = spot();
    let db = Database::open(&spot.path, &OpenOptions::new()).unwrap();
    let began = Instant::now();
    let outcome = db.write(|_| db.write(|_| Ok(())));
    assert!(matches!(outcome, Err(Error::Conflict(_))));
    assert!(began.elapsed() < Duration::from_secs(5));
    db.write(|_| Ok(())).unwrap();
}

#[test]
fn a_transaction_has_one_time() {
    let spot = spot();
    let ticks = AtomicI64::new(0);
    let options = quick().clock(move || ticks.fetch_add(1, Ordering::Relaxed));
    let db = Database::open(&spot.path, &options).unwrap();
    for expected in 0..3 {
        let times = db.write(|tx| Ok((tx.now_ms(), tx.now_ms()))).unwrap();
        assert_eq!(times, (expected, expected));
    }
}

#[test]
fn a_busy_store_names_the_wait_and_stores_nothing() {
    let spot = spot();
    let db = store(&spot.path);
    let other = Connection::open(&spot.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = put(&db, "x").unwrap_err();
    let Error::Busy { path, waited } = error else {
        panic!("{error}")
    };
    assert_eq!(path, spot.path);
    assert!(
        waited >= Duration::from_millis(200) && waited < Duration::from_secs(5),
        "{waited:?}"
    );
    assert_eq!(count(&db).unwrap(), 0);
    other.execute_batch("ROLLBACK").unwrap();
    put(&db, "x").unwrap();
}

#[test]
fn a_wait_that_is_long_enough_ends_well() {
    let spot = spot();
    let db = Database::open(&spot.path, &OpenOptions::new()).unwrap();
    db.write(scratch_table).unwrap();
    let other = Connection::open(&spot.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| put(&db, "x"));
        thread::sleep(Duration::from_millis(300));
        other.execute_batch("COMMIT").unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(count(&db).unwrap(), 1);
}

#[test]
fn many_threads_write_and_read_through_one_handle() {
    let spot = spot();
    let db = Database::open(&spot.path, &OpenOptions::new()).unwrap();
    db.write(scratch_table).unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            let db = db.clone();
            scope.spawn(move || {
                for _ in 0..20 {
                    put(&db, "x").unwrap();
                    assert!(count(&db).unwrap() > 0);
                }
            });
        }
    });
    assert_eq!(count(&db).unwrap(), 320);
}
