//! `listing_marks`: the listing of a main transcript as it was before a row.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// Stores the listing before the row `seq`.
pub(crate) fn insert(tx: &Tx<'_>, session: i64, seq: i64, listing: &str) -> Result<()> {
    tx.prepare_cached(
        "INSERT OR REPLACE INTO listing_marks (session, seq, listing) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![session, seq, listing])?;
    Ok(())
}

/// The newest mark at or before the row `seq`: its own seq, and the listing before that row.
pub(crate) fn find(db: &Connection, session: i64, seq: i64) -> Result<Option<(i64, String)>> {
    db.prepare_cached(
        "SELECT seq, listing FROM listing_marks WHERE session = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1",
    )?
    .query_row(params![session, seq], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()
}

/// All marks of a session.
pub(crate) fn all(db: &Connection, session: i64) -> Result<Vec<(i64, String)>> {
    db.prepare_cached("SELECT seq, listing FROM listing_marks WHERE session = ?1 ORDER BY seq")?
        .query_map([session], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Removes the marks behind `seq`.
pub(crate) fn delete_after(tx: &Tx<'_>, session: i64, seq: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM listing_marks WHERE session = ?1 AND seq > ?2")?
        .execute(params![session, seq])?;
    Ok(())
}
