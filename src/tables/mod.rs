//! ALL SQL, one file a table, as free functions. Writers take `&Tx`, so that calling one outside a
//! transaction does not compile; readers take `&Connection`. Nothing above this floor holds SQL.

pub(crate) mod asked;
pub(crate) mod audit;
pub(crate) mod blob_parts;
pub(crate) mod blobs;
pub(crate) mod checkpoints_due;
pub(crate) mod checks;
pub(crate) mod claims;
pub(crate) mod file_changes;
pub(crate) mod file_states;
pub(crate) mod import_sources;
pub(crate) mod labels;
pub(crate) mod leases;
pub(crate) mod left_turns;
pub(crate) mod lineage;
pub(crate) mod listing_marks;
pub(crate) mod mending;
pub(crate) mod messages;
pub(crate) mod operations;
pub(crate) mod phase_claims;
pub(crate) mod rewinds;
pub(crate) mod roots;
pub(crate) mod salvage;
pub(crate) mod scratchpad;
pub(crate) mod search;
pub(crate) mod session_files;
pub(crate) mod sessions;
pub(crate) mod tool_attempts;
pub(crate) mod tool_calls;
pub(crate) mod tool_results;
pub(crate) mod transcripts;
pub(crate) mod usage;
pub(crate) mod watched_calls;

/// What an index says and the row it leads to do not agree. SQLite takes indexed columns from the
/// index itself, so readers that go by an index join the row by its id and compare.
pub(crate) fn damaged_index() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT),
        Some("an index leads to another row than the one asked for".to_owned()),
    )
}
