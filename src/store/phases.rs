//! A phase of a task: what came of it, and what its work may tell while it runs.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tasks::Task;
use super::write::SessionTx;
use crate::error::{Error, Result};
use crate::tables::phase_claims as claims;

/// How a phase stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PhaseState {
    /// It never began.
    Waiting,
    /// It began and did not finish: it is running, or its process died.
    Begun,
    /// It is done; its result is recorded.
    Done,
    /// It failed; its error is recorded. The next run tries it again.
    Failed,
}

/// A phase and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: PhaseState,
    /// How often it was begun.
    pub attempt: u32,
    /// The same for every attempt: for outside calls that must have effect once.
    pub idempotency_key: String,
    /// When its last attempt began, in epoch milliseconds.
    pub started_ms: Option<i64>,
    /// When that finished or failed.
    pub finished_ms: Option<i64>,
    /// What it returned.
    pub result: Option<Value>,
    /// What it failed with.
    pub error: Option<String>,
    /// What it noted to have changed.
    pub changes: Vec<Value>,
}

/// A phase that is being run: what its work may know and tell.
#[derive(Debug)]
pub struct PhaseRun<'t> {
    pub(super) task: &'t Task,
    pub(super) holder: String,
    /// The phase's name.
    pub name: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The same for every attempt: for outside calls that must have effect once.
    pub idempotency_key: String,
    /// Whether an attempt before this one began and never finished: its effects are unknown.
    pub was_interrupted: bool,
}

/// Why a phase was not run to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum PhaseError<E> {
    /// Its work failed; the error is recorded, and the task stops here until the next run.
    Work(E),
    /// The store refused.
    Store(Error),
}

impl<E> From<Error> for PhaseError<E> {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for PhaseError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(error) => error.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for PhaseError<E> {}

impl PhaseRun<'_> {
    /// Records something that the phase changed.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another process took the phase over.
    pub fn note_change(&self, change: impl Into<Value>) -> Result<()> {
        self.change(|phase, _| phase.changes.push(change.into()))
    }

    /// Holds the claim for its whole time again.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another process took the phase over.
    pub fn renew(&self) -> Result<()> {
        self.task.session.write(|tx| self.hold(tx))
    }

    fn hold(&self, tx: &SessionTx<'_, '_>) -> Result<()> {
        let key = self.task.claim_key(&self.name);
        let mine = claims::find(tx.tx(), key)?.is_some_and(|claim| claim.holder == self.holder);
        if !mine {
            return Err(Error::Conflict(format!(
                "phase `{}` was taken over by another process; nothing was recorded",
                self.name
            )));
        }
        let claim = self.task.claim(self.holder.clone(), tx.tx().now_ms());
        Ok(claims::save(tx.tx(), key, &claim)?)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Phase, i64)) -> Result<()> {
        self.task.session.write(|tx| {
            self.hold(tx)?;
            let mut phase = self.task.find(tx, &self.name)?;
            change(&mut phase, tx.tx().now_ms());
            if phase.state != PhaseState::Begun {
                claims::delete(tx.tx(), self.task.claim_key(&self.name))?;
            }
            tx.set_reserved(&self.task.phase_key(&self.name), &phase)
        })
    }
}
