//! `checkpoints_due`: sessions of which an import took in records of edits, and has not made file
//! changes of them yet.

use rusqlite::{Connection, Result};

use crate::db::Tx;

/// Notes a session.
pub(crate) fn insert(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("INSERT OR IGNORE INTO checkpoints_due (session, noted_ms) VALUES (?1, ?2)")?
        .execute([session, tx.now_ms()])?;
    Ok(())
}

/// Whether a session is noted.
pub(crate) fn is_noted(db: &Connection, session: i64) -> Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM checkpoints_due WHERE session = ?1)")?
        .query_row([session], |row| row.get(0))
}

/// Forgets a session.
pub(crate) fn delete(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM checkpoints_due WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
