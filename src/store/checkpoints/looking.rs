//! Looking without moving: a file's content at a restore point, and all tracked files of a point
//! written into an empty folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Files;
use super::changes::{is_since, visible};
use super::moments::states_before;
use super::paths::{innermost_root, resolve};
use super::points::{Point, find};
use super::roots::{base_of, places_of, real_folder};
use crate::error::{Error, Result};
use crate::model::{CheckedOut, FileState, NotKept, Restore, RewindOptions, RewindReport};
use crate::store::blobs as contents;
use crate::store::history::History;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{NEW_FILE, PathRow, StateRow, path_of};
use crate::tables::{operations, roots, sessions};
use crate::workspace::folders::is_empty_folder;
use crate::workspace::replace::make_folder;
use crate::workspace::tree::Tree;

impl Files {
    /// The conflicts, and all else, that a rewind of the files to a point would meet.
    ///
    /// # Errors
    /// As [`Session::plan_rewind`](crate::Session::plan_rewind).
    pub fn look(&self, point: &str) -> Result<RewindReport> {
        let options = RewindOptions::to(point)
            .restore(Restore::Files)
            .while_pending(true);
        Ok(self.session.plan_rewind(&options)?.report().clone())
    }

    /// What lay at a path at a restore point: the state before the first change since, else the
    /// state that the last change before it left. Contents are checked against their hash.
    ///
    /// # Errors
    /// [`Error::NoCheckpoint`] if there is no such point; [`Error::NotFound`] if the session never
    /// changed the file; [`Error::Damaged`] if the content is not what was stored.
    pub fn at(&self, point: &str, path: impl AsRef<Path>) -> Result<FileState> {
        let store = self.session.store();
        store.db().read(|db| {
            let row = self.session.row(db)?;
            let history = History::of(db, &row, "")?;
            let point = find(db, &row, &history, point)?;
            let path = resolve(base_of(&row).as_deref(), path.as_ref())?;
            let states = states_at(&visible(db, &history)?, &point);
            match states.get(&PathRow::of(&path)) {
                Some(state) => content(db, store.path(), state),
                None => Err(Error::NotFound {
                    what: "change of the file in this session",
                    id: path.display().to_string(),
                }),
            }
        })
    }

    /// Writes all files that the session tracks, as they were at a point, into an empty folder,
    /// each below the folder as it lies below its root. Files that lay outside the roots, and those
    /// whose content is not kept, are left out and reported. With `as_root` the session works in that
    /// folder from now on: it becomes its cwd and one of its roots. Give it to a fork, so that two
    /// branches do not tread on each other.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the folder is not empty; [`Error::NoCheckpoint`]; [`Error::Io`].
    pub fn checkout(&self, point: &str, into: &Path, as_root: bool) -> Result<CheckedOut> {
        make_folder(into).map_err(|error| Error::io("creating", into, error))?;
        let folder = real_folder(Some(&current_folder()?), into)?;
        if !is_empty_folder(&folder).map_err(|error| Error::io("reading", into, error))? {
            let why = "the folder is not empty; name an empty or a new one";
            return Err(Error::invalid(into.display().to_string(), why));
        }
        let store = self.session.store();
        let (states, from) = store.db().read(|db| {
            let row = self.session.row(db)?;
            let history = History::of(db, &row, "")?;
            let point = find(db, &row, &history, point)?;
            let states = states_at(&visible(db, &history)?, &point);
            Ok((states, places_of(db, &row, &history)?))
        })?;
        let tree = Tree::open(&folder).map_err(|error| Error::io("opening", &folder, error))?;
        let mut done = CheckedOut::default();
        for (path, state) in states {
            let path = path.path();
            let mut skip = |reason: String| {
                done.not_written.push(NotKept {
                    path: path.clone(),
                    reason,
                });
            };
            let root = innermost_root(&from, &path);
            let Some(relative) = root.and_then(|root| path.strip_prefix(root).ok()) else {
                skip("it lies outside the session's roots".to_owned());
                continue;
            };
            let state = match store.db().read(|db| content(db, store.path(), &state)) {
                Ok(state) => state,
                Err(error @ Error::Damaged { .. }) => {
                    skip(error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let FileState::NotKept { reason } = state {
                skip(reason);
                continue;
            }
            let written = write(&tree, relative, &state);
            if written.map_err(|error| Error::io("writing", &path, error))? {
                done.written.push(folder.join(relative));
            }
        }
        if as_root {
            self.session.write(|tx| {
                let mut row = tx.row()?;
                roots::insert(tx.tx(), row.id, &PathRow::of(&folder))?;
                if let Some(folder) = folder.to_str() {
                    row.tally.listing.cwd = Some(folder.to_owned());
                    sessions::update(tx.tx(), &row)?;
                }
                let detail = serde_json::json!({"point": point, "into": folder.to_string_lossy()});
                let detail = detail.to_string();
                operations::insert(tx.tx(), tx.row()?.id, "checkout", None, Some(&detail))?;
                Ok(())
            })?;
        }
        Ok(done)
    }
}

/// The state of every path that a session changed, at a point.
pub(super) fn states_at(changes: &[ChangeRow], point: &Point) -> BTreeMap<PathRow, StateRow> {
    states_before(changes, |change| is_since(change, point))
}

/// A state with its content.
pub(super) fn content(db: &Connection, store: &Path, state: &StateRow) -> Result<FileState> {
    Ok(match state {
        StateRow::Absent => FileState::Absent,
        StateRow::Directory => FileState::Directory,
        StateRow::Symlink { target } => FileState::Symlink {
            target: path_of(target),
        },
        StateRow::NotKept { why } => FileState::NotKept {
            reason: why.clone(),
        },
        StateRow::File { blob, mode } => FileState::File {
            content: contents::read(db, store, *blob)?,
            mode: mode.unwrap_or(NEW_FILE),
        },
    })
}

/// Writes a state below a folder; `false` if nothing is to lie there.
fn write(tree: &Tree, path: &Path, state: &FileState) -> std::io::Result<bool> {
    let temp = super::apply::temp_name();
    let folders = |path: &Path| {
        for folder in tree.missing_folders(path)? {
            tree.make_folder(&folder)?;
        }
        Ok(())
    };
    let written = match state {
        FileState::File { content, mode } => folders(path)
            .and_then(|()| tree.write_beside(path, &temp, content, *mode))
            .and_then(|()| tree.sync_beside(path, &temp))
            .and_then(|()| tree.put(path, &temp))
            .and_then(|()| tree.sync_folder(path)),
        FileState::Symlink { target } => folders(path)
            .and_then(|()| tree.link_beside(path, &temp, target))
            .and_then(|()| tree.put(path, &temp))
            .and_then(|()| tree.sync_folder(path)),
        _ => return Ok(false),
    };
    written
        .map(|()| true)
        .map_err(|refused| std::io::Error::other(refused.to_string()))
}

fn current_folder() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| Error::io("finding", ".", error))
}
