//! `import_sources`: what an import has read of each file.

use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use crate::db::Tx;

/// What was read of one file into one transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceRow {
    pub(crate) id: i64,
    /// The whole lines read, the entries in them, their bytes, and the BLAKE3 hash of those bytes.
    pub(crate) lines: u64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) prefix_hash: Vec<u8>,
    /// The transcript's next seq, while the transcript is exactly what was read of the file.
    pub(crate) in_sync_seq: Option<i64>,
}

/// What is known of a file.
pub(crate) fn find(
    db: &Connection,
    session: i64,
    subpath: &str,
    path: &str,
) -> Result<Option<SourceRow>> {
    db.prepare_cached(
        "SELECT id, lines, entries, bytes, prefix_hash, in_sync_seq FROM import_sources
         WHERE session = ?1 AND subpath = ?2 AND path = ?3",
    )?
    .query_row(params![session, subpath, path], |row| {
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(SourceRow {
            id: row.get(0)?,
            lines: unsigned(row.get(1)?),
            entries: unsigned(row.get(2)?),
            bytes: unsigned(row.get(3)?),
            prefix_hash: row.get(4)?,
            in_sync_seq: row.get(5)?,
        })
    })
    .optional()
}

/// The file that a session's main transcript, or else another of its transcripts, was read of last.
pub(crate) fn newest_path(db: &Connection, session: i64) -> Result<Option<String>> {
    db.prepare_cached(
        "SELECT path FROM import_sources WHERE session = ?1 ORDER BY subpath, imported_ms DESC, id DESC LIMIT 1",
    )?
    .query_row([session], |row| row.get(0))
    .optional()
}

/// Notes a file that nothing was read of yet, and returns its row id.
pub(crate) fn insert(tx: &Tx<'_>, session: i64, subpath: &str, path: &str) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO import_sources (session, subpath, path, lines, entries, bytes, prefix_hash, imported_ms)
         VALUES (?1, ?2, ?3, 0, 0, 0, x'', ?4)",
    )?
    .execute(params![session, subpath, path, tx.now_ms()])?;
    Ok(tx.last_insert_rowid())
}

/// Notes what has been read of a file.
pub(crate) fn update(tx: &Tx<'_>, row: &SourceRow) -> Result<()> {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    tx.prepare_cached(
        "UPDATE import_sources
         SET lines = :lines, entries = :entries, bytes = :bytes, prefix_hash = :hash, in_sync_seq = :in_sync, imported_ms = :now
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": row.id,
        ":lines": signed(row.lines),
        ":entries": signed(row.entries),
        ":bytes": signed(row.bytes),
        ":hash": row.prefix_hash,
        ":in_sync": row.in_sync_seq,
        ":now": tx.now_ms(),
    })?;
    Ok(())
}

/// Forgets a session's files, so that an import reads them anew.
pub(crate) fn delete(tx: &Tx<'_>, session: i64, subpath: Option<&str>) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM import_sources WHERE session = ?1 AND (?2 IS NULL OR subpath = ?2)",
    )?
    .execute(params![session, subpath])?;
    Ok(())
}

/// Keeps files in sync that were so before rows were stored that stand beside them.
pub(crate) fn stay_in_sync(
    tx: &Tx<'_>,
    session: i64,
    subpath: &str,
    before: i64,
    now: i64,
) -> Result<()> {
    tx.prepare_cached(
        "UPDATE import_sources SET in_sync_seq = ?4 WHERE session = ?1 AND subpath = ?2 AND in_sync_seq = ?3",
    )?
    .execute(params![session, subpath, before, now])?;
    Ok(())
}
