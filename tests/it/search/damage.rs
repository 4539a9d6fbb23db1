//! Damaged pages of the index: it is made anew, and nothing else changes.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use turnkeep::{ErrorKind, NewSession, OpenOptions, SearchQuery, SessionKey, Store};

use super::{found, say};
use crate::kit::TestStore;

const PAGE: usize = 8192;

/// The tables of the index, without the virtual one.
const PARTS: &str = "('search_config', 'search_data', 'search_idx', 'search_docsize', 'search_state', 'search_spans')";

/// A store with an index of many pages, closed.
fn indexed(test: TestStore) -> (TestStore, Vec<u8>) {
    let session = test
        .store
        .sessions()
        .create(NewSession::in_project("p").id("kept"))
        .unwrap();
    let other = NewSession::in_project("p").id("gone");
    let gone = test.store.sessions().create(other).unwrap();
    for n in 0..400 {
        let words: Vec<String> = (0..60).map(|m| format!("word{}", n * 60 + m)).collect();
        say(&session, &format!("needle {n} {}", words.join(" ")));
    }
    say(&gone, "needle gone");
    test.store.index_search(Duration::from_secs(60)).unwrap();
    let path = test.store.path().to_owned();
    let sql = Connection::open(&path).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    (test, bytes)
}

/// The pages of tables, as SQLite tells them.
fn pages(path: &Path, of: &str) -> Vec<usize> {
    let sql = Connection::open(path).unwrap();
    let query = format!("SELECT pageno FROM dbstat WHERE name IN {of} ORDER BY pageno");
    let mut statement = sql.prepare(&query).unwrap();
    let pages = statement.query_map([], |row| row.get::<_, i64>(0)).unwrap();
    pages.map(|page| page.unwrap() as usize).collect()
}

/// All that is in a store, but its index.
fn contents(path: &Path) -> Vec<String> {
    let sql = Connection::open(path).unwrap();
    let query = "SELECT id || ' ' || session || ' ' || seq || ' ' || coalesce(uuid, '') || coalesce(entry, '') FROM messages";
    let mut statement = sql.prepare(query).unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn whatever_page_of_it_is_damaged_the_index_is_made_anew() {
    let (test, whole) = indexed(TestStore::new());
    let index = pages(test.store.path(), PARTS);
    let entries = pages(test.store.path(), "('messages')");
    assert!(index.len() > 8, "{index:?}");
    // All but some leaves of the text, which are alike.
    let step = index.len() / 6 + 1;
    let mut noise = 1_u64;
    let mut random = move || {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (noise >> 56) as u8
    };
    for page in index.iter().step_by(step).chain(index.iter().take(8)) {
        for damage in ["zeroed", "random", "a page of the entries"] {
            let at = format!("page {page}: {damage}");
            let mut bytes = whole.clone();
            let from = (page - 1) * PAGE;
            let other = (entries[entries.len() / 2] - 1) * PAGE;
            let instead: Vec<u8> = match damage {
                "zeroed" => vec![0; PAGE],
                "random" => std::iter::repeat_with(&mut random).take(PAGE).collect(),
                _ => whole[other..other + PAGE].to_vec(),
            };
            bytes[from..from + PAGE].copy_from_slice(&instead);
            let path = test.folder.path().join("damaged.db");
            fs::write(&path, &bytes).unwrap();
            let before = contents(&path);

            let store = Store::open(&path).unwrap();
            let verified = store.verify().unwrap();
            assert!(verified.is_search_damaged, "{at}: {verified:?}");
            assert_eq!(verified.findings.len(), 1, "{at}: {verified:?}");
            let key = SessionKey::new("p", "kept").unwrap();
            let session = store.sessions().get(&key).unwrap();
            say(&session, "needle appended");
            let gone = SessionKey::new("p", "gone").unwrap();
            let gone = store.sessions().get(&gone).unwrap();
            gone.delete()
                .unwrap_or_else(|error| panic!("{at}: {error}"));
            for text in ["needle", "word77", "appended", "wor*"] {
                let seen = store.search(&SearchQuery::new(text));
                seen.unwrap_or_else(|error| panic!("{at}: {text}: {error}"));
            }
            store
                .rebuild_search()
                .unwrap_or_else(|error| panic!("{at}: {error}"));
            assert_eq!(found(&store, "appended").len(), 1, "{at}");
            assert_eq!(found(&store, "word77").len(), 1, "{at}");
            assert!(found(&store, "gone").is_empty(), "{at}");
            let after = contents(&path);
            assert_eq!(after[..400], before[..400], "{at}");
            let verified = store.verify().unwrap();
            assert_eq!(verified.findings, [], "{at}");
            assert!(verified.unused_pages > 0 || damage == "random", "{at}");
            drop((session, gone, store));
            let _ = fs::remove_file(path.with_extension("db-wal"));
            let _ = fs::remove_file(path.with_extension("db-shm"));
        }
    }
}

#[test]
fn a_damaged_entry_costs_the_index_nothing() {
    let (test, mut bytes) = indexed(TestStore::new());
    let entries = pages(test.store.path(), "('messages')");
    for page in &entries[entries.len() / 2..][..2] {
        bytes[(page - 1) * PAGE..page * PAGE].fill(0);
    }
    let path = test.folder.path().join("damaged.db");
    fs::write(&path, &bytes).unwrap();
    let size = || -> i64 {
        let sql = Connection::open(&path).unwrap();
        let size = "SELECT sum(length(block)) FROM search_data";
        sql.query_row(size, [], |row| row.get(0)).unwrap()
    };
    let before = size();
    let store = Store::open(&path).unwrap();
    let all = SearchQuery::new("needle").limit(usize::MAX);
    let refused = store.search(&all).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    assert_eq!(size(), before);
}

#[test]
fn a_damaged_index_of_a_store_that_can_only_be_read_is_named() {
    let (test, mut bytes) = indexed(TestStore::new());
    let index = pages(test.store.path(), "('search_data')");
    bytes[(index[0] - 1) * PAGE..index[0] * PAGE].fill(0);
    let path = test.folder.path().join("damaged.db");
    fs::write(&path, &bytes).unwrap();
    let store = Store::open_with(&path, &OpenOptions::new().read_only(true)).unwrap();
    let refused = store.search(&SearchQuery::new("needle")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    assert!(refused.to_string().contains("search index"), "{refused}");
}

#[test]
fn what_the_index_silently_misses_is_told() {
    for damage in [
        "DELETE FROM search_idx",
        "DELETE FROM search_spans",
        "UPDATE search_spans SET newest_ms = oldest_ms - 1",
        "DELETE FROM search_docsize",
        "DELETE FROM search_docsize WHERE id = 7",
        "UPDATE search_data SET block = x'00000000000000' WHERE id = 10",
        "UPDATE search_state SET done = 9999",
        "UPDATE search_data SET block = zeroblob(length(block)) WHERE id = (SELECT max(id) FROM search_data)",
        "DELETE FROM search_data WHERE id = (SELECT max(id) FROM search_data)",
        "DELETE FROM search WHERE rowid = 7",
    ] {
        let (test, _) = indexed(TestStore::new());
        assert_eq!(test.store.verify().unwrap().findings, []);
        let sql = Connection::open(test.store.path()).unwrap();
        sql.execute_batch(damage).unwrap();
        let read_only = OpenOptions::new().read_only(true);
        let reading = Store::open_with(test.store.path(), &read_only).unwrap();
        for store in [&test.store, &reading] {
            let verified = store.verify().unwrap();
            assert!(verified.is_search_damaged, "{damage}");
            assert_eq!(verified.findings.len(), 1, "{damage}: {verified:?}");
        }
        drop(reading);
        test.store.rebuild_search().unwrap();
        test.store.index_search(Duration::from_secs(60)).unwrap();
        let verified = test.store.verify().unwrap();
        assert_eq!(verified.findings, [], "{damage}");
    }
}
