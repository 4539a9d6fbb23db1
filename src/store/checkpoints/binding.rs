//! Which call, turn and message a file change belongs to.
//!
//! A capture may come before the call, the prompt or even the session is stored: hooks run ahead of
//! the client's disk. It is bound as far as is known then, and the rest when those are stored. A
//! sub-agent's change belongs to the turn that launched the sub-agent, also when it comes later.

use rusqlite::Connection;

use crate::db::Tx;
use crate::error::Result;
use crate::model::ToolRef;
use crate::store::history::History;
use crate::store::ledger::find_call;
use crate::tables::file_changes::{self, Bound};
use crate::tables::{messages, tool_calls, transcripts};
use crate::transcript::json::Object;

/// How many turns are looked back over for the one that a prompt's id names.
const TURNS: usize = 200;

/// How many sub-agents may have launched one another.
const DEPTH: usize = 16;

/// What is known when a capture is made; and which sub-agent made it, if one did.
pub(super) fn bound(
    db: &Connection,
    session: i64,
    history: &History,
    call: &ToolRef,
) -> Result<(Bound, Option<String>)> {
    let stored = match find_call(db, history, session, &call.id)? {
        Some(id) => tool_calls::get(db, id)?,
        None => None,
    };
    let (row, agent) = match &stored {
        Some(stored) if stored.subpath.is_empty() => {
            let place = Bound {
                call: Some(stored.id),
                turn: stored.turn,
                message: Some(stored.message),
            };
            return Ok((place, None));
        }
        Some(stored) => (
            Some(stored.id),
            call.agent.as_deref().or(stored.agent.as_deref()),
        ),
        None => (None, call.agent.as_deref()),
    };
    let known = match agent {
        Some(agent) => file_changes::turn_of_agent(db, session, agent)?,
        None => None,
    };
    let mut place = match (known, call.prompt_id.as_deref()) {
        (Some(known), _) => known,
        (None, Some(prompt)) => match turn_named(db, session, prompt)? {
            Some(turn) => turn_place(db, session, turn)?,
            // It is not stored yet: it is bound when it is.
            None => Bound::default(),
        },
        (None, None) => match transcripts::find(db, session, "")?.and_then(|main| main.turn) {
            Some(turn) => turn_place(db, session, turn)?,
            None => Bound::default(),
        },
    };
    place.call = row;
    Ok((place, agent.map(String::from)))
}

/// The call that launched a sub-agent, by the message that made it and its turn: as the agent's
/// metadata says, else the prompt that its entries name. `None` if neither is stored.
pub(crate) fn launched_by(
    db: &Connection,
    session: i64,
    history: &History,
    subpath: &str,
) -> Result<Option<Bound>> {
    let mut subpath = subpath.to_owned();
    for _ in 0..DEPTH {
        let meta = messages::last_of_kind(db, session, &subpath, "agent_metadata")?;
        let meta = meta.as_deref().and_then(Object::parse);
        let call = match meta.and_then(|meta| meta.string("toolUseId").map(String::from)) {
            Some(id) => find_call(db, history, session, &id)?,
            None => None,
        };
        let call = match call {
            Some(call) => tool_calls::get(db, call)?,
            None => None,
        };
        match call {
            Some(call) if call.subpath.is_empty() => {
                return Ok(Some(Bound {
                    call: None,
                    turn: call.turn,
                    message: Some(call.message),
                }));
            }
            // A sub-agent launched it.
            Some(call) if call.subpath != subpath => subpath = call.subpath,
            _ => break,
        }
    }
    let first = messages::first_entry(db, session, &subpath)?;
    let prompt = first.as_deref().and_then(|entry| {
        Object::parse(entry).and_then(|entry| entry.string("promptId").map(String::from))
    });
    let turn = match prompt {
        Some(prompt) => turn_named(db, session, &prompt)?,
        None => None,
    };
    Ok(turn.map(|turn| Bound {
        call: None,
        turn: Some(turn),
        message: Some(turn),
    }))
}

/// The place of a change in a turn: of the running one the head, so that a fork that is cut before
/// it does not inherit the change.
fn turn_place(db: &Connection, session: i64, turn: i64) -> Result<Bound> {
    let main = transcripts::find(db, session, "")?;
    let head = main
        .filter(|main| main.turn == Some(turn))
        .and_then(|main| main.head);
    Ok(Bound {
        call: None,
        turn: Some(turn),
        message: Some(head.unwrap_or(turn)),
    })
}

/// The turn of a session whose prompt has this id.
fn turn_named(db: &Connection, session: i64, prompt_id: &str) -> Result<Option<i64>> {
    let mut next = transcripts::find(db, session, "")?.and_then(|main| main.turn);
    for _ in 0..TURNS {
        let Some(turn) = next else { break };
        let named = messages::entry(db, turn)?.and_then(|entry| {
            Object::parse(&entry).and_then(|entry| entry.string("promptId").map(String::from))
        });
        if named.as_deref() == Some(prompt_id) {
            return Ok(Some(turn));
        }
        let parent = messages::place_of(db, turn)?.and_then(|place| place.parent);
        next = match parent {
            Some(parent) => messages::place_of(db, parent)?.and_then(|place| place.turn),
            None => None,
        };
    }
    Ok(None)
}

/// Binds what was captured for a call before the message that makes it was stored.
pub(in crate::store) fn call_arrived(
    tx: &Tx<'_>,
    session: i64,
    tool_use_id: &str,
    call: i64,
    (message, turn, is_main): (i64, Option<i64>, bool),
    agent: Option<&str>,
) -> Result<()> {
    let place = Bound {
        call: Some(call),
        turn: turn.filter(|_| is_main),
        message: Some(message).filter(|_| is_main),
    };
    let agent = agent.filter(|_| !is_main);
    file_changes::bind_call(tx, session, tool_use_id, place, agent)?;
    Ok(())
}

/// Binds what was captured in a turn before its prompt was stored.
pub(in crate::store) fn prompt_arrived(
    tx: &Tx<'_>,
    session: i64,
    prompt_id: Option<&str>,
    message: i64,
) -> Result<()> {
    if let Some(prompt_id) = prompt_id {
        file_changes::bind_prompt(tx, session, prompt_id, message)?;
    }
    Ok(())
}
