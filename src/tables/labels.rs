//! `labels`: names given to restore points.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;

/// A label as stored: of a prompt, of a tool call, or of the session's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LabelRow {
    pub(crate) name: String,
    pub(crate) message: Option<i64>,
    pub(crate) tool_use_id: Option<String>,
}

fn from_row(row: &Row<'_>) -> Result<LabelRow> {
    Ok(LabelRow {
        name: row.get(0)?,
        message: row.get(1)?,
        tool_use_id: row.get(2)?,
    })
}

/// Stores a label, in place of one of this name.
pub(crate) fn save(tx: &Tx<'_>, session: i64, row: &LabelRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO labels (session, name, message, tool_use_id, made_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![session, row.name, row.message, row.tool_use_id, tx.now_ms()])?;
    Ok(())
}

/// The label of a session with this name.
pub(crate) fn find(db: &Connection, session: i64, name: &str) -> Result<Option<LabelRow>> {
    db.prepare_cached(
        "SELECT name, message, tool_use_id FROM labels WHERE session = ?1 AND name = ?2",
    )?
    .query_row(params![session, name], from_row)
    .optional()
}

/// The labels of a session.
pub(crate) fn list(db: &Connection, session: i64) -> Result<Vec<LabelRow>> {
    db.prepare_cached(
        "SELECT name, message, tool_use_id FROM labels WHERE session = ?1 ORDER BY made_ms, name",
    )?
    .query_map([session], from_row)?
    .collect()
}

/// Removes a session's labels.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM labels WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
