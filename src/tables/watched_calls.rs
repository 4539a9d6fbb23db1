//! `watched_calls` and `scans`: commands that are or were watched, and what was seen of work trees.

use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use super::file_states::PathRow;
use crate::db::Tx;

/// A command that is being watched, in one root: the scan before it.
#[derive(Clone, Debug)]
pub(crate) struct WatchRow {
    pub(crate) root: PathRow,
    pub(crate) scan: Vec<u8>,
    /// How far the watch reaches, as JSON; `None` where an earlier release began it.
    pub(crate) options: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) prompt_id: Option<String>,
    /// The newest change, and the time, when the scan was begun; `None` where an earlier release did.
    pub(crate) since: Option<Since>,
}

/// A moment: the newest change of any file, and the time in epoch milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) change: i64,
    pub(crate) at_ms: i64,
}

/// Notes that a call is watched from now on.
pub(crate) fn begin(tx: &Tx<'_>, session: i64, tool_use_id: &str, row: &WatchRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO watched_calls (session, tool_use_id, root, root_raw, scan, options, agent, prompt_id, since_change, at_ms)
         VALUES (:session, :tool_use_id, :root, :root_raw, :scan, :options, :agent, :prompt_id, :since, :at_ms)",
    )?
    .execute(named_params! {
        ":session": session,
        ":tool_use_id": tool_use_id,
        ":root": row.root.text,
        ":root_raw": row.root.raw,
        ":scan": row.scan,
        ":options": row.options,
        ":agent": row.agent,
        ":prompt_id": row.prompt_id,
        ":since": row.since.map(|since| since.change),
        ":at_ms": row.since.map_or(tx.now_ms(), |since| since.at_ms),
    })?;
    Ok(())
}

/// The roots in which a call is being watched.
pub(crate) fn open(db: &Connection, session: i64, tool_use_id: &str) -> Result<Vec<WatchRow>> {
    db.prepare_cached(
        "SELECT root, root_raw, scan, options, agent, prompt_id, since_change, at_ms FROM watched_calls
         WHERE session = ?1 AND tool_use_id = ?2 AND scan IS NOT NULL ORDER BY id",
    )?
    .query_map(params![session, tool_use_id], |row| {
        Ok(WatchRow {
            root: PathRow::read(row, 0)?,
            scan: row.get(2)?,
            options: row.get(3)?,
            agent: row.get(4)?,
            prompt_id: row.get(5)?,
            since: match row.get(6)? {
                Some(change) => Some(Since {
                    change,
                    at_ms: row.get(7)?,
                }),
                None => None,
            },
        })
    })?
    .collect()
}

/// The calls of a session that are being watched.
pub(crate) fn open_calls(db: &Connection, session: i64) -> Result<Vec<String>> {
    db.prepare_cached(
        "SELECT DISTINCT tool_use_id FROM watched_calls WHERE session = ?1 AND scan IS NOT NULL",
    )?
    .query_map([session], |row| row.get(0))?
    .collect()
}

/// The roots in which calls other than this one are being watched, each with its session.
pub(crate) fn open_of_others(
    db: &Connection,
    session: i64,
    tool_use_id: &str,
) -> Result<Vec<(i64, PathRow)>> {
    db.prepare_cached(
        "SELECT session, root, root_raw FROM watched_calls
         WHERE scan IS NOT NULL AND (session <> ?1 OR tool_use_id <> ?2) ORDER BY id",
    )?
    .query_map(params![session, tool_use_id], |row| {
        Ok((row.get(0)?, PathRow::read(row, 1)?))
    })?
    .collect()
}

/// The watched calls of a session since a time, and what lay outside the bounds, as JSON.
pub(crate) fn since(db: &Connection, session: i64, at_ms: i64) -> Result<Vec<(String, String)>> {
    db.prepare_cached(
        "SELECT tool_use_id, not_covered FROM watched_calls
         WHERE session = ?1 AND at_ms >= ?2 AND not_covered IS NOT NULL ORDER BY id",
    )?
    .query_map(params![session, at_ms], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .collect()
}

/// Notes that a call is over, and what lay outside the bounds in this root, as JSON.
pub(crate) fn end(
    tx: &Tx<'_>,
    session: i64,
    tool_use_id: &str,
    root: &PathRow,
    not_covered: &str,
) -> Result<()> {
    tx.prepare_cached(
        "UPDATE watched_calls SET scan = NULL, options = NULL, not_covered = ?5, at_ms = ?6
         WHERE session = ?1 AND tool_use_id = ?2 AND root = ?3 AND root_raw IS ?4",
    )?
    .execute(params![
        session,
        tool_use_id,
        root.text,
        root.raw,
        not_covered,
        tx.now_ms()
    ])?;
    Ok(())
}

/// What lay outside the bounds when a call was watched, root by root; nothing if it was not, or is
/// not over.
pub(crate) fn outside(db: &Connection, session: i64, tool_use_id: &str) -> Result<Vec<String>> {
    db.prepare_cached(
        "SELECT not_covered FROM watched_calls
         WHERE session = ?1 AND tool_use_id = ?2 AND not_covered IS NOT NULL ORDER BY id",
    )?
    .query_map(params![session, tool_use_id], |row| row.get(0))?
    .collect()
}

/// Removes what was noted for a session.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM watched_calls WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}

/// The last scan of a root.
pub(crate) fn last_scan(db: &Connection, root: &PathRow) -> Result<Option<Vec<u8>>> {
    db.prepare_cached("SELECT scan FROM scans WHERE root = ?1 AND root_raw IS ?2")?
        .query_row(params![root.text, root.raw], |row| row.get(0))
        .optional()
}

/// Keeps a scan of a root in place of the last one.
pub(crate) fn save_scan(tx: &Tx<'_>, root: &PathRow, scan: &[u8]) -> Result<()> {
    tx.prepare_cached("DELETE FROM scans WHERE root = ?1 AND root_raw IS ?2")?
        .execute(params![root.text, root.raw])?;
    tx.prepare_cached("INSERT INTO scans (root, root_raw, scan, at_ms) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![root.text, root.raw, scan, tx.now_ms()])?;
    Ok(())
}

/// Forgets all scans: contents that they take for kept may be gone.
pub(crate) fn forget_scans(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached("DELETE FROM scans")?.execute([])?;
    Ok(())
}
