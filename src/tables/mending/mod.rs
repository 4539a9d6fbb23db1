//! Bringing rows that were saved from a damaged file into agreement: what names a row that is gone, rows that stand
//! in two places, sessions without a row. Forks and notes have files of their own.

pub(crate) mod forks;
pub(crate) mod notes;

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::db::Tx;
use crate::model::SessionKey;

/// Where a message stands.
pub(crate) struct Standing {
    pub(crate) id: i64,
    pub(crate) session: i64,
    pub(crate) subpath: String,
    pub(crate) seq: i64,
}

/// Calls `each` with the place of every message, by id.
pub(crate) fn standings(db: &Connection, mut each: impl FnMut(Standing)) -> Result<()> {
    let mut statement =
        db.prepare("SELECT id, session, subpath, seq FROM messages NOT INDEXED ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(Standing {
            id: row.get(0)?,
            session: row.get(1)?,
            subpath: row.get(2)?,
            seq: row.get(3)?,
        });
    }
    Ok(())
}

/// The next seq of every transcript that has a row.
pub(crate) fn next_seqs(db: &Connection) -> Result<Vec<((i64, String), i64)>> {
    db.prepare("SELECT session, subpath, next_seq FROM transcripts")?
        .query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?
        .collect()
}

/// Every session, deleted or not, by age.
pub(crate) fn session_ids(db: &Connection) -> Result<Vec<i64>> {
    db.prepare("SELECT id FROM sessions ORDER BY id")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The sessions that were deleted.
pub(crate) fn deleted_sessions(db: &Connection) -> Result<HashSet<i64>> {
    db.prepare("SELECT id FROM sessions WHERE deleted_ms IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// The name of a session, or of its place where its row is lost.
pub(crate) fn session_name(db: &Connection, id: i64) -> Result<String> {
    let key = db
        .prepare_cached("SELECT project_key, session_id FROM sessions WHERE id = ?1")?
        .query_row([id], |row| {
            Ok(SessionKey {
                project_key: row.get(0)?,
                session_id: row.get(1)?,
            })
        })
        .optional()?;
    Ok(key.map_or_else(|| format!("number {id}"), |key| format!("`{key}`")))
}

/// Lets only the first of several messages with one uuid answer to it. Returns the others' ids.
pub(crate) fn forget_repeated_uuids(tx: &Tx<'_>) -> Result<Vec<i64>> {
    tx.prepare(
        "UPDATE messages SET uuid = NULL WHERE id IN (
             SELECT id FROM (
                 SELECT id, row_number() OVER (PARTITION BY session, subpath, uuid ORDER BY id) AS place
                 FROM messages WHERE uuid IS NOT NULL
             ) WHERE place > 1
         ) RETURNING id",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// Numbers the main line of a transcript anew where its numbers do not rise. Returns how many messages that changed.
pub(crate) fn renumber_lines(tx: &Tx<'_>) -> Result<usize> {
    tx.execute(
        "WITH numbered AS (
             SELECT id, session, subpath, line,
                    lag(line) OVER places AS before, row_number() OVER places AS place
             FROM messages WHERE line IS NOT NULL
             WINDOW places AS (PARTITION BY session, subpath ORDER BY seq)
         ), disordered AS (
             SELECT DISTINCT session, subpath FROM numbered WHERE line <= before OR line < 1
         )
         UPDATE messages SET line = numbered.place
         FROM numbered JOIN disordered USING (session, subpath)
         WHERE numbered.id = messages.id",
        [],
    )
}

/// A session that messages or files name and that has no row.
pub(crate) struct Rowless {
    pub(crate) id: i64,
    pub(crate) entries: i64,
    pub(crate) stored_ms: i64,
    pub(crate) appended_ms: Option<i64>,
}

/// The sessions that have messages or files, and no row.
pub(crate) fn rowless_sessions(db: &Connection) -> Result<Vec<Rowless>> {
    db.prepare(
        "SELECT session, sum(entries), min(stored_ms), max(appended_ms) FROM (
             SELECT session, entry IS NOT NULL AS entries, stored_ms,
                    CASE WHEN subpath = '' THEN stored_ms END AS appended_ms
             FROM messages
             UNION ALL
             SELECT session, 0, stored_ms, NULL FROM session_files
         ) WHERE session NOT IN (SELECT id FROM sessions) GROUP BY session ORDER BY session",
    )?
    .query_map([], |row| {
        Ok(Rowless {
            id: row.get(0)?,
            entries: row.get(1)?,
            stored_ms: row.get(2)?,
            appended_ms: row.get(3)?,
        })
    })?
    .collect()
}

/// Makes a session's row anew. What its entries say is filled in later.
pub(crate) fn make_session(tx: &Tx<'_>, row: &Rowless, key: &SessionKey) -> Result<()> {
    tx.prepare_cached(
        "INSERT INTO sessions (id, project_key, session_id, created_ms, last_modified_ms, stored_ms, appended_ms)
         VALUES (?1, ?2, ?3, ?4, coalesce(?5, ?4), ?4, ?5)",
    )?
    .execute(params![
        row.id,
        key.project_key,
        key.session_id,
        row.stored_ms,
        row.appended_ms
    ])?;
    Ok(())
}

/// Whether a live session has this key.
pub(crate) fn key_is_taken(db: &Connection, key: &SessionKey) -> Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM sessions WHERE project_key = ?1 AND session_id = ?2 AND deleted_ms IS NULL",
    )?
    .exists(params![key.project_key, key.session_id])
}

/// The live sessions whose key an earlier one has.
pub(crate) fn repeated_keys(db: &Connection) -> Result<Vec<i64>> {
    db.prepare(
        "SELECT id FROM (
             SELECT id, row_number() OVER (PARTITION BY project_key, session_id ORDER BY id) AS place
             FROM sessions WHERE deleted_ms IS NULL
         ) WHERE place > 1",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// Gives a session another key.
pub(crate) fn set_key(tx: &Tx<'_>, id: i64, key: &SessionKey) -> Result<()> {
    tx.prepare_cached("UPDATE sessions SET project_key = ?2, session_id = ?3 WHERE id = ?1")?
        .execute(params![id, key.project_key, key.session_id])?;
    Ok(())
}

/// The files whose content is not there: session and path.
pub(crate) fn files_without_content(db: &Connection) -> Result<Vec<(i64, String)>> {
    db.prepare(
        "SELECT session, path FROM session_files WHERE blob NOT IN (SELECT id FROM blobs) ORDER BY session, path",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// Rows that referred to others that are not there.
pub(crate) struct Unreferred {
    pub(crate) table: String,
    pub(crate) parent: String,
    pub(crate) rows: usize,
    /// Whether they are there still, without the reference.
    pub(crate) are_kept: bool,
}

/// Removes every row whose reference leads nowhere, or empties the reference where it may be empty, until none is left.
pub(crate) fn remove_unreferred(tx: &Tx<'_>, tables: &[&str]) -> Result<Vec<Unreferred>> {
    let mut removed = Vec::new();
    loop {
        let before = removed.len();
        for table in tables {
            for (column, parent, key, may_be_empty) in references(tx, table)? {
                let change = if may_be_empty {
                    format!("UPDATE \"{table}\" SET \"{column}\" = NULL")
                } else {
                    format!("DELETE FROM \"{table}\"")
                };
                let rows = tx.execute(
                    &format!(
                        "{change} WHERE \"{column}\" IS NOT NULL
                         AND \"{column}\" NOT IN (SELECT \"{key}\" FROM \"{parent}\" WHERE \"{key}\" IS NOT NULL)"
                    ),
                    [],
                )?;
                if rows > 0 {
                    removed.push(Unreferred {
                        table: (*table).to_owned(),
                        parent,
                        rows,
                        are_kept: may_be_empty,
                    });
                }
            }
        }
        if removed.len() == before {
            return Ok(removed);
        }
    }
}

/// The references of a table that are made of one column: it, the parent, the parent's column, whether it may be empty.
fn references(db: &Connection, table: &str) -> Result<Vec<(String, String, String, bool)>> {
    db.prepare(
        "SELECT f.\"from\", f.\"table\", coalesce(f.\"to\", 'rowid'), NOT c.\"notnull\" AND c.pk = 0
         FROM pragma_foreign_key_list(?1) f
         JOIN pragma_table_xinfo(?1) c ON c.name = f.\"from\"
         GROUP BY f.id HAVING count(*) = 1",
    )?
    .query_map([table], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?
    .collect()
}

/// Takes back bindings to parents that are gone or have another uuid than the one that is named, and binds again what
/// can be bound.
pub(crate) fn bind_parents(tx: &Tx<'_>) -> Result<()> {
    tx.execute_batch(
        "UPDATE messages SET parent = NULL
         WHERE parent IS NOT NULL AND (
             NOT EXISTS (SELECT 1 FROM messages p WHERE p.id = messages.parent)
             OR EXISTS (
                 SELECT 1 FROM messages p
                 WHERE p.id = messages.parent AND p.session = messages.session AND p.subpath = messages.subpath
                   AND p.uuid <> messages.parent_uuid
             )
             OR EXISTS (
                 SELECT 1 FROM messages p
                 WHERE p.id = messages.parent AND p.session <> messages.session
                   AND NOT EXISTS (SELECT 1 FROM lineage l WHERE l.session = messages.session)
             )
         );
         UPDATE messages SET parent = p.id
         FROM messages p
         WHERE messages.parent IS NULL AND messages.parent_uuid IS NOT NULL
           AND p.session = messages.session AND p.subpath = messages.subpath AND p.uuid = messages.parent_uuid;",
    )
}

/// Takes back turns whose prompt is gone.
pub(crate) fn forget_lost_turns(tx: &Tx<'_>) -> Result<()> {
    tx.execute_batch(
        "UPDATE messages SET turn = NULL
         WHERE turn IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages t WHERE t.id = messages.turn);
         UPDATE tool_calls SET turn = NULL
         WHERE turn IS NOT NULL AND NOT EXISTS (SELECT 1 FROM messages t WHERE t.id = tool_calls.turn);",
    )
}

/// Removes calls and results whose message is gone, and the attempts at calls that are gone: their numbers may be given again. Returns how many attempts
/// went.
pub(crate) fn forget_lost_calls(tx: &Tx<'_>) -> Result<usize> {
    tx.execute_batch(
        "DELETE FROM tool_calls WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = tool_calls.message);
         DELETE FROM tool_results WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.id = tool_results.message);",
    )?;
    tx.execute(
        "DELETE FROM tool_attempts
         WHERE NOT EXISTS (SELECT 1 FROM tool_calls c WHERE c.id = tool_attempts.call)",
        [],
    )
}

/// Removes the calls and results of one message. Returns how many attempts at the calls went with them.
pub(crate) fn forget_calls_of(tx: &Tx<'_>, session: i64, message: i64) -> Result<usize> {
    let attempts = tx
        .prepare_cached(
            "DELETE FROM tool_attempts
             WHERE call IN (SELECT id FROM tool_calls WHERE session = ?1 AND message = ?2)",
        )?
        .execute([session, message])?;
    tx.prepare_cached(
        "UPDATE file_changes SET call = NULL
         WHERE call IN (SELECT id FROM tool_calls WHERE session = ?1 AND message = ?2)",
    )?
    .execute([session, message])?;
    for table in ["tool_calls", "tool_results"] {
        tx.prepare_cached(&format!(
            "DELETE FROM {table} WHERE session = ?1 AND message = ?2"
        ))?
        .execute([session, message])?;
    }
    Ok(attempts)
}

/// Binds each result to the newest call with its id that was stored no later, where its own is not there.
pub(crate) fn bind_results(tx: &Tx<'_>) -> Result<()> {
    tx.execute_batch(
        "UPDATE tool_results SET call = NULL
         WHERE call IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM tool_calls c WHERE c.id = tool_results.call AND c.tool_use_id = tool_results.tool_use_id
         );
         UPDATE tool_results SET call = (
             SELECT c.id FROM tool_calls c
             WHERE c.session = tool_results.session AND c.tool_use_id = tool_results.tool_use_id
               AND c.message <= tool_results.message
             ORDER BY c.message DESC, c.id DESC LIMIT 1
         ) WHERE call IS NULL;",
    )
}

/// Where a message stands in time: its turn, and when it was stored.
pub(crate) fn times(db: &Connection, id: i64) -> Result<(Option<i64>, i64)> {
    db.prepare_cached("SELECT turn, stored_ms FROM messages WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Every transcript that has messages or a row, or that a fork begins or was begun with.
pub(crate) fn transcripts(db: &Connection) -> Result<Vec<(i64, String)>> {
    db.prepare(
        "SELECT session, subpath FROM transcripts UNION SELECT session, subpath FROM messages
         UNION SELECT session, '' FROM lineage UNION SELECT base, '' FROM lineage ORDER BY 1, 2",
    )?
    .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
    .collect()
}

/// What imports have noted of the files that a transcript is said to equal: the row, the path, the hash of the bytes.
pub(crate) fn sources_in_sync(
    db: &Connection,
    session: i64,
    subpath: &str,
    next_seq: i64,
) -> Result<Vec<(i64, String, Vec<u8>)>> {
    db.prepare_cached(
        "SELECT id, path, prefix_hash FROM import_sources
         WHERE session = ?1 AND subpath = ?2 AND in_sync_seq = ?3",
    )?
    .query_map(params![session, subpath, next_seq], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?
    .collect()
}

/// Lets the next import of a file compare all of it.
pub(crate) fn forget_sync(tx: &Tx<'_>, source: i64) -> Result<()> {
    tx.prepare_cached("UPDATE import_sources SET in_sync_seq = NULL WHERE id = ?1")?
        .execute([source])?;
    Ok(())
}

/// How much there is: live sessions, their entries, files.
pub(crate) fn totals(db: &Connection) -> Result<(i64, i64, i64)> {
    db.query_row(
        "SELECT (SELECT count(*) FROM sessions WHERE deleted_ms IS NULL),
                (SELECT count(entry) FROM messages
                 WHERE session IN (SELECT id FROM sessions WHERE deleted_ms IS NULL)),
                (SELECT count(*) FROM session_files)",
        [],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )
}
