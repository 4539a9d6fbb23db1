//! What an open makes of what it finds: good files, bad ones, others' ones.

use std::fs;

use rusqlite::Connection;

use super::super::schema::Schema;
use super::super::schema::tests::extended;
use super::super::{Database, Journal};
use super::{beside, count, open, open_error, put, quick, spot, store};
use crate::error::Error;

#[test]
fn a_missing_store_is_not_made_when_that_is_not_wanted() {
    let spot = spot();
    for options in [quick().create(false), quick().read_only(true)] {
        let error = Database::open(&spot.path, &options).unwrap_err();
        assert!(matches!(error, Error::NotFound { .. }), "{error}");
        assert!(!spot.path.exists());
    }
}

#[test]
fn what_is_not_a_store_is_named_and_left_as_it_is() {
    let spot = spot();
    let text = "not a database, but long enough to look like a page of one. ".repeat(200);
    for content in ["short", &text] {
        fs::write(&spot.path, content).unwrap();
        let error = open_error(&spot.path);
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(fs::read_to_string(&spot.path).unwrap(), content);
    }
    assert!(matches!(
        open_error(spot.folder.path()),
        Error::NotAStore { .. }
    ));
}

#[test]
fn another_applications_database_is_left_as_it_is_with_its_log() {
    let spot = spot();
    let other = Connection::open(&spot.path).unwrap();
    other
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (id INTEGER); INSERT INTO theirs VALUES (1);")
        .unwrap();
    // A copy made while it is open looks like what a crash leaves: a file and a log.
    let (left, log) = (
        spot.folder.path().join("left.db"),
        spot.folder.path().join("left.db-wal"),
    );
    fs::copy(&spot.path, &left).unwrap();
    fs::copy(beside(&spot.path, "-wal"), &log).unwrap();
    let (before, log_before) = (fs::read(&left).unwrap(), fs::read(&log).unwrap());
    for network in [None, Some("NFS")] {
        let error = Database::open_with(&left, &quick(), Schema::embedded(), network).unwrap_err();
        assert!(
            matches!(&error, Error::NotAStore { why, .. } if why.contains("another application")),
            "{error}"
        );
        assert_eq!(fs::read(&left).unwrap(), before);
        assert_eq!(fs::read(&log).unwrap(), log_before);
    }
}

#[test]
fn damage_is_named_and_nothing_is_overwritten() {
    let spot = spot();
    let db = store(&spot.path);
    db.write(|tx| {
        for _ in 0..200 {
            tx.execute("INSERT INTO scratch (body) VALUES (?1)", ["x".repeat(4000)])?;
        }
        Ok(())
    })
    .unwrap();
    drop(db);
    let whole = fs::read(&spot.path).unwrap();

    let cut = whole[..whole.len() / 2].to_vec();
    let mut trampled = whole.clone();
    trampled[8192..].fill(0xa5);
    let mut headless = whole.clone();
    headless[..16].fill(0);
    for (damaged, name) in [
        (cut, "cut"),
        (trampled, "trampled"),
        (Vec::new(), "empty"),
        (headless, "headless"),
    ] {
        fs::write(&spot.path, &damaged).unwrap();
        let error = Database::open(&spot.path, &quick())
            .and_then(|db| count(&db))
            .unwrap_err();
        match name {
            "headless" => assert!(matches!(error, Error::NotAStore { .. }), "{name}: {error}"),
            _ => assert!(matches!(error, Error::Damaged { .. }), "{name}: {error}"),
        }
        assert!(error.to_string().contains("store.db"), "{error}");
        assert_eq!(fs::read(&spot.path).unwrap(), damaged, "{name}");
    }
}

#[test]
fn reading_alone_reads_and_refuses_the_rest() {
    let spot = spot();
    put(&store(&spot.path), "x").unwrap();
    let db = Database::open(&spot.path, &quick().read_only(true)).unwrap();
    assert!(db.is_read_only());
    assert_eq!(db.journal(), Journal::Wal);
    assert_eq!(count(&db).unwrap(), 1);
    assert!(matches!(put(&db, "x"), Err(Error::ReadOnly { .. })));

    let writer = open(&spot.path);
    put(&writer, "y").unwrap();
    assert_eq!(count(&db).unwrap(), 2);
}

#[test]
fn an_older_schema_is_not_migrated_by_a_reader() {
    let spot = spot();
    drop(store(&spot.path));
    let newer = || extended(&[("more", "CREATE TABLE more (id INTEGER)")]);
    let error =
        Database::open_with(&spot.path, &quick().read_only(true), newer(), None).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid { why, .. } if why.contains("once for writing")),
        "{error}"
    );
    Database::open_with(&spot.path, &quick(), newer(), None).unwrap();
    Database::open_with(&spot.path, &quick().read_only(true), newer(), None).unwrap();
}

#[cfg(unix)]
#[test]
fn links_to_a_store_open_the_store_itself() {
    let spot = spot();
    let link = spot.folder.path().join("link.db");
    std::os::unix::fs::symlink(&spot.path, &link).unwrap();
    assert!(matches!(open_error(&link), Error::NotAStore { .. }));
    let (db, linked) = (store(&spot.path), open(&link));
    put(&linked, "x").unwrap();
    assert_eq!(count(&db).unwrap(), 1);
    assert_eq!(linked.path(), link);
    assert!(!beside(&link, "-wal").exists());
}

#[cfg(unix)]
#[test]
fn a_wide_file_of_ours_is_made_private_at_the_open() {
    use std::os::unix::fs::PermissionsExt;
    let spot = spot();
    drop(store(&spot.path));
    fs::set_permissions(&spot.path, fs::Permissions::from_mode(0o644)).unwrap();
    let reader = Database::open(&spot.path, &quick().read_only(true)).unwrap();
    assert!(
        reader.notes()[0].contains("mode 644"),
        "{:?}",
        reader.notes()
    );
    drop(reader);
    let mode = fs::metadata(&spot.path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o644, "a reader changes nothing");
    let db = open(&spot.path);
    assert!(
        db.notes().iter().any(|note| note.contains("now private")),
        "{:?}",
        db.notes()
    );
    put(&db, "x").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(beside(&spot.path, suffix))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, 0o600, "{suffix}");
    }
    drop(db);
    assert!(open(&spot.path).notes().is_empty());
}
