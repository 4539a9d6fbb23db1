//! `file_changes`: what one tool call, or one rewind, did to one path.

mod removing;

pub(crate) use removing::{blobs_of, delete_behind, delete_imported};

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::file_states::{PathRow, StateRow};
use super::watched_calls::Since;
use crate::db::Tx;

/// A change as stored.
#[derive(Clone, Debug)]
pub(crate) struct ChangeRow {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) source: String,
    pub(crate) operation: Option<i64>,
    pub(crate) tool_use_id: Option<String>,
    pub(crate) agent: Option<String>,
    /// Whether the capture named the prompt.
    pub(crate) names_prompt: bool,
    pub(crate) call: Option<i64>,
    pub(crate) turn: Option<i64>,
    pub(crate) message: Option<i64>,
    pub(crate) seen_message: i64,
    pub(crate) path: PathRow,
    pub(crate) before: StateRow,
    pub(crate) after: Option<StateRow>,
    pub(crate) is_late: bool,
    pub(crate) new_folders: u32,
    pub(crate) before_ms: i64,
    pub(crate) after_ms: Option<i64>,
}

/// A change to be stored.
#[derive(Clone, Debug)]
pub(crate) struct NewChange<'a> {
    pub(crate) session: i64,
    pub(crate) source: &'a str,
    pub(crate) operation: Option<i64>,
    pub(crate) tool_use_id: Option<&'a str>,
    pub(crate) agent: Option<&'a str>,
    pub(crate) prompt_id: Option<&'a str>,
    pub(crate) place: Bound,
    pub(crate) path: &'a PathRow,
    pub(crate) before: &'a StateRow,
    pub(crate) after: Option<&'a StateRow>,
    pub(crate) new_folders: u32,
    /// When it was made, of a change that is told of later; else it is recorded as it is made.
    pub(crate) told: Option<Told>,
}

/// A change that was made before it is recorded: the message it is taken to have been made at, when
/// it was begun, and when what it left was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) seen_message: i64,
    pub(crate) before_ms: i64,
    pub(crate) after_ms: Option<i64>,
}

/// What a change is bound to, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) call: Option<i64>,
    pub(crate) turn: Option<i64>,
    pub(crate) message: Option<i64>,
}

/// The columns in the order in which `from_row` takes them.
pub(super) const CHANGE: &str = "id, session, source, operation, tool_use_id, agent, call, turn, message, seen_message, \
     path, path_raw, before_state, before_blob, before_mode, before_target, before_why, \
     after_state, after_blob, after_mode, after_target, after_why, \
     after_seen IS 'late', new_folders, before_ms, after_ms, prompt_id IS NOT NULL";

pub(super) fn from_row(row: &Row<'_>) -> Result<ChangeRow> {
    Ok(ChangeRow {
        id: row.get(0)?,
        session: row.get(1)?,
        source: row.get(2)?,
        operation: row.get(3)?,
        tool_use_id: row.get(4)?,
        agent: row.get(5)?,
        names_prompt: row.get(26)?,
        call: row.get(6)?,
        turn: row.get(7)?,
        message: row.get(8)?,
        seen_message: row.get(9)?,
        path: PathRow::read(row, 10)?,
        before: StateRow::read(row, 12)?.unwrap_or(StateRow::Absent),
        after: StateRow::read(row, 17)?,
        is_late: row.get(22)?,
        new_folders: row.get(23)?,
        before_ms: row.get(24)?,
        after_ms: row.get(25)?,
    })
}

/// What a session tells of a path in a turn, or of a call that another session tells of too; what was
/// put back does not count. In the order in which it was done.
pub(crate) fn told(
    db: &Connection,
    (session, turn): (i64, Option<i64>),
    other: &ChangeRow,
) -> Result<Vec<ChangeRow>> {
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes
         WHERE +path = ?1 AND path_raw IS ?2
           AND (turn = ?4 AND +session = ?3 OR session = ?3 AND tool_use_id = ?5)
           AND operation IS NULL
         ORDER BY before_ms, id"
    );
    let path = &other.path;
    db.prepare_cached(&sql)?
        .query_map(
            params![path.text, path.raw, session, turn, other.tool_use_id],
            from_row,
        )?
        .collect()
}

/// The imported changes of a path that other sessions tell of at the same time as one tells of this.
pub(crate) fn imported_at(db: &Connection, change: &ChangeRow) -> Result<Vec<ChangeRow>> {
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes
         WHERE before_ms = ?1 AND +path = ?2 AND path_raw IS ?3 AND +session <> ?4 AND source = 'import'"
    );
    let path = &change.path;
    db.prepare_cached(&sql)?
        .query_map(
            params![change.before_ms, path.text, path.raw, change.session],
            from_row,
        )?
        .collect()
}

/// Stores a change, and returns its id.
pub(crate) fn insert(tx: &Tx<'_>, new: &NewChange<'_>) -> Result<i64> {
    let [state, blob, mode, target, why] = new.before.columns();
    let after = new.after.map(StateRow::columns);
    let [after_state, after_blob, after_mode, after_target, after_why] =
        after.unwrap_or([const { Value::Null }; 5]);
    tx.prepare_cached(
        "INSERT INTO file_changes (session, source, operation, tool_use_id, agent, prompt_id, call, turn, message,
             seen_message, path, path_raw, before_state, before_blob, before_mode, before_target, before_why,
             after_state, after_blob, after_mode, after_target, after_why, after_seen, new_folders, before_ms, after_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?24, (SELECT max(id) FROM messages), 0), ?10, ?11,
             ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
             CASE WHEN ?17 IS NULL THEN NULL ELSE 'tool' END, ?22, ?23,
             CASE WHEN ?17 IS NULL THEN NULL ELSE ?25 END)",
    )?
    .execute(params![
        new.session,
        new.source,
        new.operation,
        new.tool_use_id,
        new.agent,
        new.prompt_id,
        new.place.call,
        new.place.turn,
        new.place.message,
        new.path.text,
        new.path.raw,
        state,
        blob,
        mode,
        target,
        why,
        after_state,
        after_blob,
        after_mode,
        after_target,
        after_why,
        new.new_folders,
        new.told.map_or_else(|| tx.now_ms(), |told| told.before_ms),
        new.told.map(|told| told.seen_message),
        new.told.map_or(Some(tx.now_ms()), |told| told.after_ms),
    ])?;
    Ok(tx.last_insert_rowid())
}

/// Records what was found at a change's path after it.
pub(crate) fn set_after(tx: &Tx<'_>, id: i64, after: &StateRow, is_late: bool) -> Result<()> {
    let [state, blob, mode, target, why] = after.columns();
    tx.prepare_cached(
        "UPDATE file_changes SET after_state = ?2, after_blob = ?3, after_mode = ?4, after_target = ?5, after_why = ?6,
             after_seen = ?7, after_ms = ?8 WHERE id = ?1",
    )?
    .execute(params![
        id,
        state,
        blob,
        mode,
        target,
        why,
        if is_late { "late" } else { "tool" },
        tx.now_ms()
    ])?;
    Ok(())
}

/// The changes that a session made itself, in order.
pub(crate) fn of_session(db: &Connection, session: i64) -> Result<Vec<ChangeRow>> {
    db.prepare_cached(&format!(
        "SELECT {CHANGE} FROM file_changes WHERE session = ?1 ORDER BY id"
    ))?
    .query_map([session], from_row)?
    .collect()
}

/// Says anew what lay at an imported change's path before it, and what it left.
pub(crate) fn set_states(
    tx: &Tx<'_>,
    id: i64,
    before: &StateRow,
    after: Option<(&StateRow, i64)>,
) -> Result<()> {
    let [state, blob, mode, target, why] = before.columns();
    tx.prepare_cached(
        "UPDATE file_changes SET before_state = ?2, before_blob = ?3, before_mode = ?4, before_target = ?5,
             before_why = ?6 WHERE id = ?1",
    )?
    .execute(params![id, state, blob, mode, target, why])?;
    let at_ms = after.map(|(_, at_ms)| at_ms);
    let [state, blob, mode, target, why] =
        after.map_or([const { Value::Null }; 5], |(after, _)| after.columns());
    tx.prepare_cached(
        "UPDATE file_changes SET after_state = ?2, after_blob = ?3, after_mode = ?4, after_target = ?5, after_why = ?6,
             after_seen = CASE WHEN ?2 IS NULL THEN NULL ELSE 'tool' END, after_ms = ?7 WHERE id = ?1",
    )?
    .execute(params![id, state, blob, mode, target, why, at_ms])?;
    Ok(())
}

/// The changes that a session recorded for one call, in order.
pub(crate) fn of_call(db: &Connection, session: i64, tool_use_id: &str) -> Result<Vec<ChangeRow>> {
    db.prepare_cached(&format!(
        "SELECT {CHANGE} FROM file_changes WHERE session = ?1 AND tool_use_id = ?2 ORDER BY id"
    ))?
    .query_map(params![session, tool_use_id], from_row)?
    .collect()
}

/// The changes of a path by any session, in order, from the one with this id on.
pub(crate) fn of_path(db: &Connection, path: &PathRow, from: i64) -> Result<Vec<ChangeRow>> {
    db.prepare_cached(&format!(
        "SELECT {CHANGE} FROM file_changes WHERE path = ?1 AND path_raw IS ?2 AND id >= ?3 ORDER BY id"
    ))?
    .query_map(params![path.text, path.raw, from], from_row)?
    .collect()
}

/// The newest change of any file.
pub(crate) fn newest(db: &Connection) -> Result<i64> {
    db.prepare_cached("SELECT coalesce(max(id), 0) FROM file_changes")?
        .query_row([], |row| row.get(0))
}

/// The changes of a path that calls other than this one made since a moment, or were making then: those
/// begun within `at_work_ms` before it whose end is not recorded. Imported ones are not among them.
pub(crate) fn meanwhile(
    db: &Connection,
    path: &PathRow,
    (session, tool_use_id): (i64, &str),
    since: Since,
    at_work_ms: i64,
) -> Result<Vec<ChangeRow>> {
    db.prepare_cached(&format!(
        "SELECT {CHANGE} FROM file_changes
         WHERE path = ?1 AND path_raw IS ?2 AND (session <> ?3 OR tool_use_id IS NOT ?4) AND source <> 'import'
           AND (id > ?5 OR after_ms >= ?6 OR (after_state IS NULL AND before_ms >= ?6 - ?7))
         ORDER BY id"
    ))?
    .query_map(
        params![path.text, path.raw, session, tool_use_id, since.change, since.at_ms, at_work_ms],
        from_row,
    )?
    .collect()
}

/// The last change of a path by any session.
pub(crate) fn last_of_path(db: &Connection, path: &PathRow) -> Result<Option<ChangeRow>> {
    db.prepare_cached(&format!(
        "SELECT {CHANGE} FROM file_changes WHERE path = ?1 AND path_raw IS ?2 ORDER BY id DESC LIMIT 1"
    ))?
    .query_row(params![path.text, path.raw], from_row)
    .optional()
}

/// A change by its id.
pub(crate) fn get(db: &Connection, id: i64) -> Result<Option<ChangeRow>> {
    db.prepare_cached(&format!("SELECT {CHANGE} FROM file_changes WHERE id = ?1"))?
        .query_row([id], from_row)
        .optional()
}

/// The newest changes of a path by any session from the one with this id on, at most `limit`, oldest
/// first.
pub(crate) fn newest_of_path(
    db: &Connection,
    path: &PathRow,
    from: i64,
    limit: usize,
) -> Result<Vec<ChangeRow>> {
    let mut rows: Vec<ChangeRow> = db
        .prepare_cached(&format!(
            "SELECT {CHANGE} FROM file_changes WHERE path = ?1 AND path_raw IS ?2 AND id >= ?3
             ORDER BY id DESC LIMIT ?4"
        ))?
        .query_map(
            params![
                path.text,
                path.raw,
                from,
                i64::try_from(limit).unwrap_or(i64::MAX)
            ],
            from_row,
        )?
        .collect::<Result<_>>()?;
    rows.reverse();
    Ok(rows)
}

/// The turn of the first change that an agent of a session made, if that is known.
pub(crate) fn turn_of_agent(db: &Connection, session: i64, agent: &str) -> Result<Option<Bound>> {
    db.prepare_cached(
        "SELECT turn, message FROM file_changes
         WHERE session = ?1 AND agent = ?2 AND turn IS NOT NULL ORDER BY id LIMIT 1",
    )?
    .query_row(params![session, agent], |row| {
        Ok(Bound {
            call: None,
            turn: row.get(0)?,
            message: row.get(1)?,
        })
    })
    .optional()
}

/// Binds what a session recorded for a call before that was stored.
pub(crate) fn bind_call(
    tx: &Tx<'_>,
    session: i64,
    tool_use_id: &str,
    place: Bound,
    agent: Option<&str>,
) -> Result<usize> {
    tx.prepare_cached(
        "UPDATE file_changes
         SET call = ?3, turn = coalesce(?4, turn), message = coalesce(?5, message), agent = coalesce(agent, ?6)
         WHERE session = ?1 AND tool_use_id = ?2 AND call IS NULL",
    )?
    .execute(params![
        session,
        tool_use_id,
        place.call,
        place.turn,
        place.message,
        agent
    ])
}

/// Binds what a session recorded for a prompt before that was stored.
pub(crate) fn bind_prompt(
    tx: &Tx<'_>,
    session: i64,
    prompt_id: &str,
    message: i64,
) -> Result<usize> {
    tx.prepare_cached(
        "UPDATE file_changes SET turn = ?3, message = ?3
         WHERE session = ?1 AND prompt_id = ?2 AND turn IS NULL",
    )?
    .execute(params![session, prompt_id, message])
}

/// Whether another session changed a file below a folder among the newest changes, since `since_ms`.
pub(crate) fn others_below(
    db: &Connection,
    session: i64,
    folder: &str,
    since_ms: i64,
) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT session FROM (SELECT id, session, path, before_ms FROM file_changes ORDER BY id DESC LIMIT 200)
         WHERE session <> ?1 AND before_ms >= ?3 AND substr(path, 1, length(?2)) = ?2 LIMIT 1",
    )?
    .query_row(params![session, folder, since_ms], |row| row.get(0))
    .optional()
}

/// How many bytes the contents take up that a session's changes and rewinds name.
pub(crate) fn stored_bytes(db: &Connection, session: i64) -> Result<u64> {
    db.prepare_cached(
        "WITH RECURSIVE used (id) AS (
             SELECT before_blob FROM file_changes WHERE session = ?1
             UNION SELECT after_blob FROM file_changes WHERE session = ?1
             UNION SELECT f.before_blob FROM rewind_files f JOIN rewinds USING (operation) WHERE session = ?1
             UNION SELECT f.after_blob FROM rewind_files f JOIN rewinds USING (operation) WHERE session = ?1
             UNION SELECT p.part FROM used JOIN blob_parts p ON p.blob = used.id
         )
         SELECT coalesce(sum(length(content)), 0) FROM blobs JOIN used USING (id)",
    )?
    .query_row([session], |row| {
        Ok(row.get::<_, i64>(0)?.unsigned_abs())
    })
}
