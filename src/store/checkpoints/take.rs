//! Taking a file over from another session: its state is written through the machinery of a rewind,
//! so that it is recorded ahead, recovered after a crash, and can be undone.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Files;
use super::aim::Aim;
use super::changes::Sight;
use super::compare::Left;
use super::paths::resolve;
use super::plan::Wanted;
use super::rewind::{RewindPlan, plan};
use super::roots::base_of;
use crate::error::{Error, Result};
use crate::model::{Restore, RewindOptions, RewindReport};
use crate::store::history::History;
use crate::store::session::Session;
use crate::tables::file_changes;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions;

/// What is taken over.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    path: PathRow,
    target: StateRow,
    /// The session it is taken from.
    other: i64,
    pub(super) name: String,
}

/// Which file to take over, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOptions {
    path: PathBuf,
    point: Option<String>,
    rewind: RewindOptions,
}

impl TakeOptions {
    /// This file, as the other session left it last. Relative paths are seen from the cwd of the
    /// session that takes it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            point: None,
            rewind: RewindOptions::to("").restore(Restore::Files),
        }
    }

    /// As it was at a restore point, or before or after an operation, of the other session.
    pub fn at(mut self, point: impl Into<String>) -> Self {
        self.point = Some(point.into());
        self
    }

    /// Allows a file below this folder to be written, beside those below the session's own roots.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.rewind = self.rewind.root(folder);
        self
    }

    /// Takes it over what was changed outside, or by a third session; that is kept first.
    pub fn force(mut self, force: bool) -> Self {
        self.rewind = self.rewind.force(force);
        self
    }

    /// Goes on although a tool call of the session has no result yet.
    pub fn while_pending(mut self, anyway: bool) -> Self {
        self.rewind = self.rewind.while_pending(anyway);
        self
    }

    /// Who asked, for the log.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.rewind = self.rewind.by(who);
        self
    }
}

impl Files {
    /// Looks what taking a file over from another session would do. Touches nothing; do it with
    /// [`Session::rewind`](crate::Session::rewind).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the other session never changed the file; [`Error::NoCheckpoint`] if it
    /// has no such point; otherwise as [`Session::plan_rewind`](crate::Session::plan_rewind).
    pub fn plan_take(&self, from: &Session, options: &TakeOptions) -> Result<RewindPlan> {
        if self.session.store().path() != from.store().path() {
            let why = "the other session is in another store";
            return Err(Error::invalid("take", why));
        }
        self.session.store().recover_before(self.session.row_id())?;
        self.session.store().db().read(|db| {
            let own = Left::of(db, &self.session)?;
            let there = Left::at(db, from, options.point.as_deref())?;
            let path = resolve(base_of(&own.row).as_deref(), &options.path)?;
            let source = own.in_other(&there, &path);
            let target = there.state(&source).ok_or_else(|| Error::NotFound {
                what: "change of the file in the other session",
                id: source.display().to_string(),
            })?;
            let name = match &options.point {
                Some(point) => format!("{} at {point}", from.key()),
                None => from.key().to_string(),
            };
            let taken = Taken {
                path: PathRow::of(&path),
                target: target.clone(),
                other: from.row_id(),
                name,
            };
            plan(
                db,
                &self.session,
                &options.rewind,
                Aim::Take(Box::new(taken)),
            )
        })
    }

    /// Takes a file over as another session left it, as a change of its own kind that is recorded,
    /// recovered and undone like a rewind. What lies there now is kept first; a file that somebody
    /// else changed is left alone and reported as a conflict.
    ///
    /// # Errors
    /// As [`Files::plan_take`] and [`Session::rewind`](crate::Session::rewind).
    pub fn take(
        &self,
        path: impl AsRef<Path>,
        from: &Session,
        point: Option<&str>,
    ) -> Result<RewindReport> {
        let mut options = TakeOptions::file(path.as_ref());
        options.point = point.map(String::from);
        self.session.rewind(&self.plan_take(from, &options)?)
    }
}

impl Taken {
    /// What the path is to become, and whether it may: what lies there must be what one of the two
    /// sessions left, or nothing that was ever recorded.
    pub(super) fn wanted(&self, db: &Connection, history: &History) -> Result<Vec<Wanted>> {
        let last = file_changes::last_of_path(db, &self.path)?;
        let conflict = match &last {
            Some(last) => {
                let is_own = Sight::of(db, history)?.shows(db, last)?;
                let other = sessions::find_row(db, self.other)?;
                let is_theirs = match other {
                    Some(other) => {
                        let history = History::of(db, &other, "")?;
                        Sight::of(db, &history)?.shows(db, last)?
                    }
                    None => false,
                };
                (!is_own && !is_theirs).then(|| "a third session changed it last".to_owned())
            }
            None => None,
        };
        let expected = match last {
            Some(last) => last.after,
            None => Some(StateRow::Absent),
        };
        Ok(vec![Wanted {
            path: self.path.clone(),
            target: self.target.clone(),
            expected,
            conflict,
            made_folders: 0,
        }])
    }
}
