//! A write transaction: everything in it is stored, or nothing.

use std::ops::Deref;
use std::time::Duration;

use rusqlite::Connection;

use super::faults::is_busy;
use super::patience::Patience;

/// A write transaction that is open.
///
/// Functions that write ask for one, so that calling them outside a transaction does not compile. It derefs to the
/// connection, for reading in the same transaction.
#[derive(Debug)]
pub(crate) struct Tx<'c> {
    conn: &'c Connection,
    now_ms: i64,
}

impl<'c> Tx<'c> {
    pub(super) fn new(conn: &'c Connection, now_ms: i64) -> Self {
        Self { conn, now_ms }
    }

    /// The time of this transaction in milliseconds since the epoch: one reading, made when it had the lock, for all
    /// that is stored in it.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The same transaction, for storing what belongs to another time.
    pub fn at(&self, now_ms: i64) -> Tx<'_> {
        Tx {
            conn: self.conn,
            now_ms,
        }
    }
}

impl Deref for Tx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

/// Rolls an open transaction back when dropped: after an error, and when a panic passes through.
pub(super) struct Unfinished<'c>(&'c Connection);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // If even this fails, the pool sees a connection inside a transaction and closes it.
            let _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Begins to read: all that follows is seen as of one moment.
pub(super) fn begin_read(conn: &Connection) -> rusqlite::Result<Unfinished<'_>> {
    conn.execute_batch("BEGIN DEFERRED")?;
    Ok(Unfinished(conn))
}

/// Begins to write, after waiting for other writers within the budget.
///
/// The lock is taken at the start: a transaction that reads first and then wants to write fails at once if another
/// wrote in between, whatever the timeout. The wait is ours and not SQLite's, whose pauses grow to 100 ms and let a
/// process starve among many short writers.
///
/// # Errors
/// Busy when others held the lock for the whole budget.
pub(super) fn begin_write<'c>(
    conn: &'c Connection,
    busy_timeout: Duration,
    patience: &mut Patience,
) -> rusqlite::Result<Unfinished<'c>> {
    conn.busy_timeout(Duration::ZERO)?;
    let begun = patience.retry(is_busy, || conn.execute_batch("BEGIN IMMEDIATE"));
    conn.busy_timeout(busy_timeout)?;
    begun.map(|()| Unfinished(conn))
}

/// Makes a transaction durable. With a rollback journal readers may be in the way; they are waited for.
///
/// # Errors
/// Whatever SQLite met, also when it had rolled the transaction back by itself; nothing is stored then.
pub(super) fn commit(open: Unfinished<'_>, patience: &mut Patience) -> rusqlite::Result<()> {
    cut_before_commit()?;
    patience.retry(is_busy, || open.0.execute_batch("COMMIT"))?;
    cut_after_commit();
    Ok(())
}

/// Here a test cuts a commit, before and after: the fail point `turnkeep::commit`, which is nothing in other builds.
/// Its action `return` is a full disk.
fn cut_before_commit() -> rusqlite::Result<()> {
    fail::fail_point!("turnkeep::commit", |_| Err(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
        None
    )));
    Ok(())
}

/// What is committed can no longer fail: `return` does nothing here.
fn cut_after_commit() {
    fail::fail_point!("turnkeep::commit", |_| ());
}
