//! `roots`: folders within which a session's files may be rewound, beside its cwd.

use rusqlite::{Connection, Result, params};

use super::file_states::PathRow;
use crate::db::Tx;

/// Adds a root. `false` if it was there.
pub(crate) fn insert(tx: &Tx<'_>, session: i64, path: &PathRow) -> Result<bool> {
    let added = tx
        .prepare_cached(
            "INSERT INTO roots (session, path, path_raw, added_ms)
             SELECT ?1, ?2, ?3, ?4
             WHERE NOT EXISTS (SELECT 1 FROM roots WHERE session = ?1 AND path = ?2 AND path_raw IS ?3)",
        )?
        .execute(params![session, path.text, path.raw, tx.now_ms()])?;
    Ok(added > 0)
}

/// The roots of a session.
pub(crate) fn list(db: &Connection, session: i64) -> Result<Vec<PathRow>> {
    db.prepare_cached("SELECT path, path_raw FROM roots WHERE session = ?1 ORDER BY path")?
        .query_map([session], |row| PathRow::read(row, 0))?
        .collect()
}

/// Removes a session's roots.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM roots WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
