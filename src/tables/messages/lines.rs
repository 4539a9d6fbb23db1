//! The lines of a transcript, page by page.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::tables::damaged_index;
use crate::transcript::line::{Ending, kept_bytes};

/// A stored line, as it is shown and exported.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) seq: i64,
    pub(crate) uuid: Option<String>,
    pub(crate) parent: Option<i64>,
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
        kept_bytes(self.raw.as_deref(), self.entry.as_deref())
    }
}

const COLUMNS: &str = "m.id, m.seq, m.uuid, m.parent, m.kind, m.import_source IS NOT NULL, m.line IS NOT NULL, \
     m.line_end, m.entry, m.raw, m.session, m.subpath, i.seq";

/// The index on the numbers, and the rows it leads to.
const NUMBERED: &str = "messages i CROSS JOIN messages m ON m.id = i.id";

fn stored(row: &Row<'_>) -> Result<Stored> {
    let ending = match row.get_ref(7)?.as_str_or_null()? {
        None => Ending::Lf,
        Some("joined") => Ending::Joined,
        Some(_) => Ending::Eof,
    };
    Ok(Stored {
        id: row.get(0)?,
        seq: row.get(1)?,
        uuid: row.get(2)?,
        parent: row.get(3)?,
        kind: row.get(4)?,
        from_file: row.get(5)?,
        on_main_line: row.get(6)?,
        ending,
        entry: row.get(8)?,
        raw: row.get(9)?,
    })
}

/// Whether the row is the one that the index was asked for: by where in `row` its seq, its session,
/// its subpath, and the index's seq stand.
fn check(row: &Row<'_>, columns: [usize; 4], session: i64, subpath: &str) -> Result<()> {
    let [seq, of, below, asked] = columns;
    let is_it = row.get::<_, i64>(seq)? == row.get::<_, i64>(asked)?
        && row.get::<_, i64>(of)? == session
        && row.get_ref(below)?.as_str()? == subpath;
    is_it.then_some(()).ok_or_else(damaged_index)
}

/// The lines of a transcript behind `after` to `until` (by seq), in order, until their bytes pass
/// `max_bytes` or there are `max_rows`; at least one if there is one.
pub(crate) fn page(
    db: &Connection,
    (session, subpath, after, until): (i64, &str, i64, i64),
    max_rows: usize,
    max_bytes: usize,
) -> Result<Vec<Stored>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {NUMBERED}
         WHERE i.session = ?1 AND i.subpath = ?2 AND i.seq > ?3 AND i.seq <= ?4 ORDER BY i.seq"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![session, subpath, after, until])?;
    let (mut lines, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        check(row, [1, 10, 11, 12], session, subpath)?;
        let line = stored(row)?;
        bytes += line.bytes().len();
        lines.push(line);
        if lines.len() >= max_rows || bytes >= max_bytes {
            break;
        }
    }
    Ok(lines)
}

/// The entries of a transcript behind `after` to `until` (by seq), in order.
pub(crate) fn entries(
    db: &Connection,
    (session, subpath, after, until): (i64, &str, i64, i64),
) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT m.entry, m.seq, m.session, m.subpath, i.seq FROM {NUMBERED}
         WHERE i.session = ?1 AND i.subpath = ?2 AND i.seq > ?3 AND i.seq <= ?4 ORDER BY i.seq"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query(params![session, subpath, after, until])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        check(row, [1, 2, 3, 4], session, subpath)?;
        entries.extend(row.get::<_, Option<String>>(0)?);
    }
    Ok(entries)
}

/// An entry where it lies in the database, with what it is shown by.
pub(crate) struct EntryRef<'r> {
    pub(crate) id: i64,
    pub(crate) uuid: Option<&'r str>,
    pub(crate) parent: Option<i64>,
    pub(crate) entry: &'r str,
}

/// Gives `each` the entries of several pieces of a transcript, one piece after another, with the
/// number of the piece. A piece is its session's rows behind a seq to another.
pub(crate) fn each_entry<E: From<rusqlite::Error>>(
    db: &Connection,
    subpath: &str,
    pieces: impl Iterator<Item = (i64, i64, i64)>,
    mut each: impl FnMut(usize, EntryRef<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let sql = format!(
        "SELECT m.entry, m.seq, m.session, m.subpath, i.seq, m.id, m.uuid, m.parent FROM {NUMBERED}
         WHERE i.session = ?1 AND i.subpath = ?2 AND i.seq > ?3 AND i.seq <= ?4 ORDER BY i.seq"
    );
    let mut statement = db.prepare_cached(&sql)?;
    for (piece, (session, after, until)) in pieces.enumerate() {
        let mut rows = statement.query(params![session, subpath, after, until])?;
        while let Some(row) = rows.next()? {
            check(row, [1, 2, 3, 4], session, subpath)?;
            let text = |column| {
                let text = row.get_ref(column)?.as_str_or_null();
                text.map_err(rusqlite::Error::from)
            };
            if let Some(entry) = text(0)? {
                let row = EntryRef {
                    id: row.get(5)?,
                    uuid: text(6)?,
                    parent: row.get(7)?,
                    entry,
                };
                each(piece, row)?;
            }
        }
    }
    Ok(())
}

/// Gives `each` the entries of two kinds in a piece of a main transcript, in order.
pub(crate) fn each_of_kinds<E: From<rusqlite::Error>>(
    db: &Connection,
    (session, after, until): (i64, i64, i64),
    (one, other): (&str, &str),
    mut each: impl FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let mut statement = db.prepare_cached(
        "SELECT entry FROM messages
         WHERE session = ?1 AND subpath = '' AND seq > ?2 AND seq <= ?3 AND kind IN (?4, ?5)
           AND entry IS NOT NULL
         ORDER BY seq",
    )?;
    let mut rows = statement.query(params![session, after, until, one, other])?;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?)?;
    }
    Ok(())
}

/// The first entry of a transcript.
pub(crate) fn first_entry(db: &Connection, session: i64, subpath: &str) -> Result<Option<String>> {
    db.prepare_cached(
        "SELECT entry FROM messages
         WHERE session = ?1 AND subpath = ?2 AND entry IS NOT NULL AND kind <> 'agent_metadata'
         ORDER BY seq LIMIT 1",
    )?
    .query_row(params![session, subpath], |row| row.get(0))
    .optional()
}

/// The last line of a transcript.
pub(crate) fn last(db: &Connection, session: i64, subpath: &str) -> Result<Option<Stored>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {NUMBERED}
         WHERE i.session = ?1 AND i.subpath = ?2 ORDER BY i.seq DESC LIMIT 1"
    );
    db.prepare_cached(&sql)?
        .query_row(params![session, subpath], |row| {
            check(row, [1, 10, 11, 12], session, subpath)?;
            stored(row)
        })
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
