//! `tool_calls`: one row a call block, written with the message that holds it.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;
use crate::transcript::ids::IdMap;
use crate::transcript::reading::Call;

/// Stores a call.
pub(crate) fn insert(
    tx: &Tx<'_>,
    session: i64,
    message: i64,
    call: &Call,
    agent: Option<&str>,
    turn: Option<i64>,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO tool_calls (session, message, tool_use_id, name, input_at, input_bytes, agent, turn, started_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        session,
        message,
        call.id,
        call.name,
        i64::try_from(call.input_at).unwrap_or(i64::MAX),
        i64::try_from(call.input_bytes).unwrap_or(i64::MAX),
        agent,
        turn,
        tx.now_ms(),
    ])?;
    Ok(())
}

/// The newest call with this tool-use id that a session itself made up to `until_seq`: gateways use
/// ids again. A limit leaves sub-agents' calls out.
pub(crate) fn find_newest(
    db: &Connection,
    session: i64,
    tool_use_id: &str,
    until_seq: i64,
) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT c.id FROM tool_calls c JOIN messages m ON m.id = c.message
         WHERE c.session = ?1 AND c.tool_use_id = ?2 AND m.seq <= ?3
           AND (m.subpath = '' OR ?3 = 9223372036854775807)
         ORDER BY c.message DESC, c.id DESC LIMIT 1",
    )?
    .query_row(params![session, tool_use_id, until_seq], |row| row.get(0))
    .optional()
}

/// The ids of the calls that each message of a session made.
pub(crate) fn by_message(db: &Connection, session: i64) -> Result<IdMap<Vec<String>>> {
    super::tool_results::ids_by_message(
        db,
        "SELECT message, tool_use_id FROM tool_calls WHERE session = ?1 ORDER BY id",
        session,
    )
}

/// Removes the calls of a session whose messages are gone.
pub(crate) fn delete_orphans(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached(
        "DELETE FROM tool_calls WHERE session = ?1
         AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = tool_calls.message)",
    )?
    .execute([session])
}
