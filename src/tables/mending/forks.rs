//! Bringing forks into agreement: what each begins with, and under which beginning its inherited uuids are shown.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;
use crate::tables::lineage::LineageRow;

/// The last seq that each fork inherits; its own begin behind it.
pub(crate) fn inherited_seqs(db: &Connection) -> Result<HashMap<i64, i64>> {
    db.prepare("SELECT session, last_seq FROM lineage")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Up to which seq each session is shown by forks.
pub(crate) fn shown_seqs(db: &Connection) -> Result<HashMap<i64, i64>> {
    db.prepare("SELECT base, max(last_seq) FROM lineage GROUP BY base")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Removes beginnings that no fork can have: a fork is younger than what it is of, it is cut in what that has of its
/// own, and its own rows come behind the cut, which is no later than `most_seq`. Returns the forks.
pub(crate) fn remove_impossible(tx: &Tx<'_>, most_seq: i64) -> Result<Vec<i64>> {
    tx.prepare(
        "DELETE FROM lineage
         WHERE base >= session OR last_line < 0 OR last_line > last_seq OR last_seq > ?1
            OR last_seq >= (SELECT min(seq) FROM messages m WHERE m.session = lineage.session AND m.subpath = '')
            OR last_seq <= (SELECT b.last_seq FROM lineage b WHERE b.session = lineage.base)
         RETURNING session",
    )?
    .query_map([most_seq], |row| row.get(0))?
    .collect()
}

/// The forks whose uuids an earlier one has too.
pub(crate) fn repeated_prefixes(db: &Connection) -> Result<Vec<i64>> {
    db.prepare(
        "SELECT id FROM (
             SELECT id, row_number() OVER (PARTITION BY fork_prefix ORDER BY id) AS place
             FROM sessions WHERE fork_prefix IS NOT NULL
         ) WHERE place > 1",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// Takes the beginning of its inherited uuids from a fork.
pub(crate) fn forget_prefix(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET fork_prefix = NULL WHERE id = ?1")?
        .execute([session])?;
    Ok(())
}

/// The sessions that begin with another one's rows, and have no beginning for their uuids.
pub(crate) fn without_prefix(db: &Connection) -> Result<Vec<i64>> {
    db.prepare(
        "SELECT l.session FROM lineage l JOIN sessions s ON s.id = l.session
         WHERE s.fork_prefix IS NULL ORDER BY l.session",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// An inherited message that an own one of a fork hangs from: its row, and the uuid by which it is named.
pub(crate) fn named_inherited(db: &Connection, session: i64) -> Result<Option<(i64, String)>> {
    db.prepare_cached(
        "SELECT m.parent, m.parent_uuid FROM messages m JOIN messages p ON p.id = m.parent
         WHERE m.session = ?1 AND m.subpath = '' AND p.session <> m.session AND m.parent_uuid IS NOT NULL
         ORDER BY m.seq LIMIT 1",
    )?
    .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()
}

/// A fork whose beginning is not there.
pub(crate) struct Beginless {
    pub(crate) session: i64,
    pub(crate) is_deleted: bool,
    pub(crate) forked_from: Option<i64>,
    pub(crate) forked_at: Option<i64>,
}

/// The forks that have no beginning and should: live ones, and deleted ones that have rows which a fork shows.
pub(crate) fn without_beginning(db: &Connection) -> Result<Vec<Beginless>> {
    db.prepare(
        "SELECT id, deleted_ms IS NOT NULL, forked_from, forked_at FROM sessions s
         WHERE fork_prefix IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lineage l WHERE l.session = s.id)
           AND (deleted_ms IS NULL OR EXISTS (SELECT 1 FROM messages m WHERE m.session = s.id AND m.subpath = ''))
         ORDER BY id",
    )?
    .query_map([], |row| {
        Ok(Beginless {
            session: row.get(0)?,
            is_deleted: row.get(1)?,
            forked_from: row.get(2)?,
            forked_at: row.get(3)?,
        })
    })?
    .collect()
}

/// The first row of a main transcript that is the session's own: id, seq, kind.
pub(crate) fn first_own(db: &Connection, session: i64) -> Result<Option<(i64, i64, String)>> {
    db.prepare_cached(
        "SELECT id, seq, kind FROM messages WHERE session = ?1 AND subpath = '' ORDER BY seq LIMIT 1",
    )?
    .query_row([session], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    .optional()
}

/// The cut of a session's main transcript at `last_seq`, unless a row up to it came later than the row `before`, or
/// there is no such session.
pub(crate) fn cut(
    db: &Connection,
    base: i64,
    last_seq: i64,
    before: i64,
) -> Result<Option<LineageRow>> {
    db.prepare_cached(
        "SELECT coalesce(
             (SELECT max(line) FROM messages WHERE session = s.id AND subpath = '' AND seq <= ?2),
             (SELECT last_line FROM lineage WHERE session = s.id), 0)
         FROM sessions s
         WHERE s.id = ?1 AND NOT EXISTS (
             SELECT 1 FROM messages m WHERE m.session = s.id AND m.subpath = '' AND m.seq <= ?2 AND m.id > ?3)",
    )?
    .query_row(params![base, last_seq, before], |row| {
        Ok(LineageRow {
            base,
            last_seq,
            last_line: row.get(0)?,
        })
    })
    .optional()
}

/// The numbers behind all cuts that concern a session: where it was cut, and where it begins.
pub(crate) fn behind_cuts(db: &Connection, session: i64) -> Result<(i64, i64)> {
    db.prepare_cached(
        "SELECT coalesce(max(last_seq), 0) + 1, coalesce(max(last_line), 0) + 1 FROM (
             SELECT last_seq, last_line FROM lineage WHERE session = ?1
             UNION ALL
             SELECT last_seq, last_line FROM lineage WHERE base = ?1
         )",
    )?
    .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The results in main transcripts of forks that answer no call of their own session: row, session, tool-use id.
pub(crate) fn unbound_results(db: &Connection) -> Result<Vec<(i64, i64, String)>> {
    db.prepare(
        "SELECT r.id, r.session, r.tool_use_id FROM tool_results r
         JOIN lineage l ON l.session = r.session
         JOIN messages m ON m.id = r.message AND m.subpath = ''
         WHERE r.call IS NULL ORDER BY r.session, r.id",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
    .collect()
}

/// Binds a result to a call.
pub(crate) fn bind_result(tx: &Tx<'_>, result: i64, call: i64) -> Result<()> {
    tx.prepare_cached("UPDATE tool_results SET call = ?2 WHERE id = ?1")?
        .execute([result, call])?;
    Ok(())
}
