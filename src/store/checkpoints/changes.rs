//! The file changes that a session shows, and which of them came since a restore point.

use rusqlite::Connection;

use super::points::Point;
use crate::error::Result;
use crate::store::history::History;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::messages;

/// The changes of a session in the order in which they were committed: its own, and those that it
/// inherits. A change is inherited with the message that it belongs to.
pub(super) fn visible(db: &Connection, history: &History) -> Result<Vec<ChangeRow>> {
    let mut changes = Vec::new();
    for part in &history.parts {
        for change in file_changes::of_session(db, part.owner)? {
            if !part.is_inherited || is_inherited(db, history, &change)? {
                changes.push(change);
            }
        }
    }
    changes.sort_by_key(|change| change.id);
    Ok(changes)
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
pub(super) fn is_imported(change: &ChangeRow) -> bool {
    change.source == "import"
}

/// Whether an imported change is told of in another transcript too: the client copies a session's
/// records when it forks it.
pub(super) fn is_copy(change: &ChangeRow, other: &ChangeRow) -> bool {
    is_imported(change)
        && is_imported(other)
        && change.path == other.path
        && change.before_ms == other.before_ms
        && change.before == other.before
}

/// Whether a change came at a restore point or after it.
pub(super) fn is_since(change: &ChangeRow, point: &Point) -> bool {
    match point {
        Point::Start => true,
        // By the turn it belongs to, else by when it was recorded.
        Point::Prompt { message } => change.turn.unwrap_or(change.seen_message) >= *message,
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
