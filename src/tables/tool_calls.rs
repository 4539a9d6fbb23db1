//! `tool_calls`: one row a call block, written with the message that holds it.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;
use crate::transcript::ids::IdMap;
use crate::transcript::reading::Call;

/// Stores a call, and returns its row.
pub(crate) fn insert(
    tx: &Tx<'_>,
    session: i64,
    message: i64,
    call: &Call,
    agent: Option<&str>,
    turn: Option<i64>,
) -> Result<i64> {
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
    Ok(tx.last_insert_rowid())
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

/// A call, with what its message says of it.
#[derive(Clone, Debug)]
pub(crate) struct CallRow {
    pub(crate) id: i64,
    pub(crate) message: i64,
    pub(crate) tool_use_id: String,
    pub(crate) name: String,
    pub(crate) input: Vec<u8>,
    pub(crate) agent: Option<String>,
    pub(crate) subpath: String,
    pub(crate) turn: Option<i64>,
    pub(crate) started_ms: i64,
}

const CALL: &str = "c.id, c.message, c.tool_use_id, c.name, \
     substr(CAST(m.entry AS BLOB), c.input_at + 1, c.input_bytes), c.agent, m.subpath, c.turn, c.started_ms";

fn from_row(row: &Row<'_>) -> Result<CallRow> {
    Ok(CallRow {
        id: row.get(0)?,
        message: row.get(1)?,
        tool_use_id: row.get(2)?,
        name: row.get(3)?,
        input: row.get::<_, Option<Vec<u8>>>(4)?.unwrap_or_default(),
        agent: row.get(5)?,
        subpath: row.get(6)?,
        turn: row.get(7)?,
        started_ms: row.get(8)?,
    })
}

/// The call with this row id.
pub(crate) fn get(db: &Connection, id: i64) -> Result<Option<CallRow>> {
    let sql = format!(
        "SELECT {CALL} FROM tool_calls c JOIN messages m ON m.id = c.message WHERE c.id = ?1"
    );
    db.prepare_cached(&sql)?
        .query_row([id], from_row)
        .optional()
}

/// The calls that a session itself made, in order; a limit leaves sub-agents' calls out.
pub(crate) fn list(db: &Connection, session: i64, until_seq: i64) -> Result<Vec<CallRow>> {
    let sql = format!(
        "SELECT {CALL} FROM tool_calls c JOIN messages m ON m.id = c.message
         WHERE c.session = ?1 AND m.seq <= ?2 AND (m.subpath = '' OR ?2 = 9223372036854775807)
         ORDER BY c.message, c.id"
    );
    db.prepare_cached(&sql)?
        .query_map(params![session, until_seq], from_row)?
        .collect()
}

/// A call without its input, and how it was answered first.
#[derive(Clone, Debug)]
pub(crate) struct BriefCall {
    pub(crate) id: i64,
    pub(crate) message: i64,
    pub(crate) tool_use_id: String,
    pub(crate) name: String,
    pub(crate) subpath: String,
    pub(crate) outcome: Option<String>,
}

/// The calls that a session itself made and its sub-agents', without what went into them.
pub(crate) fn brief(db: &Connection, session: i64) -> Result<Vec<BriefCall>> {
    db.prepare_cached(
        "SELECT c.id, c.message, c.tool_use_id, c.name, m.subpath,
             (SELECT outcome FROM tool_results r WHERE r.call = c.id ORDER BY r.id LIMIT 1)
         FROM tool_calls c JOIN messages m ON m.id = c.message WHERE c.session = ?1 ORDER BY c.id",
    )?
    .query_map([session], |row| {
        Ok(BriefCall {
            id: row.get(0)?,
            message: row.get(1)?,
            tool_use_id: row.get(2)?,
            name: row.get(3)?,
            subpath: row.get(4)?,
            outcome: row.get(5)?,
        })
    })?
    .collect()
}

/// Gives `each` the calls of five tools that a session itself made, in the order of the messages that
/// made them: of one transcript, or of all. One input is in memory at a time.
pub(crate) fn each_of<E: From<rusqlite::Error>>(
    db: &Connection,
    (session, subpath): (i64, Option<&str>),
    tools: [&str; 5],
    mut each: impl FnMut(CallRow) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let sql = format!(
        "SELECT {CALL} FROM tool_calls c JOIN messages m ON m.id = c.message
         WHERE c.session = ?1 AND (?2 IS NULL OR m.subpath = ?2) AND c.name IN (?3, ?4, ?5, ?6, ?7)
         ORDER BY c.message, c.id"
    );
    let [a, b, c, d, e] = tools;
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![session, subpath, a, b, c, d, e])?;
    while let Some(row) = rows.next()? {
        each(from_row(row)?)?;
    }
    Ok(())
}

/// The call with this tool-use id that a message of a session made.
pub(crate) fn find_in_message(
    db: &Connection,
    (session, message): (i64, i64),
    tool_use_id: &str,
) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT id FROM tool_calls WHERE session = ?1 AND tool_use_id = ?2 AND message = ?3
         ORDER BY id LIMIT 1",
    )?
    .query_row(params![session, tool_use_id, message], |row| row.get(0))
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

/// The tool that a message's result came out of, and what went into it.
pub(crate) fn answered(
    db: &Connection,
    session: i64,
    message: i64,
    tool_use_id: &str,
) -> Result<Option<(String, Vec<u8>)>> {
    db.prepare_cached(
        "SELECT c.name, substr(CAST(m.entry AS BLOB), c.input_at + 1, c.input_bytes)
         FROM tool_results r
         JOIN tool_calls c ON c.id = r.call
         JOIN messages m ON m.id = c.message
         WHERE r.session = ?1 AND r.tool_use_id = ?2 AND r.message = ?3 LIMIT 1",
    )?
    .query_row(params![session, tool_use_id, message], |row| {
        Ok((
            row.get(0)?,
            row.get::<_, Option<Vec<u8>>>(1)?.unwrap_or_default(),
        ))
    })
    .optional()
}

/// Removes the calls of a session whose messages are gone.
pub(crate) fn delete_orphans(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached(
        "DELETE FROM tool_calls WHERE session = ?1
         AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = tool_calls.message)",
    )?
    .execute([session])
}
