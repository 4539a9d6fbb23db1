//! `transcripts`: one row a transcript: its counters and its head.

use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use crate::db::Tx;

/// A transcript's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TranscriptRow {
    pub(crate) session: i64,
    pub(crate) subpath: String,
    pub(crate) next_seq: i64,
    pub(crate) next_line: i64,
    pub(crate) head: Option<i64>,
    pub(crate) turn: Option<i64>,
    pub(crate) dangling: i64,
    pub(crate) entries: i64,
    /// Whether the row is stored yet.
    pub(crate) exists: bool,
}

impl TranscriptRow {
    /// A transcript that has no entry yet.
    pub(crate) fn new(session: i64, subpath: &str) -> Self {
        Self {
            session,
            subpath: subpath.to_owned(),
            next_seq: 1,
            next_line: 1,
            ..Self::default()
        }
    }
}

/// The row of a transcript, if it has one.
pub(crate) fn find(db: &Connection, session: i64, subpath: &str) -> Result<Option<TranscriptRow>> {
    db.prepare_cached(
        "SELECT next_seq, next_line, head, turn, dangling, entries FROM transcripts
         WHERE session = ?1 AND subpath = ?2",
    )?
    .query_row(params![session, subpath], |row| {
        Ok(TranscriptRow {
            session,
            subpath: subpath.to_owned(),
            next_seq: row.get(0)?,
            next_line: row.get(1)?,
            head: row.get(2)?,
            turn: row.get(3)?,
            dangling: row.get(4)?,
            entries: row.get(5)?,
            exists: true,
        })
    })
    .optional()
}

/// The message that a transcript's conversation ends with.
pub(crate) fn head(db: &Connection, session: i64, subpath: &str) -> Result<Option<i64>> {
    let head: Option<Option<i64>> = db
        .prepare_cached("SELECT head FROM transcripts WHERE session = ?1 AND subpath = ?2")?
        .query_row(params![session, subpath], |row| row.get(0))
        .optional()?;
    Ok(head.flatten())
}

/// Stores what an append changed.
pub(crate) fn save(tx: &Tx<'_>, row: &TranscriptRow) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO transcripts (session, subpath, next_seq, next_line, head, turn, dangling, entries, stored_ms)
         VALUES (:session, :subpath, :next_seq, :next_line, :head, :turn, :dangling, :entries, :now)
         ON CONFLICT (session, subpath) DO UPDATE
         SET next_seq = excluded.next_seq, next_line = excluded.next_line, head = excluded.head,
             turn = excluded.turn, dangling = excluded.dangling, entries = excluded.entries",
    )?
    .execute(named_params! {
        ":session": row.session,
        ":subpath": row.subpath,
        ":next_seq": row.next_seq,
        ":next_line": row.next_line,
        ":head": row.head,
        ":turn": row.turn,
        ":dangling": row.dangling,
        ":entries": row.entries,
        ":now": tx.now_ms(),
    })?;
    Ok(())
}

/// The subpaths of a session's sub-agent transcripts, sorted.
pub(crate) fn subpaths(db: &Connection, session: i64) -> Result<Vec<String>> {
    db.prepare_cached(
        "SELECT subpath FROM transcripts WHERE session = ?1 AND subpath <> '' ORDER BY subpath",
    )?
    .query_map([session], |row| row.get(0))?
    .collect()
}

/// Removes one transcript's row.
pub(crate) fn delete(tx: &Tx<'_>, session: i64, subpath: &str) -> Result<usize> {
    tx.prepare_cached("DELETE FROM transcripts WHERE session = ?1 AND subpath = ?2")?
        .execute(params![session, subpath])
}

/// Removes all of a session's rows.
pub(crate) fn delete_all(tx: &Tx<'_>, session: i64) -> Result<usize> {
    tx.prepare_cached("DELETE FROM transcripts WHERE session = ?1")?
        .execute([session])
}
