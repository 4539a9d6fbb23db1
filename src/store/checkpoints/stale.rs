//! Phases of tasks that are done, and whose recorded changes a rewind of files alone takes back.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;

use super::paths::resolve;
use super::roots::base_of;
use crate::error::Result;
use crate::model::{FileOutcome, FileReport, Restore};
use crate::store::phases::PhaseState;
use crate::store::scratchpad;
use crate::store::session::Session;
use crate::tables::sessions::SessionRow;

/// The stale phases, as `task/phase`. With the conversation the phases go back by themselves.
pub(super) fn phases(
    db: &Connection,
    session: &Session,
    row: &SessionRow,
    restore: Restore,
    files: &[FileReport],
) -> Result<Vec<String>> {
    if restore != Restore::Files {
        return Ok(Vec::new());
    }
    let base = base_of(row);
    let taken_back = |change: &Value| {
        let path = path_in(change).and_then(|path| resolve(base.as_deref(), path).ok());
        let is_it = |path: &PathBuf| {
            files
                .iter()
                .any(|file| is_taken_back(file) && file.path == *path)
        };
        path.is_some_and(|path| is_it(&path))
    };
    let notes = scratchpad::now(db, row.id)?;
    let mut stale = Vec::new();
    for (task, phases) in session.phases_in(&notes.reserved)? {
        for phase in phases {
            if phase.state == PhaseState::Done && phase.changes.iter().any(taken_back) {
                stale.push(format!("{task}/{}", phase.name));
            }
        }
    }
    Ok(stale)
}

/// Whether a file is, or is to be, put back.
fn is_taken_back(file: &FileReport) -> bool {
    let stays = matches!(file.outcome, FileOutcome::Left | FileOutcome::Failed);
    file.action.touches() && !stays
}

/// The path that a phase noted: a string, or an object with a `path` or `file_path`.
fn path_in(change: &Value) -> Option<&Path> {
    let text = match change {
        Value::String(text) => Some(text.as_str()),
        other => ["path", "file_path"]
            .iter()
            .find_map(|name| other.get(name).and_then(Value::as_str)),
    };
    text.map(Path::new)
}
