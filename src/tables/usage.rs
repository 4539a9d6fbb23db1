//! The tokens that providers counted, line by line.

use rusqlite::{Connection, Result};

/// A session, as far as it is a client's copy of another.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) session: i64,
    pub(crate) copied_from: Option<i64>,
    /// The id of the session that it names as its origin, where that is not known to be here.
    pub(crate) claimed: Option<String>,
    pub(crate) is_deleted: bool,
}

/// Every session, in the order in which they were made.
pub(crate) fn origins(db: &Connection) -> Result<Vec<Origin>> {
    db.prepare_cached(
        "SELECT id, CASE WHEN fork_kind = 'inferred' THEN forked_from END,
             CASE WHEN forked_from IS NULL THEN nullif(claimed_origin, '') END, deleted_ms IS NOT NULL
         FROM sessions ORDER BY id",
    )?
    .query_map([], |row| {
        Ok(Origin {
            session: row.get(0)?,
            copied_from: row.get(1)?,
            claimed: row.get(2)?,
            is_deleted: row.get(3)?,
        })
    })?
    .collect()
}

/// A line of a provider's response.
#[derive(Clone, Debug)]
pub(crate) struct UsageLine {
    pub(crate) id: i64,
    pub(crate) subpath: String,
    pub(crate) response: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) turn: Option<i64>,
    pub(crate) said_ms: i64,
    /// Input, output, read from and written to the cache.
    pub(crate) tokens: [u64; 4],
}

/// A session's lines of responses, transcript by transcript, in order.
pub(crate) fn lines(db: &Connection, session: i64) -> Result<Vec<UsageLine>> {
    db.prepare_cached(
        "SELECT id, subpath, api_message_id, model, turn, coalesce(timestamp_ms, stored_ms),
             input_tokens, output_tokens, cache_read_tokens, cache_write_tokens
         FROM messages
         WHERE session = ?1 AND kind = 'assistant' AND model IS NOT '<synthetic>'
           AND coalesce(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens) IS NOT NULL
         ORDER BY subpath, seq",
    )?
    .query_map([session], |row| {
        let tokens = |column| -> Result<u64> {
            let count: Option<i64> = row.get(column)?;
            Ok(u64::try_from(count.unwrap_or(0)).unwrap_or(0))
        };
        Ok(UsageLine {
            id: row.get(0)?,
            subpath: row.get(1)?,
            response: row.get(2)?,
            model: row.get(3)?,
            turn: row.get(4)?,
            said_ms: row.get(5)?,
            tokens: [tokens(6)?, tokens(7)?, tokens(8)?, tokens(9)?],
        })
    })?
    .collect()
}
