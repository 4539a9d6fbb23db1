//! The head of a transcript: what moves it, and what our own moves leave behind.

use std::collections::HashSet;

use rusqlite::Connection;

use super::history::History;
use crate::db::Tx;
use crate::error::Result;
use crate::tables::transcripts::TranscriptRow;
use crate::tables::{left_turns, messages, scratchpad};
use crate::transcript::reading::Reading;

/// A message of the main line that just arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    pub(super) id: i64,
    pub(super) parent: Option<i64>,
    pub(super) turn: Option<i64>,
}

/// Moves the head of a transcript to a message that arrived, if it is to move. What the user or the
/// model said becomes the head wherever it hangs: the last one wins, as the SDK and the client
/// read. Anything else becomes it only by hanging from it: a late attachment of an old branch does
/// not bring that branch back. And neither does what still arrives of a turn that was left behind,
/// but for a prompt.
pub(super) fn arrive(
    db: &Connection,
    transcript: &mut TranscriptRow,
    reading: &Reading,
    arrived: Arrived,
) -> Result<()> {
    let head = transcript.head;
    let extends = head.is_none() || arrived.parent == head;
    let may_be_left = arrived
        .turn
        .filter(|turn| transcript.subpath.is_empty() && *turn != arrived.id && !extends);
    let was_left = match may_be_left {
        Some(turn) => left_turns::contains(db, transcript.session, turn)?,
        None => false,
    };
    if extends || (reading.takes_the_head() && !was_left) {
        transcript.head = Some(arrived.id);
    }
    Ok(())
}

/// Honours the client's own move of the head (`last-prompt` with `explicit`) to a message that was
/// there before the row `before`. `false` if it did not move.
pub(super) fn follow_client(
    tx: &Tx<'_>,
    history: &History,
    transcript: &mut TranscriptRow,
    leaf: Option<&str>,
    before: i64,
) -> Result<bool> {
    let place = match leaf {
        Some(leaf) => history.find(tx, leaf)?.filter(|place| place.id < before),
        None => None,
    };
    let known = leaf.is_none() || place.as_ref().is_some_and(|place| place.line.is_some());
    if !known {
        return Ok(false);
    }
    move_to(tx, history, transcript, place.map(|place| place.id))
}

/// Moves the head of a main transcript, and notes the turns that it leaves behind. `false` if it is
/// there already.
pub(super) fn move_to(
    tx: &Tx<'_>,
    history: &History,
    transcript: &mut TranscriptRow,
    head: Option<i64>,
) -> Result<bool> {
    if transcript.head == head {
        return Ok(false);
    }
    leave(tx, history, transcript.session, transcript.head, head)?;
    transcript.head = head;
    transcript.turn = match head {
        Some(head) => messages::place_of(tx, head)?.and_then(|place| place.turn),
        None => None,
    };
    Ok(true)
}

/// Makes the notes as of a message those of the session, whose head moved there.
pub(super) fn take_notes_up(tx: &Tx<'_>, session: i64, head: Option<i64>) -> Result<Option<i64>> {
    let note = match head {
        Some(head) => scratchpad::as_of(tx, head)?,
        None => None,
    };
    scratchpad::set_newest(tx, session, note)?;
    Ok(note)
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
