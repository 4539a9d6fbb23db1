//! Planning a rewind: what would be done to each path, and why some are left alone. Touches nothing.
//!
//! A path may be put back without force only if every change of it since the point, in the order of
//! commits, is the session's own and begins with what the one before left, up to what is on disk
//! now. Whoever changed it in between, another session or the user, is not undone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::changes::{is_behind, is_copy, is_since, without_undone};
use super::keeping::EXCLUDED;
use super::paths::innermost_root;
use super::points::Point;
use super::states::{Found, inner_folders};
use crate::error::{Error, Result};
use crate::model::{FileAction, FileOptions, FileOutcome, FileReport};
use crate::store::blobs as contents;
use crate::store::history::History;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::{PathRow, StateRow};
use crate::workspace::excludes::Excludes;
use crate::workspace::folders::is_empty_folder;
use crate::workspace::lines::count_changed;
use crate::workspace::path::is_within;
use crate::workspace::present::{FileId, Present, file_id};
use crate::workspace::tree::{Refused, Tree};

/// What a path is to become, and whether it may.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) path: PathRow,
    pub(super) target: StateRow,
    /// What the session left there last; `None` if nobody recorded that.
    pub(super) expected: Option<StateRow>,
    /// Why somebody else's change would be undone.
    pub(super) conflict: Option<String>,
    /// How many of its inner folders were made for it.
    pub(super) made_folders: u32,
}

/// One path of a plan.
#[derive(Clone, Debug)]
pub(super) struct PlannedFile {
    pub(super) report: FileReport,
    pub(super) path: PathRow,
    pub(super) root: Option<PathBuf>,
    pub(super) target: StateRow,
    pub(super) found: Found,
    pub(super) made_folders: u32,
}

impl PlannedFile {
    /// Whether there is work to be done: on the file, or on folders that were made for it alone.
    pub(super) fn has_work(&self) -> bool {
        let is_gone = self.report.action == FileAction::Unchanged
            && self.target == StateRow::Absent
            && inner_folders(&self.report.path, self.made_folders)
                .iter()
                .any(|folder| is_empty_folder(folder).unwrap_or(false));
        self.report.action.touches() || is_gone
    }

    /// Whether a later look came to the same.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        self.path == now.path
            && self.report.action == now.report.action
            && self.root == now.root
            && self.target == now.target
            && self.found.state() == now.found.state()
            && self.found.bytes() == now.found.bytes()
    }
}

/// Where and how files may be changed.
pub(super) struct Bounds<'a> {
    pub(super) store: &'a Path,
    pub(super) roots: Vec<PathBuf>,
    pub(super) own_files: Vec<FileId>,
    pub(super) options: &'a FileOptions,
    /// What is not to be kept, so that nothing of it can be given back.
    pub(super) excludes: Excludes,
    pub(super) force: bool,
    pub(super) only: Vec<PathBuf>,
    /// Whether the lines that come and go are counted.
    pub(super) counts_lines: bool,
}

/// What each path that the session changed since a point is to become. `changes` are those that it
/// shows.
pub(super) fn wanted(
    db: &Connection,
    history: &History,
    changes: &[ChangeRow],
    point: &Point,
) -> Result<Vec<Wanted>> {
    let since = changes.iter().filter(|change| is_since(change, point));
    let since: Vec<&ChangeRow> = since.collect();
    let own: HashSet<i64> = since.iter().map(|change| change.id).collect();
    let made: BTreeSet<PathBuf> = since
        .iter()
        .flat_map(|change| inner_folders(&change.path.path(), change.new_folders))
        .collect();
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut seen = HashSet::new();
    for first in &since {
        if !seen.insert(&first.path) {
            continue;
        }
        let path = first.path.path();
        let folders = path.ancestors().skip(1);
        let made_folders = folders.take_while(|folder| made.contains(*folder)).count();
        let later = later(db, history, first, &since, &own)?;
        let expected = later.last().and_then(|last| last.after.clone());
        wanted.push(Wanted {
            conflict: broken(&without_undone(db, later)?, &own),
            expected,
            path: first.path.clone(),
            target: first.before.clone(),
            made_folders: u32::try_from(made_folders).unwrap_or(0),
        });
    }
    Ok(wanted)
}

/// The changes of a path from the session's first since the point on, whoever made them.
fn later(
    db: &Connection,
    history: &History,
    first: &ChangeRow,
    since: &[&ChangeRow],
    own: &HashSet<i64>,
) -> Result<Vec<ChangeRow>> {
    let is_of_family = |change: &ChangeRow| {
        let mut owners = history.parts.iter().map(|part| part.owner);
        owners.any(|owner| owner == change.session)
    };
    let counts = |change: &ChangeRow| {
        own.contains(&change.id)
            || if is_of_family(change) {
                change.id > first.id
            } else {
                is_behind(change, first) && !since.iter().any(|known| is_copy(change, known))
            }
    };
    let mut changes = file_changes::of_path(db, &first.path, 0)?;
    changes.retain(counts);
    Ok(changes)
}

/// Why a path's changes are not an unbroken chain of the session's own.
fn broken(changes: &[ChangeRow], own: &HashSet<i64>) -> Option<String> {
    let mut left: Option<&StateRow> = None;
    for change in changes {
        if !own.contains(&change.id) {
            return Some("another session, or another turn, changed it since".to_owned());
        }
        if left.is_some_and(|left| !left.is(&change.before)) {
            return Some("it was changed outside the session in between".to_owned());
        }
        left = change.after.as_ref();
    }
    None
}

/// Judges each path. `trees` keeps the folders that were opened.
pub(super) fn judge(
    db: &Connection,
    wanted: Vec<Wanted>,
    bounds: &Bounds<'_>,
) -> Result<Vec<PlannedFile>> {
    let mut trees = Trees::default();
    let chosen = |path: &Path| {
        bounds.only.is_empty() || bounds.only.iter().any(|only| is_within(only, path))
    };
    wanted
        .into_iter()
        .filter(|wanted| chosen(&wanted.path.path()))
        .map(|wanted| judge_one(db, wanted, bounds, &mut trees))
        .collect()
}

fn judge_one(
    db: &Connection,
    wanted: Wanted,
    bounds: &Bounds<'_>,
    trees: &mut Trees,
) -> Result<PlannedFile> {
    let path = wanted.path.path();
    let mut file = PlannedFile {
        report: FileReport {
            path: path.clone(),
            action: FileAction::Refused,
            outcome: FileOutcome::Planned,
            reason: None,
            insertions: 0,
            deletions: 0,
        },
        path: wanted.path,
        root: None,
        target: wanted.target,
        found: Found::of(db, Present::Absent)?,
        made_folders: wanted.made_folders,
    };
    let verdict = |mut file: PlannedFile, action, reason: &str| {
        file.report.action = action;
        file.report.reason = Some(reason.to_owned());
        Ok(file)
    };
    if file_id(&path).is_some_and(|id| bounds.own_files.contains(&id)) {
        return verdict(file, FileAction::Refused, "it is the store's own file");
    }
    let others = bounds.roots.iter().filter(|root| **root != path);
    let Some(root) = innermost_root(others, &path) else {
        let why = "it lies outside the session's roots; allow its folder as a root";
        return verdict(file, FileAction::Refused, why);
    };
    file.root = Some(root.clone());
    let relative = path.strip_prefix(root).unwrap_or(&path);
    let present = match trees.get(root) {
        Ok(tree) => tree.look(relative, bounds.options.max_file_bytes),
        // A root that is gone is made again.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Present::Absent),
        Err(error) => Err(Refused::Io(error)),
    };
    file.found = match present {
        Ok(present) => Found::of(db, present)?,
        Err(refused) => return verdict(file, FileAction::Refused, &refused.to_string()),
    };
    file.target = file.target.with_mode_of(file.found.state());
    if file.found.state().is(&file.target) {
        file.report.action = FileAction::Unchanged;
        return Ok(file);
    }
    if let StateRow::NotKept { why } = &file.target {
        let why = format!("what it was is not kept: {why}");
        return verdict(file, FileAction::NotCovered, &why);
    }
    if file.target == StateRow::Directory {
        return verdict(file, FileAction::NotCovered, "a folder lay there");
    }
    let target_bytes = match file.target.blob() {
        Some(blob) => match contents::read(db, bounds.store, blob) {
            Ok(bytes) => Some(bytes),
            Err(error @ (Error::Damaged { .. } | Error::NotFound { .. })) => {
                let why = format!("backup missing: {error}");
                return verdict(file, FileAction::Refused, &why);
            }
            Err(error) => return Err(error),
        },
        None => None,
    };
    if is_secret(&file, wanted.expected.as_ref(), relative, bounds) {
        let why = "it is excluded: what is there is not kept, so it could not be given back";
        return verdict(file, FileAction::Refused, why);
    }
    if let Some(obstacle) = file.found.obstacle.clone() {
        return verdict(file, FileAction::Refused, &obstacle);
    }
    if bounds.counts_lines {
        (file.report.insertions, file.report.deletions) = count_changed(
            file.found.bytes().unwrap_or_default(),
            target_bytes.as_deref().unwrap_or_default(),
        );
    }
    let as_left = match &wanted.expected {
        Some(expected) => expected.is(file.found.state()),
        // Nobody recorded what was left: what is there is taken for it.
        None => true,
    };
    let conflict = wanted
        .conflict
        .or_else(|| (!as_left).then(|| "it was changed outside the session since".to_owned()));
    if let Some(why) = conflict.filter(|_| !bounds.force) {
        return verdict(file, FileAction::Conflict, &why);
    }
    file.report.action = match (&file.target, file.found.state()) {
        (StateRow::Absent, _) => FileAction::Delete,
        (_, StateRow::Absent) => FileAction::Recreate,
        _ => FileAction::Restore,
    };
    Ok(file)
}

/// Whether to put the file back would keep what is excluded. What the session left there, and is kept,
/// is no secret.
fn is_secret(
    file: &PlannedFile,
    expected: Option<&StateRow>,
    relative: &Path,
    bounds: &Bounds<'_>,
) -> bool {
    let is_known = expected.is_some_and(|left| left.is(file.found.state()));
    let was_excluded = matches!(expected, Some(StateRow::NotKept { why }) if why == EXCLUDED);
    file.found.has_content() && !is_known && (was_excluded || bounds.excludes.matches(relative))
}

/// The folders that files are reached through, each opened once.
#[derive(Default)]
pub(super) struct Trees(HashMap<PathBuf, Tree>);

impl Trees {
    /// The folder at `root`, opened when it is first asked for; made again if it is gone.
    pub(super) fn get_or_make(&mut self, root: &Path) -> std::io::Result<&Tree> {
        if !self.0.contains_key(root) {
            self.0.insert(root.to_owned(), Tree::open_or_make(root)?);
        }
        self.get(root)
    }

    /// The folder at `root`, opened when it is first asked for.
    pub(super) fn get(&mut self, root: &Path) -> std::io::Result<&Tree> {
        if !self.0.contains_key(root) {
            self.0.insert(root.to_owned(), Tree::open(root)?);
        }
        self.0
            .get(root)
            .ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
