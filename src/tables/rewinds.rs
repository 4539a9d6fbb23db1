//! `rewinds` and `rewind_files`: rewinds and undos, from before the first file is touched.

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

use super::file_states::{PathRow, StateRow};
use crate::db::Tx;

/// A rewind as stored.
#[derive(Clone, Debug)]
pub(crate) struct RewindRow {
    pub(crate) operation: i64,
    pub(crate) session: i64,
    pub(crate) kind: String,
    pub(crate) restores: String,
    pub(crate) point: String,
    pub(crate) undoes: Option<i64>,
    pub(crate) status: String,
    pub(crate) accepts_part: bool,
    pub(crate) head_before: Option<i64>,
    pub(crate) head_after: Option<i64>,
    pub(crate) scratch_before: Option<i64>,
    pub(crate) scratch_after: Option<i64>,
    pub(crate) begun_ms: i64,
}

impl RewindRow {
    /// Whether it ended and something came of it.
    pub(crate) fn took_effect(&self) -> bool {
        matches!(self.status.as_str(), "done" | "part")
    }
}

/// A file of a rewind.
#[derive(Clone, Debug)]
pub(crate) struct RewindFileRow {
    pub(crate) position: i64,
    /// The folder that it is reached through (bytes of the path), its device and inode.
    pub(crate) root: Vec<u8>,
    pub(crate) root_id: (i64, i64),
    pub(crate) path: PathRow,
    pub(crate) action: String,
    pub(crate) outcome: String,
    pub(crate) reason: Option<String>,
    pub(crate) before: StateRow,
    pub(crate) after: StateRow,
    pub(crate) temp: Option<String>,
    pub(crate) new_folders: u32,
    pub(crate) old_folders: u32,
    pub(crate) change: Option<i64>,
}

const REWIND: &str = "operation, session, kind, restores, point, undoes, status, accepts_part, \
     head_before, head_after, scratch_before, scratch_after, begun_ms";

fn from_row(row: &Row<'_>) -> Result<RewindRow> {
    Ok(RewindRow {
        operation: row.get(0)?,
        session: row.get(1)?,
        kind: row.get(2)?,
        restores: row.get(3)?,
        point: row.get(4)?,
        undoes: row.get(5)?,
        status: row.get(6)?,
        accepts_part: row.get(7)?,
        head_before: row.get(8)?,
        head_after: row.get(9)?,
        scratch_before: row.get(10)?,
        scratch_after: row.get(11)?,
        begun_ms: row.get(12)?,
    })
}

/// Stores a rewind that begins.
pub(crate) fn insert(tx: &Tx<'_>, row: &RewindRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO rewinds (operation, session, kind, restores, point, undoes, status, accepts_part,
             head_before, head_after, scratch_before, scratch_after, begun_ms)
         VALUES (:operation, :session, :kind, :restores, :point, :undoes, :status, :accepts_part,
             :head_before, :head_after, :scratch_before, :scratch_after, :begun_ms)",
    )?
    .execute(named_params! {
        ":operation": row.operation,
        ":session": row.session,
        ":kind": row.kind,
        ":restores": row.restores,
        ":point": row.point,
        ":undoes": row.undoes,
        ":status": row.status,
        ":accepts_part": row.accepts_part,
        ":head_before": row.head_before,
        ":head_after": row.head_after,
        ":scratch_before": row.scratch_before,
        ":scratch_after": row.scratch_after,
        ":begun_ms": row.begun_ms,
    })?;
    Ok(())
}

/// Stores a file of a rewind.
pub(crate) fn insert_file(tx: &Tx<'_>, operation: i64, row: &RewindFileRow) -> Result<()> {
    let [
        before_state,
        before_blob,
        before_mode,
        before_target,
        before_why,
    ] = row.before.columns();
    let [after_state, after_blob, after_mode, after_target, after_why] = row.after.columns();
    tx.prepare_cached(
        "INSERT INTO rewind_files (operation, position, root, root_device, root_inode, path, path_raw, action,
             outcome, reason, before_state, before_blob, before_mode, before_target, before_why,
             after_state, after_blob, after_mode, after_target, after_why, temp, new_folders, old_folders, change)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
             ?21, ?22, ?23, ?24)",
    )?
    .execute(params![
        operation,
        row.position,
        row.root,
        row.root_id.0,
        row.root_id.1,
        row.path.text,
        row.path.raw,
        row.action,
        row.outcome,
        row.reason,
        before_state,
        before_blob,
        before_mode,
        before_target,
        before_why,
        after_state,
        after_blob,
        after_mode,
        after_target,
        after_why,
        row.temp,
        row.new_folders,
        row.old_folders,
        row.change,
    ])?;
    Ok(())
}

/// Notes that a rewind that was to move the conversation left it where it is: to undo it moves
/// nothing either.
pub(crate) fn stay(
    tx: &Tx<'_>,
    operation: i64,
    head: Option<i64>,
    scratch: Option<i64>,
) -> Result<()> {
    tx.prepare_cached(
        "UPDATE rewinds SET head_before = ?2, scratch_before = ?3 WHERE operation = ?1",
    )?
    .execute(params![operation, head, scratch])?;
    Ok(())
}

/// Ends a rewind.
pub(crate) fn finish(
    tx: &Tx<'_>,
    operation: i64,
    status: &str,
    head_after: Option<i64>,
    scratch_after: Option<i64>,
) -> Result<()> {
    tx.prepare_cached(
        "UPDATE rewinds SET status = ?2, head_after = ?3, scratch_after = ?4, finished_ms = ?5 WHERE operation = ?1",
    )?
    .execute(params![
        operation,
        status,
        head_after,
        scratch_after,
        tx.now_ms()
    ])?;
    Ok(())
}

/// Says what came of a file.
pub(crate) fn finish_file(
    tx: &Tx<'_>,
    operation: i64,
    position: i64,
    outcome: &str,
    reason: Option<&str>,
    change: Option<i64>,
) -> Result<()> {
    tx.prepare_cached(
        "UPDATE rewind_files SET outcome = ?3, reason = ?4, change = ?5 WHERE operation = ?1 AND position = ?2",
    )?
    .execute(params![operation, position, outcome, reason, change])?;
    Ok(())
}

/// The rewind that an operation is.
pub(crate) fn get(db: &Connection, operation: i64) -> Result<Option<RewindRow>> {
    db.prepare_cached(&format!(
        "SELECT {REWIND} FROM rewinds WHERE operation = ?1"
    ))?
    .query_row([operation], from_row)
    .optional()
}

/// The rewinds of a session, oldest first.
pub(crate) fn of_session(db: &Connection, session: i64) -> Result<Vec<RewindRow>> {
    db.prepare_cached(&format!(
        "SELECT {REWIND} FROM rewinds WHERE session = ?1 ORDER BY operation"
    ))?
    .query_map([session], from_row)?
    .collect()
}

/// The rewinds that were begun and not ended.
pub(crate) fn unfinished(db: &Connection) -> Result<Vec<RewindRow>> {
    db.prepare_cached(&format!(
        "SELECT {REWIND} FROM rewinds WHERE status = 'unfinished' ORDER BY operation"
    ))?
    .query_map([], from_row)?
    .collect()
}

/// Whether an undo that took effect took this operation back.
pub(crate) fn undone_by(db: &Connection, operation: i64) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT operation FROM rewinds
         WHERE undoes = ?1 AND session = (SELECT session FROM rewinds WHERE operation = ?1)
           AND status IN ('done', 'part') ORDER BY operation DESC LIMIT 1",
    )?
    .query_row([operation], |row| row.get(0))
    .optional()
}

/// The files of a rewind, in order.
pub(crate) fn files(db: &Connection, operation: i64) -> Result<Vec<RewindFileRow>> {
    db.prepare_cached(
        "SELECT position, root, root_device, root_inode, path, path_raw, action, outcome, reason,
             before_state, before_blob, before_mode, before_target, before_why,
             after_state, after_blob, after_mode, after_target, after_why,
             temp, new_folders, old_folders, change
         FROM rewind_files WHERE operation = ?1 ORDER BY position",
    )?
    .query_map([operation], |row| {
        Ok(RewindFileRow {
            position: row.get(0)?,
            root: row.get(1)?,
            root_id: (row.get(2)?, row.get(3)?),
            path: PathRow::read(row, 4)?,
            action: row.get(6)?,
            outcome: row.get(7)?,
            reason: row.get(8)?,
            before: StateRow::read(row, 9)?.unwrap_or(StateRow::Absent),
            after: StateRow::read(row, 14)?.unwrap_or(StateRow::Absent),
            temp: row.get(19)?,
            new_folders: row.get(20)?,
            old_folders: row.get(21)?,
            change: row.get(22)?,
        })
    })?
    .collect()
}

/// The blobs that the rewinds of a session name.
pub(crate) fn blobs_of(db: &Connection, session: i64) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT before_blob FROM rewind_files JOIN rewinds USING (operation)
         WHERE session = ?1 AND before_blob IS NOT NULL
         UNION SELECT after_blob FROM rewind_files JOIN rewinds USING (operation)
         WHERE session = ?1 AND after_blob IS NOT NULL",
    )?
    .query_map([session], |row| row.get(0))?
    .collect()
}

/// Removes a session's rewinds.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached(
        "DELETE FROM rewind_files WHERE operation IN (SELECT operation FROM rewinds WHERE session = ?1)",
    )?
    .execute([session])?;
    tx.prepare_cached("DELETE FROM rewinds WHERE session = ?1")?
        .execute([session])?;
    Ok(())
}
