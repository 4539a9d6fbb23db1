//! `watched_calls`: commands that were watched.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// Notes that a call was watched, and what lay outside the bounds, as JSON.
pub(crate) fn save(tx: &Tx<'_>, session: i64, tool_use_id: &str, not_covered: &str) -> Result<()> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO watched_calls (session, tool_use_id, not_covered, at_ms) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![session, tool_use_id, not_covered, tx.now_ms()])?;
    Ok(())
}

/// What lay outside the bounds when a call was watched; `None` if it was not.
pub(crate) fn find(db: &Connection, session: i64, tool_use_id: &str) -> Result<Option<String>> {
    db.prepare_cached(
        "SELECT not_covered FROM watched_calls WHERE session = ?1 AND tool_use_id = ?2",
    )?
    .query_row(params![session, tool_use_id], |row| row.get(0))
    .optional()
}

/// Removes what was noted for a session.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM watched_calls WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
