//! `messages`: every entry of every transcript, written and found by its place.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;
use crate::transcript::line::Ending;
use crate::transcript::reading::Reading;

/// Where a row goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) session: i64,
    pub(crate) subpath: &'a str,
    pub(crate) seq: i64,
    pub(crate) line: Option<i64>,
    pub(crate) parent: Option<i64>,
    pub(crate) turn: Option<i64>,
    pub(crate) import_source: Option<i64>,
    /// Whether the row answers to its uuid. A row that repeats a uuid does not.
    pub(crate) indexed: bool,
}

fn line_end(ending: Ending) -> Option<&'static str> {
    match ending {
        Ending::Lf => None,
        Ending::Eof => Some("eof"),
        Ending::Joined => Some("joined"),
    }
}

/// Stores a row and returns its id; `None` if another row answers to the same uuid.
pub(crate) fn insert(tx: &Tx<'_>, place: Place<'_>, reading: &Reading) -> Result<Option<i64>> {
    let stored = tx
        .prepare_cached(
            "INSERT INTO messages (session, subpath, seq, line, uuid, parent, parent_uuid, kind, subtype, role,
                 is_sidechain, is_meta, agent, turn, api_message_id, model, input_tokens, output_tokens,
                 cache_read_tokens, cache_write_tokens, timestamp_ms, stored_ms, import_source, line_end, entry, raw)
             VALUES (:session, :subpath, :seq, :line, :uuid, :parent, :parent_uuid, :kind, :subtype, :role,
                 :is_sidechain, :is_meta, :agent, :turn, :api_message_id, :model, :input_tokens, :output_tokens,
                 :cache_read_tokens, :cache_write_tokens, :timestamp_ms, :stored_ms, :import_source, :line_end,
                 :entry, :raw)
             ON CONFLICT (session, subpath, uuid) WHERE uuid IS NOT NULL DO NOTHING",
        )?
        // Bound by place, in the order of the names above: looking 26 names up for each row took a
        // fifth of the time of an insert.
        .execute(params![
            place.session,
            place.subpath,
            place.seq,
            place.line,
            reading.uuid.as_ref().filter(|_| place.indexed),
            place.parent,
            reading.parent_uuid,
            reading.kind,
            reading.subtype,
            reading.role,
            reading.is_sidechain,
            reading.is_meta,
            reading.agent,
            place.turn,
            reading.response,
            reading.model,
            reading.usage.input,
            reading.usage.output,
            reading.usage.cache_read,
            reading.usage.cache_write,
            reading.timestamp_ms,
            tx.now_ms(),
            place.import_source,
            line_end(reading.ending),
            reading.entry,
            reading.raw,
        ])?;
    Ok((stored == 1).then(|| tx.last_insert_rowid()))
}

/// Makes a message the one that opened its turn.
pub(crate) fn open_turn(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.prepare_cached("UPDATE messages SET turn = id WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Removes a row. Only the unfinished last line of an import is ever taken back so, to be stored
/// whole in the same transaction.
pub(crate) fn remove(tx: &Tx<'_>, id: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM messages WHERE id = ?1")?
        .execute([id])?;
    Ok(())
}

/// Notes how the last line of a file, once unfinished, has ended. Half a record stays half a
/// record, and is no longer waited for.
pub(crate) fn settle_end(tx: &Tx<'_>, id: i64, ending: Ending) -> Result<()> {
    tx.prepare_cached(
        "UPDATE messages
         SET line_end = ?2, kind = CASE WHEN kind = 'partial' AND entry IS NULL THEN 'malformed' ELSE kind END
         WHERE id = ?1",
    )?
    .execute(params![id, line_end(ending)])?;
    Ok(())
}

/// Binds the rows that named `uuid` as their parent before it was there. Returns how many.
pub(crate) fn bind_children(
    tx: &Tx<'_>,
    session: i64,
    subpath: &str,
    uuid: &str,
    id: i64,
) -> Result<usize> {
    tx.prepare_cached(
        "UPDATE messages SET parent = ?4
         WHERE session = ?1 AND subpath = ?2 AND parent_uuid = ?3 AND parent IS NULL",
    )?
    .execute(params![session, subpath, uuid, id])
}

/// A row that answers to a uuid.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) id: i64,
    pub(crate) entry: Option<String>,
}

/// The row that answers to `uuid`.
pub(crate) fn find(
    db: &Connection,
    session: i64,
    subpath: &str,
    uuid: &str,
) -> Result<Option<Known>> {
    db.prepare_cached(
        "SELECT id, entry FROM messages WHERE session = ?1 AND subpath = ?2 AND uuid = ?3",
    )?
    .query_row(params![session, subpath, uuid], |row| {
        Ok(Known {
            id: row.get(0)?,
            entry: row.get(1)?,
        })
    })
    .optional()
}

/// The id of the row that answers to `uuid`, and its turn: without reading the entry.
pub(crate) fn find_id(
    db: &Connection,
    session: i64,
    subpath: &str,
    uuid: &str,
) -> Result<Option<(i64, Option<i64>)>> {
    db.prepare_cached(
        "SELECT id, turn FROM messages WHERE session = ?1 AND subpath = ?2 AND uuid = ?3",
    )?
    .query_row(params![session, subpath, uuid], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .optional()
}

/// A stored line, as it is shown and exported.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) seq: i64,
    pub(crate) kind: String,
    pub(crate) from_file: bool,
    pub(crate) on_main_line: bool,
    pub(crate) ending: Ending,
    pub(crate) entry: Option<String>,
    pub(crate) raw: Option<Vec<u8>>,
}

impl Stored {
    /// The bytes of the line, without what ends it.
    pub(crate) fn bytes(&self) -> &[u8] {
        match (&self.raw, &self.entry) {
            (Some(raw), _) => raw,
            (None, Some(entry)) => entry.as_bytes(),
            (None, None) => &[],
        }
    }
}

fn stored(row: &Row<'_>) -> Result<Stored> {
    let ending = match row.get_ref(4)?.as_str_or_null()? {
        None => Ending::Lf,
        Some("joined") => Ending::Joined,
        Some(_) => Ending::Eof,
    };
    Ok(Stored {
        id: row.get(0)?,
        seq: row.get(1)?,
        kind: row.get(2)?,
        from_file: row.get(3)?,
        on_main_line: row.get(5)?,
        ending,
        entry: row.get(6)?,
        raw: row.get(7)?,
    })
}

/// The lines of a transcript behind `after_seq`, in order, until their bytes pass `max_bytes` or
/// there are `max_rows`; at least one if there is one.
pub(crate) fn page(
    db: &Connection,
    session: i64,
    subpath: &str,
    after_seq: i64,
    max_rows: usize,
    max_bytes: usize,
) -> Result<Vec<Stored>> {
    let mut statement = db.prepare_cached(
        "SELECT id, seq, kind, import_source IS NOT NULL, line_end, line IS NOT NULL, entry, raw FROM messages
         WHERE session = ?1 AND subpath = ?2 AND seq > ?3 ORDER BY seq",
    )?;
    let mut rows = statement.query(params![session, subpath, after_seq])?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let line = stored(row)?;
        bytes += line.bytes().len();
        lines.push(line);
        if lines.len() >= max_rows || bytes >= max_bytes {
            break;
        }
    }
    Ok(lines)
}

/// The last line of a transcript.
pub(crate) fn last(db: &Connection, session: i64, subpath: &str) -> Result<Option<Stored>> {
    db.prepare_cached(
        "SELECT id, seq, kind, import_source IS NOT NULL, line_end, line IS NOT NULL, entry, raw FROM messages
         WHERE session = ?1 AND subpath = ?2 ORDER BY seq DESC LIMIT 1",
    )?
    .query_row(params![session, subpath], stored)
    .optional()
}

/// The newest entry of one kind in a transcript.
pub(crate) fn last_of_kind(
    db: &Connection,
    session: i64,
    subpath: &str,
    kind: &str,
) -> Result<Option<String>> {
    db.prepare_cached(
        "SELECT entry FROM messages
         WHERE session = ?1 AND subpath = ?2 AND kind = ?3 AND entry IS NOT NULL ORDER BY seq DESC LIMIT 1",
    )?
    .query_row(params![session, subpath, kind], |row| row.get(0))
    .optional()
}

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

/// The main line of a transcript, in order; of the entries the first `max_bytes` are read along.
pub(crate) fn main_line(
    db: &Connection,
    session: i64,
    subpath: &str,
    max_bytes: usize,
) -> Result<Vec<Light>> {
    let mut bytes = 0;
    db.prepare_cached(
        "SELECT id, line, parent, parent_uuid IS NOT NULL, kind, subtype, is_meta, api_message_id, timestamp_ms,
             uuid, is_sidechain, entry
         FROM messages WHERE session = ?1 AND subpath = ?2 AND line IS NOT NULL ORDER BY line",
    )?
    .query_map(params![session, subpath], |row| {
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

/// The entry of a row.
pub(crate) fn entry(db: &Connection, id: i64) -> Result<Option<String>> {
    let entry: Option<Option<String>> = db
        .prepare_cached("SELECT entry FROM messages WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    Ok(entry.flatten())
}

/// How many rows of a transcript name a parent that is not there.
pub(crate) fn count_dangling(db: &Connection, session: i64, subpath: &str) -> Result<i64> {
    db.prepare_cached(
        "SELECT count(*) FROM messages
         WHERE session = ?1 AND subpath = ?2 AND parent IS NULL AND parent_uuid IS NOT NULL",
    )?
    .query_row(params![session, subpath], |row| row.get(0))
}

/// How many main-line messages of a session hang from nothing that is there, or from a sub-agent's
/// entry, and have a message before them to be bridged to.
pub(crate) fn count_bridged(db: &Connection, session: i64) -> Result<i64> {
    db.prepare_cached(
        "SELECT count(*) FROM messages m LEFT JOIN messages p ON p.id = m.parent
         WHERE m.session = ?1 AND m.line > 1 AND m.parent_uuid IS NOT NULL
           AND (p.id IS NULL OR (m.subpath = '' AND p.is_sidechain = 1))",
    )?
    .query_row([session], |row| row.get(0))
}

/// Removes the rows of one transcript.
pub(crate) fn delete(tx: &Tx<'_>, session: i64, subpath: &str) -> Result<usize> {
    tx.prepare_cached("DELETE FROM messages WHERE session = ?1 AND subpath = ?2")?
        .execute(params![session, subpath])
}

/// Removes all of a session's rows.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached("DELETE FROM messages WHERE session = ?1")?
        .execute([session])
}

/// The entries of a transcript, in order.
pub(crate) fn entries(db: &Connection, session: i64, subpath: &str) -> Result<Vec<String>> {
    db.prepare_cached(
        "SELECT entry FROM messages WHERE session = ?1 AND subpath = ?2 AND entry IS NOT NULL ORDER BY seq",
    )?
    .query_map(params![session, subpath], |row| row.get(0))?
    .collect()
}
