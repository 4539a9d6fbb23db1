//! `search`: the full-text index, an FTS5 table without content, and how far it has come.
//!
//! It is derived, so nothing here may stop a write: what goes wrong while rows are removed is noted,
//! and the index is made anew when it is next used.

mod anew;
mod asking;
mod checking;
mod making;

pub(crate) use anew::{broken_parts, make_anew};
pub(crate) use asking::{Asked, Hit, Span, best, copies_of, expression, newest, same_title, spans};
pub(crate) use checking::{not_held, roots, wrong};
pub(crate) use making::{
    BAR, Unindexed, copy_facet, each_unindexed, finish, insert, last_id, note_span, path_words,
    project_facet, role_facet, session_facet, tool_facet,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Result, ToSql, params};

use crate::db::Tx;
use crate::error::Error;
use crate::transcript::search::RULES;

/// How many bits of an id tell its place within a span.
const SPAN_BITS: u32 = 10;

/// How far the index has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Messages up to this id are indexed.
    pub(crate) done: i64,
    /// Whether it can be used: whole, as far as is known, and of this release's rules.
    pub(crate) is_usable: bool,
}

/// How far the index has come.
pub(crate) fn state(db: &Connection) -> Result<State> {
    let unusable = State {
        done: 0,
        is_usable: false,
    };
    if !db.table_exists(None, "search_state")? || !db.table_exists(None, "search")? {
        return Ok(unusable);
    }
    let found = db
        .prepare_cached("SELECT rules, done, is_broken FROM search_state WHERE id = 1")?
        .query_row([], |row| {
            Ok(State {
                done: row.get(1)?,
                is_usable: row.get::<_, i64>(0)? == RULES && !row.get::<_, bool>(2)?,
            })
        })
        .optional();
    match found {
        Ok(Some(state)) if state.is_usable => Ok(state),
        Ok(None) => Ok(State {
            done: 0,
            is_usable: true,
        }),
        Ok(Some(_)) => Ok(unusable),
        Err(error) if is_broken(&error) => Ok(unusable),
        Err(error) => Err(error),
    }
}

/// Notes that messages up to this id are indexed.
pub(crate) fn set_done(tx: &Tx<'_>, done: i64) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO search_state (id, rules, done) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET rules = ?1, done = ?2",
    )?
    .execute(params![RULES, done])?;
    Ok(())
}

/// Whether an error says that the index is damaged or gone, or that a page of the file is, which may be
/// one of the index.
pub(crate) fn is_broken(error: &rusqlite::Error) -> bool {
    let says = |text: &str| {
        text.contains("no such table: search")
            || text.contains("no such table: main.search")
            || text.contains("vtable constructor failed: search")
            || text.contains("invalid fts5 file format")
            || text.contains("no such column")
    };
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            // Parts that do not fit together refuse a new one.
            let codes = [ErrorCode::DatabaseCorrupt, ErrorCode::ConstraintViolation];
            codes.contains(&code.code) || text.as_deref().is_some_and(says)
        }
        rusqlite::Error::SqlInputError { msg, .. } => says(msg),
        rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}

/// Whether it is the index that an error is about: for a damaged page it is looked whether the index
/// has one.
pub(crate) fn is_of_index(db: &Connection, error: &Error) -> Result<bool> {
    let source = match error {
        Error::Storage(source) => source.downcast_ref::<rusqlite::Error>(),
        Error::Damaged { .. } => return Ok(!broken_parts(db)?.is_empty()),
        _ => None,
    };
    let Some(source) = source.filter(|source| is_broken(source)) else {
        return Ok(false);
    };
    let code = source.sqlite_error().map(|code| code.extended_code);
    let is_of_page = code == Some(rusqlite::ffi::SQLITE_CORRUPT);
    Ok(!is_of_page || !broken_parts(db)?.is_empty())
}

/// Removes all of a session's rows from the index: before they leave `messages`.
pub(crate) fn remove_all(tx: &Tx<'_>, session: i64) -> Result<()> {
    remove(
        tx,
        "DELETE FROM search WHERE rowid IN (SELECT id FROM messages WHERE session = ?1 AND id <= ?2)",
        &[&session],
    )
}

/// Removes the rows of one transcript from the index.
pub(crate) fn remove_transcript(tx: &Tx<'_>, session: i64, subpath: &str) -> Result<()> {
    remove(
        tx,
        "DELETE FROM search WHERE rowid IN
             (SELECT id FROM messages WHERE session = ?1 AND subpath = ?3 AND id <= ?2)",
        &[&session, &subpath],
    )
}

/// Removes the rows of a main transcript behind `seq` from the index.
pub(crate) fn remove_behind(tx: &Tx<'_>, session: i64, seq: i64) -> Result<()> {
    remove(
        tx,
        "DELETE FROM search WHERE rowid IN
             (SELECT id FROM messages WHERE session = ?1 AND subpath = '' AND seq > ?3 AND id <= ?2)",
        &[&session, &seq],
    )
}

fn remove(tx: &Tx<'_>, sql: &str, of: &[&dyn ToSql]) -> Result<()> {
    let state = state(tx)?;
    if state.done == 0 {
        return Ok(());
    }
    let removed = guarded(tx, || {
        let values = [&of[..1], &[&state.done], &of[1..]].concat();
        tx.prepare_cached(sql)?.execute(&*values)?;
        flush(tx)
    });
    match removed {
        Err(error) if is_broken(&error) => give_up(tx),
        other => other,
    }
}

/// Runs what may fail, so that what was stored before it is not lost with it.
pub(crate) fn guarded<T, E: From<rusqlite::Error>>(
    tx: &Tx<'_>,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    tx.execute_batch("SAVEPOINT search_work")?;
    let outcome = work();
    if outcome.is_err() {
        tx.execute_batch("ROLLBACK TO search_work")?;
    }
    tx.execute_batch("RELEASE search_work")?;
    outcome
}

/// Writes what the index holds in memory, so that what is wrong with it comes up now and not at the
/// commit.
pub(crate) fn flush(tx: &Tx<'_>) -> Result<()> {
    tx.prepare_cached("INSERT INTO search (search) VALUES ('flush')")?
        .execute([])?;
    Ok(())
}

/// Notes that the index is to be made anew.
fn give_up(tx: &Tx<'_>) -> Result<()> {
    let noted = guarded(tx, || {
        tx.execute("UPDATE search_state SET is_broken = 1", [])
            .map(drop)
    });
    match noted {
        Err(error) if is_broken(&error) => Ok(()),
        other => other,
    }
}
