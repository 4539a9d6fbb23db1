//! Questions about the whole file: is it whole, and do the kept-up columns agree with the rows?

use rusqlite::{Connection, Result, params};

/// What SQLite itself finds wrong, at most `limit` findings; empty if all is well.
pub(crate) fn integrity(db: &Connection, limit: u32) -> Result<Vec<String>> {
    let mut statement = db.prepare(&format!("PRAGMA integrity_check({limit})"))?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let mut found: Vec<String> = found.into_iter().filter(|line| line != "ok").collect();
    let mut dangling = db.prepare(
        "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2",
    )?;
    let dangling = dangling.query_map([], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
        let count: i64 = row.get(2)?;
        Ok(format!(
            "{count} row(s) of {table} name rows of {parent} that are not there"
        ))
    })?;
    for line in dangling {
        found.push(line?);
    }
    Ok(found)
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
