//! Removing changes, and what they name.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Removes an imported change.
pub(crate) fn delete_imported(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM file_changes WHERE id = ?1 AND source = 'import'")?
        .execute([id])?;
    Ok(())
}

/// The blobs that the changes of a session name.
pub(crate) fn blobs_of(db: &Connection, session: i64) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT before_blob FROM file_changes WHERE session = ?1 AND before_blob IS NOT NULL
         UNION SELECT after_blob FROM file_changes WHERE session = ?1 AND after_blob IS NOT NULL",
    )?
    .query_map([session], |row| row.get(0))?
    .collect()
}

/// Removes the changes of a session that no fork shows: those of messages behind `shown_until` in the
/// main transcript, and what rewinds from the operation `forked` on did; or all.
pub(crate) fn delete_behind(
    tx: &Tx<'_>,
    session: i64,
    shown_until: Option<i64>,
    forked: i64,
) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM file_changes WHERE session = ?1
           AND (?2 IS NULL OR operation > ?3 OR NOT EXISTS (
               SELECT 1 FROM messages m WHERE m.id = file_changes.message
                 AND (m.session <> ?1 OR (m.subpath = '' AND m.seq <= ?2))))",
    )?
    .execute(params![session, shown_until, forked])?;
    Ok(())
}
