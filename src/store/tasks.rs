//! Tasks: a named list of phases within a session, each run once.
//!
//! A plan and what came of each phase are notes with reserved keys, so that a fork has those of its
//! cut and a branch its own. A phase's work runs outside any transaction: one before it claims the
//! phase, one behind it stores the result.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use super::phases::{Phase, PhaseError, PhaseRun, PhaseState};
use super::scratchpad::RESERVED;
use super::session::Session;
use super::tools::stable_id;
use super::write::SessionTx;
use crate::error::{Error, Result};
use crate::tables::phase_claims::{self as claims, ClaimRow, PhaseKey};

/// How long a claim on a phase holds without being renewed, unless told otherwise.
const CLAIM: Duration = Duration::from_secs(60);

/// A task: a list of phases that are run in order.
#[derive(Clone, Debug)]
pub struct Task {
    pub(super) session: Session,
    name: String,
    phases: Vec<String>,
    claim: Duration,
}

impl Session {
    /// A task with its plan: new, or taken up again.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it was begun with another plan, showing the difference;
    /// [`Self::replan`] accepts that. [`Error::Invalid`] for a blank name, no phase, or one twice.
    pub fn task<P: Into<String>>(
        &self,
        name: &str,
        phases: impl IntoIterator<Item = P>,
    ) -> Result<Task> {
        self.plan(name, phases.into_iter().map(Into::into).collect(), false)
    }

    /// A task with a changed plan. What came of phases that have the same name is kept.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank name, no phase, or one twice.
    pub fn replan<P: Into<String>>(
        &self,
        name: &str,
        phases: impl IntoIterator<Item = P>,
    ) -> Result<Task> {
        self.plan(name, phases.into_iter().map(Into::into).collect(), true)
    }

    /// The names of its tasks.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn tasks(&self) -> Result<Vec<String>> {
        let notes = self.scratchpad().reserved()?;
        let names = notes.keys().filter_map(|key| key.strip_prefix(PLAN));
        Ok(names.map(String::from).collect())
    }

    /// The phases of each task, as the library's own notes tell of them.
    pub(super) fn phases_in(
        &self,
        notes: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Vec<Phase>>> {
        let plans = notes
            .iter()
            .filter_map(|(key, plan)| Some((key.strip_prefix(PLAN)?, plan)));
        plans
            .map(|(name, plan)| {
                let task = self.task_of(name, read(plan.clone())?);
                Ok((name.to_owned(), task.phases_in(notes)?))
            })
            .collect()
    }

    /// A task that was begun, by its name.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    pub fn find_task(&self, name: &str) -> Result<Task> {
        let plan = self.scratchpad().get(&plan_key(name))?;
        let plan = plan.ok_or_else(|| Error::NotFound {
            what: "task",
            id: name.to_owned(),
        })?;
        Ok(self.task_of(name, read(plan)?))
    }

    fn plan(&self, name: &str, phases: Vec<String>, accept: bool) -> Result<Task> {
        if name.trim().is_empty() || phases.iter().any(|phase| phase.trim().is_empty()) {
            return Err(Error::invalid("task", "a name is blank"));
        }
        if phases.is_empty() {
            return Err(Error::invalid(format!("task `{name}`"), "it has no phase"));
        }
        if let Some(twice) = (1..phases.len()).find(|at| phases[..*at].contains(&phases[*at])) {
            let why = format!("phase `{}` is there twice", phases[twice]);
            return Err(Error::invalid(format!("task `{name}`"), why));
        }
        self.write(|tx| {
            let key = plan_key(name);
            match tx.noted(&key)?.map(read::<Vec<String>>).transpose()? {
                Some(before) if before == phases => Ok(()),
                Some(before) if !accept => Err(Error::Conflict(format!(
                    "task `{name}` was begun with another plan: {}",
                    difference(&before, &phases)
                ))),
                _ => tx.set_reserved(&key, &phases),
            }
        })?;
        Ok(self.task_of(name, phases))
    }

    fn task_of(&self, name: &str, phases: Vec<String>) -> Task {
        Task {
            session: self.clone(),
            name: name.to_owned(),
            phases,
            claim: CLAIM,
        }
    }
}

impl Task {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long a claim on a phase holds if its process dies; one minute by default. Work that takes
    /// longer renews it, see [`PhaseRun::renew`].
    pub fn claim_for(mut self, time: Duration) -> Self {
        self.claim = time;
        self
    }

    /// Its phases, in order, and what came of each.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn phases(&self) -> Result<Vec<Phase>> {
        self.phases_in(&self.session.scratchpad().reserved()?)
    }

    fn phases_in(&self, notes: &BTreeMap<String, Value>) -> Result<Vec<Phase>> {
        let of = |phase: &String| self.noted(phase, notes.get(&self.phase_key(phase)).cloned());
        self.phases.iter().map(of).collect()
    }

    /// Runs a phase, or hands back the result of one that is done. The work runs outside any
    /// transaction. If it, or its process, does not come to its end, the phase is run again by the
    /// next call, under the same idempotency key and with a higher attempt number.
    ///
    /// # Errors
    /// [`PhaseError::Work`] with the work's error, which is recorded. [`PhaseError::Store`] with
    /// [`Error::Conflict`] if another process runs this phase, or took it over because this one's
    /// claim lapsed; [`Error::Invalid`] if a phase before it is not done; [`Error::NotFound`] if
    /// the plan has no such phase.
    pub fn run<E: fmt::Display>(
        &self,
        phase: &str,
        work: impl FnOnce(&PhaseRun<'_>) -> Result<Value, E>,
    ) -> Result<Value, PhaseError<E>> {
        let run = match self.begin(phase)? {
            Begun::Done(result) => return Ok(result),
            Begun::Now(run) => run,
        };
        match work(&run) {
            Ok(result) => {
                run.change(|phase, now| {
                    phase.state = PhaseState::Done;
                    phase.finished_ms = Some(now);
                    phase.result = Some(result.clone());
                })?;
                Ok(result)
            }
            Err(error) => {
                let text = error.to_string();
                run.change(|phase, now| {
                    phase.state = PhaseState::Failed;
                    phase.finished_ms = Some(now);
                    phase.error = Some(text);
                })?;
                Err(PhaseError::Work(error))
            }
        }
    }

    fn begin(&self, name: &str) -> Result<Begun<'_>> {
        let place = self.phases.iter().position(|phase| phase == name);
        let place = place.ok_or_else(|| Error::NotFound {
            what: "phase",
            id: name.to_owned(),
        })?;
        self.session.write(|tx| {
            for before in &self.phases[..place] {
                if self.find(tx, before)?.state != PhaseState::Done {
                    let why = format!("phase `{before}`, which comes before it, is not done");
                    return Err(Error::invalid(format!("phase `{name}`"), why));
                }
            }
            let mut phase = self.find(tx, name)?;
            if phase.state == PhaseState::Done {
                return Ok(Begun::Done(phase.result.unwrap_or_default()));
            }
            let now = tx.tx().now_ms();
            let key = self.claim_key(name);
            if let Some(claim) = claims::find(tx.tx(), key)?.filter(|claim| claim.expires_ms > now)
            {
                return Err(Error::Conflict(format!(
                    "phase `{name}` is run by another process, or was by one that died; its claim holds for {:.1} s more",
                    Duration::from_millis(claim.expires_ms.abs_diff(now)).as_secs_f64()
                )));
            }
            let holder = Uuid::new_v4().to_string();
            let run = PhaseRun {
                task: self,
                holder: holder.clone(),
                name: name.to_owned(),
                attempt: phase.attempt + 1,
                idempotency_key: self.idempotency_key(name),
                was_interrupted: phase.state == PhaseState::Begun,
            };
            claims::save(tx.tx(), key, &self.claim(holder, now))?;
            phase = Phase {
                state: PhaseState::Begun,
                attempt: run.attempt,
                started_ms: Some(now),
                ..self.waiting(name)
            };
            tx.set_reserved(&self.phase_key(name), &phase)?;
            Ok(Begun::Now(run))
        })
    }

    /// Under which the claim on a phase stands.
    pub(super) fn claim_key<'a>(&'a self, phase: &'a str) -> PhaseKey<'a> {
        (self.session.row_id(), &self.name, phase)
    }

    pub(super) fn claim(&self, holder: String, now: i64) -> ClaimRow {
        let time = i64::try_from(self.claim.as_millis()).unwrap_or(i64::MAX);
        ClaimRow {
            holder,
            expires_ms: now.saturating_add(time),
        }
    }

    pub(super) fn find(&self, tx: &SessionTx<'_, '_>, phase: &str) -> Result<Phase> {
        self.noted(phase, tx.noted(&self.phase_key(phase))?)
    }

    /// A phase as noted, in a fork perhaps by its origin.
    fn noted(&self, phase: &str, note: Option<Value>) -> Result<Phase> {
        let waiting = self.waiting(phase);
        let Some(note) = note else {
            return Ok(waiting);
        };
        Ok(Phase {
            idempotency_key: waiting.idempotency_key,
            ..read(note)?
        })
    }

    fn waiting(&self, phase: &str) -> Phase {
        Phase {
            name: phase.to_owned(),
            state: PhaseState::Waiting,
            attempt: 0,
            idempotency_key: self.idempotency_key(phase),
            started_ms: None,
            finished_ms: None,
            result: None,
            error: None,
            changes: Vec::new(),
        }
    }

    /// The note that tells of a phase. An array, so that no two pairs of names share one.
    pub(super) fn phase_key(&self, phase: &str) -> String {
        format!(
            "{RESERVED}phase:{}",
            Value::from(vec![self.name.as_str(), phase])
        )
    }

    /// A fork runs its phases for itself, so its keys are its own.
    fn idempotency_key(&self, phase: &str) -> String {
        let key = self.session.key();
        stable_id(&[&key.project_key, &key.session_id, &self.name, phase])
    }
}

enum Begun<'t> {
    Done(Value),
    Now(PhaseRun<'t>),
}

const PLAN: &str = "turnkeep:plan:";

fn plan_key(task: &str) -> String {
    format!("{PLAN}{task}")
}

fn read<T: serde::de::DeserializeOwned>(note: Value) -> Result<T> {
    serde_json::from_value(note).map_err(|error| Error::Storage(Box::new(error)))
}

/// What differs between two plans, in words.
fn difference(before: &[String], after: &[String]) -> String {
    let only = |of: &[String], other: &[String], sign: &str| {
        let names = of.iter().filter(|name| !other.contains(name));
        names
            .map(|name| format!("{sign}{name}"))
            .collect::<Vec<_>>()
    };
    let mut changes = only(before, after, "-");
    changes.extend(only(after, before, "+"));
    if changes.is_empty() {
        changes.push("another order".to_owned());
    }
    format!(
        "{} (was {}; now {})",
        changes.join(" "),
        before.join(", "),
        after.join(", ")
    )
}
