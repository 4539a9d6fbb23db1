//! `operations`: what was done to a session, when and by whom.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;
use crate::model::Operation;

/// What the operation is called that stores half a line whole, at the end: its old number has no
/// row any more. `detail` names it, as `{"subpath", "seq"}`.
pub(crate) const COMPLETED: &str = "complete";

/// Logs an operation.
pub(crate) fn insert(
    tx: &Tx<'_>,
    session: i64,
    kind: &str,
    by: Option<&str>,
    detail: Option<&str>,
) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO operations (session, kind, at_ms, by, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![session, kind, tx.now_ms(), by, detail])?;
    Ok(tx.last_insert_rowid())
}

/// The session that an operation was done to, and when.
pub(crate) fn find(db: &Connection, id: i64) -> Result<Option<(i64, i64)>> {
    db.prepare_cached("SELECT session, at_ms FROM operations WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// The operation that made a session as a fork.
pub(crate) fn forked(db: &Connection, session: i64) -> Result<Option<i64>> {
    db.prepare_cached("SELECT min(id) FROM operations WHERE session = ?1 AND kind = 'fork'")?
        .query_row([session], |row| row.get(0))
}

fn from_row(row: &Row<'_>) -> Result<Operation> {
    Ok(Operation {
        id: row.get(0)?,
        kind: row.get(1)?,
        at_ms: row.get(2)?,
        by: row.get(3)?,
        detail: row.get(4)?,
        status: None,
        undone_by: None,
    })
}

/// What was done to a session, oldest first; of rewinds without how they ended.
pub(crate) fn list(db: &Connection, session: i64) -> Result<Vec<Operation>> {
    db.prepare_cached(
        "SELECT id, kind, at_ms, by, detail FROM operations WHERE session = ?1 ORDER BY id",
    )?
    .query_map([session], from_row)?
    .collect()
}

/// The operations behind one, on any session or on one, oldest first, each with its session.
pub(crate) fn behind(
    db: &Connection,
    behind: i64,
    session: Option<i64>,
    limit: usize,
) -> Result<Vec<(i64, Operation)>> {
    // `+session`: by id from there on, not through all of a session's rows.
    db.prepare_cached(
        "SELECT id, kind, at_ms, by, detail, session FROM operations
         WHERE id > ?1 AND (?2 IS NULL OR +session = ?2) ORDER BY id LIMIT ?3",
    )?
    .query_map(
        params![behind, session, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| Ok((row.get(5)?, from_row(row)?)),
    )?
    .collect()
}

/// Each completion of half a line: the session, and what it names.
pub(crate) fn completions(db: &Connection) -> Result<Vec<(i64, String)>> {
    db.prepare("SELECT session, detail FROM operations WHERE kind = ?1 AND detail IS NOT NULL")?
        .query_map([COMPLETED], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
