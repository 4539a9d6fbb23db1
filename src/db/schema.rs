//! Bringing a file to the schema that this release knows.
//!
//! All pending migrations and their records are one transaction, so a kill at any moment leaves the old schema or the
//! new one. A lock file keeps two processes from migrating at once, as refinery looks and then acts in two steps.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use refinery::Runner;
use refinery::error::Kind;
use rusqlite::Connection;

use super::faults::{is_busy, translate};
use super::patience::Patience;
use super::place::{Place, io_error};
use super::rights::open_private;
use crate::error::{Error, Result};

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Name of the table in which refinery notes what it has applied.
const HISTORY: &str = "refinery_schema_history";

/// The migrations that a release knows.
pub(super) struct Schema {
    runner: Runner,
    known: i64,
}

impl Schema {
    /// The migrations of this release.
    pub fn embedded() -> Self {
        Self::from(embedded::migrations::runner())
    }

    /// The newest version known.
    pub fn known(&self) -> i64 {
        self.known
    }

    /// Applies all migrations to a new, empty file.
    ///
    /// # Errors
    /// What SQLite met. The file is to be thrown away then.
    pub fn install(&self, path: &Path, conn: &mut Connection, patience: &Patience) -> Result<()> {
        self.run(conn)
            .map_err(|failure| self.explain(path, patience.waited(), failure))
    }

    /// Migrates an older file; leaves a present one untouched, without taking any lock.
    ///
    /// # Errors
    /// [`Error::NewerSchema`]; [`Error::Damaged`] when the history cannot be read; [`Error::Busy`] when another
    /// process migrates or writes for the whole budget. The file is as it was then.
    pub fn bring_up(
        &self,
        place: &Place,
        conn: &mut Connection,
        patience: &mut Patience,
    ) -> Result<()> {
        if self.check(&place.given, conn, patience)? == self.known {
            return Ok(());
        }
        let _lock = lock(place, patience)?;
        loop {
            // Whoever held the lock before may have done the work.
            if self.check(&place.given, conn, patience)? == self.known {
                return Ok(());
            }
            check_history(&place.given, conn)?;
            match self.run(conn) {
                Ok(()) => return Ok(()),
                Err(failure) if failure.is_busy() && patience.rest() => {}
                Err(failure) => return Err(self.explain(&place.given, patience.waited(), failure)),
            }
        }
    }

    /// Reads the version of a file and refuses one that cannot be used.
    ///
    /// # Errors
    /// [`Error::NewerSchema`]; [`Error::Damaged`] when there is no history, as no store is ever without.
    pub fn check(&self, path: &Path, conn: &Connection, patience: &Patience) -> Result<i64> {
        let found = version(conn).map_err(|error| translate(path, patience.waited(), error))?;
        match found {
            None => Err(Error::Damaged {
                path: path.to_owned(),
                why: "it has no schema history".to_owned(),
            }),
            Some(found) if found > self.known => Err(Error::NewerSchema {
                path: path.to_owned(),
                found,
                known: self.known,
            }),
            Some(found) => Ok(found),
        }
    }

    /// Runs what is pending. References are not checked meanwhile, so that a migration may build a table anew; the
    /// setting cannot be changed inside a transaction.
    fn run(&self, conn: &mut Connection) -> Result<(), Failure> {
        conn.execute_batch("PRAGMA foreign_keys = OFF")
            .map_err(Failure::Sqlite)?;
        let outcome = self.runner.run(conn).map_err(Failure::from);
        conn.execute_batch("PRAGMA foreign_keys = ON")
            .map_err(Failure::Sqlite)?;
        outcome.map(|_| ())
    }

    fn explain(&self, path: &Path, waited: Duration, failure: Failure) -> Error {
        match failure {
            Failure::Sqlite(error) => translate(path, waited, error),
            Failure::Unknown(found) => Error::NewerSchema {
                path: path.to_owned(),
                found,
                known: self.known,
            },
            Failure::Divergent(what) => Error::Damaged {
                path: path.to_owned(),
                why: format!("its schema history does not match this release: {what}"),
            },
            Failure::Other(error) => Error::Storage(error),
        }
    }
}

impl From<Runner> for Schema {
    fn from(runner: Runner) -> Self {
        let known = runner
            .get_migrations()
            .iter()
            .map(|migration| i64::from(migration.version()))
            .max();
        // Grouped: by default refinery applies a file and notes it in two transactions, and a cut between them leaves
        // a store that never opens again.
        Self {
            runner: runner.set_grouped(true),
            known: known.unwrap_or(0),
        }
    }
}

/// Why migrations did not run.
enum Failure {
    Sqlite(rusqlite::Error),
    /// The history names a migration that this release does not have.
    Unknown(i64),
    Divergent(String),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl Failure {
    fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if is_busy(error))
    }
}

impl From<refinery::Error> for Failure {
    fn from(error: refinery::Error) -> Self {
        match error.kind() {
            Kind::MissingVersion(migration) => Self::Unknown(i64::from(migration.version())),
            Kind::DivergentVersion(..) => Self::Divergent(error.to_string()),
            Kind::Connection(_, source) => match source.downcast_ref::<rusqlite::Error>() {
                Some(rusqlite::Error::SqliteFailure(code, text)) => {
                    Self::Sqlite(rusqlite::Error::SqliteFailure(*code, text.clone()))
                }
                _ => Self::Other(Box::new(error)),
            },
            _ => Self::Other(Box::new(error)),
        }
    }
}

/// Reads the newest version that was applied; `None` without a history.
fn version(conn: &Connection) -> rusqlite::Result<Option<i64>> {
    if !conn.table_exists(None, HISTORY)? {
        return Ok(None);
    }
    conn.query_row(
        &format!("SELECT max(version) FROM {HISTORY} NOT INDEXED"),
        [],
        |row| row.get(0),
    )
}

/// Makes sure that refinery, which trusts its own table, can read it.
fn check_history(path: &Path, conn: &Connection) -> Result<()> {
    let broken = |why: String| Error::Damaged {
        path: path.to_owned(),
        why,
    };
    let mut rows = conn.prepare(&format!(
        "SELECT version, name, applied_on, checksum FROM {HISTORY}"
    ))?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let read = (
            row.get::<_, i32>(0),
            row.get::<_, String>(1),
            row.get::<_, String>(2),
            row.get::<_, String>(3),
        );
        let (Ok(version), Ok(_), Ok(applied), Ok(checksum)) = read else {
            return Err(broken(
                "its schema history holds values of the wrong kind".to_owned(),
            ));
        };
        if checksum.parse::<u64>().is_err()
            || chrono::DateTime::parse_from_rfc3339(&applied).is_err()
        {
            return Err(broken(format!(
                "entry {version} of its schema history is not readable"
            )));
        }
    }
    Ok(())
}

/// Takes the lock under which a file is migrated; the kernel drops it when the process ends, however it ends.
fn lock(place: &Place, patience: &mut Patience) -> Result<Option<File>> {
    let path = place.beside(".lock");
    let file =
        open_private(&path).map_err(|error| io_error("opening the lock file", &path, error))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if patience.rest() => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    path: place.given.clone(),
                    waited: patience.waited(),
                });
            }
            // Without such locks SQLite's own keep the migration whole; a loser of the race tries again.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(None);
            }
            Err(TryLockError::Error(error)) => return Err(io_error("locking", &path, error)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use refinery::Migration;

    use super::*;

    /// The schema of a release that knows these further migrations.
    pub fn extended(more: &[(&str, &str)]) -> Schema {
        let mut migrations = embedded::migrations::runner().get_migrations().clone();
        let first = migrations.iter().map(Migration::version).max().unwrap_or(0) + 1;
        for (version, (name, sql)) in (first..).zip(more) {
            migrations.push(Migration::unapplied(&format!("V{version}__{name}"), sql).unwrap());
        }
        Schema::from(Runner::new(&migrations))
    }

    fn store(schema: &Schema) -> (tempfile::TempDir, Place, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let mut conn = Connection::open(&file).unwrap();
        schema
            .install(&file, &mut conn, &Patience::new(Duration::ZERO))
            .unwrap();
        (
            folder,
            Place {
                given: file.clone(),
                file,
            },
            conn,
        )
    }

    fn bring_up(
        schema: &Schema,
        place: &Place,
        conn: &mut Connection,
        budget: Duration,
    ) -> Result<()> {
        schema.bring_up(place, conn, &mut Patience::new(budget))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_present_schema_takes_no_lock() {
        let schema = Schema::embedded();
        let (_folder, place, mut conn) = store(&schema);
        bring_up(&schema, &place, &mut conn, SECOND).unwrap();
        assert!(!place.beside(".lock").exists());
    }

    #[test]
    fn an_older_schema_is_migrated_and_a_newer_one_refused() {
        let (_folder, place, mut conn) = store(&Schema::embedded());
        let newer = extended(&[("more", "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT")]);
        bring_up(&newer, &place, &mut conn, SECOND).unwrap();
        assert!(conn.table_exists(None, "more").unwrap());
        assert_eq!(
            conn.query_row("PRAGMA foreign_keys", [], |row| row.get::<_, i64>(0))
                .unwrap(),
            1
        );

        let error = bring_up(&Schema::embedded(), &place, &mut conn, SECOND).unwrap_err();
        let known = Schema::embedded().known();
        assert!(
            matches!(error, Error::NewerSchema { found, known: k, .. } if found == known + 1 && k == known)
        );
    }

    #[test]
    fn a_migration_that_fails_leaves_the_old_schema() {
        let (_folder, place, mut conn) = store(&Schema::embedded());
        let broken = extended(&[
            ("more", "CREATE TABLE more (id INTEGER)"),
            ("bad", "CREATE TABLE more (id INTEGER)"),
        ]);
        assert!(matches!(
            bring_up(&broken, &place, &mut conn, SECOND),
            Err(Error::Storage(_) | Error::Damaged { .. })
        ));
        assert!(!conn.table_exists(None, "more").unwrap());
        bring_up(&Schema::embedded(), &place, &mut conn, SECOND).unwrap();
    }

    #[test]
    fn a_migration_waits_for_another_and_then_says_it_is_busy() {
        let (_folder, place, mut conn) = store(&Schema::embedded());
        let newer = extended(&[("more", "CREATE TABLE more (id INTEGER)")]);
        let held = open_private(&place.beside(".lock")).unwrap();
        held.lock().unwrap();
        let budget = Duration::from_millis(80);
        assert!(
            matches!(bring_up(&newer, &place, &mut conn, budget), Err(Error::Busy { waited, .. }) if waited >= budget)
        );
        drop(held);
        bring_up(&newer, &place, &mut conn, budget).unwrap();
    }

    #[test]
    fn a_history_that_cannot_be_read_is_damage() {
        let newer = extended(&[("more", "CREATE TABLE more (id INTEGER)")]);
        for damage in [
            format!("UPDATE {HISTORY} SET checksum = 'x'"),
            format!("UPDATE {HISTORY} SET applied_on = 'yesterday'"),
            format!("UPDATE {HISTORY} SET checksum = '1'"),
            format!("UPDATE {HISTORY} SET name = NULL"),
            format!("DELETE FROM {HISTORY}"),
            format!("DROP TABLE {HISTORY}"),
        ] {
            let (_folder, place, mut conn) = store(&Schema::embedded());
            conn.execute_batch(&damage).unwrap();
            let outcome = bring_up(&newer, &place, &mut conn, SECOND);
            assert!(
                matches!(outcome, Err(Error::Damaged { .. })),
                "{damage}: {outcome:?}"
            );
        }
    }
}
