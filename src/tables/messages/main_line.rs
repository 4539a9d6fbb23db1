//! The main line of a transcript: first without the entries, then those that are wanted.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::tables::damaged_index;

/// A message of the main line.
#[derive(Clone, Debug)]
pub(crate) struct Light {
    pub(crate) id: i64,
    pub(crate) line: i64,
    /// Its text, if it was read along.
    pub(crate) text: Option<EntryText>,
    pub(crate) parent: Option<i64>,
    pub(crate) names_parent: bool,
    pub(crate) kind: LightKind,
    pub(crate) is_meta: bool,
    pub(crate) response: Option<String>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// What a message of the main line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LightKind {
    User,
    Assistant,
    Boundary,
    Other,
}

/// The main line of a transcript from behind `after` to `until` (by line), in order; of the
/// entries the first `max_bytes` are read along.
pub(crate) fn main_line(
    db: &Connection,
    (session, subpath): (i64, &str),
    (after, until): (i64, i64),
    max_bytes: usize,
) -> Result<Vec<Light>> {
    let mut bytes = 0;
    db.prepare_cached(
        "SELECT m.id, m.line, m.parent, m.parent_uuid IS NOT NULL, m.kind, m.subtype, m.is_meta, m.api_message_id,
             m.timestamp_ms, m.uuid, m.is_sidechain, m.entry, m.session, i.line
         FROM messages i CROSS JOIN messages m ON m.id = i.id
         WHERE i.session = ?1 AND i.subpath = ?2 AND i.line > ?3 AND i.line <= ?4 ORDER BY i.line",
    )?
    .query_map(params![session, subpath, after, until], |row| {
        if row.get::<_, i64>(12)? != session || row.get::<_, Option<i64>>(1)? != row.get(13)? {
            return Err(damaged_index());
        }
        let kind = match row.get_ref(4)?.as_str()? {
            "user" => LightKind::User,
            "assistant" => LightKind::Assistant,
            "system" if row.get_ref(5)?.as_str_or_null()? == Some("compact_boundary") => LightKind::Boundary,
            _ => LightKind::Other,
        };
        let text = if bytes < max_bytes {
            let text = EntryText {
                uuid: row.get(9)?,
                kind: row.get(4)?,
                is_sidechain: row.get(10)?,
                entry: row.get(11)?,
            };
            bytes += text.entry.len();
            Some(text)
        } else {
            None
        };
        Ok(Light {
            id: row.get(0)?,
            line: row.get(1)?,
            text,
            parent: row.get(2)?,
            names_parent: row.get(3)?,
            kind,
            is_meta: row.get(6)?,
            response: if kind == LightKind::Assistant { row.get(7)? } else { None },
            timestamp_ms: row.get(8)?,
        })
    })?
    .collect()
}

/// A row on the way from a message to its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) parent: Option<i64>,
    pub(crate) names_parent: bool,
    pub(crate) on_main_line: bool,
    pub(crate) is_sidechain: bool,
}

/// Where a row hangs.
pub(crate) fn step(db: &Connection, id: i64) -> Result<Option<Step>> {
    db.prepare_cached(
        "SELECT parent, parent_uuid IS NOT NULL, line IS NOT NULL, is_sidechain FROM messages WHERE id = ?1",
    )?
    .query_row([id], |row| {
        Ok(Step {
            parent: row.get(0)?,
            names_parent: row.get(1)?,
            on_main_line: row.get(2)?,
            is_sidechain: row.get(3)?,
        })
    })
    .optional()
}

/// The last message of the main line behind `after` to `until` (by seq).
pub(crate) fn last_on_line(
    db: &Connection,
    (session, subpath): (i64, &str),
    (after, until): (i64, i64),
) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT id FROM messages
         WHERE session = ?1 AND subpath = ?2 AND seq > ?3 AND seq <= ?4 AND line IS NOT NULL
         ORDER BY seq DESC LIMIT 1",
    )?
    .query_row(params![session, subpath, after, until], |row| row.get(0))
    .optional()
}

/// A main-line message's entry and how it is shown.
#[derive(Clone, Debug)]
pub(crate) struct EntryText {
    pub(crate) uuid: String,
    pub(crate) kind: String,
    pub(crate) is_sidechain: bool,
    pub(crate) entry: String,
}

/// Calls `each` with the line and text of those main-line messages from `first` to `last` (by
/// line) that `wanted` asks for; the others' entries are not read.
pub(crate) fn entries_between(
    db: &Connection,
    (session, subpath): (i64, &str),
    (first, last): (i64, i64),
    mut wanted: impl FnMut(i64) -> bool,
    mut each: impl FnMut(i64, EntryText),
) -> Result<()> {
    let mut statement = db.prepare_cached(
        "SELECT line, uuid, kind, is_sidechain, entry FROM messages
         WHERE session = ?1 AND subpath = ?2 AND line BETWEEN ?3 AND ?4 ORDER BY line",
    )?;
    let mut rows = statement.query(params![session, subpath, first, last])?;
    while let Some(row) = rows.next()? {
        let line = row.get(0)?;
        if wanted(line) {
            let text = EntryText {
                uuid: row.get(1)?,
                kind: row.get(2)?,
                is_sidechain: row.get(3)?,
                entry: row.get(4)?,
            };
            each(line, text);
        }
    }
    Ok(())
}
