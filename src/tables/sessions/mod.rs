//! `sessions`: one row a session, with all that a list shows of it.

mod lists;

pub(crate) use lists::{appended, list, projects_of_cwd, with_id_prefix, with_title};

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params, params};

use crate::db::Tx;
use crate::model::{SessionInfo, SessionKey};
use crate::transcript::listing::{Listing, Tally};

/// A session's row.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow {
    pub(crate) id: i64,
    pub(crate) key: SessionKey,
    /// What the entries of the main transcript say, and how many there are.
    pub(crate) tally: Tally,
    pub(crate) metadata: Option<String>,
    pub(crate) created_ms: i64,
    pub(crate) last_modified_ms: i64,
    pub(crate) appended_ms: Option<i64>,
    pub(crate) listed: bool,
    pub(crate) sdk_summary: Option<String>,
    pub(crate) sdk_summary_version: i64,
    /// When something was last said in the main line.
    pub(crate) conversed_ms: Option<i64>,
    /// The direct origin of a fork: its row and its id.
    pub(crate) forked_from: Option<i64>,
    pub(crate) forked_from_id: Option<String>,
    pub(crate) forked_at: Option<i64>,
    pub(crate) is_inferred_fork: bool,
    /// The beginning of the uuids under which a fork shows what it inherits.
    pub(crate) fork_prefix: Option<String>,
    pub(crate) is_deleted: bool,
    /// The newest note of its scratchpad.
    pub(crate) scratch: Option<i64>,
}

/// In the order in which `from_row` takes them: by name, a page of a list took twice as long.
const COLUMNS: &str = "id, project_key, session_id, custom_title, ai_title, last_prompt, summary_hint, \
     first_prompt, first_command, tag, cwd, git_branch, entrypoint, is_sidechain, metadata, entries, \
     messages, turns, created_ms, last_modified_ms, appended_ms, listed, sdk_summary, \
     sdk_summary_version, conversed_ms, forked_from, forked_at, fork_kind, fork_prefix, deleted_ms, \
     (SELECT origin.session_id FROM sessions origin WHERE origin.id = sessions.forked_from) AS forked_from_id, scratch";

fn from_row(row: &Row<'_>) -> Result<SessionRow> {
    Ok(SessionRow {
        id: row.get(0)?,
        key: SessionKey {
            project_key: row.get(1)?,
            session_id: row.get(2)?,
        },
        tally: Tally {
            listing: Listing {
                is_sidechain: row.get(13)?,
                created_ms: None,
                newest_ms: None,
                cwd: row.get(10)?,
                git_branch: row.get(11)?,
                entrypoint: row.get(12)?,
                custom_title: row.get(3)?,
                ai_title: row.get(4)?,
                last_prompt: row.get(5)?,
                summary_hint: row.get(6)?,
                first_prompt: row.get(7)?,
                first_command: row.get(8)?,
                tag: row.get(9)?,
            },
            entries: row.get(15)?,
            messages: row.get(16)?,
            turns: row.get(17)?,
        },
        metadata: row.get(14)?,
        created_ms: row.get(18)?,
        last_modified_ms: row.get(19)?,
        appended_ms: row.get(20)?,
        listed: row.get(21)?,
        sdk_summary: row.get(22)?,
        sdk_summary_version: row.get(23)?,
        conversed_ms: row.get(24)?,
        forked_from: row.get(25)?,
        forked_at: row.get(26)?,
        is_inferred_fork: row.get_ref(27)?.as_str_or_null()? == Some("inferred"),
        fork_prefix: row.get(28)?,
        is_deleted: row.get::<_, Option<i64>>(29)?.is_some(),
        forked_from_id: row.get(30)?,
        scratch: row.get(31)?,
    })
}

impl SessionRow {
    /// What a list shows.
    pub(crate) fn info(&self) -> SessionInfo {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        let listing = &self.tally.listing;
        SessionInfo {
            session_id: self.key.session_id.clone(),
            project_key: self.key.project_key.clone(),
            title: listing.title().map(String::from),
            summary: listing.summary().map(String::from),
            first_prompt: listing.first_prompt().map(String::from),
            tag: listing.tag.clone(),
            cwd: listing.cwd.clone(),
            git_branch: listing
                .git_branch
                .clone()
                .filter(|branch| !branch.is_empty()),
            entrypoint: listing.entrypoint.clone(),
            created_at_ms: self.created_ms,
            last_modified_ms: self.last_modified_ms,
            entries: count(self.tally.entries),
            messages: count(self.tally.messages),
            turns: count(self.tally.turns),
            forked_from: self.forked_from_id.clone(),
            metadata: self
                .metadata
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok()),
        }
    }
}

/// The live session with this key. The row that the index leads to is read by its id and checked
/// against the key asked for, so that a damaged index is an error and never another session. (In
/// one statement SQLite would take the key from the index, and the check would see nothing.)
pub(crate) fn find(db: &Connection, key: &SessionKey) -> Result<Option<SessionRow>> {
    let id = db
        .prepare_cached(
            "SELECT id FROM sessions WHERE project_key = ?1 AND session_id = ?2 AND deleted_ms IS NULL",
        )?
        .query_row(params![key.project_key, key.session_id], |row| row.get(0))
        .optional()?;
    let Some(id) = id else {
        return Ok(None);
    };
    match find_row(db, id)? {
        Some(row) if row.key == *key => Ok(Some(row)),
        _ => Err(super::damaged_index()),
    }
}

/// The live session with this row id.
pub(crate) fn find_row(db: &Connection, id: i64) -> Result<Option<SessionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1 AND deleted_ms IS NULL");
    db.prepare_cached(&sql)?
        .query_row([id], from_row)
        .optional()
}

/// The session with this row id, deleted or not.
pub(crate) fn find_any(db: &Connection, id: i64) -> Result<Option<SessionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1");
    db.prepare_cached(&sql)?
        .query_row([id], from_row)
        .optional()
}

/// The beginning of the uuids under which a fork shows what it inherits; of a session that is none,
/// `None`.
pub(crate) fn fork_prefix(db: &Connection, id: i64) -> Result<Option<String>> {
    let prefix = db
        .prepare_cached("SELECT fork_prefix FROM sessions WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(prefix.flatten())
}

/// The sessions that were forked from this one, oldest first, deleted ones included.
pub(crate) fn forks_of(db: &Connection, id: i64) -> Result<Vec<SessionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE forked_from = ?1 ORDER BY id");
    db.prepare_cached(&sql)?
        .query_map([id], from_row)?
        .collect()
}

/// Makes a session a fork. Without a prefix nothing is inherited: a client copied the history.
pub(crate) fn set_origin(
    tx: &Tx<'_>,
    id: i64,
    origin: (i64, Option<i64>),
    prefix: Option<&str>,
) -> Result<()> {
    let kind = if prefix.is_some() { "own" } else { "inferred" };
    tx.prepare_cached(
        "UPDATE sessions SET forked_from = ?2, forked_at = ?3, fork_kind = ?4, fork_prefix = ?5 WHERE id = ?1",
    )?
    .execute(params![id, origin.0, origin.1, kind, prefix])?;
    Ok(())
}

/// The session of a project (or of all) in which something was said last.
pub(crate) fn last_conversed(
    db: &Connection,
    project_key: Option<&str>,
    cwd: Option<&str>,
) -> Result<Option<SessionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions
         WHERE deleted_ms IS NULL AND conversed_ms IS NOT NULL AND coalesce(is_sidechain, 0) = 0
           AND (?1 IS NULL OR project_key = ?1) AND (?2 IS NULL OR cwd = ?2)
         ORDER BY conversed_ms DESC, id DESC LIMIT 1"
    );
    db.prepare_cached(&sql)?
        .query_row(params![project_key, cwd], from_row)
        .optional()
}

/// Whether the session with this row id is live.
pub(crate) fn is_live(db: &Connection, id: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1 AND deleted_ms IS NULL")?
        .exists([id])
}

/// Whether the changes of a session's tool calls are kept.
pub(crate) fn has_file_checkpoints(db: &Connection, id: i64) -> Result<bool> {
    db.prepare_cached("SELECT 1 FROM sessions WHERE id = ?1 AND file_checkpoints = 1")?
        .exists([id])
}

/// Says whether the changes of a session's tool calls are kept.
pub(crate) fn set_file_checkpoints(tx: &Tx<'_>, id: i64, kept: bool) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET file_checkpoints = ?2 WHERE id = ?1")?
        .execute(params![id, kept])?;
    Ok(())
}

/// Makes a session and returns its row.
pub(crate) fn insert(
    tx: &Tx<'_>,
    key: &SessionKey,
    cwd: Option<&str>,
    branch: Option<&str>,
) -> Result<SessionRow> {
    tx.prepare_cached(
        "INSERT INTO sessions (project_key, session_id, cwd, git_branch, created_ms, last_modified_ms, stored_ms)
         VALUES (:project_key, :session_id, :cwd, :git_branch, :now, :now, :now)",
    )?
    .execute(named_params! {
        ":project_key": key.project_key,
        ":session_id": key.session_id,
        ":cwd": cwd,
        ":git_branch": branch,
        ":now": tx.now_ms(),
    })?;
    let id = tx.last_insert_rowid();
    find_row(tx, id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// Writes back what an append changed.
pub(crate) fn update(tx: &Tx<'_>, row: &SessionRow) -> Result<()> {
    let listing = &row.tally.listing;
    tx.prepare_cached(
        "UPDATE sessions
         SET custom_title = :custom_title, ai_title = :ai_title, last_prompt = :last_prompt,
             summary_hint = :summary_hint, first_prompt = :first_prompt, first_command = :first_command,
             tag = :tag, cwd = :cwd, git_branch = :git_branch, entrypoint = :entrypoint,
             is_sidechain = :is_sidechain, metadata = :metadata, entries = :entries, messages = :messages,
             turns = :turns, created_ms = :created_ms, last_modified_ms = :last_modified_ms,
             appended_ms = :appended_ms, listed = :listed, sdk_summary = :sdk_summary,
             sdk_summary_version = :sdk_summary_version, conversed_ms = :conversed_ms
         WHERE id = :id",
    )?
    // By place, as every append comes here.
    .execute(params![
        listing.custom_title,
        listing.ai_title,
        listing.last_prompt,
        listing.summary_hint,
        listing.first_prompt,
        listing.first_command,
        listing.tag,
        listing.cwd,
        listing.git_branch,
        listing.entrypoint,
        listing.is_sidechain,
        row.metadata,
        row.tally.entries,
        row.tally.messages,
        row.tally.turns,
        row.created_ms,
        row.last_modified_ms,
        row.appended_ms,
        row.listed,
        row.sdk_summary,
        row.sdk_summary_version,
        row.conversed_ms,
        row.id,
    ])?;
    Ok(())
}

/// Hides a session for good: its key is free again.
pub(crate) fn mark_deleted(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET deleted_ms = ?2 WHERE id = ?1")?
        .execute(params![id, tx.now_ms()])?;
    Ok(())
}

/// Whether any live session has this project key.
pub(crate) fn project_exists(db: &Connection, project_key: &str) -> Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM sessions WHERE project_key = ?1 AND deleted_ms IS NULL LIMIT 1",
    )?
    .exists([project_key])
}

/// Every live session, in the order in which they were made, from after `id` on.
pub(crate) fn after(db: &Connection, id: i64, limit: usize) -> Result<Vec<SessionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE id > ?1 AND deleted_ms IS NULL ORDER BY id LIMIT ?2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.prepare_cached(&sql)?
        .query_map(params![id, limit], from_row)?
        .collect()
}
