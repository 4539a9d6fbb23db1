//! How a database behaves towards one process. This file holds the steps that the tests share.

mod journals;
mod losing;
mod opening;
mod working;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{Database, OpenOptions, Tx};
use crate::error::{Error, Result};

/// A path in a folder of its own, which is removed with it.
struct Spot {
    folder: TempDir,
    path: PathBuf,
}

fn spot() -> Spot {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    Spot { folder, path }
}

fn quick() -> OpenOptions {
    OpenOptions::new().busy_timeout(Duration::from_millis(200))
}

fn open(path: &Path) -> Database {
    Database::open(path, &quick()).unwrap()
}

fn scratch_table(tx: &Tx<'_>) -> Result<()> {
    Ok(tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS scratch (id INTEGER PRIMARY KEY, body TEXT) STRICT",
    )?)
}

/// A database with a table to write into.
fn store(path: &Path) -> Database {
    let db = open(path);
    db.write(scratch_table).unwrap();
    db
}

fn put(db: &Database, body: &str) -> Result<()> {
    db.write(|tx| {
        Ok(tx
            .execute("INSERT INTO scratch (body) VALUES (?1)", [body])
            .map(|_| ())?)
    })
}

fn count(db: &Database) -> Result<i64> {
    db.read(|conn| Ok(conn.query_row("SELECT count(*) FROM scratch", [], |row| row.get(0))?))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn open_error(path: &Path) -> Error {
    Database::open(path, &quick()).unwrap_err()
}
