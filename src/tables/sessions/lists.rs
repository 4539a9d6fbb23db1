//! Sessions by what is known of them, and page by page.

use rusqlite::{Connection, Result, params, params_from_iter};

use super::{COLUMNS, SessionRow, from_row};
use crate::model::{Cursor, SessionFilter, SessionInfo};

/// A page of sessions, newest first, and where the next one begins.
pub(crate) fn list(
    db: &Connection,
    filter: &SessionFilter,
    after: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<SessionInfo>, Option<Cursor>)> {
    let mut clauses = vec!["deleted_ms IS NULL"];
    let mut values: Vec<Box<dyn rusqlite::ToSql>> = Vec::new();
    if !filter.all {
        clauses.push("listed = 1");
    }
    let mut add = |clause, value: Box<dyn rusqlite::ToSql>| {
        clauses.push(clause);
        values.push(value);
    };
    if let Some(key) = &filter.project_key {
        add("project_key = ?", Box::new(key.clone()));
    }
    if let Some(cwd) = &filter.cwd {
        add("cwd = ?", Box::new(cwd.clone()));
    }
    if let Some(tag) = &filter.tag {
        add("tag = ?", Box::new(tag.clone()));
    }
    if let Some(text) = &filter.text {
        let escaped = text
            .replace('\\', "\\\\")
            .replace('%', "\\%")
            .replace('_', "\\_");
        add(
            "summary LIKE ? ESCAPE '\\'",
            Box::new(format!("%{escaped}%")),
        );
    }
    if let Some(time) = filter.since_ms {
        add("last_modified_ms >= ?", Box::new(time));
    }
    if let Some(time) = filter.until_ms {
        add("last_modified_ms < ?", Box::new(time));
    }
    if let Some(cursor) = after {
        add(
            "(last_modified_ms, id) < (?, ?)",
            Box::new(cursor.last_modified_ms),
        );
        values.push(Box::new(cursor.id));
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE {} ORDER BY last_modified_ms DESC, id DESC LIMIT ?",
        clauses.join(" AND ")
    );
    values.push(Box::new(
        i64::try_from(limit.saturating_add(1)).unwrap_or(i64::MAX),
    ));
    let mut rows: Vec<SessionRow> = db
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), from_row)?
        .collect::<Result<_>>()?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|row| Cursor {
        last_modified_ms: row.last_modified_ms,
        id: row.id,
    });
    Ok((rows.iter().map(SessionRow::info).collect(), next))
}

/// The live sessions whose id begins with `prefix` (or is it), at most `limit`, exact ones first.
pub(crate) fn with_id_prefix(
    db: &Connection,
    prefix: &str,
    limit: usize,
) -> Result<Vec<SessionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions
         WHERE session_id >= ?1 AND session_id < ?2 AND deleted_ms IS NULL
         ORDER BY session_id = ?1 DESC, session_id, project_key LIMIT ?3"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let end = format!("{prefix}{}", char::MAX);
    db.prepare_cached(&sql)?
        .query_map(params![prefix, end, limit], from_row)?
        .collect()
}

/// The live sessions with exactly this title.
pub(crate) fn with_title(db: &Connection, title: &str) -> Result<Vec<SessionRow>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE title = ?1 AND deleted_ms IS NULL ORDER BY last_modified_ms DESC"
    );
    db.prepare_cached(&sql)?
        .query_map([title], from_row)?
        .collect()
}

/// The projects of the sessions that began in a directory.
pub(crate) fn projects_of_cwd(db: &Connection, cwd: &str) -> Result<Vec<String>> {
    db.prepare_cached("SELECT DISTINCT project_key FROM sessions WHERE cwd = ?1")?
        .query_map([cwd], |row| row.get(0))?
        .collect()
}

/// A session as the SDK lists it.
pub(crate) struct AppendedRow {
    pub(crate) session_id: String,
    pub(crate) appended_ms: i64,
    pub(crate) sdk_summary: Option<String>,
    pub(crate) sdk_summary_version: i64,
}

/// The sessions of a project that have a main transcript, with the time of its last append.
pub(crate) fn appended(db: &Connection, project_key: &str) -> Result<Vec<AppendedRow>> {
    db.prepare_cached(
        "SELECT session_id, appended_ms, sdk_summary, sdk_summary_version FROM sessions
         WHERE project_key = ?1 AND deleted_ms IS NULL AND appended_ms IS NOT NULL
         ORDER BY appended_ms DESC, id DESC",
    )?
    .query_map([project_key], |row| {
        Ok(AppendedRow {
            session_id: row.get(0)?,
            appended_ms: row.get(1)?,
            sdk_summary: row.get(2)?,
            sdk_summary_version: row.get(3)?,
        })
    })?
    .collect()
}
