//! Questions about the whole file: is it whole, and do the kept-up columns agree with the rows?

use rusqlite::{Connection, Result, params};

use super::search;

/// What SQLite itself finds wrong.
#[derive(Debug, Default)]
pub(crate) struct Integrity {
    /// A line each.
    pub(crate) findings: Vec<String>,
    /// Whether it is about the search index as well.
    pub(crate) is_of_search: bool,
    /// How many pages are in no table and not given free.
    pub(crate) unused_pages: u64,
}

/// What SQLite itself finds wrong, at most `limit` findings; empty if all is well.
pub(crate) fn integrity(db: &Connection, limit: usize) -> Result<Integrity> {
    let of_search: Vec<String> = search::roots(db)?
        .iter()
        .map(|root| format!("Tree {root} "))
        .collect();
    let is_of_search = |line: &str| {
        line.contains("main.search")
            || line.contains(" in search_")
            || line.starts_with("fts5: ")
            || of_search.iter().any(|tree| line.starts_with(tree.as_str()))
    };
    let mut told = Integrity::default();
    let mut check = |of: &str| -> Result<()> {
        let mut statement = db.prepare(&format!("PRAGMA integrity_check({of})"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let text: String = row.get(0)?;
            for line in text.lines() {
                if line == "ok" || line.starts_with("***") {
                } else if line.starts_with("Page ") && line.ends_with(": never used") {
                    told.unused_pages += 1;
                } else if is_of_search(line) {
                    told.is_of_search = true;
                } else if !told.findings.iter().any(|found| found == line) {
                    told.findings.push(line.to_owned());
                }
            }
        }
        Ok(())
    };
    // Each page may be one that is not used, and comes before what else is wrong.
    let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if let Err(error) = check(&pages.saturating_add(1000).to_string()) {
        // An index that cannot even be opened ends the check: the other tables are checked alone.
        if search::broken_parts(db)?.is_empty() {
            return Err(error);
        }
        let mut tables = db.prepare(
            "SELECT name FROM sqlite_schema
             WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'search\\_%' ESCAPE '\\'",
        )?;
        let tables: Vec<String> = tables
            .query_map([], |row| row.get(0))?
            .collect::<Result<_>>()?;
        for table in tables {
            check(&format!("\"{table}\""))?;
        }
        told.is_of_search = true;
    }
    told.findings.truncate(limit);
    let found = &mut told.findings;
    let mut dangling = db.prepare(
        "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY 1, 2",
    )?;
    let dangling = dangling.query_map([], |row| {
        let (table, parent): (String, String) = (row.get(0)?, row.get(1)?);
        let count: i64 = row.get(2)?;
        Ok(format!(
            "{count} row(s) of {table} name rows of {parent} that are not there"
        ))
    })?;
    for line in dangling {
        found.push(line?);
    }
    Ok(told)
}

/// Counts of a transcript, from its rows: next seq, next line, entries.
pub(crate) fn counted(db: &Connection, session: i64, subpath: &str) -> Result<(i64, i64, i64)> {
    db.prepare_cached(
        "SELECT coalesce(max(seq), 0) + 1, coalesce(max(line), 0) + 1, count(entry) FROM messages
         WHERE session = ?1 AND subpath = ?2",
    )?
    .query_row(params![session, subpath], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
}
