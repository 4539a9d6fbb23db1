//! FILE CHECKPOINTS: what tool calls did to files, and going back.
//!
//! The state before is committed ahead of a tool's write, so that no crash can lose an undo. A
//! restore point is a prompt or a tool call; rewinding to one looks at every change since. A rewind
//! is recorded before the first file is touched, and its own changes are recorded as any others
//! are: it can be undone, and rewound over.

mod aim;
mod apply;
mod at_prompts;
pub(super) mod binding;
mod capture;
mod changes;
mod compare;
mod contents;
mod course;
mod covered;
mod differ;
mod finish;
mod hunks;
mod keeping;
mod looking;
mod meanwhile;
mod moments;
mod note;
mod paths;
mod plan;
mod points;
mod reach;
mod record;
mod recover;
mod rewind;
mod roots;
mod stale;
mod states;
mod take;
mod unified;
mod watch;

pub use compare::{Comparison, ForkedFile};
pub use rewind::RewindPlan;
pub use take::TakeOptions;
pub use watch::Watch;

pub(crate) use crate::tables::file_changes::Bound;
pub(crate) use at_prompts::{AtPrompt, at_prompts};
pub(crate) use binding::launched_by;
pub(super) use capture::seen_late;
pub(super) use changes::{Sight, first_forked, is_copy, is_imported};
pub(crate) use covered::is_harmless;
pub(super) use note::notes;
pub(crate) use paths::resolve_path;
pub(super) use points::text_of;
pub(super) use reach::is_reach;

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::Store;
use super::session::Session;
use crate::db::Lock;
use crate::error::{Error, Result};
use crate::model::Operation;
use crate::tables::{file_changes, operations, rewinds, sessions};

/// How long a rewind waits for another one of the same store.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files that a session's tool calls changed: capturing them, and looking at how they were.
#[derive(Clone, Debug)]
pub struct Files {
    session: Session,
}

impl Session {
    /// Its files.
    pub fn files(&self) -> Files {
        Files {
            session: self.clone(),
        }
    }

    /// What was done to it, oldest first: creating, forks, rewinds, undos, settled calls.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted.
    pub fn operations(&self) -> Result<Vec<Operation>> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let mut found = operations::list(db, row.id)?;
            for operation in &mut found {
                with_outcome(db, operation)?;
            }
            Ok(found)
        })
    }
}

/// Adds how a rewind ended to the operation that it was.
pub(super) fn with_outcome(db: &Connection, operation: &mut Operation) -> Result<()> {
    if let Some(rewind) = rewinds::get(db, operation.id)? {
        operation.status = Some(rewind.status);
        operation.undone_by = rewinds::undone_by(db, operation.id)?;
    }
    Ok(())
}

impl Files {
    /// Whether the changes of this session's tool calls are kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn is_enabled(&self) -> Result<bool> {
        let store = self.session.store();
        store.db().read(|db| {
            let row = self.session.row(db)?;
            is_enabled(store, db, row.id)
        })
    }

    /// How many bytes of the store the contents take up that this session's changes name. What other
    /// sessions name too is counted for each.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn stored_bytes(&self) -> Result<u64> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            Ok(file_changes::stored_bytes(db, row.id)?)
        })
    }

    /// Turns checkpoints on or off for this session. What was kept before stays.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn set_enabled(&self, enabled: bool) -> Result<()> {
        self.session.write(|tx| {
            let row = tx.row()?;
            sessions::set_file_checkpoints(tx.tx(), row.id, enabled)?;
            let kind = if enabled {
                "checkpoints_on"
            } else {
                "checkpoints_off"
            };
            operations::insert(tx.tx(), row.id, kind, None, None)?;
            Ok(())
        })
    }
}

/// Whether the changes of a session's tool calls are kept: by this handle on the store, and at all.
fn is_enabled(store: &Store, db: &Connection, session: i64) -> Result<bool> {
    Ok(store.file_options().enabled && sessions::has_file_checkpoints(db, session)?)
}

impl Store {
    /// Takes the lock under which files are changed, after waiting for another rewind. The system
    /// drops it when the process dies.
    fn lock_rewinds(&self) -> Result<Lock> {
        let begun = Instant::now();
        loop {
            if let Some(lock) = self.db().try_lock_work()? {
                return Ok(lock);
            }
            if begun.elapsed() > PATIENCE {
                return Err(Error::Busy {
                    path: self.path().to_owned(),
                    waited: begun.elapsed(),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
