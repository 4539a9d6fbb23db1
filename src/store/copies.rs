//! What clients copied when they forked a session: which message, and which change of a file, of its
//! origin each is. A client keeps a message's uuid; the SDK gives a new one and names the old.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;

use super::checkpoints::is_imported;
use crate::error::Result;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::StateRow;
use crate::tables::{messages, sessions};
use crate::transcript::reading::copied_message;

/// How far an origin is followed.
const DEEPEST: usize = 64;

/// How many messages are remembered.
const MOST: usize = 10_000;

/// Looks up what was copied from where, and remembers it.
pub(super) struct Copies<'d> {
    pub(super) db: &'d Connection,
    /// Of each session the one that a client copied it from.
    origins: RefCell<HashMap<i64, Option<i64>>>,
    /// Of each message the one that it was copied from.
    messages: RefCell<HashMap<i64, Option<i64>>>,
}

impl<'d> Copies<'d> {
    pub(super) fn new(db: &'d Connection) -> Self {
        Self {
            db,
            origins: RefCell::default(),
            messages: RefCell::default(),
        }
    }

    /// The session that a client copied this one from.
    pub(super) fn origin(&self, session: i64) -> Result<Option<i64>> {
        if let Some(known) = self.origins.borrow().get(&session) {
            return Ok(*known);
        }
        let row = sessions::find_any(self.db, session)?.filter(|row| row.is_inferred_fork);
        let origin = row.and_then(|row| row.forked_from);
        self.origins.borrow_mut().insert(session, origin);
        Ok(origin)
    }

    /// How many copies lie between a session and the one it comes from, and the session: of two that
    /// hold the same, the one with the lower rank made it.
    pub(super) fn rank(&self, session: i64) -> Result<(usize, i64)> {
        let (mut depth, mut above) = (0, session);
        while let Some(origin) = self.origin(above)?.filter(|_| depth < DEEPEST) {
            (depth, above) = (depth + 1, origin);
        }
        Ok((depth, session))
    }

    /// The message of the direct origin that a message was copied from.
    fn original(&self, message: i64) -> Result<Option<i64>> {
        if let Some(known) = self.messages.borrow().get(&message) {
            return Ok(*known);
        }
        let found = match messages::place_of(self.db, message)? {
            Some(place) => match (self.origin(place.session)?, place.uuid) {
                (Some(origin), Some(uuid)) => self.step(origin, message, &uuid)?.1,
                _ => None,
            },
            None => None,
        };
        let mut known = self.messages.borrow_mut();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(message, found);
        Ok(found)
    }

    /// The uuid of a copied message in its origin, and its row there if it is there.
    fn step(&self, origin: i64, message: i64, uuid: &str) -> Result<(String, Option<i64>)> {
        if let Some(place) = messages::find_place(self.db, origin, "", uuid)? {
            return Ok((uuid.to_owned(), Some(place.id)));
        }
        let entry = messages::entry(self.db, message)?;
        let Some(named) = entry.as_deref().and_then(copied_message) else {
            return Ok((uuid.to_owned(), None));
        };
        let place = messages::find_place(self.db, origin, "", &named)?;
        Ok((named, place.map(|place| place.id)))
    }

    /// The messages that a message was copied from, the direct one first.
    pub(super) fn originals(&self, message: i64) -> Result<Vec<i64>> {
        let mut found = Vec::new();
        let mut next = self.original(message)?;
        while let Some(message) = next.filter(|_| found.len() < DEEPEST) {
            found.push(message);
            next = self.original(message)?;
        }
        Ok(found)
    }

    /// The uuid that a message had where it was said, as far up as that is known.
    pub(super) fn first_uuid(&self, message: i64) -> Result<Option<String>> {
        let last = self.originals(message)?.pop().unwrap_or(message);
        let Some(place) = messages::place_of(self.db, last)? else {
            return Ok(None);
        };
        Ok(match (self.origin(place.session)?, place.uuid) {
            // Its origin is gone, and it may still name the message.
            (Some(origin), Some(uuid)) => Some(self.step(origin, last, &uuid)?.0),
            (_, uuid) => uuid,
        })
    }

    /// The changes that an imported change is a copy of, of the session that made them; none if it is
    /// no copy. What two transcripts tell of one change may differ in how it is told: by the call, or
    /// by checkpoints at the prompts around its turn.
    pub(super) fn originals_of(&self, change: &ChangeRow) -> Result<Vec<ChangeRow>> {
        let mut found = Vec::new();
        if !is_imported(change) {
            return Ok(found);
        }
        let (mut session, mut turn) = (change.session, change.turn);
        let Some(mut message) = change.message.or(change.turn) else {
            return Ok(found);
        };
        for _ in 0..DEEPEST {
            let (Some(origin), Some(copied)) = (self.origin(session)?, self.original(message)?)
            else {
                break;
            };
            turn = match turn {
                Some(turn) => self.original(turn)?,
                None => None,
            };
            let told = file_changes::told(self.db, (origin, turn), change)?;
            let of_call = |row: &&ChangeRow| {
                change.tool_use_id.is_some() && row.tool_use_id == change.tool_use_id
            };
            let of_turn = |row: &&ChangeRow| match change.tool_use_id {
                Some(_) => row.tool_use_id.is_none(),
                None => true,
            };
            let mut rows: Vec<ChangeRow> = told.iter().filter(of_call).cloned().collect();
            if rows.is_empty() {
                rows = told.iter().filter(of_turn).cloned().collect();
            }
            if !rows.is_empty() && (change.tool_use_id.is_some() || covers(&rows, change)) {
                found = rows;
            }
            (session, message) = (origin, copied);
        }
        Ok(found)
    }

    /// Whether a change is told once already, by the session that made it: of copies by their
    /// lineage, of others that tell the very same by their rank.
    pub(super) fn is_repeated(&self, change: &ChangeRow) -> Result<bool> {
        if !is_imported(change) {
            return Ok(false);
        }
        if !self.originals_of(change)?.is_empty() {
            return Ok(true);
        }
        let rank = self.rank(change.session)?;
        for other in file_changes::imported_at(self.db, change)? {
            if super::checkpoints::is_copy(change, &other) && self.rank(other.session)? < rank {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether the changes of a turn tell all that a copy tells of it.
fn covers(rows: &[ChangeRow], copy: &ChangeRow) -> bool {
    let is_known = |state: &StateRow| !matches!(state, StateRow::NotKept { .. });
    let tells = |one: Option<&StateRow>, other: Option<&StateRow>| match (
        one,
        other.filter(|other| is_known(other)),
    ) {
        (_, None) => true,
        (Some(one), Some(other)) => one.is(other),
        (None, Some(_)) => false,
    };
    let (first, last) = (rows.first(), rows.last());
    tells(first.map(|row| &row.before), Some(&copy.before))
        && tells(last.and_then(|row| row.after.as_ref()), copy.after.as_ref())
}
