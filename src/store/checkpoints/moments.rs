//! Moments whose states can be compared: restore points, operations, and now.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::changes::is_since;
use super::points::{Point, find};
use crate::error::{Error, Result};
use crate::store::history::History;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::operations;
use crate::tables::sessions::SessionRow;

/// How the present is called.
const NOW: [&str; 2] = ["now", "@now"];

/// The beginning of an operation's name.
const OPERATION: &str = "@op";

/// A moment, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Point(Point),
    /// Before the change with this number, and those behind it.
    Before(i64),
    /// What the session left last.
    End,
    /// What lies on the disk.
    Now,
}

impl Moment {
    /// The moment that a name leads to.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] if there is none.
    pub(super) fn find(
        db: &Connection,
        session: &SessionRow,
        history: &History,
        changes: &[ChangeRow],
        name: &str,
    ) -> Result<Self> {
        if NOW.contains(&name) {
            return Ok(Self::Now);
        }
        let Some(operation) = name.strip_prefix(OPERATION) else {
            return find(db, session, history, name).map(Self::Point);
        };
        let none = || Error::NoCheckpoint {
            point: name.to_owned(),
        };
        let (number, is_after) = match operation.strip_suffix('+') {
            Some(number) => (number, true),
            None => (operation, false),
        };
        let number: i64 = number.parse().map_err(|_| none())?;
        let (owner, at_ms) = operations::find(db, number)?.ok_or_else(none)?;
        if !history.parts.iter().any(|part| part.owner == owner) {
            return Err(none());
        }
        let own = |change: &&ChangeRow| change.operation == Some(number);
        let first_behind = match (changes.iter().find(own), is_after) {
            (Some(first), false) => Some(first.id),
            (Some(_), true) => changes.iter().rev().find(own).map(|last| last.id + 1),
            // It touched no file: the clock says which changes came before it.
            (None, _) => changes
                .iter()
                .find(|change| change.before_ms > at_ms)
                .map(|change| change.id),
        };
        Ok(first_behind.map_or(Self::End, Self::Before))
    }

    fn is_before(&self, change: &ChangeRow) -> bool {
        match self {
            Self::Point(point) => is_since(change, point),
            Self::Before(first) => change.id >= *first,
            Self::End | Self::Now => false,
        }
    }

    /// The recorded state of every path that a session changed, at this moment.
    pub(super) fn states(&self, changes: &[ChangeRow]) -> BTreeMap<PathRow, StateRow> {
        states_before(changes, |change| self.is_before(change))
    }
}

/// The state of every path before the changes that came at a moment or behind it.
pub(super) fn states_before(
    changes: &[ChangeRow],
    is_behind: impl Fn(&ChangeRow) -> bool,
) -> BTreeMap<PathRow, StateRow> {
    let mut states = BTreeMap::new();
    let mut settled = std::collections::HashSet::new();
    for change in changes {
        if settled.contains(&change.path) {
            continue;
        }
        if is_behind(change) {
            settled.insert(change.path.clone());
            states.insert(change.path.clone(), change.before.clone());
        } else {
            let after = change.after.clone().unwrap_or_else(|| StateRow::NotKept {
                why: "what the last change before it left was never recorded".to_owned(),
            });
            states.insert(change.path.clone(), after);
        }
    }
    states
}

/// The paths that changes are of, each once.
pub(super) fn paths_of(changes: &[ChangeRow]) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = changes.iter().map(|change| change.path.path()).collect();
    paths.sort();
    paths.dedup();
    paths
}
