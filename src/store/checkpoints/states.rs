//! From what lies at a path to a row and back.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::db::Tx;
use crate::error::Result;
use crate::store::blobs as contents;
use crate::tables::blobs;
use crate::tables::file_states::{StateRow, os_bytes};
use crate::workspace::present::Present;

/// No blob has this id: it stands for a content that is not stored.
const NO_BLOB: i64 = 0;

/// What was found at a path, and its content as long as that is not stored.
#[derive(Clone, Debug)]
pub(super) struct Found {
    state: StateRow,
    bytes: Option<Vec<u8>>,
    /// Why it may not be replaced, whatever is known of it.
    pub(super) obstacle: Option<String>,
}

impl Found {
    /// Reads what was found. Contents that are stored already are recognised by their hash.
    pub(super) fn of(db: &Connection, present: Present) -> Result<Self> {
        Self::among(present, |hash| Ok(blobs::find(db, hash)?))
    }

    /// The same; `known` tells which blob has a hash, of those that matter.
    pub(super) fn among(
        present: Present,
        known: impl FnOnce(&[u8; 32]) -> Result<Option<i64>>,
    ) -> Result<Self> {
        let mut found = Self {
            state: StateRow::Absent,
            bytes: None,
            obstacle: None,
        };
        match present {
            Present::Absent => {}
            Present::File { bytes, mode, links } => {
                let known = known(blake3::hash(&bytes).as_bytes())?;
                found.state = StateRow::File {
                    blob: known.unwrap_or(NO_BLOB),
                    mode: Some(mode),
                };
                found.obstacle = (links > 1)
                    .then(|| format!("the file has {links} names; a rewind would part them"));
                found.bytes = Some(bytes);
            }
            Present::TooLarge { len } => {
                let why = format!("too large: {len} bytes");
                found.obstacle = Some(format!("what is there now is not kept: {why}"));
                found.state = StateRow::NotKept { why };
            }
            Present::Symlink { target } => {
                found.state = StateRow::Symlink {
                    target: os_bytes(target.as_os_str()),
                }
            }
            Present::Directory => {
                found.state = StateRow::Directory;
                found.obstacle = Some("a folder lies there now".to_owned());
            }
            Present::Other(what) => {
                found.state = StateRow::NotKept {
                    why: format!("it is {what}"),
                };
                found.obstacle = Some(format!("{what} lies there now"));
            }
            Present::Unreadable(kind) => {
                let why = format!("it cannot be read: {kind}");
                found.obstacle = Some(why.clone());
                found.state = StateRow::NotKept { why };
            }
        }
        Ok(found)
    }

    pub(super) fn state(&self) -> &StateRow {
        &self.state
    }

    /// The state as it is known without storing the content.
    pub(super) fn known(&self) -> StateRow {
        match &self.state {
            StateRow::File { blob: NO_BLOB, .. } => StateRow::NotKept {
                why: "it was left alone".to_owned(),
            },
            state => state.clone(),
        }
    }

    /// Says that the content is not to be kept.
    pub(super) fn withhold(&mut self, why: impl Into<String>) {
        self.state = StateRow::NotKept { why: why.into() };
        self.bytes = None;
    }

    /// Whether a file was found, and its content may be kept.
    pub(super) fn has_content(&self) -> bool {
        matches!(self.state, StateRow::File { .. })
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }

    /// Stores the content, and returns the state that names it.
    pub(super) fn keep(&self, tx: &Tx<'_>) -> Result<StateRow> {
        match (&self.state, &self.bytes) {
            (StateRow::File { mode, .. }, Some(bytes)) => Ok(StateRow::File {
                blob: contents::keep(tx, bytes)?,
                mode: *mode,
            }),
            (state, _) => Ok(state.clone()),
        }
    }
}

/// The `count` innermost folders that a path lies in, innermost first.
pub(super) fn inner_folders(path: &Path, count: u32) -> Vec<PathBuf> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let folders = path.ancestors().skip(1).take(count);
    folders.map(Path::to_owned).collect()
}
