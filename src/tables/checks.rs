//! Questions about the whole file: is it whole, and do the kept-up columns agree with the rows?

use rusqlite::{Connection, Result, params};

/// What SQLite itself finds wrong, at most `limit` findings; empty if all is well.
pub(crate) fn integrity(db: &Connection, limit: u32) -> Result<Vec<String>> {
    let mut statement = db.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// Counts of a transcript, from its rows: next seq, next line, entries.
pub(crate) fn counted(db: &Connection, session: i64, subpath: &str) -> Result<(i64, i64, i64)> {
    db.prepare_cached(
        "SELECT coalesce(max(seq), 0) + 1, coalesce(max(line), 0) + 1, count(entry) FROM messages
         WHERE session = ?1 AND subpath = ?2",
    )?
    .query_row(params![session, subpath], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}
