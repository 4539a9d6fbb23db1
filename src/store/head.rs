//! The head of a transcript: what moves it, and what our own moves leave behind.

use std::collections::HashSet;

use rusqlite::Connection;

use super::history::History;
use crate::db::Tx;
use crate::error::Result;
use crate::tables::{left_turns, messages};

/// How a message of the main line arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// The user or the model said it.
    pub(super) speaks: bool,
    /// It hangs from the head.
    pub(super) extends: bool,
    /// It belongs to a turn that our own move of the head left behind.
    pub(super) was_left: bool,
}

/// Whether the head moves to it. What the user or the model said becomes the head wherever it
/// hangs: the last one wins, as the SDK and the client read. Anything else becomes it only by
/// hanging from it: a late attachment of an old branch does not bring that branch back. And
/// neither does what still arrives of a turn that was left behind.
pub(super) fn moves_head(arrival: Arrival) -> bool {
    arrival.extends || (arrival.speaks && !arrival.was_left)
}

/// Notes which turns a move of the head leaves behind, and which it takes up again.
pub(super) fn leave(
    tx: &Tx<'_>,
    history: &History,
    session: i64,
    from: Option<i64>,
    to: Option<i64>,
) -> Result<()> {
    let kept = turns_to(tx, history, to)?;
    for turn in turns_to(tx, history, from)?.difference(&kept) {
        left_turns::insert(tx, session, *turn)?;
        left_turns::note_any(tx, session)?;
    }
    for turn in kept {
        left_turns::remove(tx, session, turn)?;
    }
    Ok(())
}

/// The turns on the way from a conversation's beginning to a message.
fn turns_to(db: &Connection, history: &History, head: Option<i64>) -> Result<HashSet<i64>> {
    let mut turns = HashSet::new();
    let mut next = head;
    // Turn by turn: from a message to the prompt that opened its turn, and on from there.
    while let Some(id) = next {
        let Some(place) = messages::place_of(db, id)? else {
            break;
        };
        if history.shown_uuid(&place).is_none() {
            break;
        }
        let opener = match place.turn {
            Some(turn) if turn != place.id => messages::place_of(db, turn)?,
            _ => None,
        };
        if place.turn.is_some_and(|turn| !turns.insert(turn)) {
            break;
        }
        next = opener.map_or(place.parent, |opener| opener.parent);
    }
    Ok(turns)
}
