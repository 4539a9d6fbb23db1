//! `tool_attempts`: a call tried again. The first attempt is the call itself.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// The newest attempt of a call in a session, if it was tried again: its number and the input it
/// was really run with.
pub(crate) fn newest(
    db: &Connection,
    session: i64,
    call: i64,
) -> Result<Option<(i64, Option<String>)>> {
    db.prepare_cached(
        "SELECT number, ran_input FROM tool_attempts WHERE session = ?1 AND call = ?2
         ORDER BY number DESC LIMIT 1",
    )?
    .query_row(params![session, call], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()
}

/// Stores an attempt.
pub(crate) fn save(
    tx: &Tx<'_>,
    session: i64,
    call: i64,
    number: i64,
    ran_input: Option<&str>,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO tool_attempts (session, call, number, ran_input, started_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (session, call, number) DO UPDATE SET ran_input = excluded.ran_input",
    )?
    .execute(params![session, call, number, ran_input, tx.now_ms()])?;
    Ok(())
}

/// Forgets a session's.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM tool_attempts WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}

/// Forgets a session's whose calls are gone: the ids of calls may be given again.
pub(crate) fn delete_orphans(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached(
        "DELETE FROM tool_attempts WHERE session = ?1
         AND NOT EXISTS (SELECT 1 FROM tool_calls c WHERE c.id = tool_attempts.call)",
    )?
    .execute([session])
}
