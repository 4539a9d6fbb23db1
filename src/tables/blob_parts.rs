//! `blob_parts`: what large contents are made of, in order.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Notes a part of a blob.
pub(crate) fn insert(tx: &Tx<'_>, blob: i64, position: i64, part: i64) -> Result<()> {
    tx.prepare_cached("INSERT INTO blob_parts (blob, position, part) VALUES (?1, ?2, ?3)")?
        .execute(params![blob, position, part])?;
    Ok(())
}

/// The parts of a blob, in order; none if its content stands in its own row.
pub(crate) fn list(db: &Connection, blob: i64) -> Result<Vec<i64>> {
    db.prepare_cached("SELECT part FROM blob_parts WHERE blob = ?1 ORDER BY position")?
        .query_map([blob], |row| row.get(0))?
        .collect()
}

/// Forgets the parts of a blob; the parts themselves stay.
pub(crate) fn delete_all(tx: &Tx<'_>, blob: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM blob_parts WHERE blob = ?1")?
        .execute([blob])?;
    Ok(())
}

/// Removes what is said of blobs that have their content in their own row.
pub(crate) fn delete_strays(tx: &Tx<'_>) -> Result<()> {
    tx.execute(
        "DELETE FROM blob_parts WHERE blob IN (SELECT id FROM blobs WHERE length(content) > 0)",
        [],
    )?;
    Ok(())
}
