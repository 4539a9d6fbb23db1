//! `tool_results`: one row a result block, bound to the call it answers.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;
use crate::transcript::ids::IdMap;
use crate::transcript::reading::Answer;

/// Stores a result. `call` is the row of the call it answers, if that is stored.
pub(crate) fn insert(
    tx: &Tx<'_>,
    session: i64,
    message: i64,
    call: Option<i64>,
    answer: &Answer,
) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO tool_results (session, message, call, tool_use_id, outcome, stored_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        session,
        message,
        call,
        answer.call,
        answer.outcome.as_str(),
        tx.now_ms(),
    ])?;
    Ok(())
}

/// The results that answer a call, in the order in which they were stored: the message, and the
/// outcome.
pub(crate) fn of_call(db: &Connection, call: i64) -> Result<Vec<(i64, String)>> {
    db.prepare_cached("SELECT message, outcome FROM tool_results WHERE call = ?1 ORDER BY id")?
        .query_map([call], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// The ids of the calls that each message of a session answers.
pub(crate) fn by_message(db: &Connection, session: i64) -> Result<IdMap<Vec<String>>> {
    ids_by_message(
        db,
        "SELECT message, tool_use_id FROM tool_results WHERE session = ?1 ORDER BY id",
        session,
    )
}

/// Groups (message, tool-use id) rows by message.
pub(super) fn ids_by_message(
    db: &Connection,
    sql: &str,
    session: i64,
) -> Result<IdMap<Vec<String>>> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([session])?;
    let mut found: IdMap<Vec<String>> = IdMap::default();
    while let Some(row) = rows.next()? {
        found.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(found)
}

/// Removes the results of a session whose messages are gone.
pub(crate) fn delete_orphans(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached(
        "DELETE FROM tool_results WHERE session = ?1
         AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = tool_results.message)",
    )?
    .execute([session])
}
