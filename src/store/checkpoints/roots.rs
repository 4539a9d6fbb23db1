//! The folders within which a session's files may be rewound: its cwd, and any added.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Files;
use super::paths::resolve;
use crate::error::{Error, Result};
use crate::store::history::History;
use crate::tables::file_states::PathRow;
use crate::tables::sessions::SessionRow;
use crate::tables::{operations, roots};

impl Files {
    /// The folders within which the session's files may be rewound, without links.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn roots(&self) -> Result<Vec<PathBuf>> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            roots_of(db, &row, &History::of(db, &row, "")?)
        })
    }

    /// Allows the session's files below a folder to be rewound, beside those below its cwd.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that is no folder.
    pub fn add_root(&self, folder: impl AsRef<Path>) -> Result<()> {
        self.session.write(|tx| {
            let row = tx.row()?;
            let folder = real_folder(base_of(&row)?.as_deref(), folder.as_ref())?;
            if roots::insert(tx.tx(), row.id, &PathRow::of(&folder))? {
                let detail = serde_json::json!({"path": folder.to_string_lossy()});
                operations::insert(tx.tx(), row.id, "root", None, Some(&detail.to_string()))?;
            }
            Ok(())
        })
    }
}

/// A folder that is there, without links.
pub(super) fn real_folder(base: Option<&Path>, folder: &Path) -> Result<PathBuf> {
    let path = resolve(base, folder)?;
    let real = path
        .canonicalize()
        .map_err(|error| Error::io("opening", folder, error))?;
    if !real.is_dir() {
        let why = "it is no folder";
        return Err(Error::invalid(folder.display().to_string(), why));
    }
    Ok(real)
}

/// The folder that relative paths of a session are seen from.
pub(super) fn base_of(session: &SessionRow) -> Result<Option<PathBuf>> {
    let cwd = session.tally.listing.cwd.as_deref();
    Ok(cwd.map(PathBuf::from).filter(|cwd| cwd.is_absolute()))
}

/// The roots of a session: its cwd, those added, and those added to the sessions it was forked from.
pub(super) fn roots_of(
    db: &Connection,
    session: &SessionRow,
    history: &History,
) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = base_of(session)?.into_iter().collect();
    for part in &history.parts {
        found.extend(roots::list(db, part.owner)?.iter().map(PathRow::path));
    }
    let mut real = Vec::new();
    for root in found {
        let root = root.canonicalize().unwrap_or(root);
        if !real.contains(&root) {
            real.push(root);
        }
    }
    Ok(real)
}
