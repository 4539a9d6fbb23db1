//! `left_turns`: turns on branches that our own move of the head left behind.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Whether a turn was left behind.
pub(crate) fn contains(db: &Connection, session: i64, turn: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM left_turns WHERE session = ?1 AND turn = ?2")?
        .exists(params![session, turn])
}

/// Whether any turn of a session was left behind.
pub(crate) fn any(db: &Connection, session: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM left_turns WHERE session = ?1 LIMIT 1")?
        .exists([session])
}

/// Notes that a turn was left behind.
pub(crate) fn insert(tx: &Tx<'_>, session: i64, turn: i64) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO left_turns (session, turn) VALUES (?1, ?2)")?
        .execute(params![session, turn])?;
    Ok(())
}

/// Notes that a turn is part of the conversation again.
pub(crate) fn remove(tx: &Tx<'_>, session: i64, turn: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM left_turns WHERE session = ?1 AND turn = ?2")?
        .execute(params![session, turn])?;
    Ok(())
}

/// Forgets a session's.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM left_turns WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
