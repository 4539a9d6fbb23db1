//! The schema as a public contract: documented, and readable with plain SQL.

use rusqlite::{Connection, OpenFlags};
use turnkeep::ForkOptions;

use crate::kit::{TestStore, uuids};

fn plain(test: &TestStore) -> Connection {
    Connection::open_with_flags(test.store.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn names(sql: &Connection, query: &str) -> Vec<String> {
    let mut statement = sql.prepare(query).unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn every_table_view_and_column_is_documented() {
    let test = TestStore::new();
    let sql = plain(&test);
    let document = include_str!("../../docs/SCHEMA.md");
    let tables = names(
        &sql,
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
         AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'refinery_%'",
    );
    assert!(tables.len() > 15, "{tables:?}");
    for table in &tables {
        assert!(
            document.contains(&format!("`{table}`")),
            "docs/SCHEMA.md says nothing of {table}"
        );
    }
    for table in [
        "sessions",
        "transcripts",
        "messages",
        "lineage",
        "scratchpad",
        "import_sources",
        "file_changes",
        "rewinds",
        "watched_calls",
    ] {
        for column in names(
            &sql,
            &format!("SELECT name FROM pragma_table_xinfo('{table}')"),
        ) {
            assert!(
                document.contains(&format!("`{column}`")),
                "docs/SCHEMA.md says nothing of {table}.{column}"
            );
        }
    }
}

#[test]
fn every_view_and_every_query_of_the_document_runs_in_plain_sqlite() {
    let (test, _) = TestStore::with("transcripts/parallel");
    let session = test.only_session();
    session.scratchpad().set("plan", "B").unwrap();
    session.scratchpad().set("plan", "C").unwrap();
    let fork = session.fork(&ForkOptions::new()).unwrap();
    session
        .files()
        .before("toolu_1", [test.path("a.txt")])
        .unwrap();
    let sql = plain(&test);
    for view in names(&sql, "SELECT name FROM sqlite_schema WHERE type = 'view'") {
        let rows = names(&sql, &format!("SELECT 'row' FROM {view}"));
        assert!(!rows.is_empty(), "{view} shows nothing");
    }
    let document = include_str!("../../docs/SCHEMA.md");
    let queries = document
        .split("```sql")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let mut run = 0;
    for query in queries
        .flat_map(|block| block.split(';'))
        .filter(|query| query.contains("SELECT"))
    {
        sql.prepare(query)
            .unwrap()
            .query([])
            .unwrap()
            .next()
            .unwrap();
        run += 1;
    }
    assert!(run >= 3, "{run} queries");
    // What SQL makes of a fork is what the library shows.
    let shown = uuids(&fork);
    let query = format!(
        "SELECT uuid FROM message_view WHERE session_id = '{}' AND line IS NOT NULL",
        fork.id()
    );
    let told = names(&sql, &query);
    assert!(shown.iter().all(|uuid| told.contains(uuid)));
    let query = format!(
        "SELECT value FROM scratchpad_view WHERE session_id = '{}'",
        fork.id()
    );
    assert_eq!(names(&sql, &query), ["\"C\""]);
}
