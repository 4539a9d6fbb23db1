//! What a planned file holds and is to hold, for showing the difference.

use std::path::Path;

use super::looking::content;
use super::rewind::RewindPlan;
use crate::error::{Error, Result};
use crate::model::{FileAction, FileState};
use crate::tables::file_states::{NEW_FILE, StateRow, path_of};

impl RewindPlan {
    /// What a file of the plan held when it was planned, and what it is to hold. Of a file that is
    /// refused, neither is told.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the plan has no such file; [`Error::Damaged`] if the content is not
    /// what was stored.
    pub fn contents(&self, path: impl AsRef<Path>) -> Result<(FileState, FileState)> {
        let path = path.as_ref();
        let file = self
            .course
            .files
            .iter()
            .find(|file| file.report.path == path);
        let file = file.ok_or_else(|| Error::NotFound {
            what: "file in the plan",
            id: path.display().to_string(),
        })?;
        if file.report.action == FileAction::Refused {
            let reason = file.report.reason.clone().unwrap_or_default();
            let untold = FileState::NotKept { reason };
            return Ok((untold.clone(), untold));
        }
        let now = match (file.found.state(), file.found.bytes()) {
            (StateRow::File { mode, .. }, Some(bytes)) => FileState::File {
                content: bytes.to_vec(),
                mode: mode.unwrap_or(NEW_FILE),
            },
            (StateRow::Symlink { target }, _) => FileState::Symlink {
                target: path_of(target),
            },
            (StateRow::Directory, _) => FileState::Directory,
            (StateRow::NotKept { why }, _) => FileState::NotKept {
                reason: why.clone(),
            },
            (StateRow::File { .. }, None) => FileState::NotKept {
                reason: "its content was not read".to_owned(),
            },
            (StateRow::Absent, _) => FileState::Absent,
        };
        let store = self.session.store();
        let target = store
            .db()
            .read(|db| content(db, store.path(), &file.target))?;
        Ok((now, target))
    }
}
