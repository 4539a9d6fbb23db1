//! How every connection is set up, each setting with its reason.

use std::time::Duration;

use rusqlite::Connection;

use super::Durability;
use super::journal::{self, Journal};

/// What the settings depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub durability: Durability,
    pub busy_timeout: Duration,
}

/// Statements kept compiled on each connection; the tables above use some dozens.
const STATEMENTS: usize = 128;

/// Size to which a log that a long reader made grow is cut back.
pub(super) const LOG_LIMIT: u64 = 64 << 20;

/// Settings of every connection.
const ALWAYS: [&str; 8] = [
    // SQLite leaves references unchecked unless told otherwise, connection by connection.
    "PRAGMA foreign_keys = ON",
    // LOG_LIMIT, for a log that grew past it while nothing of ours was there to cut it.
    "PRAGMA journal_size_limit = 67108864",
    // 1,000 pages of 8 KiB: the log is folded into the file every 8 MiB, a pause of some milliseconds.
    "PRAGMA wal_autocheckpoint = 1000",
    // Sorting spills into memory, so that no content lands in a temporary folder that others may read.
    "PRAGMA temp_store = MEMORY",
    // A schema written by somebody else may not call functions that have effects.
    "PRAGMA trusted_schema = OFF",
    // A damaged page is noticed when it is read and not when it has led somewhere.
    "PRAGMA cell_size_check = ON",
    // On macOS fsync alone leaves data in the drive's cache; without effect elsewhere.
    "PRAGMA fullfsync = ON",
    // The same for the moment when the log is folded into the file.
    "PRAGMA checkpoint_fullfsync = ON",
];

/// Sets up any connection. The busy timeout comes first, as every later statement may meet a lock.
pub(super) fn common(conn: &Connection, settings: Settings) -> rusqlite::Result<()> {
    conn.busy_timeout(settings.busy_timeout)?;
    for pragma in ALWAYS {
        conn.execute_batch(pragma)?;
    }
    conn.execute_batch(match settings.durability {
        // In WAL mode NORMAL does not sync at commit, so a returned write could be lost with the power.
        Durability::Full => "PRAGMA synchronous = FULL",
        Durability::Normal => "PRAGMA synchronous = NORMAL",
    })?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Sets up a connection that reads: a write through it is a mistake of ours and fails.
pub(super) fn reader(conn: &Connection, settings: Settings) -> rusqlite::Result<()> {
    common(conn, settings)?;
    conn.execute_batch("PRAGMA query_only = ON")
}

/// Sets up a connection that writes to a store with a rollback journal. A file that another process turned to a log
/// meanwhile is left so.
pub(super) fn rollback_writer(conn: &Connection, settings: Settings) -> rusqlite::Result<()> {
    common(conn, settings)?;
    if journal::current(conn)? == Journal::Rollback {
        // Kept by the connection and not by the file.
        conn.execute_batch("PRAGMA journal_mode = TRUNCATE")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(conn: &Connection, pragma: &str) -> i64 {
        conn.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn every_setting_reads_back_as_it_was_set() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let conn = Connection::open(file.path()).unwrap();
        let busy_timeout = Duration::from_millis(1234);
        reader(
            &conn,
            Settings {
                durability: Durability::Full,
                busy_timeout,
            },
        )
        .unwrap();
        let expected = [
            ("busy_timeout", 1234),
            ("foreign_keys", 1),
            ("journal_size_limit", LOG_LIMIT as i64),
            ("wal_autocheckpoint", 1000),
            ("temp_store", 2),
            ("trusted_schema", 0),
            ("cell_size_check", 1),
            ("fullfsync", 1),
            ("checkpoint_fullfsync", 1),
            ("synchronous", 2),
            ("query_only", 1),
        ];
        for (pragma, wanted) in expected {
            assert_eq!(value(&conn, pragma), wanted, "{pragma}");
        }
        common(
            &conn,
            Settings {
                durability: Durability::Normal,
                busy_timeout,
            },
        )
        .unwrap();
        assert_eq!(value(&conn, "synchronous"), 1);
    }

    #[test]
    fn the_sqlite_in_use_is_past_the_wal_reset_bug() {
        assert!(
            rusqlite::version_number() >= 3_051_003,
            "{}",
            rusqlite::version()
        );
    }
}
