//! Files that belong to a session beside its transcripts: kept as blobs, each content once.

use rusqlite::Connection;

use super::blobs;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::tables::blobs::delete_if_unused;
use crate::tables::session_files::{self, FileRow};

/// A file's content and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileContent {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) modified_ms: Option<i64>,
}

/// Keeps a file with a session, in place of what was kept under its path. `false` if that was the
/// same.
pub(crate) fn keep_file(tx: &Tx<'_>, session: i64, file: &FileContent) -> Result<bool> {
    let blob = blobs::keep(tx, &file.bytes)?;
    let row = FileRow {
        path: file.path.clone(),
        blob,
        mode: file.mode,
        modified_ms: file.modified_ms,
    };
    let before = session_files::find(tx, session, &file.path)?;
    if before
        .as_ref()
        .is_some_and(|before| before.blob == blob && before.mode == file.mode)
    {
        return Ok(false);
    }
    session_files::save(tx, session, &row)?;
    if let Some(before) = before {
        delete_if_unused(tx, before.blob)?;
    }
    Ok(true)
}

/// The content of a session's file, checked against its hash.
///
/// # Errors
/// [`Error::Damaged`] if the content is not what was stored.
pub(crate) fn read_file(
    db: &Connection,
    store: &std::path::Path,
    row: &FileRow,
) -> Result<Vec<u8>> {
    blobs::content(db, row.blob)?.map_err(|why| Error::Damaged {
        path: store.to_owned(),
        why: format!("the content of `{}` {why}", row.path),
    })
}
