//! What may be kept of what lies at a path: nothing of the store's own files, of what is excluded or
//! too large, or once the store is full.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::paths::below_root;
use super::states::Found;
use crate::error::Result;
use crate::model::{Captured, FileOptions, NotKept};
use crate::store::Store;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::StateRow;
use crate::workspace::excludes::Excludes;
use crate::workspace::present::{FileId, Present, file_id, look};

/// Why the content of a secret is not kept.
pub(super) const EXCLUDED: &str = "excluded";

/// Why a folder is not kept.
const FOLDER: &str = "a folder: name the files in it, or watch the command";

/// The bounds of a capture.
pub(super) struct Keeper {
    options: FileOptions,
    excludes: Excludes,
    pub(super) roots: Vec<PathBuf>,
    own_files: Vec<FileId>,
    store_is_full: bool,
}

impl Keeper {
    pub(super) fn new(store: &Store, roots: Vec<PathBuf>) -> Result<Self> {
        let options = store.file_options().clone();
        Ok(Self {
            excludes: Excludes::new(&options.exclude)?,
            roots,
            own_files: store.own_files(),
            store_is_full: store.db().file_bytes() > options.max_store_bytes,
            options,
        })
    }

    /// Whether a path is one of the store's own files, told as not kept. Asked before any look: to
    /// close such a file would drop the locks that SQLite holds on it.
    pub(super) fn is_own(&self, path: &Path, captured: &mut Captured) -> bool {
        let is_own = file_id(path).is_some_and(|id| self.own_files.contains(&id));
        if is_own {
            captured.not_kept.push(NotKept {
                path: path.to_owned(),
                reason: "it is the store's own file".to_owned(),
            });
        }
        is_own
    }

    pub(super) fn look(&self, path: &Path) -> Present {
        look(path, self.options.max_file_bytes)
    }

    /// What may be recorded of what a call left. What was excluded before it still is, also where
    /// another process, with other options, looks for it.
    pub(super) fn left(
        &self,
        db: &Connection,
        path: &Path,
        change: Option<&ChangeRow>,
        captured: &mut Captured,
    ) -> Result<Found> {
        let mut found = Found::of(db, self.look(path))?;
        let was = change.map(|change| &change.before);
        let was_excluded = matches!(was, Some(StateRow::NotKept { why }) if why == EXCLUDED);
        if found.has_content() && was_excluded {
            found.withhold(EXCLUDED);
        }
        Ok(self.admit(found, path, captured))
    }

    /// What may be recorded of what was found; what may not be kept is told.
    pub(super) fn admit(&self, mut found: Found, path: &Path, captured: &mut Captured) -> Found {
        if found.has_content() && self.excludes.matches(below_root(&self.roots, path)) {
            found.withhold(EXCLUDED);
        } else if found.has_content() && self.store_is_full {
            found.withhold(format!(
                "the store has reached its limit of {} bytes",
                self.options.max_store_bytes
            ));
        }
        tell(path, found.state(), captured);
        found
    }
}

/// Tells a path whose state brings nothing back as not kept.
pub(super) fn tell(path: &Path, state: &StateRow, captured: &mut Captured) {
    let reason = match state {
        StateRow::NotKept { why } => why.clone(),
        StateRow::Directory => FOLDER.to_owned(),
        _ => return,
    };
    captured.not_kept.push(NotKept {
        path: path.to_owned(),
        reason,
    });
}

/// Whether a state brings something back.
pub(super) fn is_kept(state: &StateRow) -> bool {
    !matches!(state, StateRow::NotKept { .. } | StateRow::Directory)
}
