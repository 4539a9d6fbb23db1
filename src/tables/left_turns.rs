//! `left_turns`: turns on branches that our own move of the head left behind.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Whether a turn was left behind.
pub(crate) fn contains(db: &Connection, session: i64, turn: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM left_turns WHERE session = ?1 AND turn = ?2")?
        .exists(params![session, turn])
}

/// Stands for no turn: any was left behind once, in the session or in what it inherits.
const ANY: i64 = 0;

/// Whether any turn was ever left behind in what a session shows.
pub(crate) fn any(db: &Connection, session: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM left_turns WHERE session = ?1 LIMIT 1")?
        .exists([session])
}

/// Notes that some turn was left behind: that stays so when it is taken up again.
pub(crate) fn note_any(tx: &Tx<'_>, session: i64) -> Result<()> {
    insert(tx, session, ANY)
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
