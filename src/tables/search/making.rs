//! Filling the index.

use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::{SPAN_BITS, flush, set_done};
use crate::db::Tx;
use crate::error;
use crate::transcript::search::texts::Field;

/// The character that begins a word that is in no text, and stands alone between what must not be
/// found as words in a row. No query has it in a word.
pub(crate) const BAR: char = '¦';

/// A message that is not indexed yet.
pub(crate) struct Unindexed<'r> {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) project_key: &'r str,
    pub(crate) kind: &'r str,
    pub(crate) has_uuid: bool,
    pub(crate) said_ms: i64,
    pub(crate) entry: &'r str,
}

/// The word for a session.
pub(crate) fn session_facet(session: i64) -> String {
    format!("{BAR}s{session:x}")
}

/// The word for a project.
pub(crate) fn project_facet(project_key: &str) -> String {
    facet('p', project_key)
}

/// The word for whose words they are.
pub(crate) fn role_facet(field: Field) -> &'static str {
    match field {
        Field::User => "¦ruser",
        Field::Assistant => "¦rassistant",
        Field::Input => "¦rinput",
        Field::Output => "¦routput",
        Field::Title => "¦rtitle",
    }
}

/// The word for a tool.
pub(crate) fn tool_facet(name: &str) -> String {
    facet('t', name)
}

/// The word for the message that one was copied from.
pub(crate) fn copy_facet(uuid: &str) -> String {
    facet('c', uuid)
}

/// The words for those of a path, in a row.
pub(crate) fn path_words(words: &[String]) -> String {
    let marked: Vec<String> = words.iter().map(|word| format!("{BAR}{word}")).collect();
    marked.join(" ")
}

fn facet(kind: char, name: &str) -> String {
    let hash = blake3::hash(name.as_bytes()).to_hex();
    format!("{BAR}{kind}{}", &hash.as_str()[..12])
}

/// The last id that was given to a message.
pub(crate) fn last_id(db: &Connection) -> Result<i64> {
    let last = db
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(last.unwrap_or(0))
}

/// Calls `each` with the messages behind the id `after` that hold a record, in order, until it breaks.
/// Whether it came to the end.
pub(crate) fn each_unindexed(
    db: &Connection,
    after: i64,
    mut each: impl FnMut(Unindexed<'_>) -> error::Result<ControlFlow<()>>,
) -> error::Result<bool> {
    let mut statement = db.prepare_cached(
        "SELECT m.id, m.session, s.project_key, m.kind, m.uuid IS NOT NULL,
             coalesce(m.timestamp_ms, m.stored_ms), m.entry
         FROM messages m JOIN sessions s ON s.id = m.session
         WHERE m.id > ?1 AND m.entry IS NOT NULL ORDER BY m.id",
    )?;
    let mut rows = statement.query([after])?;
    while let Some(row) = rows.next()? {
        let text = |column| {
            let text = row.get_ref(column)?.as_str();
            text.map_err(rusqlite::Error::from)
        };
        let message = Unindexed {
            id: row.get(0)?,
            session: row.get(1)?,
            project_key: text(2)?,
            kind: text(3)?,
            has_uuid: row.get(4)?,
            said_ms: row.get(5)?,
            entry: text(6)?,
        };
        if each(message)?.is_break() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stores what the index holds of a message: words with spaces between.
pub(crate) fn insert(tx: &Tx<'_>, id: i64, words: &str) -> Result<()> {
    tx.prepare_cached("INSERT INTO search (rowid, text) VALUES (?1, ?2)")?
        .execute(params![id, words])?;
    Ok(())
}

/// Notes when a message was said, in the span of its id.
pub(crate) fn note_span(tx: &Tx<'_>, id: i64, oldest_ms: i64, newest_ms: i64) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO search_spans (span, oldest_ms, newest_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT (span) DO UPDATE
         SET oldest_ms = min(oldest_ms, excluded.oldest_ms), newest_ms = max(newest_ms, excluded.newest_ms)",
    )?
    .execute(params![id >> SPAN_BITS, oldest_ms, newest_ms])?;
    Ok(())
}

/// Ends a step: messages up to this id are indexed.
pub(crate) fn finish(tx: &Tx<'_>, done: i64) -> Result<()> {
    flush(tx)?;
    set_done(tx, done)
}
