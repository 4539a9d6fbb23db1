//! The sessions that clients' forks name as those they were copied from.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Notes which session a copy names as its origin, if none is noted yet.
pub(crate) fn note(tx: &Tx<'_>, session: i64, origin: &str) -> Result<()> {
    tx.prepare_cached(
        "UPDATE sessions SET claimed_origin = ?2
         WHERE id = ?1 AND (claimed_origin IS NULL OR claimed_origin = '')",
    )?
    .execute(params![session, origin])?;
    Ok(())
}

/// Notes that a session imported by an earlier release names none.
pub(crate) fn none(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached(
        "UPDATE sessions SET claimed_origin = NULL WHERE id = ?1 AND claimed_origin = ''",
    )?
    .execute([session])?;
    Ok(())
}

/// The sessions that an earlier release imported, and of which it is not known whether they name one.
pub(crate) fn unread(db: &Connection) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT id FROM sessions
         WHERE claimed_origin = '' AND forked_from IS NULL AND deleted_ms IS NULL ORDER BY id",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// The copies whose origin is not known, and those whose origin was deleted and may have come again:
/// the session, and the id that it names.
pub(crate) fn open(db: &Connection) -> Result<Vec<(i64, String)>> {
    db.prepare_cached(
        "SELECT id, claimed_origin FROM sessions
         WHERE claimed_origin IS NOT NULL AND claimed_origin <> '' AND forked_from IS NULL AND deleted_ms IS NULL
         UNION ALL
         SELECT s.id, o.session_id FROM sessions s JOIN sessions o ON o.id = s.forked_from
         WHERE s.fork_kind = 'inferred' AND s.deleted_ms IS NULL AND o.deleted_ms IS NOT NULL
           AND EXISTS (SELECT 1 FROM sessions n WHERE n.session_id = o.session_id AND n.deleted_ms IS NULL)
         ORDER BY 1",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// The sessions with this id: those of a project first, and not deleted before deleted, which are of that
/// project alone.
pub(crate) fn named(db: &Connection, project_key: &str, session_id: &str) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT id FROM (
             SELECT id, project_key <> ?1 AS other, 0 AS deleted FROM sessions
             WHERE session_id = ?2 AND deleted_ms IS NULL
             UNION ALL
             SELECT max(id), 0, 1 FROM sessions
             WHERE project_key = ?1 AND session_id = ?2 AND deleted_ms IS NOT NULL)
         WHERE id IS NOT NULL ORDER BY deleted, other, id",
    )?
    .query_map(params![project_key, session_id], |row| row.get(0))?
    .collect()
}

/// The messages of a session's main line and their uuids, up to a number.
pub(crate) fn main_line(
    db: &Connection,
    session: i64,
    until_seq: i64,
) -> Result<Vec<(i64, String)>> {
    db.prepare_cached(
        "SELECT id, uuid FROM messages
         WHERE session = ?1 AND subpath = '' AND line IS NOT NULL AND uuid IS NOT NULL AND seq <= ?2 ORDER BY line",
    )?
    .query_map(params![session, until_seq], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .collect()
}

/// Entries of a main transcript behind `seq` that may name a session they were copied from.
pub(crate) fn may_claim(
    db: &Connection,
    session: i64,
    seq: i64,
    limit: i64,
) -> Result<Vec<(i64, String)>> {
    db.prepare_cached(
        "SELECT seq, entry FROM messages
         WHERE session = ?1 AND subpath = '' AND seq > ?2
           AND (instr(entry, '\"forkedFrom\"') > 0 OR instr(entry, '\"requestSessionId\"') > 0)
         ORDER BY seq LIMIT ?3",
    )?
    .query_map(params![session, seq, limit], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .collect()
}
