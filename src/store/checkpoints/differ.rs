//! Diffs of files between any two moments of a session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Files;
use super::changes::visible;
use super::hunks::hunks;
use super::moments::{Moment, paths_of};
use super::paths::resolve;
use super::roots::base_of;
use super::unified::unified;
use crate::error::{Error, Result};
use crate::model::{DiffHunk, DiffKind, DiffOptions, FileDiff, StateInfo, StateKind};
use crate::store::audit::state_info;
use crate::store::blobs as contents;
use crate::store::history::History;
use crate::tables::file_states::{PathRow, StateRow};
use crate::workspace::line_diff::is_text;
use crate::workspace::lines::lines;
use crate::workspace::path::is_within;
use crate::workspace::present::{Present, look};

/// A state and, of a file, its content.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) info: StateInfo,
    content: Option<Vec<u8>>,
}

impl Files {
    /// How the files that the session changed differ between two moments. What is not text is told
    /// by hash and size; what is not kept on either side is left out.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] if there is no such restore point or operation.
    pub fn diff(&self, options: &DiffOptions) -> Result<Vec<FileDiff>> {
        let store = self.session.store();
        store.db().read(|db| {
            let row = self.session.row(db)?;
            let history = History::of(db, &row, "")?;
            let base = base_of(&row);
            let only = options.only.iter();
            let only = only.map(|path| resolve(base.as_deref(), path));
            let only: Vec<PathBuf> = only.collect::<Result<_>>()?;
            let is_chosen =
                |path: &Path| only.is_empty() || only.iter().any(|only| is_within(only, path));
            let mut changes = visible(db, &history)?;
            let find = |name: &str| Moment::find(db, &row, &history, &changes, name);
            let (from, to) = (find(&options.from)?, find(&options.to)?);
            changes.retain(|change| is_chosen(&change.path.path()));
            let (old, new) = (from.states(&changes), to.states(&changes));
            let mut found = Vec::new();
            for path in paths_of(&changes) {
                let at = PathRow::of(&path);
                let side = |moment: &Moment, states: &BTreeMap<PathRow, StateRow>| match moment {
                    Moment::Now => Ok(Side::now(&path, store.file_options().max_file_bytes)),
                    _ => Side::of(db, states.get(&at).unwrap_or(&StateRow::Absent)),
                };
                let (old, new) = (side(&from, &old)?, side(&to, &new)?);
                let name = below(base.as_deref(), &path);
                found.extend(diff(&path, name, old, new));
            }
            Ok(found)
        })
    }

    /// Whether a word names a moment of the session: a restore point, an operation, or now.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is the beginning of several points.
    pub fn is_moment(&self, word: &str) -> Result<bool> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            let history = History::of(db, &row, "")?;
            match Moment::find(db, &row, &history, &[], word) {
                Ok(_) => Ok(true),
                Err(Error::NoCheckpoint { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

/// A path as a diff names it: from the session's cwd.
pub(super) fn below<'p>(base: Option<&Path>, path: &'p Path) -> &'p Path {
    base.and_then(|base| path.strip_prefix(base).ok())
        .unwrap_or(path)
}

impl Side {
    /// A recorded state. A content that cannot be read is told as not kept.
    pub(super) fn of(db: &Connection, state: &StateRow) -> Result<Self> {
        let mut side = Self {
            info: state_info(db, state)?,
            content: None,
        };
        if let Some(blob) = state.blob() {
            match contents::content(db, blob)? {
                Ok(content) => side.content = Some(content),
                Err(why) => {
                    side.info.kind = StateKind::NotKept;
                    side.info.reason = Some(format!("the content {why}"));
                }
            }
        }
        Ok(side)
    }

    /// What lies on the disk.
    fn now(path: &Path, max_bytes: u64) -> Self {
        let mut info = StateInfo {
            kind: StateKind::NotKept,
            hash: None,
            bytes: None,
            mode: None,
            target: None,
            reason: None,
        };
        let mut content = None;
        match look(path, max_bytes) {
            Present::Absent => info.kind = StateKind::Absent,
            Present::Directory => info.kind = StateKind::Directory,
            Present::Symlink { target } => {
                info.kind = StateKind::Symlink;
                info.target = Some(target);
            }
            Present::File { bytes, mode, .. } => {
                info.kind = StateKind::File;
                info.hash = Some(blake3::hash(&bytes).to_hex().to_string());
                info.bytes = Some(bytes.len() as u64);
                info.mode = Some(mode);
                content = Some(bytes);
            }
            Present::TooLarge { len } => info.reason = Some(format!("too large: {len} bytes")),
            Present::Other(what) => info.reason = Some(format!("it is {what}")),
            Present::Unreadable(why) => info.reason = Some(format!("it cannot be read: {why}")),
        }
        Self { info, content }
    }

    /// Its lines: those of nothing are none.
    fn text(&self) -> Option<&[u8]> {
        match (&self.content, self.info.kind) {
            (Some(content), _) => Some(content.as_slice()).filter(|content| is_text(content)),
            (None, StateKind::Absent) => Some(&[]),
            _ => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.info, &other.info);
        // A mode that nobody recorded is no other one.
        let modes = one.mode.is_none() || two.mode.is_none() || one.mode == two.mode;
        one.kind == two.kind && one.hash == two.hash && one.target == two.target && modes
    }
}

/// How a file differs; `None` if it does not.
pub(super) fn diff(path: &Path, name: &Path, from: Side, to: Side) -> Option<FileDiff> {
    if from.is_same(&to) {
        return None;
    }
    let is_there = |side: &Side| side.info.kind != StateKind::Absent;
    let there = (is_there(&from), is_there(&to));
    let hunks = match (from.text(), to.text()) {
        (Some(old), Some(new)) => Some(hunks(old, new)),
        _ => None,
    };
    let count = |comes: bool| {
        let hunks = hunks.as_ref()?;
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        let counted = lines.filter(|line| match comes {
            true => line.old.is_none(),
            false => line.new.is_none(),
        });
        Some(counted.count())
    };
    let unified = hunks
        .as_ref()
        .filter(|hunks| is_utf8(&from, hunks, |hunk| hunk.old))
        .filter(|hunks| is_utf8(&to, hunks, |hunk| hunk.new))
        .map(|hunks| unified(name, &from.info, &to.info, hunks));
    Some(FileDiff {
        path: path.to_owned(),
        kind: match there {
            (false, _) => DiffKind::Added,
            (_, false) => DiffKind::Deleted,
            _ => DiffKind::Modified,
        },
        insertions: count(true),
        deletions: count(false),
        unified,
        hunks: hunks.unwrap_or_default(),
        from: from.info,
        to: to.info,
    })
}

/// Whether the lines of a side that hunks show are UTF-8: others cannot be told in text, byte by byte.
fn is_utf8(side: &Side, hunks: &[DiffHunk], span: impl Fn(&DiffHunk) -> (usize, usize)) -> bool {
    let Some(text) = side
        .text()
        .filter(|text| std::str::from_utf8(text).is_err())
    else {
        return true;
    };
    let lines = lines(text);
    let shown = hunks.iter().flat_map(|hunk| {
        let (first, count) = span(hunk);
        let first = first.saturating_sub(1);
        lines.iter().skip(first).take(count)
    });
    shown
        .into_iter()
        .all(|line| std::str::from_utf8(line).is_ok())
}
