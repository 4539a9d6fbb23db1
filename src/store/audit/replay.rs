//! Replaying the changes of a path, and whose each line is.
//!
//! Lines that a state shares with the one before it keep their origin; the others belong to the
//! change that left it, or to somebody outside if they were found ahead of a change. A rewind writes
//! nothing of its own: lines come back with the origin that they had. A file that is born where
//! another one goes, in the same call or turn, and holds mostly the same, takes its lines along.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::contents::Contents;
use super::effects::in_order;
use crate::error::Result;
use crate::model::ChangeSource;
use crate::tables::audit::{left_elsewhere, removals};
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::{PathRow, StateRow};
use crate::workspace::line_diff::{likeness, shared};
use crate::workspace::lines::lines;

/// How much of two files must be the same for one to be the other under a new name.
const ALIKE: f64 = 0.5;

/// How many removals of a turn are looked at for the file that was moved.
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
    /// The births that were looked into, by change, and what came of it. One that is still being
    /// looked into has no answer yet: no file is its own origin.
    births: HashMap<i64, Option<Version>>,
}

impl<'c, 'd> Replay<'c, 'd> {
    pub(super) fn new(contents: &'c Contents<'d>) -> Self {
        Self {
            contents,
            births: HashMap::new(),
        }
    }

    /// A path as its changes left it, those from the change `until` on left out; `None` if there
    /// are none.
    pub(super) fn path(&mut self, path: &PathRow, until: Option<i64>) -> Result<Option<Replayed>> {
        let chain = in_order(file_changes::of_path(self.contents.db, path, 0)?);
        let end = until.and_then(|until| chain.iter().position(|change| change.id == until));
        let chain = &chain[..end.unwrap_or(chain.len())];
        let mut now: Option<Replayed> = None;
        // What rewinds brought back is remembered, as it was when it was last there.
        let restored: HashSet<i64> = chain
            .iter()
            .filter(|change| ChangeSource::from_word(&change.source).restores())
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
        let whose = match &before.state {
            StateRow::NotKept { .. } => Whose::NotKept(change.id),
            _ => Whose::Change(change.id),
        };
        let version = match (known.get(&blob).filter(|_| restores), before.version) {
            (Some(version), _) => version.clone(),
            (None, Some(version)) => match restores {
                // Taken over: what was here already stays whose it was, the rest is whose it was there.
                true => match self.moved_from(change, blob, &content)? {
                    Some(there) => version.joins(&there),
                    None => version.becomes(content, whose),
                },
                false => version.becomes(content, whose),
            },
            (None, None) => match self.moved_from(change, blob, &content)? {
                Some(version) => version.becomes(content, whose),
                None => Version::all(content, whose),
            },
        };
        let version = Some(version);
        Ok(Replayed { version, state, by })
    }

    /// The file that a new one was before, if it was moved: as it was when it was removed.
    fn moved_from(
        &mut self,
        change: &ChangeRow,
        blob: i64,
        content: &Rc<[u8]>,
    ) -> Result<Option<Version>> {
        if let Some(known) = self.births.get(&change.id) {
            return Ok(known.clone());
        }
        if self.births.len() >= MOVES {
            return Ok(None);
        }
        self.births.insert(change.id, None);
        let found = match ChangeSource::from_word(&change.source).restores() {
            true => self.taken_from(change, blob)?,
            false => self.source_of(change, content)?,
        };
        self.births.insert(change.id, found.clone());
        Ok(found)
    }

    fn source_of(&mut self, change: &ChangeRow, content: &Rc<[u8]>) -> Result<Option<Version>> {
        let mut best: Option<(f64, ChangeRow)> = None;
        let mut candidates = removals(self.contents.db, change, CANDIDATES)?;
        // What went before it first, the nearest of these first; and of its own name none behind it.
        let is_later = |removal: &ChangeRow| removal.id > change.id;
        candidates.retain(|removal| !is_later(removal) || removal.path != change.path);
        candidates.sort_by_key(|removal| (is_later(removal), removal.id.abs_diff(change.id)));
        for removal in candidates {
            let Some(gone) = self.contents.text(&removal.before)? else {
                continue;
            };
            let likeness = likeness(&gone, content);
            let is_better = best.as_ref().is_none_or(|(best, _)| likeness > *best);
            if likeness >= ALIKE && is_better {
                best = Some((likeness, removal));
            }
        }
        let Some((_, removal)) = best else {
            return Ok(None);
        };
        let last = self.path(&removal.path, Some(removal.id))?;
        Ok(self.found(last, &removal)?.version)
    }

    /// What was taken over from another path, as it was there.
    fn taken_from(&mut self, change: &ChangeRow, blob: i64) -> Result<Option<Version>> {
        let Some(there) = left_elsewhere(self.contents.db, change, blob)? else {
            return Ok(None);
        };
        let before = self.path(&there.path, Some(there.id))?;
        let before = self.found(before, &there)?;
        Ok(self.left(before, &there, &HashMap::new())?.version)
    }
}
