//! How large the store is after importing the real transcripts.

use rusqlite::Connection;

use crate::import::{files_below, fixtures, import};
use crate::kit::{new_folder, new_store};

/// Prints the size beside that of the JSONL.
pub fn print() {
    let store = new_store();
    for run in std::fs::read_dir(fixtures()).unwrap() {
        import(&store, &run.unwrap().path());
    }
    let path = store.path().to_owned();
    drop(store);
    let bytes = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
    let jsonl: u64 = files_below(&fixtures(), &["jsonl"])
        .iter()
        .map(|path| bytes(path))
        .sum();
    let whole = bytes(&path);
    let conn = Connection::open(&path).unwrap();
    let blobs: i64 = conn
        .query_row(
            "SELECT coalesce(sum(length(content)), 0) FROM blobs",
            [],
            |row| row.get(0),
        )
        .unwrap();
    let without_indexes = without_indexes(&conn);
    println!("size after importing the fixtures' transcripts:");
    for (what, size) in [
        ("JSONL", jsonl),
        ("store", whole),
        ("store without its indexes", without_indexes),
        (
            "files beside transcripts, in the store",
            u64::try_from(blobs).unwrap(),
        ),
    ] {
        println!(
            "  {what:<40} {size:>9} bytes  {:.2} x",
            size as f64 / jsonl as f64
        );
    }
}

fn without_indexes(conn: &Connection) -> u64 {
    let copy = new_folder().join("copy.db");
    conn.execute("VACUUM INTO ?1", [copy.to_str()]).unwrap();
    let conn = Connection::open(&copy).unwrap();
    let names: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    for name in names {
        conn.execute_batch(&format!("DROP INDEX {name}")).unwrap();
    }
    conn.execute_batch("VACUUM").unwrap();
    drop(conn);
    std::fs::metadata(copy).unwrap().len()
}
