//! `lineage`: what a fork's main transcript begins with.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;

/// A fork's beginning: the main transcript of `base` up to `last_seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineageRow {
    pub(crate) base: i64,
    pub(crate) last_seq: i64,
    pub(crate) last_line: i64,
}

/// The beginning of a session, if it is a fork.
pub(crate) fn find(db: &Connection, session: i64) -> Result<Option<LineageRow>> {
    db.prepare_cached("SELECT base, last_seq, last_line FROM lineage WHERE session = ?1")?
        .query_row([session], |row| {
            Ok(LineageRow {
                base: row.get(0)?,
                last_seq: row.get(1)?,
                last_line: row.get(2)?,
            })
        })
        .optional()
}

/// Stores a fork's beginning.
pub(crate) fn insert(tx: &Tx<'_>, session: i64, row: LineageRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO lineage (session, base, last_seq, last_line) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![session, row.base, row.last_seq, row.last_line])?;
    Ok(())
}

/// Removes a fork's beginning: it shows nothing any more.
pub(crate) fn delete(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM lineage WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}

/// Up to which seq forks show the rows of a session; `None` if none does.
pub(crate) fn shown_until(db: &Connection, base: i64) -> Result<Option<i64>> {
    db.prepare_cached("SELECT max(last_seq) FROM lineage WHERE base = ?1")?
        .query_row([base], |row| row.get(0))
}

/// The forks that show the row `seq` of `base`'s main transcript, directly, oldest first.
pub(crate) fn showing(db: &Connection, base: i64, seq: i64, limit: usize) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT session FROM lineage WHERE base = ?1 AND last_seq >= ?2 ORDER BY session LIMIT ?3",
    )?
    .query_map(
        params![base, seq, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?
    .collect()
}

/// A piece of what a fork begins with: the rows of `owner` up to `last_seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartRow {
    pub(crate) owner: i64,
    pub(crate) last_seq: i64,
    pub(crate) last_line: i64,
}

/// The pieces that a fork's beginning is made of, newest first; none for a session that is no fork.
pub(crate) fn parts(db: &Connection, session: i64) -> Result<Vec<PartRow>> {
    db.prepare_cached(
        "WITH RECURSIVE part (owner, last_seq, last_line, depth) AS (
             SELECT base, last_seq, last_line, 1 FROM lineage WHERE session = ?1
             UNION ALL
             SELECT l.base, min(l.last_seq, part.last_seq), min(l.last_line, part.last_line), part.depth + 1
             FROM part JOIN lineage l ON l.session = part.owner
         )
         SELECT owner, last_seq, last_line FROM part ORDER BY depth",
    )?
    .query_map([session], |row| {
        Ok(PartRow {
            owner: row.get(0)?,
            last_seq: row.get(1)?,
            last_line: row.get(2)?,
        })
    })?
    .collect()
}
