//! Making the index anew, whatever is left of the old one.
//!
//! SQLite reads a table to its end to drop it, and gives its pages free. It cannot where one of them
//! is damaged, and must not where one has come to name pages of another table. So a part that is not
//! whole is not dropped but forgotten: its row leaves the schema, and its pages stay in the file,
//! used for nothing, until `VACUUM` or `turnkeep salvage` gives them back. No page of another table
//! is touched.

use rusqlite::{Connection, Result, params_from_iter};

use super::guarded;
use crate::db::Tx;

/// The migration that makes the tables, up to where it ends with that.
const MADE_BY: &str = include_str!("../../../migrations/V7__search.sql");
const ENDS: &str = "-- End of what";

/// The tables that the index lies in.
pub(super) const PARTS: [&str; 6] = [
    "search_config",
    "search_data",
    "search_idx",
    "search_docsize",
    "search_state",
    "search_spans",
];

/// The parts that are gone, or that SQLite does not find whole. To be asked before a transaction that
/// writes: one that met a damaged page cannot write any more.
pub(crate) fn broken_parts(db: &Connection) -> Result<Vec<&'static str>> {
    let mut broken = Vec::new();
    for part in PARTS {
        if !db.table_exists(None, part)? || !is_whole(db, part) {
            broken.push(part);
        }
    }
    Ok(broken)
}

/// Whether SQLite finds nothing wrong with the pages of a part, and its rows are no other table's: a
/// page that was written to the wrong place may be whole.
fn is_whole(db: &Connection, part: &str) -> bool {
    let check = format!("PRAGMA quick_check({part})");
    let found: Result<String> = db.query_row(&check, [], |row| row.get(0));
    let block = match part {
        "search_data" => "block",
        "search_docsize" => "sz",
        _ => return found.is_ok_and(|found| found == "ok"),
    };
    let strange = format!("SELECT count(*) FROM {part} WHERE typeof({block}) <> 'blob'");
    found.is_ok_and(|found| found == "ok")
        && db
            .query_row(&strange, [], |row| row.get(0))
            .is_ok_and(|strange: i64| strange == 0)
}

/// Makes the index anew, empty; of the old one these parts are not whole.
pub(crate) fn make_anew(tx: &Tx<'_>, broken: &[&str]) -> Result<()> {
    let made_by = MADE_BY.split(ENDS).next().unwrap_or_default();
    if !broken.is_empty() {
        forget(tx, broken)?;
    }
    drop_all(tx)?;
    tx.execute_batch(made_by)
}

fn drop_all(tx: &Tx<'_>) -> Result<()> {
    if guarded(tx, || tx.execute_batch("DROP TABLE IF EXISTS search")).is_err() {
        // SQLite drops such a table only with all of its parts there: what is missing is put back.
        tx.execute_batch(
            "DROP TABLE IF EXISTS search_config;
             CREATE TABLE search_config (k PRIMARY KEY, v) WITHOUT ROWID;
             INSERT INTO search_config VALUES ('version', 4);
             CREATE TABLE IF NOT EXISTS search_data (id INTEGER PRIMARY KEY, block BLOB);
             CREATE TABLE IF NOT EXISTS search_idx (segid, term, pgno, PRIMARY KEY (segid, term)) WITHOUT ROWID;
             CREATE TABLE IF NOT EXISTS search_docsize (id INTEGER PRIMARY KEY, sz BLOB, origin INTEGER);
             DROP TABLE search;",
        )?;
    }
    // Parts whose table is gone.
    for part in PARTS {
        tx.execute_batch(&format!("DROP TABLE IF EXISTS {part}"))?;
    }
    Ok(())
}

/// Takes parts out of the schema without a look at their pages.
fn forget(tx: &Tx<'_>, parts: &[&str]) -> Result<()> {
    let work = || {
        tx.execute_batch("PRAGMA writable_schema = ON")?;
        let places = vec!["?"; parts.len()].join(", ");
        tx.execute(
            &format!("DELETE FROM sqlite_schema WHERE type = 'table' AND name IN ({places})"),
            params_from_iter(parts),
        )?;
        // So that this connection, and every other one, reads the schema anew.
        let version: i64 = tx.query_row("PRAGMA schema_version", [], |row| row.get(0))?;
        tx.execute_batch(&format!(
            "PRAGMA writable_schema = RESET; PRAGMA schema_version = {}",
            (version + 1) & 0x7fff_ffff
        ))
    };
    let done = work();
    tx.execute_batch("PRAGMA writable_schema = OFF")?;
    done
}
