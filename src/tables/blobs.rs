//! `blobs`: contents by their BLAKE3 hash, each stored once, zstd-compressed where that helps.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// A blob as stored.
pub(crate) struct BlobRow {
    pub(crate) hash: Vec<u8>,
    pub(crate) bytes: i64,
    pub(crate) encoding: String,
    pub(crate) content: Vec<u8>,
}

/// The id of the blob with this hash.
pub(crate) fn find(db: &Connection, hash: &[u8]) -> Result<Option<i64>> {
    db.prepare_cached("SELECT id FROM blobs WHERE hash = ?1")?
        .query_row([hash], |row| row.get(0))
        .optional()
}

/// Stores a blob that is not there yet.
pub(crate) fn insert(tx: &Tx<'_>, row: &BlobRow) -> Result<i64> {
    tx.prepare_cached(
        "INSERT INTO blobs (hash, bytes, encoding, content) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![row.hash, row.bytes, row.encoding, row.content])?;
    Ok(tx.last_insert_rowid())
}

/// The blob with this id.
pub(crate) fn get(db: &Connection, id: i64) -> Result<Option<BlobRow>> {
    db.prepare_cached("SELECT hash, bytes, encoding, content FROM blobs WHERE id = ?1")?
        .query_row([id], |row| {
            Ok(BlobRow {
                hash: row.get(0)?,
                bytes: row.get(1)?,
                encoding: row.get(2)?,
                content: row.get(3)?,
            })
        })
        .optional()
}

/// Removes a blob that no file names any more.
pub(crate) fn delete_if_unused(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM blobs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM session_files WHERE blob = ?1)",
    )?
    .execute([id])?;
    Ok(())
}
