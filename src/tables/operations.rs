//! `operations`: what was done to a session, when and by whom.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

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

/// Each completion of half a line: the session, and what it names.
pub(crate) fn completions(db: &Connection) -> Result<Vec<(i64, String)>> {
    db.prepare("SELECT session, detail FROM operations WHERE kind = ?1 AND detail IS NOT NULL")?
        .query_map([COMPLETED], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}
