//! Asking the index.

use std::ops::ControlFlow;

use rusqlite::{Connection, OptionalExtension, Result, params};

use super::SPAN_BITS;
use crate::error;
use crate::transcript::search::ask::Term;
use crate::transcript::search::texts::Field;

/// What is asked of the index, in its own language.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) terms: &'a [Term],
    /// Words that are in no text: of each group one must be there.
    pub(crate) facets: Vec<Vec<String>>,
    /// The words of a path, in a row.
    pub(crate) path: Vec<String>,
}

/// What is asked as an FTS5 expression; `None` for nothing. Words hold letters and digits alone, so
/// none can be taken for a part of the language once it stands in quotes.
pub(crate) fn expression(asked: &Asked<'_>) -> Option<String> {
    let row = |words: &[String], is_prefix: bool| {
        let star = if is_prefix { " *" } else { "" };
        format!("\"{}\"{star}", words.join(" "))
    };
    let terms = asked.terms.iter().map(|term| {
        let written = row(&term.words, term.is_prefix);
        match &term.humps {
            Some(humps) => format!("({written} OR {})", row(humps, term.is_prefix)),
            None => written,
        }
    });
    let mut parts: Vec<String> = terms.collect();
    if !asked.path.is_empty() {
        parts.push(format!("\"{}\"", super::path_words(&asked.path)));
    }
    for group in &asked.facets {
        let words: Vec<String> = group.iter().map(|word| format!("\"{word}\"")).collect();
        parts.push(format!("({})", words.join(" OR ")));
    }
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// Ids, and when the messages that bear them were said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) oldest_ms: i64,
    pub(crate) newest_ms: i64,
}

/// The spans of ids that are indexed, in order.
pub(crate) fn spans(db: &Connection) -> Result<Vec<Span>> {
    db.prepare_cached("SELECT span, oldest_ms, newest_ms FROM search_spans ORDER BY span")?
        .query_map([], |row| {
            let span: i64 = row.get(0)?;
            Ok(Span {
                first: span << SPAN_BITS,
                last: ((span + 1) << SPAN_BITS) - 1,
                oldest_ms: row.get(1)?,
                newest_ms: row.get(2)?,
            })
        })?
        .collect()
}

/// Calls `each` with the ids of the messages that answer, or of all that are indexed, from the last one
/// of `first..=last` back, until it breaks.
pub(crate) fn newest(
    db: &Connection,
    expression: Option<&str>,
    (first, last): (i64, i64),
    mut each: impl FnMut(i64) -> error::Result<ControlFlow<()>>,
) -> error::Result<()> {
    let which = match expression {
        Some(_) => "search MATCH ?3 AND",
        None => "?3 IS NULL AND",
    };
    let mut statement = db.prepare_cached(&format!(
        "SELECT rowid FROM search WHERE {which} rowid BETWEEN ?1 AND ?2 ORDER BY rowid DESC"
    ))?;
    let mut rows = statement.query(params![first, last, expression])?;
    while let Some(row) = rows.next()? {
        if each(row.get(0)?)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Of the newest `among` messages that answer, each with how well it does: the lower the better.
pub(crate) fn best(
    db: &Connection,
    expression: &str,
    (first, last): (i64, i64),
    among: usize,
) -> Result<Vec<(i64, f64)>> {
    db.prepare_cached(
        "SELECT rowid, bm25(search) FROM search
         WHERE search MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?4",
    )?
    .query_map(
        params![
            expression,
            first,
            last,
            i64::try_from(among).unwrap_or(i64::MAX)
        ],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?
    .collect()
}

/// A message that answers.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) subpath: String,
    pub(crate) seq: i64,
    pub(crate) uuid: Option<String>,
    pub(crate) kind: String,
    pub(crate) turn: Option<i64>,
    pub(crate) said_ms: i64,
}

impl Hit {
    /// The message with this id, without its entry.
    pub(crate) fn find(db: &Connection, id: i64) -> Result<Option<Self>> {
        db.prepare_cached(
            "SELECT session, subpath, seq, uuid, kind, turn, coalesce(timestamp_ms, stored_ms)
             FROM messages WHERE id = ?1",
        )?
        .query_row([id], |row| {
            Ok(Self {
                id,
                session: row.get(0)?,
                subpath: row.get(1)?,
                seq: row.get(2)?,
                uuid: row.get(3)?,
                kind: row.get(4)?,
                turn: row.get(5)?,
                said_ms: row.get(6)?,
            })
        })
        .optional()
    }
}

/// The entries of a session behind the row `id` whose title holds these words in a row.
pub(crate) fn same_title(
    db: &Connection,
    session: i64,
    words: &[String],
    id: i64,
) -> Result<Vec<String>> {
    let expression = format!(
        "\"{}\" AND \"{}\" AND \"{}\"",
        words.join(" "),
        super::role_facet(Field::Title),
        super::session_facet(session)
    );
    db.prepare_cached(
        "SELECT m.entry FROM search s JOIN messages m ON m.id = s.rowid
         WHERE s.search MATCH ?1 AND s.rowid > ?2 LIMIT 64",
    )?
    .query_map(params![expression, id], |row| row.get(0))?
    .collect()
}

/// The messages that name this one as what they were copied from, at most 64.
pub(crate) fn copies_of(db: &Connection, uuid: &str) -> Result<Vec<i64>> {
    let expression = format!("\"{}\"", super::copy_facet(uuid));
    db.prepare_cached("SELECT rowid FROM search WHERE search MATCH ?1 LIMIT 64")?
        .query_map([expression], |row| row.get(0))?
        .collect()
}
