//! The audit's questions: changes chosen by anything known of them, and what is new.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, params, params_from_iter};

use super::file_changes::{CHANGE, ChangeRow, from_row};
use super::file_states::PathRow;

/// Which changes are asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) path: Option<AskedPath>,
    /// Made by one of these sessions; any if there are none.
    pub(crate) sessions: Vec<i64>,
    /// In one of these turns; in any if there is no list.
    pub(crate) turns: Option<Vec<i64>>,
    pub(crate) tool: Option<String>,
    pub(crate) agent: Option<Option<String>>,
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
}

/// A path that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskedPath {
    File(PathRow),
    /// A folder and all below it. The caller compares again: texts of paths that are not UTF-8 may
    /// be alike.
    Below(String),
}

impl AskedPath {
    /// The condition on a change's path, and the values in it.
    fn clause(&self) -> (&'static str, Vec<Value>) {
        match self {
            Self::File(path) => (
                "path = ? AND path_raw IS ?",
                vec![path.text.clone().into(), path.raw.clone().into()],
            ),
            Self::Below(folder) => {
                let (first, end) = below(folder);
                // `+path`: from the newest change back, not through all below the folder.
                (
                    "(+path = ? OR (+path >= ? AND +path < ?))",
                    vec![folder.clone().into(), first.into(), end.into()],
                )
            }
        }
    }
}

/// Which way a list goes on, and from where.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// Newest first, those made before this time, or at it and with a lower id.
    Before(i64, i64),
    /// In the order in which they were recorded, those behind this id.
    Behind(i64),
}

/// Changes as asked for, at most `limit`.
pub(crate) fn page(
    db: &Connection,
    asked: &Asked,
    from: From,
    limit: usize,
) -> Result<Vec<ChangeRow>> {
    let mut clauses: Vec<String> = Vec::new();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |clause: &str, given: Vec<Value>| {
        clauses.push(clause.to_owned());
        values.extend(given);
    };
    if let Some(path) = &asked.path {
        let (clause, given) = path.clause();
        add(clause, given);
    }
    if !asked.sessions.is_empty() {
        let marks = vec!["?"; asked.sessions.len()].join(", ");
        let ids = asked.sessions.iter().map(|id| Value::from(*id));
        add(&format!("session IN ({marks})"), ids.collect());
    }
    if let Some(turns) = &asked.turns {
        let marks = vec!["?"; turns.len()].join(", ");
        let ids = turns.iter().map(|id| Value::from(*id));
        add(&format!("turn IN ({marks})"), ids.collect());
    }
    if let Some(tool) = &asked.tool {
        add(
            "EXISTS (SELECT 1 FROM tool_calls c WHERE c.id = file_changes.call AND c.name = ?)",
            vec![tool.clone().into()],
        );
    }
    if let Some(agent) = &asked.agent {
        add("agent IS ?", vec![agent.clone().into()]);
    }
    if let Some(time) = asked.since_ms {
        add("before_ms >= ?", vec![time.into()]);
    }
    if let Some(time) = asked.until_ms {
        add("before_ms < ?", vec![time.into()]);
    }
    let order = match from {
        From::Before(time, id) => {
            add("(before_ms, id) < (?, ?)", vec![time.into(), id.into()]);
            "before_ms DESC, id DESC"
        }
        From::Behind(id) => {
            add("id > ?", vec![id.into()]);
            "id"
        }
    };
    // What is sorted are ids alone.
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes WHERE id IN
             (SELECT id FROM file_changes WHERE {} ORDER BY {order} LIMIT ?)
         ORDER BY {order}",
        clauses.join(" AND ")
    );
    values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
    db.prepare_cached(&sql)?
        .query_map(params_from_iter(values), from_row)?
        .collect()
}

/// The turns of the messages with this uuid, in whatever session.
pub(crate) fn turns_named(db: &Connection, uuid: &str) -> Result<Vec<i64>> {
    db.prepare_cached("SELECT DISTINCT turn FROM messages WHERE uuid = ?1 AND turn IS NOT NULL")?
        .query_map([uuid], |row| row.get(0))?
        .collect()
}

/// The texts between which all paths below a folder stand.
fn below(folder: &str) -> (String, String) {
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    // `0` is the next letter behind `/`.
    (format!("{folder}/"), format!("{folder}0"))
}

/// Whether any change is of a path below a folder.
pub(crate) fn any_below(db: &Connection, folder: &str) -> Result<bool> {
    let (first, end) = below(folder);
    db.prepare_cached("SELECT 1 FROM file_changes WHERE path >= ?1 AND path < ?2 LIMIT 1")?
        .exists(params![first, end])
}

/// The paths at this one and below it of which a change is recorded, in order. The caller compares
/// again, as with [`AskedPath::Below`].
pub(crate) fn paths_below(db: &Connection, folder: &str) -> Result<Vec<PathRow>> {
    let (first, end) = below(folder);
    db.prepare_cached(
        "SELECT DISTINCT path, path_raw FROM file_changes
         WHERE path = ?1 OR (path >= ?2 AND path < ?3) ORDER BY path, path_raw",
    )?
    .query_map(params![folder, first, end], |row| PathRow::read(row, 0))?
    .collect()
}

/// The model that made the call of a change, where both are known.
pub(crate) fn model_of(db: &Connection, change: i64) -> Result<Option<String>> {
    let model = db
        .prepare_cached(
            "SELECT m.model FROM file_changes f
             JOIN tool_calls c ON c.id = f.call
             JOIN messages m ON m.id = c.message
             WHERE f.id = ?1",
        )?
        .query_row([change], |row| row.get(0))
        .optional()?;
    Ok(model.flatten())
}

/// What a session did to a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deeds {
    pub(crate) session: i64,
    pub(crate) changes: i64,
    /// How many of the changes are imported.
    pub(crate) imported: i64,
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
}

/// What sessions did to a path, the newest first.
pub(crate) fn sessions_of_path(db: &Connection, path: &AskedPath) -> Result<Vec<Deeds>> {
    let (clause, values) = path.clause();
    let sql = format!(
        "SELECT session, count(*), sum(source = 'import'), min(before_ms), max(before_ms) FROM file_changes
         WHERE {clause} GROUP BY session ORDER BY max(before_ms) DESC, max(id) DESC"
    );
    db.prepare_cached(&sql)?
        .query_map(params_from_iter(values), |row| {
            Ok(Deeds {
                session: row.get(0)?,
                changes: row.get(1)?,
                imported: row.get(2)?,
                first_ms: row.get(3)?,
                last_ms: row.get(4)?,
            })
        })?
        .collect()
}

/// Ids of a change, a message and an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) change: i64,
    pub(crate) message: i64,
    pub(crate) operation: i64,
}

impl Ends {
    fn query(db: &Connection, sql: &str) -> Result<Self> {
        db.prepare_cached(sql)?.query_row([], |row| {
            Ok(Self {
                change: row.get(0)?,
                message: row.get(1)?,
                operation: row.get(2)?,
            })
        })
    }
}

/// The newest change, message and operation.
pub(crate) fn ends(db: &Connection) -> Result<Ends> {
    Ends::query(
        db,
        "SELECT (SELECT coalesce(max(id), 0) FROM file_changes),
                (SELECT coalesce(max(id), 0) FROM messages),
                (SELECT coalesce(max(id), 0) FROM operations)",
    )
}

/// The last ids that were ever given to a change, a message and an operation.
pub(crate) fn given(db: &Connection) -> Result<Ends> {
    Ends::query(
        db,
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'file_changes'), 0),
                coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'messages'), 0),
                coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'operations'), 0)",
    )
}

/// Those of the changes between two of which it is not known yet what they left, newest first.
pub(crate) fn open_between(
    db: &Connection,
    (behind, until): (i64, i64),
    limit: usize,
) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT id FROM file_changes WHERE id > ?1 AND id <= ?2 AND after_state IS NULL
         ORDER BY id DESC LIMIT ?3",
    )?
    .query_map(
        params![behind, until, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?
    .collect()
}

/// An entry that is new, as it was stored.
#[derive(Clone, Debug)]
pub(crate) struct NewRow {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) subpath: String,
    pub(crate) seq: i64,
    pub(crate) uuid: Option<String>,
    pub(crate) kind: String,
    pub(crate) role: Option<String>,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) stored_ms: i64,
    pub(crate) entry: Option<String>,
}

/// The rows of messages behind one, of any session or of one, oldest first.
pub(crate) fn messages_behind(
    db: &Connection,
    behind: i64,
    session: Option<i64>,
    limit: usize,
) -> Result<Vec<NewRow>> {
    // `+session`: by id from there on, not through all of a session's rows.
    db.prepare_cached(
        "SELECT id, session, subpath, seq, uuid, kind, role, timestamp_ms, stored_ms, entry FROM messages
         WHERE id > ?1 AND (?2 IS NULL OR +session = ?2) ORDER BY id LIMIT ?3",
    )?
    .query_map(
        params![behind, session, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| {
            Ok(NewRow {
                id: row.get(0)?,
                session: row.get(1)?,
                subpath: row.get(2)?,
                seq: row.get(3)?,
                uuid: row.get(4)?,
                kind: row.get(5)?,
                role: row.get(6)?,
                timestamp_ms: row.get(7)?,
                stored_ms: row.get(8)?,
                entry: row.get(9)?,
            })
        },
    )?
    .collect()
}

/// The hash and the length of a blob.
pub(crate) fn blob_facts(db: &Connection, id: i64) -> Result<Option<(Vec<u8>, i64)>> {
    db.prepare_cached("SELECT hash, bytes FROM blobs WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// The tool that a call is of.
pub(crate) fn tool_of(db: &Connection, call: i64) -> Result<Option<String>> {
    db.prepare_cached("SELECT name FROM tool_calls WHERE id = ?1")?
        .query_row([call], |row| row.get(0))
        .optional()
}

/// What a change `l`, by which a path lost a file or its content, must be for that to have become what
/// the change ?1 left: no file that came to be only behind it.
const FED: &str =
    "l.before_state = 'file' AND l.after_state IS NOT NULL AND l.after_blob IS NOT l.before_blob
    AND NOT EXISTS (SELECT 1 FROM file_changes b WHERE b.path = l.path AND b.path_raw IS l.path_raw
        AND b.id > ?1 AND b.id < l.id AND b.before_state = 'absent')";

/// The changes of a change's call or turn by which a path lost its file, or its content: those of the
/// call first, and the newest of them.
pub(crate) fn losses(db: &Connection, change: &ChangeRow, limit: usize) -> Result<Vec<ChangeRow>> {
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes l
         WHERE session = ?2 AND (tool_use_id = ?3 OR turn = ?4) AND id <> ?1 AND {FED}
         ORDER BY tool_use_id IS NOT ?3, after_state <> 'absent', id DESC LIMIT ?5"
    );
    let values = params![
        change.id,
        change.session,
        change.tool_use_id,
        change.turn,
        i64::try_from(limit).unwrap_or(i64::MAX)
    ];
    db.prepare_cached(&sql)?
        .query_map(values, from_row)?
        .collect()
}

/// The change nearest to another one, of its call or its turn, by which another path lost this content.
pub(crate) fn lost(db: &Connection, change: &ChangeRow, blob: i64) -> Result<Option<ChangeRow>> {
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes l
         WHERE before_blob = ?5 AND session = ?2 AND (tool_use_id = ?3 OR turn = ?4)
           AND (path <> ?6 OR path_raw IS NOT ?7) AND {FED}
         ORDER BY tool_use_id IS NOT ?3, abs(id - ?1) LIMIT 1"
    );
    let values = params![
        change.id,
        change.session,
        change.tool_use_id,
        change.turn,
        blob,
        change.path.text,
        change.path.raw
    ];
    db.prepare_cached(&sql)?
        .query_row(values, from_row)
        .optional()
}

/// The newest change before another one that left this content at another path.
pub(crate) fn left_elsewhere(
    db: &Connection,
    change: &ChangeRow,
    blob: i64,
) -> Result<Option<ChangeRow>> {
    let sql = format!(
        "SELECT {CHANGE} FROM file_changes
         WHERE after_blob = ?1 AND id < ?2 AND (path <> ?3 OR path_raw IS NOT ?4)
         ORDER BY id DESC LIMIT 1"
    );
    let values = params![blob, change.id, change.path.text, change.path.raw];
    db.prepare_cached(&sql)?
        .query_row(values, from_row)
        .optional()
}
