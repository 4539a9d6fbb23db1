//! `phase_claims`: who runs a phase of a task now.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// A phase: the session's row, the task and the phase in it.
pub(crate) type PhaseKey<'a> = (i64, &'a str, &'a str);

/// A claim as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRow {
    pub(crate) holder: String,
    pub(crate) expires_ms: i64,
}

/// The claim on a phase; its time may be over.
pub(crate) fn find(
    db: &Connection,
    (session, task, phase): PhaseKey<'_>,
) -> Result<Option<ClaimRow>> {
    db.prepare_cached(
        "SELECT holder, expires_ms FROM phase_claims WHERE session = ?1 AND task = ?2 AND phase = ?3",
    )?
    .query_row(params![session, task, phase], |row| {
        Ok(ClaimRow {
            holder: row.get(0)?,
            expires_ms: row.get(1)?,
        })
    })
    .optional()
}

/// Stores a claim in place of the one before.
pub(crate) fn save(
    tx: &Tx<'_>,
    (session, task, phase): PhaseKey<'_>,
    claim: &ClaimRow,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO phase_claims (session, task, phase, holder, expires_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (session, task, phase) DO UPDATE
         SET holder = excluded.holder, expires_ms = excluded.expires_ms",
    )?
    .execute(params![session, task, phase, claim.holder, claim.expires_ms])?;
    Ok(())
}

/// Ends the claim on a phase.
pub(crate) fn delete(tx: &Tx<'_>, (session, task, phase): PhaseKey<'_>) -> Result<()> {
    tx.prepare_cached("DELETE FROM phase_claims WHERE session = ?1 AND task = ?2 AND phase = ?3")?
        .execute(params![session, task, phase])?;
    Ok(())
}

/// Ends all claims of a session.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM phase_claims WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
