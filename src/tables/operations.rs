//! `operations`: what was done to a session, when and by whom.

use rusqlite::{Result, params};

use crate::db::Tx;

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
