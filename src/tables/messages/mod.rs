//! `messages`: every entry of every transcript, written and found by its place.

mod lines;
mod main_line;

pub(crate) use lines::{
    Stored, each_entry, each_of_kinds, entries, first_entry, last, last_of_kind, page,
};
pub(crate) use main_line::{Light, LightKind, entries_between, last_on_line, main_line, step};

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::db::Tx;
use crate::transcript::line::Ending;
use crate::transcript::reading::Reading;

/// Where a new row goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewPlace<'a> {
    pub(crate) session: i64,
    pub(crate) subpath: &'a str,
    pub(crate) seq: i64,
    pub(crate) line: Option<i64>,
    pub(crate) parent: Option<i64>,
    pub(crate) turn: Option<i64>,
    /// Whether it opens a turn, which then is its own.
    pub(crate) opens_turn: bool,
    pub(crate) import_source: Option<i64>,
    /// The newest note of the scratchpad.
    pub(crate) scratch: Option<i64>,
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
pub(crate) fn insert(tx: &Tx<'_>, place: NewPlace<'_>, reading: &Reading) -> Result<Option<i64>> {
    // A message that opens a turn names itself as the turn: its id is taken ahead, so that a large
    // row is not written twice.
    let own_turn = if place.opens_turn {
        Some(next_id(tx)?)
    } else {
        None
    };
    let stored = tx
        .prepare_cached(
            "INSERT INTO messages (id, session, subpath, seq, line, uuid, parent, parent_uuid, kind, subtype, role,
                 is_sidechain, is_meta, agent, turn, api_message_id, model, input_tokens, output_tokens,
                 cache_read_tokens, cache_write_tokens, timestamp_ms, stored_ms, import_source, line_end, entry, raw, scratch)
             VALUES (:id, :session, :subpath, :seq, :line, :uuid, :parent, :parent_uuid, :kind, :subtype, :role,
                 :is_sidechain, :is_meta, :agent, :turn, :api_message_id, :model, :input_tokens, :output_tokens,
                 :cache_read_tokens, :cache_write_tokens, :timestamp_ms, :stored_ms, :import_source, :line_end,
                 :entry, :raw, :scratch)
             ON CONFLICT (session, subpath, uuid) WHERE uuid IS NOT NULL DO NOTHING",
        )?
        // Bound by place, in the order of the names above: looking 26 names up for each row took a
        // fifth of the time of an insert.
        .execute(params![
            own_turn,
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
            own_turn.or(place.turn),
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
            place.scratch,
        ])?;
    Ok((stored == 1).then(|| tx.last_insert_rowid()))
}

/// The id that the next row gets.
fn next_id(tx: &Tx<'_>) -> Result<i64> {
    let last: Option<i64> = tx
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'messages'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(last.unwrap_or(0) + 1)
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

/// Notes what was found behind the record on a line that had not ended, and how the line ends now.
pub(crate) fn settle_padding(tx: &Tx<'_>, id: i64, reading: &Reading) -> Result<()> {
    tx.prepare_cached("UPDATE messages SET raw = ?2, line_end = ?3 WHERE id = ?1")?
        .execute(params![id, reading.raw, line_end(reading.ending)])?;
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

/// Where a row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) subpath: String,
    pub(crate) seq: i64,
    pub(crate) line: Option<i64>,
    pub(crate) uuid: Option<String>,
    pub(crate) parent: Option<i64>,
    pub(crate) turn: Option<i64>,
}

impl Place {
    fn answers_to(&self, session: i64, subpath: &str, uuid: &str) -> bool {
        self.session == session && self.subpath == subpath && self.uuid.as_deref() == Some(uuid)
    }
}

const PLACE: &str = "id, session, subpath, seq, line, uuid, parent, turn";

fn place(row: &Row<'_>) -> Result<Place> {
    Ok(Place {
        id: row.get(0)?,
        session: row.get(1)?,
        subpath: row.get(2)?,
        seq: row.get(3)?,
        line: row.get(4)?,
        uuid: row.get(5)?,
        parent: row.get(6)?,
        turn: row.get(7)?,
    })
}

/// The row of a transcript that answers to `uuid`.
pub(crate) fn find_place(
    db: &Connection,
    session: i64,
    subpath: &str,
    uuid: &str,
) -> Result<Option<Place>> {
    let id = db
        .prepare_cached(
            "SELECT id FROM messages WHERE session = ?1 AND subpath = ?2 AND uuid = ?3",
        )?
        .query_row(params![session, subpath, uuid], |row| row.get(0))
        .optional()?;
    let Some(id) = id else { return Ok(None) };
    match place_of(db, id)? {
        Some(place) if place.answers_to(session, subpath, uuid) => Ok(Some(place)),
        _ => Err(super::damaged_index()),
    }
}

/// Where the row with this id is.
pub(crate) fn place_of(db: &Connection, id: i64) -> Result<Option<Place>> {
    let sql = format!("SELECT {PLACE} FROM messages WHERE id = ?1");
    db.prepare_cached(&sql)?.query_row([id], place).optional()
}

/// The messages of a main transcript that open turns, in the order in which they were stored.
pub(crate) fn openers(
    db: &Connection,
    session: i64,
    (after_seq, until_seq): (i64, i64),
) -> Result<Vec<Place>> {
    let sql = format!(
        "SELECT {PLACE} FROM messages
         WHERE session = ?1 AND subpath = '' AND seq > ?2 AND seq <= ?3 AND turn = id ORDER BY seq"
    );
    db.prepare_cached(&sql)?
        .query_map(params![session, after_seq, until_seq], place)?
        .collect()
}

/// The number of the last row of a session's main transcript up to a row of any.
pub(crate) fn last_seq_at(db: &Connection, session: i64, id: i64) -> Result<Option<i64>> {
    // By id, from there back: one of this session's is near.
    db.prepare_cached(
        "SELECT seq FROM messages WHERE id <= ?2 AND +session = ?1 AND +subpath = ''
         ORDER BY id DESC LIMIT 1",
    )?
    .query_row(params![session, id], |row| row.get(0))
    .optional()
}

/// The first row of a session's main transcript.
pub(crate) fn first_of(db: &Connection, session: i64) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT id FROM messages WHERE session = ?1 AND subpath = '' ORDER BY seq LIMIT 1",
    )?
    .query_row([session], |row| row.get(0))
    .optional()
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

/// Removes the rows of a main transcript behind `seq`.
pub(crate) fn delete_behind(tx: &Tx<'_>, session: i64, seq: i64) -> Result<usize> {
    tx.prepare_cached("DELETE FROM messages WHERE session = ?1 AND subpath = '' AND seq > ?2")?
        .execute(params![session, seq])
}

/// The last message of a session whose uuid another session's main transcript has too: that one's
/// row. A client's fork keeps the uuids of what it copied.
pub(crate) fn last_shared(db: &Connection, session: i64, other: i64) -> Result<Option<i64>> {
    db.prepare_cached(
        "SELECT o.id FROM messages m
         JOIN messages o ON o.session = ?2 AND o.subpath = '' AND o.uuid = m.uuid
         WHERE m.session = ?1 AND m.subpath = '' AND m.line IS NOT NULL ORDER BY m.line DESC LIMIT 1",
    )?
    .query_row(params![session, other], |row| row.get(0))
    .optional()
}

/// Whether a message belongs to the response that made a call: another entry of it, one of its
/// results, or bookkeeping of the harness.
pub(crate) fn is_of_response(db: &Connection, id: i64, caller: i64) -> Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM messages m, messages c
         WHERE m.id = ?1 AND c.id = ?2
           AND (m.api_message_id = c.api_message_id
                OR m.kind = 'attachment'
                OR EXISTS (SELECT 1 FROM tool_results r JOIN tool_calls t ON t.id = r.call
                           JOIN messages o ON o.id = t.message
                           WHERE r.message = m.id AND r.session = m.session
                             AND (o.id = c.id OR o.api_message_id = c.api_message_id)))",
    )?
    .exists(params![id, caller])
}

/// The tokens a message's provider counted: input, output, read from and written to the cache.
pub(crate) fn usage(db: &Connection, id: i64) -> Result<[Option<i64>; 4]> {
    db.prepare_cached(
        "SELECT input_tokens, output_tokens, cache_read_tokens, cache_write_tokens FROM messages WHERE id = ?1",
    )?
    .query_row([id], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))
}

/// The last message of a session that names the message of another it was copied from.
pub(crate) fn last_copied(db: &Connection, session: i64) -> Result<Option<String>> {
    db.prepare_cached(
        "SELECT entry FROM messages
         WHERE session = ?1 AND subpath = '' AND line IS NOT NULL AND instr(entry, '\"forkedFrom\"') > 0
         ORDER BY line DESC LIMIT 1",
    )?
    .query_row([session], |row| row.get(0))
    .optional()
}

/// When a row was stored.
pub(crate) fn stored_ms(db: &Connection, id: i64) -> Result<Option<i64>> {
    db.prepare_cached("SELECT stored_ms FROM messages WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

/// When a message was said: by its own word, else when it was stored.
pub(crate) fn said_ms(db: &Connection, id: i64) -> Result<Option<i64>> {
    db.prepare_cached("SELECT coalesce(timestamp_ms, stored_ms) FROM messages WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()
}

/// Removes all of a session's rows.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached("DELETE FROM messages WHERE session = ?1")?
        .execute([session])
}
