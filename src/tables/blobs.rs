//! `blobs`: contents by their BLAKE3 hash, each stored once, zstd-compressed where that helps.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::blob_parts;
use crate::db::Tx;

/// A blob as stored. One that has `bytes` and no `content` has parts.
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

/// Removes a blob that nothing names any more, and of its parts those that nothing names then.
pub(crate) fn delete_if_unused(tx: &Tx<'_>, id: i64) -> Result<()> {
    let mut unsure = vec![id];
    while let Some(id) = unsure.pop() {
        if is_used(tx, id)? {
            continue;
        }
        unsure.extend(blob_parts::list(tx, id)?);
        delete(tx, id)?;
    }
    Ok(())
}

/// Removes a blob, and the list of its parts.
pub(crate) fn delete(tx: &Tx<'_>, id: i64) -> Result<()> {
    blob_parts::delete_all(tx, id)?;
    tx.prepare_cached("DELETE FROM blobs WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Whether anything names a blob. Every table that does is asked here.
fn is_used(db: &Connection, id: i64) -> Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM session_files WHERE blob = ?1)
             OR EXISTS (SELECT 1 FROM blob_parts WHERE part = ?1)
             OR EXISTS (SELECT 1 FROM file_changes WHERE before_blob = ?1)
             OR EXISTS (SELECT 1 FROM file_changes WHERE after_blob = ?1)
             OR EXISTS (SELECT 1 FROM rewind_files WHERE before_blob = ?1)
             OR EXISTS (SELECT 1 FROM rewind_files WHERE after_blob = ?1)",
    )?
    .query_row([id], |row| row.get(0))
}

/// These blobs, by their hash.
pub(crate) fn by_hash(db: &Connection, ids: &[i64]) -> Result<HashMap<Vec<u8>, i64>> {
    let mut find = db.prepare_cached("SELECT hash FROM blobs WHERE id = ?1")?;
    let mut found = HashMap::new();
    for id in ids {
        if let Some(hash) = find.query_row([id], |row| row.get(0)).optional()? {
            found.insert(hash, *id);
        }
    }
    Ok(found)
}

/// The blobs above the id `after`, by id: at most `limit`.
pub(crate) fn ids(db: &Connection, after: i64, limit: usize) -> Result<Vec<i64>> {
    db.prepare_cached("SELECT id FROM blobs WHERE id > ?1 ORDER BY id LIMIT ?2")?
        .query_map(
            params![after, i64::try_from(limit).unwrap_or(i64::MAX)],
            |row| row.get(0),
        )?
        .collect()
}

/// The blobs above the id `after` whose content is that of their parts, by id: at most `limit`.
pub(crate) fn made_of_parts(db: &Connection, after: i64, limit: usize) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT id FROM blobs WHERE id > ?1 AND bytes > 0 AND length(content) = 0
         ORDER BY id LIMIT ?2",
    )?
    .query_map(
        params![after, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?
    .collect()
}
