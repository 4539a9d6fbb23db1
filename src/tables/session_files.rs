//! `session_files`: files that belong to a session beside its transcripts.

use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use crate::db::Tx;

/// A file of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileRow {
    /// Where it lies, below the session: `tool-results/x.txt`, `file-history/…@v1`.
    pub(crate) path: String,
    pub(crate) blob: i64,
    pub(crate) mode: u32,
    pub(crate) modified_ms: Option<i64>,
}

fn from_row(row: &rusqlite::Row<'_>) -> Result<FileRow> {
    Ok(FileRow {
        path: row.get(0)?,
        blob: row.get(1)?,
        mode: row.get(2)?,
        modified_ms: row.get(3)?,
    })
}

/// The file of a session under this path.
pub(crate) fn find(db: &Connection, session: i64, path: &str) -> Result<Option<FileRow>> {
    db.prepare_cached(
        "SELECT path, blob, mode, modified_ms FROM session_files WHERE session = ?1 AND path = ?2",
    )?
    .query_row(params![session, path], from_row)
    .optional()
}

/// Stores a file, in place of what was kept under its path.
pub(crate) fn save(tx: &Tx<'_>, session: i64, row: &FileRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO session_files (session, path, blob, mode, modified_ms, stored_ms)
         VALUES (:session, :path, :blob, :mode, :modified_ms, :now)
         ON CONFLICT (session, path) DO UPDATE
         SET blob = excluded.blob, mode = excluded.mode, modified_ms = excluded.modified_ms,
             stored_ms = excluded.stored_ms",
    )?
    .execute(named_params! {
        ":session": session,
        ":path": row.path,
        ":blob": row.blob,
        ":mode": row.mode,
        ":modified_ms": row.modified_ms,
        ":now": tx.now_ms(),
    })?;
    Ok(())
}

/// The files of a session, by path.
pub(crate) fn list(db: &Connection, session: i64) -> Result<Vec<FileRow>> {
    db.prepare_cached(
        "SELECT path, blob, mode, modified_ms FROM session_files WHERE session = ?1 ORDER BY path",
    )?
    .query_map([session], from_row)?
    .collect()
}

/// Removes a session's files.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM session_files WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
