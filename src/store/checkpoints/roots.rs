//! The folders within which a session's files may be rewound: its cwd, and any added.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Files;
use super::paths::resolve;
use crate::error::{Error, Result};
use crate::store::history::History;
use crate::tables::file_states::PathRow;
use crate::tables::sessions::SessionRow;
use crate::tables::{operations, roots, sessions};
use crate::workspace::folders;

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
            let folder = real_folder(base_of(&row).as_deref(), folder.as_ref())?;
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
    let real = folders::real_folder(&resolve(base, folder)?);
    let real = real.map_err(|error| Error::io("opening", folder, error))?;
    real.ok_or_else(|| Error::invalid(folder.display().to_string(), "it is no folder"))
}

/// The folder that relative paths of a session are seen from.
pub(super) fn base_of(session: &SessionRow) -> Option<PathBuf> {
    let cwd = session.tally.listing.cwd.as_deref();
    cwd.map(PathBuf::from).filter(|cwd| cwd.is_absolute())
}

/// The folders that a session's files lie in, or lay in those it was forked from: where their names
/// begin. Wider than what may be rewound: a fork may have moved to a folder of its own.
pub(super) fn places_of(
    db: &Connection,
    session: &SessionRow,
    history: &History,
) -> Result<Vec<PathBuf>> {
    let mut found = roots_of(db, session, history)?;
    for part in history.parts.iter().filter(|part| part.is_inherited) {
        if let Some(base) = sessions::find_any(db, part.owner)?
            .as_ref()
            .and_then(base_of)
        {
            found.push(real(base));
        }
    }
    Ok(found)
}

/// A folder without links, as far as it is there.
fn real(folder: PathBuf) -> PathBuf {
    let below = resolve(None, &folder.join("below"));
    below
        .ok()
        .and_then(|below| below.parent().map(Path::to_owned))
        .unwrap_or(folder)
}

/// The roots of a session: its cwd, those added, and those added to the sessions it was forked from.
pub(super) fn roots_of(
    db: &Connection,
    session: &SessionRow,
    history: &History,
) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = base_of(session).into_iter().collect();
    for part in &history.parts {
        found.extend(roots::list(db, part.owner)?.iter().map(PathRow::path));
    }
    let mut roots = Vec::new();
    for root in found {
        let root = real(root);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    Ok(roots)
}
