//! The row of a transcript: its counters, and where its head is.

use super::mending::each_line;
use crate::db::Tx;
use crate::error::Result;
use crate::store::head::{Arrived, arrive, follow_client};
use crate::store::history::History;
use crate::tables::mending::forks;
use crate::tables::sessions::SessionRow;
use crate::tables::transcripts::TranscriptRow;
use crate::tables::{checks, left_turns, lineage, messages, transcripts};

/// Makes a transcript's row agree with its messages. Numbers that were given out, or that a fork was cut at, are never
/// given out again. `left_lost` says that what moves of the head left behind may not be known any more.
pub(super) fn mend_transcript(
    tx: &Tx<'_>,
    session: &SessionRow,
    history: &History,
    left_lost: bool,
) -> Result<TranscriptRow> {
    let (id, subpath) = (session.id, history.subpath());
    let kept = transcripts::find(tx, id, subpath)?;
    let mut row = kept
        .clone()
        .unwrap_or_else(|| TranscriptRow::new(id, subpath));
    let (next_seq, next_line, entries) = checks::counted(tx, id, subpath)?;
    let (cut_seq, cut_line) = match subpath {
        "" => forks::behind_cuts(tx, id)?,
        _ => (0, 0),
    };
    row.next_seq = row.next_seq.max(next_seq).max(cut_seq);
    row.next_line = row.next_line.max(next_line).max(cut_line);
    row.entries = entries;
    row.dangling = messages::count_dangling(tx, id, subpath)?;
    let head_is_there = match row.head {
        Some(head) => is_shown(tx, history, head)?,
        None => kept.is_some(),
    };
    let turn_is_there = match row.turn {
        Some(turn) => messages::place_of(tx, turn)?.is_some(),
        None => kept.is_some(),
    };
    let is_main = subpath.is_empty();
    if !head_is_there || (is_main && (!turn_is_there || left_lost)) {
        let replayed = replay(tx, session, history)?;
        if !head_is_there {
            row.head = replayed.head;
        }
        if !turn_is_there {
            row.turn = replayed.turn;
        }
    }
    if kept != Some(row.clone()) {
        transcripts::save(tx, &row)?;
    }
    Ok(row)
}

fn is_shown(tx: &Tx<'_>, history: &History, head: i64) -> Result<bool> {
    let place = messages::place_of(tx, head)?;
    Ok(place.is_some_and(|place| place.line.is_some() && history.part_of(&place).is_some()))
}

/// Lets the entries of a transcript arrive once more, and so finds its head, its running turn, and the turns that moves
/// of the head left behind.
fn replay(tx: &Tx<'_>, session: &SessionRow, history: &History) -> Result<TranscriptRow> {
    let mut row = TranscriptRow::new(session.id, history.subpath());
    let is_main = row.subpath.is_empty();
    if is_main
        && let Some(cut) = lineage::find(tx, session.id)?
        && left_turns::any(tx, cut.base)?
    {
        left_turns::note_any(tx, session.id)?;
    }
    if is_main && let Some(begun) = begun_at(tx, session, history)? {
        row.head = Some(begun);
        row.turn = messages::place_of(tx, begun)?.and_then(|place| place.turn);
    }
    each_line(tx, session.id, history.subpath(), |line, reading| {
        let (Some(reading), Some(place)) = (reading, messages::place_of(tx, line.id)?) else {
            return Ok(());
        };
        if line.on_main_line {
            if is_main && place.turn == Some(line.id) {
                row.turn = place.turn;
            }
            let arrived = Arrived {
                id: line.id,
                // One that came later was not there yet.
                parent: place.parent.filter(|parent| *parent < line.id),
                turn: place.turn,
            };
            arrive(tx, &mut row, reading, arrived)?;
        }
        if is_main && let Some(leaf) = &reading.moves_head_to {
            follow_client(tx, history, &mut row, leaf.as_deref(), line.id)?;
        }
        Ok(())
    })?;
    Ok(row)
}

/// The message that a fork's own part begins behind: the one it was cut at, or else the last that is there.
fn begun_at(tx: &Tx<'_>, session: &SessionRow, history: &History) -> Result<Option<i64>> {
    if session.fork_prefix.is_none() {
        return Ok(None);
    }
    if let Some(at) = session.forked_at
        && is_shown(tx, history, at)?
    {
        return Ok(Some(at));
    }
    for part in history.parts.iter().rev().filter(|part| part.is_inherited) {
        let range = (part.after_seq, part.until_seq);
        let last = messages::last_on_line(tx, (part.owner, ""), range)?;
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}
