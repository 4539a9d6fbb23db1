//! Rewinding: plan, record, apply, finish.
//!
//! The plan touches nothing. Recording is one transaction: the plan is looked at again, and the
//! present content of everything that will be touched is stored. Then the files are changed, and
//! one transaction says so and moves the conversation. A process that dies in between, or cannot
//! record the end, leaves a row that says `unfinished`, from which whoever comes next goes on: an
//! open for writing, or a rewind, in the same process too.

use std::collections::HashMap;
use std::path::PathBuf;

use rusqlite::Connection;

use super::aim::Aim;
use super::apply::Applied;
use super::course::{Course, Ground};
use super::finish::Ended;
use super::record::record;
use super::{covered, stale};
use crate::error::{Error, Result};
use crate::model::{FileAction, FileOutcome, FileReport, Restore, RewindOptions, RewindReport};
use crate::store::feed::head_uuid;
use crate::store::session::Session;

/// What a rewind would do. Nothing was touched to make it.
#[derive(Clone, Debug)]
pub struct RewindPlan {
    pub(super) session: Session,
    pub(super) options: RewindOptions,
    pub(super) aim: Aim,
    pub(super) report: RewindReport,
    pub(super) course: Course,
}

impl RewindPlan {
    /// What it would do, path by path.
    pub fn report(&self) -> &RewindReport {
        &self.report
    }
}

impl Session {
    /// Looks what a rewind would do. Touches nothing, except to finish a rewind that was cut short.
    ///
    /// # Errors
    /// [`Error::NotEnabled`](crate::Error::NotEnabled) if checkpoints are off;
    /// [`Error::NoCheckpoint`](crate::Error::NoCheckpoint) if there is no such point;
    /// [`Error::Conflict`](crate::Error::Conflict) while a tool call of the session has no result,
    /// unless allowed, or if a rewind of it is unfinished and cannot be finished here.
    pub fn plan_rewind(&self, options: &RewindOptions) -> Result<RewindPlan> {
        self.store().recover_before(self.row_id())?;
        self.store()
            .db()
            .read(|db| plan(db, self, options, Aim::point(db, self, options)?))
    }

    /// Looks what undoing an operation would do; without one, the newest rewind that was not
    /// undone. Touches nothing. Undoing an undo is redoing.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if there is no such rewind or undo in this session;
    /// [`Error::Conflict`](crate::Error::Conflict) if none was named and an undo that had been cut
    /// short was finished instead; otherwise as [`Session::plan_rewind`].
    pub fn plan_undo(&self, operation: Option<i64>, options: &RewindOptions) -> Result<RewindPlan> {
        let recovered = self.store().recover_before(self.row_id())?;
        let undone = recovered.iter().rev().find(|ended| ended.has_undone());
        if let (None, Some(undone)) = (operation, undone) {
            // It is what was asked for, most likely; to go on would take another one back.
            let said = format!("{}; nothing else was undone", undone.said);
            return Err(Error::Conflict(said));
        }
        self.store().db().read(|db| {
            let (aim, options) = Aim::undo(db, self, operation, options)?;
            plan(db, self, &options, aim)
        })
    }

    /// Does what was planned, if everything is still as it was when it was planned.
    ///
    /// With files alone, what cannot be put back is left as it is, and the rest is done. With both,
    /// nothing is done then, unless the options accept a part. When this returns, files and
    /// conversation are durable; a process that dies before is recovered when the store is next
    /// opened for writing, or before its next rewind, undo or take.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if something changed since it was planned: nothing
    /// is touched then. [`Error::Busy`](crate::Error::Busy) while another rewind of this store is
    /// applied, after ten seconds. [`Error::Unrecorded`](crate::Error::Unrecorded) if it was begun, and
    /// the store (a full disk) could not record how it ended: files are changed then.
    pub fn rewind(&self, plan: &RewindPlan) -> Result<RewindReport> {
        if !plan.may_begin() {
            return Ok(plan.left());
        }
        let lock = self.store().lock_rewinds()?;
        if let Some(ended) = self.store().recover_under(&lock, self.row_id())?.first() {
            return Err(Error::Conflict(format!("{}; plan again", ended.said)));
        }
        let begun = self.write(|tx| record(tx, self, plan))?;
        let report = match begun {
            // Nothing is left to do.
            None => plan.settled(),
            Some((row, files)) => {
                let (applied, ended) = self.store().carry_out(&row, files, false)?;
                self.report(plan, row.operation, &applied, ended)?
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
        operation: i64,
        applied: &[Applied],
        ended: Ended,
    ) -> Result<RewindReport> {
        let mut report = plan.settled();
        report.operation = Some(operation);
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
        let files = &self.course.files;
        let leaves = files.iter().any(|file| file.report.action.leaves());
        let touches = files.iter().any(|file| file.report.action.touches());
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
) -> Result<RewindPlan> {
    let ground = Ground::of(db, session, options, &aim)?;
    let course = ground.course(db, session.store(), options, &aim, true)?;
    let Ground { row, history, .. } = &ground;
    let reports = course.files.iter().map(|file| file.report.clone());
    let reports: Vec<FileReport> = reports.collect();
    let conflicts = reports
        .iter()
        .filter(|file| file.action == FileAction::Conflict);
    let report = RewindReport {
        operation: None,
        restore: options.restore,
        conflicts: conflicts.map(|file| file.path.clone()).collect(),
        not_covered: match options.restore.files() {
            true => covered::not_covered(db, &ground, &aim)?,
            false => Vec::new(),
        },
        head: head_uuid(db, history, course.target.head)?,
        conversation_moved: course.target.head != course.head,
        removed_prompt: course.target.removed_prompt.clone(),
        stale_phases: stale::phases(db, session, row, options.restore, &reports)?,
        files: reports,
    };
    let mut plan = RewindPlan {
        session: session.clone(),
        options: options.clone(),
        aim,
        report,
        course,
    };
    if !plan.may_begin() {
        plan.report.head = head_uuid(db, history, plan.course.head)?;
        plan.report.conversation_moved = false;
        plan.report.removed_prompt = None;
        plan.report.stale_phases.clear();
    }
    Ok(plan)
}
