//! `scratchpad`: notes in chains, found by walking back from a row.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;

/// A note as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoteRow {
    pub(crate) id: i64,
    pub(crate) key: String,
    /// JSON text; `None` says that the key was deleted.
    pub(crate) value: Option<String>,
    pub(crate) message: Option<i64>,
    pub(crate) set_ms: i64,
}

const CHAIN: &str = "WITH RECURSIVE chain (id, previous, key, value, message, set_ms) AS (
         SELECT id, previous, key, value, message, set_ms FROM scratchpad WHERE id = ?1
         UNION ALL
         SELECT n.id, n.previous, n.key, n.value, n.message, n.set_ms
         FROM chain JOIN scratchpad n ON n.id = chain.previous
     )
     SELECT id, key, value, message, set_ms FROM chain";

fn from_row(row: &Row<'_>) -> Result<NoteRow> {
    Ok(NoteRow {
        id: row.get(0)?,
        key: row.get(1)?,
        value: row.get(2)?,
        message: row.get(3)?,
        set_ms: row.get(4)?,
    })
}

/// The notes from a row back, newest first.
pub(crate) fn chain(db: &Connection, newest: i64) -> Result<Vec<NoteRow>> {
    db.prepare_cached(CHAIN)?
        .query_map([newest], from_row)?
        .collect()
}

/// The newest note on a key, from a row back.
pub(crate) fn find(db: &Connection, newest: i64, key: &str) -> Result<Option<NoteRow>> {
    let sql = format!("{CHAIN} WHERE key = ?2 LIMIT 1");
    db.prepare_cached(&sql)?
        .query_row(params![newest, key], from_row)
        .optional()
}

/// Stores a note behind another, and returns its row.
pub(crate) fn insert(
    tx: &Tx<'_>,
    session: i64,
    previous: Option<i64>,
    key: &str,
    value: Option<&str>,
    message: Option<i64>,
) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO scratchpad (session, previous, key, value, message, set_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![session, previous, key, value, message, tx.now_ms()])?;
    Ok(tx.last_insert_rowid())
}

/// The newest note of a session.
pub(crate) fn newest(db: &Connection, session: i64) -> Result<Option<i64>> {
    db.prepare_cached("SELECT scratch FROM sessions WHERE id = ?1")?
        .query_row([session], |row| row.get(0))
}

/// Makes a note the newest of a session.
pub(crate) fn set_newest(tx: &Tx<'_>, session: i64, note: Option<i64>) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET scratch = ?2 WHERE id = ?1")?
        .execute(params![session, note])?;
    Ok(())
}

/// The note that was the newest when a message was stored.
pub(crate) fn as_of(db: &Connection, message: i64) -> Result<Option<i64>> {
    let note: Option<Option<i64>> = db
        .prepare_cached("SELECT scratch FROM messages WHERE id = ?1")?
        .query_row([message], |row| row.get(0))
        .optional()?;
    Ok(note.flatten())
}

/// Removes a session's notes. Only when nobody shows its history any more.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM scratchpad WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
