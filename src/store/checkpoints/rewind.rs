//! Rewinding: plan, record, apply, finish.
//!
//! The plan touches nothing. Recording is one transaction: the plan is looked at again, and the
//! present content of everything that will be touched is stored. Then the files are changed, and
//! one transaction says so and moves the conversation. A process that dies in between leaves a row
//! that says `unfinished`, from which the next one that opens the store goes on.

use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::aim::Aim;
use super::apply::{Applied, apply};
use super::plan::{Bounds, PlannedFile, judge};
use super::record::record;
use super::roots::{real_folder, roots_of};
use super::{covered, finish, is_enabled, stale};
use crate::error::{Error, Result};
use crate::model::{FileAction, FileOutcome, FileReport, Restore, RewindOptions, RewindReport};
use crate::store::Store;
use crate::store::feed::head_uuid;
use crate::store::history::History;
use crate::store::session::Session;
use crate::store::tools::{calls, pending_of};
use crate::tables::rewinds::RewindRow;
use crate::tables::sessions::SessionRow;
use crate::tables::transcripts;

/// What a rewind would do. Nothing was touched to make it.
#[derive(Clone, Debug)]
pub struct RewindPlan {
    pub(super) session: Session,
    pub(super) options: RewindOptions,
    pub(super) aim: Aim,
    pub(super) report: RewindReport,
    pub(super) files: Vec<PlannedFile>,
    pub(super) head: Option<i64>,
}

impl RewindPlan {
    /// What it would do, path by path.
    pub fn report(&self) -> &RewindReport {
        &self.report
    }
}

impl Session {
    /// Looks what a rewind would do. Touches nothing.
    ///
    /// # Errors
    /// [`Error::NotEnabled`] if checkpoints are off; [`Error::NoCheckpoint`] if there is no such
    /// point; [`Error::Conflict`] while a tool call of the session has no result, unless allowed.
    pub fn plan_rewind(&self, options: &RewindOptions) -> Result<RewindPlan> {
        self.store()
            .db()
            .read(|db| plan(db, self, options, Aim::point(db, self, options)?, true))
    }

    /// Looks what undoing an operation would do; without one, the newest rewind that was not
    /// undone. Touches nothing. Undoing an undo is redoing.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such rewind or undo in this session; otherwise as
    /// [`Session::plan_rewind`].
    pub fn plan_undo(&self, operation: Option<i64>, options: &RewindOptions) -> Result<RewindPlan> {
        self.store().db().read(|db| {
            let (aim, options) = Aim::undo(db, self, operation, options)?;
            plan(db, self, &options, aim, true)
        })
    }

    /// Does what was planned, if everything is still as it was when it was planned.
    ///
    /// With files alone, what cannot be put back is left as it is, and the rest is done. With both,
    /// nothing is done then, unless the options accept a part. When this returns, files and
    /// conversation are durable; a process that dies before is recovered when the store is next
    /// opened for writing.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something changed since it was planned: nothing is touched then.
    /// [`Error::Busy`] while another rewind of this store is applied, after ten seconds.
    pub fn rewind(&self, plan: &RewindPlan) -> Result<RewindReport> {
        if !plan.may_begin() {
            return Ok(plan.left());
        }
        let lock = self.store().lock_rewinds()?;
        let begun = self.write(|tx| record(tx, self, plan))?;
        let report = match begun {
            // Nothing is left to do.
            None => plan.settled(),
            Some((row, files)) => {
                let whole = plan.options.restore == Restore::Both && !plan.options.accept_part;
                let applied = apply(self.store(), files, whole, false)?;
                self.report(plan, &row, applied)?
            }
        };
        drop(lock);
        Ok(report)
    }

    /// Plans an undo and does it: see [`Session::plan_undo`] and [`Session::rewind`].
    ///
    /// # Errors
    /// Those of both.
    pub fn undo(&self, operation: Option<i64>) -> Result<RewindReport> {
        self.rewind(&self.plan_undo(operation, &RewindOptions::to(""))?)
    }

    fn report(
        &self,
        plan: &RewindPlan,
        row: &RewindRow,
        applied: Vec<Applied>,
    ) -> Result<RewindReport> {
        let ended = finish::finish(self.store(), row, &applied)?;
        let mut report = plan.settled();
        report.operation = Some(row.operation);
        report.head = ended.head;
        report.conversation_moved = ended.conversation_moved;
        if !ended.conversation_moved {
            report.removed_prompt = None;
        }
        let by_path: HashMap<PathBuf, &Applied> = applied
            .iter()
            .map(|applied| (applied.file.path.path(), applied))
            .collect();
        for file in &mut report.files {
            if let Some(applied) = by_path.get(&file.path) {
                file.outcome = applied.outcome;
                file.reason = applied.reason.clone();
            }
        }
        if !report.stale_phases.is_empty() {
            // What was planned and then not done makes no phase stale.
            report.stale_phases = self.store().db().read(|db| {
                let row = self.row(db)?;
                stale::phases(db, self, &row, plan.options.restore, &report.files)
            })?;
        }
        Ok(report)
    }
}

impl RewindPlan {
    /// Whether there is anything to do: with both, one file that is left stops everything.
    fn may_begin(&self) -> bool {
        let leaves = self.files.iter().any(|file| file.report.action.leaves());
        let touches = self.files.iter().any(|file| file.report.action.touches());
        match self.options.restore {
            Restore::Files => touches || !leaves,
            Restore::Conversation => true,
            Restore::Both => !leaves || self.options.accept_part,
        }
    }

    /// The report of a rewind that did not begin.
    fn left(&self) -> RewindReport {
        let mut report = self.report.clone();
        for file in &mut report.files {
            file.outcome = match file.action {
                FileAction::Unchanged => FileOutcome::Done,
                _ => FileOutcome::Left,
            };
        }
        report
    }

    /// The report, with what came of each file that needs no hand.
    fn settled(&self) -> RewindReport {
        let mut report = self.report.clone();
        for file in &mut report.files {
            file.outcome = match file.action.leaves() {
                true => FileOutcome::Left,
                false => FileOutcome::Done,
            };
        }
        report
    }
}

/// Makes a plan, within whatever transaction `db` is in.
pub(super) fn plan(
    db: &Connection,
    session: &Session,
    options: &RewindOptions,
    aim: Aim,
    counts_lines: bool,
) -> Result<RewindPlan> {
    let row = session.row(db)?;
    let history = History::of(db, &row, "")?;
    let file_options = session.store().file_options();
    check_may(db, session.store(), &row, &history, options)?;
    let head = transcripts::head(db, row.id, "")?;
    let target = aim.target(db, &row, &history, head, options.restore)?;
    let files = if options.restore.files() {
        let mut roots = roots_of(db, &row, &history)?;
        for root in &options.roots {
            roots.push(real_folder(None, root)?);
        }
        let base = super::roots::base_of(&row);
        let only = options.only.iter();
        let bounds = Bounds {
            store: session.store().path(),
            roots,
            own_files: session.store().own_files(),
            options: file_options,
            force: options.force,
            counts_lines,
            only: only
                .map(|path| super::paths::resolve(base.as_deref(), path))
                .collect::<Result<_>>()?,
        };
        judge(db, aim.wanted(db, &history)?, &bounds)?
    } else {
        Vec::new()
    };
    let reports: Vec<FileReport> = files.iter().map(|file| file.report.clone()).collect();
    let conflicts = reports
        .iter()
        .filter(|file| file.action == FileAction::Conflict);
    let report = RewindReport {
        operation: None,
        restore: options.restore,
        conflicts: conflicts.map(|file| file.path.clone()).collect(),
        not_covered: match options.restore.files() {
            true => covered::not_covered(db, &history, &aim)?,
            false => Vec::new(),
        },
        head: head_uuid(db, &history, target.head)?,
        conversation_moved: target.head != head,
        removed_prompt: target.removed_prompt.clone(),
        stale_phases: stale::phases(db, session, &row, options.restore, &reports)?,
        files: reports,
    };
    let mut plan = RewindPlan {
        session: session.clone(),
        options: options.clone(),
        aim,
        report,
        files,
        head,
    };
    if !plan.may_begin() {
        plan.report.head = head_uuid(db, &history, head)?;
        plan.report.conversation_moved = false;
        plan.report.removed_prompt = None;
        plan.report.stale_phases.clear();
    }
    Ok(plan)
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
