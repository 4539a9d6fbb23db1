//! The calls and results that messages hold, and which result answers which call.

use rusqlite::Connection;

use super::checkpoints::binding::call_arrived;
use super::history::History;
use crate::db::Tx;
use crate::error::Result;
use crate::tables::messages::{self, Place};
use crate::tables::{tool_calls, tool_results};
use crate::transcript::reading::Reading;

/// Stores the calls and results that a message holds. `answered` finds the row of the call that a
/// result answers.
pub(super) fn write_ledger(
    tx: &Tx<'_>,
    session: i64,
    (id, turn, is_main): (i64, Option<i64>, bool),
    reading: &Reading,
    answered: impl Fn(&str) -> Result<Option<i64>>,
) -> Result<()> {
    for call in &reading.calls {
        let row = tool_calls::insert(tx, session, id, call, reading.agent.as_deref(), turn)?;
        let place = (id, turn, is_main);
        call_arrived(tx, session, &call.id, row, place, reading.agent.as_deref())?;
    }
    for answer in &reading.results {
        tool_results::insert(tx, session, id, answered(&answer.call)?, answer)?;
    }
    Ok(())
}

/// The newest call with this tool-use id that a session made or inherited.
pub(super) fn find_call(
    db: &Connection,
    history: &History,
    session: i64,
    tool_use_id: &str,
) -> Result<Option<i64>> {
    match tool_calls::find_newest(db, session, tool_use_id, i64::MAX)? {
        Some(call) => Ok(Some(call)),
        None => find_inherited_call(db, history, tool_use_id),
    }
}

/// The newest call with this tool-use id that a session inherited.
pub(super) fn find_inherited_call(
    db: &Connection,
    history: &History,
    tool_use_id: &str,
) -> Result<Option<i64>> {
    for part in history.parts.iter().rev().filter(|part| part.is_inherited) {
        if let Some(call) = tool_calls::find_newest(db, part.owner, tool_use_id, part.until_seq)? {
            return Ok(Some(call));
        }
    }
    Ok(None)
}

/// The message that answers a call in a session, and the outcome: the first that it shows, its own or
/// an inherited one within its cut. One that comes later is kept, and changes nothing.
pub(super) fn answer_of(
    db: &Connection,
    history: &History,
    session: i64,
    call: i64,
) -> Result<Option<(Place, String)>> {
    for (message, outcome) in tool_results::of_call(db, call)? {
        let Some(place) = messages::place_of(db, message)? else {
            continue;
        };
        let part = history.part_of(&place);
        if place.session == session || part.is_some_and(|part| part.is_inherited) {
            return Ok(Some((place, outcome)));
        }
    }
    Ok(None)
}
