//! `leases`: who alone may write to a session, and until when.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// A lease as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRow {
    pub(crate) holder: String,
    pub(crate) token: i64,
    pub(crate) expires_ms: i64,
}

/// The newest lease of a session; its time may be over.
pub(crate) fn find(db: &Connection, session: i64) -> Result<Option<LeaseRow>> {
    db.prepare_cached("SELECT holder, token, expires_ms FROM leases WHERE session = ?1")?
        .query_row([session], |row| {
            Ok(LeaseRow {
                holder: row.get(0)?,
                token: row.get(1)?,
                expires_ms: row.get(2)?,
            })
        })
        .optional()
}

/// Stores a lease in place of the one before. The row stays when a lease ends, so that its number
/// is never given again.
pub(crate) fn save(tx: &Tx<'_>, session: i64, row: &LeaseRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO leases (session, holder, token, expires_ms) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (session) DO UPDATE
         SET holder = excluded.holder, token = excluded.token, expires_ms = excluded.expires_ms",
    )?
    .execute(params![session, row.holder, row.token, row.expires_ms])?;
    Ok(())
}
