//! Checking the index: does it hold what it is said to hold?
//!
//! Its own parts can agree with each other and silently miss words, so it is counted from both ends:
//! the words of each message beside the words that are read, and what is read through beside what is
//! found when it is looked for.

use rusqlite::{Connection, Result, params};

use super::anew::broken_parts;
use super::{SPAN_BITS, is_broken, last_id, state};

/// About how many words are looked for.
const PROBES: i64 = 20_000;

/// What is wrong with the index as it stands. Nothing is, of one that is to be made anew anyway.
pub(crate) fn wrong(db: &Connection) -> Result<Vec<String>> {
    let broken = broken_parts(db)?;
    if !broken.is_empty() {
        return Ok(vec![format!("{} cannot be read", broken.join(", "))]);
    }
    let state = state(db)?;
    if !state.is_usable {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    if state.done > last_id(db)? {
        found.push("it is said to hold more messages than there are".to_owned());
    }
    let count = |sql: &str| -> Result<i64> { db.query_row(sql, [], |row| row.get(0)) };
    let strange = count(
        "SELECT count(*) FROM search_docsize d LEFT JOIN messages m ON m.id = d.id
         WHERE m.entry IS NULL OR d.id > coalesce((SELECT done FROM search_state), 0)",
    )?;
    if strange > 0 {
        found.push(format!("it holds {strange} message(s) that it should not"));
    }
    let spans = count(&format!(
        "SELECT count(*) FROM (
             SELECT d.id >> {SPAN_BITS} AS span, min(coalesce(m.timestamp_ms, m.stored_ms)) AS oldest_ms,
                 max(coalesce(m.timestamp_ms, m.stored_ms)) AS newest_ms
             FROM search_docsize d JOIN messages m ON m.id = d.id GROUP BY 1) h
         LEFT JOIN search_spans s ON s.span = h.span
         WHERE s.span IS NULL OR s.oldest_ms > h.oldest_ms OR s.newest_ms < h.newest_ms"
    ))?;
    if spans > 0 {
        found.push(format!("{spans} span(s) of its times are not right"));
    }
    match words(db) {
        Ok(None) => {}
        Ok(Some(what)) => found.push(what),
        Err(error) if is_broken(&error) => found.push("its words cannot be read".to_owned()),
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Reads all words, and looks for some of them.
fn words(db: &Connection) -> Result<Option<String>> {
    // SQLite tells the words through a table of its own, which lies in memory and not in the store.
    let is_guarded: bool = db.query_row("PRAGMA query_only", [], |row| row.get(0))?;
    db.execute_batch("PRAGMA query_only = OFF")?;
    let made = db
        .execute_batch("CREATE VIRTUAL TABLE temp.search_words USING fts5vocab(main, search, row)");
    let found = made.and_then(|()| count_words(db));
    let dropped = db.execute_batch("DROP TABLE IF EXISTS temp.search_words");
    if is_guarded {
        db.execute_batch("PRAGMA query_only = ON")?;
    }
    dropped.and(found)
}

fn count_words(db: &Connection) -> Result<Option<String>> {
    let (terms, there): (i64, i64) = db.query_row(
        "SELECT count(*), coalesce(sum(cnt), 0) FROM temp.search_words",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let mut noted = 0;
    let mut sizes = db.prepare("SELECT sz FROM search_docsize")?;
    let mut sizes = sizes.query([])?;
    while let Some(row) = sizes.next()? {
        noted += varint(row.get_ref(0)?.as_blob().unwrap_or_default());
    }
    if there != noted {
        return Ok(Some(format!("{noted} words are noted, {there} are there")));
    }
    let mut all = db.prepare("SELECT term, doc FROM temp.search_words")?;
    let mut one = db.prepare("SELECT doc FROM temp.search_words WHERE term = ?1")?;
    let mut all = all.query([])?;
    let (mut place, mut missed) = (0, 0);
    while let Some(row) = all.next()? {
        place += 1;
        if place % (terms / PROBES + 1) != 0 {
            continue;
        }
        let (term, messages): (String, i64) = (row.get(0)?, row.get(1)?);
        let mut answer = one.query([term])?;
        let told = match answer.next()? {
            Some(row) => row.get(0)?,
            None => 0,
        };
        missed += i64::from(told != messages);
    }
    Ok((missed > 0).then(|| format!("{missed} word(s) are there and not found")))
}

/// A number as FTS5 stores it: seven bits a byte, the highest first.
fn varint(bytes: &[u8]) -> i64 {
    let mut number = 0_i64;
    for byte in bytes.iter().take(8) {
        number = number << 7 | i64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// The ids that the index is said to have come past, and does not hold.
pub(crate) fn not_held(db: &Connection, after: i64, limit: usize) -> Result<Vec<i64>> {
    db.prepare_cached(
        "SELECT m.id FROM messages m WHERE m.id > ?1 AND m.entry IS NOT NULL
             AND m.id <= coalesce((SELECT done FROM search_state), 0)
             AND NOT EXISTS (SELECT 1 FROM search_docsize d WHERE d.id = m.id)
         ORDER BY m.id LIMIT ?2",
    )?
    .query_map(
        params![after, i64::try_from(limit).unwrap_or(i64::MAX)],
        |row| row.get(0),
    )?
    .collect()
}

/// The pages that the parts of the index begin with.
pub(crate) fn roots(db: &Connection) -> Result<Vec<i64>> {
    db.prepare("SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name LIKE 'search\\_%' ESCAPE '\\'")?
        .query_map([], |row| row.get(0))?
        .collect()
}
