//! The file changes that a session shows, and which of them came since a restore point.

use rusqlite::Connection;

use super::points::Point;
use crate::error::Result;
use crate::store::history::{History, Part};
use crate::store::kinship::ancestors;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::StateRow;
use crate::tables::{messages, operations, rewinds, sessions};

/// Which changes a session shows: its own, and those that it inherits. A change is inherited with the
/// message that it belongs to; a rewind if it came before the fork was made, and before anything that
/// the fork does not show.
pub(in crate::store) struct Sight<'h> {
    history: &'h History,
    /// Of each part the operation that made its heir.
    forked: Vec<Option<i64>>,
}

impl<'h> Sight<'h> {
    pub(in crate::store) fn of(db: &Connection, history: &'h History) -> Result<Self> {
        let mut forked = Vec::new();
        for at in 0..history.parts.len() {
            forked.push(match history.parts.get(at + 1) {
                Some(heir) => first_forked(db, heir.owner, history.parts[at].owner)?,
                None => None,
            });
        }
        Ok(Self { history, forked })
    }

    /// Whether a change made by the owner of one of the parts is shown.
    pub(in crate::store) fn shows(&self, db: &Connection, change: &ChangeRow) -> Result<bool> {
        let mut parts = self.history.parts.iter().zip(&self.forked);
        let made = parts.find(|(part, _)| part.owner == change.session);
        let Some((part, forked)) = made else {
            return Ok(false);
        };
        match change.operation {
            _ if !part.is_inherited => Ok(true),
            Some(operation) => {
                Ok(forked.is_some_and(|forked| operation < forked)
                    && came_within(db, part, change)?)
            }
            None => is_inherited(db, self.history, change),
        }
    }
}

/// The operation with which a session, or the first of those between the two, was forked off an owner of
/// its beginning. A fork of a fork that was cut before anything of the latter inherits from the owner
/// itself, but only what its origin showed.
pub(in crate::store) fn first_forked(
    db: &Connection,
    heir: i64,
    owner: i64,
) -> Result<Option<i64>> {
    let mut first = operations::forked(db, heir)?;
    let Some(heir) = sessions::find_any(db, heir)? else {
        return Ok(first);
    };
    for between in ancestors(db, &heir)? {
        if between.id == owner {
            break;
        }
        let forked = operations::forked(db, between.id)?;
        first = first.into_iter().chain(forked).min();
    }
    Ok(first)
}

/// The changes that a session shows, in the order in which they were committed.
pub(super) fn visible(db: &Connection, history: &History) -> Result<Vec<ChangeRow>> {
    let sight = Sight::of(db, history)?;
    let mut changes = Vec::new();
    for part in &history.parts {
        for change in file_changes::of_session(db, part.owner)? {
            if sight.shows(db, &change)? {
                changes.push(change);
            }
        }
    }
    changes.sort_by_key(|change| change.id);
    Ok(changes)
}

/// Whether a rewind came when the transcript did not reach behind a fork's cut.
fn came_within(db: &Connection, part: &Part, change: &ChangeRow) -> Result<bool> {
    let last = messages::last_seq_at(db, part.owner, change.seen_message)?;
    Ok(last.is_none_or(|last| last <= part.until_seq))
}

fn is_inherited(db: &Connection, history: &History, change: &ChangeRow) -> Result<bool> {
    let place = match change.message {
        Some(message) => messages::place_of(db, message)?,
        // It came before anything was said, or belongs to a prompt that never arrived.
        None => {
            let first = messages::first_of(db, change.session)?;
            return Ok(first.is_some_and(|first| change.seen_message < first));
        }
    };
    let part = place.as_ref().and_then(|place| history.part_of(place));
    Ok(part.is_some_and(|part| part.is_inherited))
}

/// Whether a change of a path came behind another one of it. Imported changes were made before they
/// were stored, so their time counts.
pub(super) fn is_behind(change: &ChangeRow, other: &ChangeRow) -> bool {
    if is_imported(change) || is_imported(other) {
        change.before_ms > other.before_ms
    } else {
        change.id > other.id
    }
}

/// Whether it was made of what a transcript tells.
pub(in crate::store) fn is_imported(change: &ChangeRow) -> bool {
    change.source == "import"
}

/// Whether an imported change is told of in another transcript too: the client copies a session's
/// records when it forks it, with the calls' ids.
pub(in crate::store) fn is_copy(change: &ChangeRow, other: &ChangeRow) -> bool {
    is_imported(change)
        && is_imported(other)
        && change.session != other.session
        && change.path == other.path
        && change.before_ms == other.before_ms
        && change.tool_use_id == other.tool_use_id
        && (change.before == other.before || change.before.is(&other.before))
}

/// Whether a change came at a restore point or after it.
pub(super) fn is_since(change: &ChangeRow, point: &Point) -> bool {
    match point {
        Point::Start => true,
        Point::Prompt { message } => position(change) >= *message,
        Point::Call {
            first_change: Some(first),
            ..
        } => change.id >= *first,
        Point::Call { call, message, .. } => match (change.call, call) {
            (Some(made), Some(call)) => made > *call,
            _ => message.is_some_and(|message| change.seen_message >= message),
        },
    }
}

/// Where a change stands among the messages: a sub-agent's in the turn that launched it, any other
/// at its call. What is not bound to a call stands where it was recorded, but for what hooks
/// captured ahead of their prompt.
fn position(change: &ChangeRow) -> i64 {
    let of_turn = change.turn.unwrap_or(change.seen_message);
    match (change.call, change.message) {
        _ if change.agent.is_some() => of_turn,
        (Some(_), Some(message)) => message,
        _ if change.names_prompt => of_turn,
        _ => change.seen_message,
    }
}

/// A path's changes without the rewinds that were undone and their undos, where nothing came in
/// between: together they changed nothing, whosever they were.
pub(super) fn without_undone(db: &Connection, changes: Vec<ChangeRow>) -> Result<Vec<ChangeRow>> {
    let mut standing: Vec<ChangeRow> = Vec::new();
    for change in changes {
        let undoes = match change.operation {
            Some(operation) => rewinds::get(db, operation)?.and_then(|rewind| rewind.undoes),
            None => None,
        };
        let takes_back = |last: &ChangeRow| {
            let same = |one: &Option<StateRow>, other: &StateRow| {
                one.as_ref().is_some_and(|one| one.is(other))
            };
            undoes.is_some()
                && last.operation == undoes
                && same(&change.after, &last.before)
                && same(&last.after, &change.before)
        };
        match standing.last().is_some_and(takes_back) {
            true => drop(standing.pop()),
            false => standing.push(change),
        }
    }
    Ok(standing)
}
