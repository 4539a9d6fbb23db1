//! What others did to files while a command was watched: it is theirs, and never taken for the
//! command's, so that to rewind the command does not take it back.

use rusqlite::Connection;

use super::capture::AT_WORK_MS;
use crate::error::Result;
use crate::model::Watched;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions;
use crate::tables::watched_calls::{self, Since};
use crate::workspace::path::is_within;

/// What of a difference that was seen is the command's own.
pub(super) enum Own {
    /// All of it.
    All,
    /// What came behind the last change by others, which left this.
    From(StateRow),
    /// Nothing.
    Nothing,
    /// Nobody knows: another call is not over.
    Unknown,
}

/// Tells what is a watched command's own.
pub(super) struct Meanwhile<'a> {
    db: &'a Connection,
    call: (i64, &'a str),
    since: Option<Since>,
    /// How many files each of the others changed, in the order in which they were met.
    theirs: Vec<(i64, usize)>,
}

impl<'a> Meanwhile<'a> {
    pub(super) fn of(db: &'a Connection, call: (i64, &'a str), since: Option<Since>) -> Self {
        Self {
            db,
            call,
            since,
            theirs: Vec::new(),
        }
    }

    /// What of the way of a path to what was seen at last is the command's.
    pub(super) fn own(&mut self, path: &PathRow, is: &StateRow) -> Result<Own> {
        let Some(since) = self.since else {
            return Ok(Own::All);
        };
        let others = file_changes::meanwhile(self.db, path, self.call, since, AT_WORK_MS)?;
        let Some(last) = others.last() else {
            return Ok(Own::All);
        };
        let met = |change: &ChangeRow| {
            change.before.is(is) || change.after.as_ref().is_some_and(|after| after.is(is))
        };
        if others.iter().any(|change| change.after.is_none()) {
            return Ok(Own::Unknown);
        }
        if others.iter().any(met) {
            match self
                .theirs
                .iter_mut()
                .find(|(known, _)| *known == last.session)
            {
                Some((_, count)) => *count += 1,
                None => self.theirs.push((last.session, 1)),
            }
            return Ok(Own::Nothing);
        }
        Ok(last.after.clone().map_or(Own::Unknown, Own::From))
    }

    /// Says what others did in a folder.
    pub(super) fn warn(self, root: &PathRow, watched: &mut Watched) -> Result<()> {
        for &(session, count) in &self.theirs {
            let who = self.name(session)?;
            watched.warnings.push(format!(
                "{count} file(s) were changed by {who} meanwhile, and are recorded as its own"
            ));
        }
        let (session, tool_use_id) = self.call;
        let root = root.path();
        for (session, other) in watched_calls::open_of_others(self.db, session, tool_use_id)? {
            let other = other.path();
            if is_within(&root, &other) || is_within(&other, &root) {
                let who = self.name(session)?;
                watched.warnings.push(format!(
                    "a command of {who} is being watched in {} too: what it changes cannot be told from what this one does",
                    other.display()
                ));
            }
        }
        Ok(())
    }

    fn name(&self, session: i64) -> Result<String> {
        if session == self.call.0 {
            return Ok("another call of this session".to_owned());
        }
        let row = sessions::find_any(self.db, session)?;
        Ok(row.map_or_else(
            || "another session".to_owned(),
            |row| format!("session `{}`", row.key),
        ))
    }
}
