//! Replaying the changes of a path, and whose each line is.
//!
//! Lines that a state shares with the one before it keep their origin; the others belong to the
//! change that left it, or to somebody outside if they were found ahead of a change. A rewind writes
//! nothing of its own: lines come back with the origin that they had; so they do by an imported change
//! that nobody in the session made, whose other lines are somebody's outside. What another path loses in the
//! same call or turn, and this one holds mostly from then on, was moved here with its lines.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::contents::Contents;
use super::effects::in_order;
use crate::error::Result;
use crate::model::ChangeSource;
use crate::store::checkpoints::is_imported;
use crate::tables::audit::{left_elsewhere, losses, lost};
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::{PathRow, StateRow};
use crate::workspace::line_diff::{likeness, shared};
use crate::workspace::lines::lines;

/// How much of two files must be the same for one to be the other under a new name.
const ALIKE: f64 = 0.5;

/// How many files that a turn lost are looked at for the one that was moved.
const CANDIDATES: usize = 50;

/// How many moves of one file are followed back.
const MOVES: usize = 100;

/// Whose a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whose {
    Change(i64),
    BeforeTracking,
    /// Found ahead of this change.
    Outside(i64),
    /// Found now.
    OutsideNow,
    NotKept(i64),
}

/// A content, and whose each of its lines is.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) content: Rc<[u8]>,
    pub(super) whose: Rc<[Whose]>,
}

impl Version {
    fn all(content: Rc<[u8]>, whose: Whose) -> Self {
        let whose = vec![whose; lines(&content).len()].into();
        Self { content, whose }
    }

    /// Another content: what it shares with this one keeps its origin.
    pub(super) fn becomes(&self, content: Rc<[u8]>, whose: Whose) -> Self {
        if self.content == content {
            return self.clone();
        }
        let mut all = vec![whose; lines(&content).len()];
        for run in shared(&self.content, &content) {
            all[run.to..run.to + run.len].copy_from_slice(&self.whose[run.from..][..run.len]);
        }
        Self {
            content,
            whose: all.into(),
        }
    }
}

impl Version {
    /// Another version, in which what it shares with this one has the origins of this one.
    fn joins(&self, other: &Self) -> Self {
        let mut whose = other.whose.to_vec();
        for run in shared(&self.content, &other.content) {
            whose[run.to..run.to + run.len].copy_from_slice(&self.whose[run.from..][..run.len]);
        }
        Self {
            content: other.content.clone(),
            whose: whose.into(),
        }
    }
}

/// Whether nobody in the session made a change: its transcript tells of no call that could.
fn is_nobodys(change: &ChangeRow) -> bool {
    is_imported(change) && change.turn.is_none() && change.tool_use_id.is_none()
}

/// Where a replay has come to.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    /// What lies there; `None` for no file.
    pub(super) version: Option<Version>,
    /// The state that was recorded last.
    pub(super) state: StateRow,
    /// The change that tells of it.
    by: i64,
}

/// Replays paths.
pub(super) struct Replay<'c, 'd> {
    contents: &'c Contents<'d>,
    /// The moves that were looked into, by the change that they came with, and what came of it. One
    /// that is still being looked into has no answer yet: no file is its own origin.
    moves: HashMap<i64, Option<Version>>,
}

impl<'c, 'd> Replay<'c, 'd> {
    pub(super) fn new(contents: &'c Contents<'d>) -> Self {
        Self {
            contents,
            moves: HashMap::new(),
        }
    }

    /// A path as its changes left it, those from the change `until` on left out; `None` if there
    /// are none.
    pub(super) fn path(&mut self, path: &PathRow, until: Option<i64>) -> Result<Option<Replayed>> {
        let rows = file_changes::of_path(self.contents.db, path, 0)?;
        let chain = in_order(&self.contents.copies, rows)?;
        let end = until.and_then(|until| chain.iter().position(|change| change.id == until));
        let chain = &chain[..end.unwrap_or(chain.len())];
        let mut now: Option<Replayed> = None;
        // What rewinds brought back is remembered, as it was when it was last there.
        let restored: HashSet<i64> = chain
            .iter()
            .filter(|change| {
                ChangeSource::from_word(&change.source).restores() || is_nobodys(change)
            })
            .filter_map(|change| change.after.as_ref()?.blob())
            .collect();
        let mut known: HashMap<i64, Version> = HashMap::new();
        for change in chain {
            let before = self.found(now.take(), change)?;
            if let (Some(version), Some(blob)) = (&before.version, before.state.blob())
                && restored.contains(&blob)
            {
                known.insert(blob, version.clone());
            }
            let after = self.left(before, change, &known)?;
            if let (Some(version), Some(blob)) = (&after.version, after.state.blob())
                && restored.contains(&blob)
            {
                known.insert(blob, version.clone());
            }
            now = Some(after);
        }
        Ok(now)
    }

    /// What lay there ahead of a change, given what the last one left.
    fn found(&self, last: Option<Replayed>, change: &ChangeRow) -> Result<Replayed> {
        let state = change.before.clone();
        let content = match &state {
            StateRow::File { blob, .. } => self.contents.get(*blob)?,
            // What is not kept may be what was left; what comes next tells.
            StateRow::NotKept { .. } => None,
            _ => {
                return Ok(Replayed {
                    version: None,
                    state,
                    by: change.id,
                });
            }
        };
        let whose = match &last {
            None => Whose::BeforeTracking,
            Some(last) if matches!(last.state, StateRow::NotKept { .. }) => Whose::NotKept(last.by),
            Some(_) => Whose::Outside(change.id),
        };
        let version = match (content, last.and_then(|last| last.version)) {
            (Some(content), Some(version)) => Some(version.becomes(content, whose)),
            (Some(content), None) => Some(Version::all(content, whose)),
            (None, version) => version,
        };
        Ok(Replayed {
            version,
            state,
            by: change.id,
        })
    }

    /// What a change left.
    fn left(
        &mut self,
        before: Replayed,
        change: &ChangeRow,
        known: &HashMap<i64, Version>,
    ) -> Result<Replayed> {
        let Some(state) = change.after.clone() else {
            return Ok(before);
        };
        let by = change.id;
        let content = match &state {
            StateRow::File { blob, .. } => self.contents.get(*blob)?.map(|bytes| (*blob, bytes)),
            StateRow::NotKept { .. } => None,
            _ => {
                return Ok(Replayed {
                    version: None,
                    state,
                    by,
                });
            }
        };
        let Some((blob, content)) = content else {
            // What comes next is compared with what was there last.
            return Ok(Replayed {
                version: before.version,
                state: StateRow::NotKept { why: String::new() },
                by,
            });
        };
        let restores = ChangeSource::from_word(&change.source).restores();
        let is_nobodys = is_nobodys(change);
        let whose = match &before.state {
            StateRow::NotKept { .. } => Whose::NotKept(change.id),
            _ if is_nobodys => Whose::Outside(change.id),
            _ => Whose::Change(change.id),
        };
        let brought_back = known.get(&blob).filter(|_| restores || is_nobodys);
        let version = match (brought_back, before.version) {
            (Some(version), _) => version.clone(),
            (None, Some(here)) if here.content == content => here,
            (None, Some(here)) => {
                let is_alike = !restores && likeness(&here.content, &content) >= ALIKE;
                match self.moved(change, blob, &content, is_alike)? {
                    // What was here already stays whose it was, the rest is whose it was there.
                    Some(there) if restores || is_alike => here.joins(&there),
                    Some(there) => there.becomes(content, whose),
                    None => here.becomes(content, whose),
                }
            }
            (None, None) => match self.moved(change, blob, &content, false)? {
                Some(there) => there.becomes(content, whose),
                None => Version::all(content, whose),
            },
        };
        let version = Some(version);
        Ok(Replayed { version, state, by })
    }

    /// The file that was moved here by a change, or taken over: as it was where it was. If only `exact`
    /// moves count, one that held just what lies here now.
    fn moved(
        &mut self,
        change: &ChangeRow,
        blob: i64,
        content: &Rc<[u8]>,
        exact: bool,
    ) -> Result<Option<Version>> {
        if is_nobodys(change) {
            return Ok(None);
        }
        if let Some(known) = self.moves.get(&change.id) {
            return Ok(known.clone());
        }
        let is_taken = ChangeSource::from_word(&change.source).restores();
        let source = match is_taken {
            true => left_elsewhere(self.contents.db, change, blob)?,
            false if exact => lost(self.contents.db, change, blob)?,
            false => self.source_of(change, content)?,
        };
        let Some(source) = source.filter(|_| self.moves.len() < MOVES) else {
            return Ok(None);
        };
        self.moves.insert(change.id, None);
        let before = self.path(&source.path, Some(source.id))?;
        let mut there = self.found(before, &source)?;
        if is_taken {
            there = self.left(there, &source, &HashMap::new())?;
        }
        self.moves.insert(change.id, there.version.clone());
        Ok(there.version)
    }

    /// The change with which the file that is here now went from where it was: the most alike one of
    /// the same turn; of equal ones that of the same call.
    fn source_of(&self, change: &ChangeRow, content: &Rc<[u8]>) -> Result<Option<ChangeRow>> {
        let mut best: Option<(f64, ChangeRow)> = None;
        let mut candidates = losses(self.contents.db, change, CANDIDATES)?;
        // Those of its call first, then what went before it, the nearest of these first. Of its own
        // name only what had gone before the file came again.
        let is_later = |loss: &ChangeRow| loss.id > change.id;
        let is_of_call = |loss: &ChangeRow| loss.tool_use_id == change.tool_use_id;
        let is_born = change.before == StateRow::Absent;
        candidates.retain(|loss| loss.path != change.path || is_born && !is_later(loss));
        candidates.sort_by_key(|loss| {
            let distance = loss.id.abs_diff(change.id);
            (!is_of_call(loss), is_later(loss), distance)
        });
        for loss in candidates {
            let Some(gone) = self.contents.file(&loss.before)? else {
                continue;
            };
            let likeness_here = likeness(&gone, content);
            let is_better = best.as_ref().is_none_or(|(best, _)| likeness_here > *best);
            if likeness_here >= ALIKE && is_better && !self.stays(&loss, &gone)? {
                best = Some((likeness_here, loss));
            }
        }
        Ok(best.map(|(_, loss)| loss))
    }

    /// Whether most of what a change found is still there after it: nothing was moved away then.
    fn stays(&self, change: &ChangeRow, found: &[u8]) -> Result<bool> {
        let left = match &change.after {
            Some(after) => self.contents.file(after)?,
            None => None,
        };
        Ok(left.is_some_and(|left| likeness(found, &left) >= ALIKE))
    }
}
