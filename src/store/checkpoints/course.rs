//! The course of a rewind: what is to be done to each file, and where the conversation is to end, as
//! the store and the disk are at one moment.
//!
//! It is looked for when the rewind is planned, and once more within the transaction that records it:
//! only what is still the same is done.

use rusqlite::Connection;

use super::aim::{Aim, Target};
use super::changes::visible;
use super::is_enabled;
use super::paths::resolve;
use super::plan::{Bounds, PlannedFile, judge};
use super::roots::{base_of, real_folder, roots_of};
use crate::error::{Error, Result};
use crate::model::RewindOptions;
use crate::store::Store;
use crate::store::history::History;
use crate::store::session::Session;
use crate::store::tools::{calls, pending_of};
use crate::tables::file_changes::ChangeRow;
use crate::tables::sessions::SessionRow;
use crate::tables::transcripts;
use crate::workspace::excludes::Excludes;

/// The session that is rewound, as it was read.
pub(super) struct Ground {
    pub(super) row: SessionRow,
    pub(super) history: History,
    /// The changes that it shows, where files go back to a restore point.
    pub(super) changes: Vec<ChangeRow>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) struct Course {
    pub(super) files: Vec<PlannedFile>,
    /// Where the conversation ends now, and where it is to end.
    pub(super) head: Option<i64>,
    pub(super) target: Target,
}

impl Ground {
    pub(super) fn of(
        db: &Connection,
        session: &Session,
        options: &RewindOptions,
        aim: &Aim,
    ) -> Result<Self> {
        let row = session.row(db)?;
        let history = History::of(db, &row, "")?;
        let changes = match aim {
            Aim::Point { .. } if options.restore.files() => visible(db, &history)?,
            _ => Vec::new(),
        };
        Ok(Self {
            row,
            history,
            changes,
        })
    }

    /// Looks at the files, within whatever transaction `db` is in.
    pub(super) fn course(
        &self,
        db: &Connection,
        store: &Store,
        options: &RewindOptions,
        aim: &Aim,
        counts_lines: bool,
    ) -> Result<Course> {
        let Self { row, history, .. } = self;
        check_may(db, store, row, history, options)?;
        let head = transcripts::head(db, row.id, "")?;
        let target = aim.target(db, row, history, head, options.restore)?;
        let files = if options.restore.files() {
            let mut roots = roots_of(db, row, history)?;
            for root in &options.roots {
                roots.push(real_folder(None, root)?);
            }
            let base = base_of(row);
            let only = options.only.iter();
            let bounds = Bounds {
                store: store.path(),
                roots,
                own_files: store.own_files(),
                options: store.file_options(),
                excludes: Excludes::new(&store.file_options().exclude)?,
                force: options.force,
                counts_lines,
                only: only
                    .map(|path| resolve(base.as_deref(), path))
                    .collect::<Result<_>>()?,
            };
            judge(db, aim.wanted(db, history, &self.changes)?, &bounds)?
        } else {
            Vec::new()
        };
        Ok(Course {
            files,
            head,
            target,
        })
    }
}

impl Course {
    /// Whether a later look came to the same.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        let mut files = self.files.iter().zip(&now.files);
        self.files.len() == now.files.len()
            && self.head == now.head
            && self.target.head == now.target.head
            && files.all(|(before, now)| before.is_still(now))
    }
}

/// Refuses where checkpoints are off, and while a call is open.
fn check_may(
    db: &Connection,
    store: &Store,
    session: &SessionRow,
    history: &History,
    options: &RewindOptions,
) -> Result<()> {
    if options.restore.files() && !is_enabled(store, db, session.id)? {
        return Err(Error::NotEnabled);
    }
    if options.while_pending {
        return Ok(());
    }
    let pending = pending_of(calls(db, session, history)?);
    let Some(first) = pending.first() else {
        return Ok(());
    };
    Err(Error::Conflict(format!(
        "{} tool call(s) of the session have no result, the first is `{}` ({}); settle them, or go on while they are pending",
        pending.len(),
        first.id,
        first.name
    )))
}
