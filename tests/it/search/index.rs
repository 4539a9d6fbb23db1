//! The index: it catches up in steps, follows what is deleted, and is never in the way.

use std::time::Duration;

use rusqlite::Connection;
use turnkeep::{ErrorKind, NewMessage, NewSession, OpenOptions, SearchQuery, Store};

use super::{found, say};
use crate::kit::TestStore;

fn plain(store: &Store) -> Connection {
    Connection::open(store.path()).unwrap()
}

fn count(sql: &Connection, query: &str) -> i64 {
    sql.query_row(query, [], |row| row.get(0)).unwrap()
}

#[test]
fn it_catches_up_in_steps_and_says_what_is_left() {
    let test = TestStore::new();
    let session = test.session();
    let text = format!("needle {}", "lorem ipsum dolor ".repeat(20_000));
    for _ in 0..8 {
        say(&session, &text);
    }
    let page = test.store.search(&SearchQuery::new("needle")).unwrap();
    assert!(!page.hits.is_empty() && page.unindexed > 0);
    assert_eq!(page.hits.len() as u64 + page.unindexed, 8);
    let step = test.store.index_search(Duration::ZERO).unwrap();
    assert!(step.indexed > 0 && step.indexed + step.unindexed == page.unindexed);
    let rest = test.store.index_search(Duration::from_secs(60)).unwrap();
    assert_eq!((rest.indexed, rest.unindexed), (step.unindexed, 0));
    assert_eq!(found(&test.store, "needle").len(), 8);
    let again = test.store.index_search(Duration::from_secs(60)).unwrap();
    assert_eq!((again.indexed, again.unindexed), (0, 0));
}

#[test]
fn appending_does_nothing_for_it() {
    let test = TestStore::new();
    let session = test.session();
    say(&session, "one");
    assert_eq!(found(&test.store, "one").len(), 1);
    let sql = plain(&test.store);
    let index = "SELECT sum(length(block)) FROM search_data";
    let before = count(&sql, index);
    say(&session, "two");
    assert_eq!(count(&sql, index), before);
}

#[test]
fn rows_leave_it_in_the_transaction_that_removes_them() {
    let test = TestStore::new();
    let make = |id: &str| {
        let new = NewSession::in_project("p").id(id);
        test.store.sessions().create(new).unwrap()
    };
    let (kept, gone) = (make("kept"), make("gone"));
    for session in [&kept, &gone] {
        for n in 0..5 {
            say(session, &format!("needle {n}"));
        }
    }
    assert_eq!(found(&test.store, "needle").len(), 10);
    let sql = plain(&test.store);
    let indexed = "SELECT count(*) FROM search WHERE search MATCH 'needle'";
    assert_eq!(count(&sql, indexed), 10);
    let failed = gone.write(|tx| {
        tx.delete()?;
        Err::<(), _>(turnkeep::Error::Conflict("taken back".to_owned()))
    });
    assert!(failed.is_err());
    assert_eq!(count(&sql, indexed), 10);
    gone.delete().unwrap();
    assert_eq!(count(&sql, indexed), 5);
    assert_eq!(found(&test.store, "needle").len(), 5);
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn a_sub_agents_transcript_leaves_it_too() {
    let (test, _) = TestStore::with("transcripts/subagent_foreground");
    let query = SearchQuery::new("the").limit(1000);
    let of_agents = |store: &Store| {
        let hits = store.search(&query).unwrap().hits;
        hits.into_iter()
            .filter(|hit| !hit.subpath.is_empty())
            .count()
    };
    assert!(of_agents(&test.store) > 0);
    let sessions = crate::kit::all_sessions(&test.store);
    for session in &sessions {
        for subpath in session.subpaths().unwrap() {
            let key = session.key().transcript(&subpath);
            test.store.session_store().delete(&key).unwrap();
        }
    }
    assert_eq!(of_agents(&test.store), 0);
}

#[test]
fn a_damaged_or_missing_index_stops_nothing_and_is_made_anew() {
    for damage in [
        "DROP TABLE search",
        "DROP TABLE search_data",
        "DROP TABLE search_idx",
        "DROP TABLE search_config",
        "DROP TABLE search_docsize",
        "DROP TABLE search_state",
        "DROP TABLE search_spans",
        "DELETE FROM search_data",
        "DELETE FROM search_state",
        "DELETE FROM search_config",
        "UPDATE search_data SET block = x'00'",
        "UPDATE search_data SET block = zeroblob(length(block))",
        "UPDATE search_data SET block = randomblob(length(block)) WHERE id > 10",
        "UPDATE search_docsize SET sz = x'', origin = 7",
        "UPDATE search_state SET rules = 0",
        "UPDATE search_state SET is_broken = 1",
    ] {
        let test = TestStore::new();
        let (session, gone) = (test.session(), test.session());
        for n in 0..200 {
            say(&session, &format!("needle {n} {}", "hay ".repeat(n)));
        }
        say(&gone, "needle gone");
        assert_eq!(found(&test.store, "needle").len(), 20);
        let path = test.store.path().to_owned();
        drop(test.store);
        plain_at(&path).execute_batch(damage).unwrap();

        let store = Store::open(&path).unwrap();
        let session = store.sessions().get(session.key()).unwrap();
        say(&session, "needle appended");
        assert_eq!(
            session.conversation("").unwrap().entries.len(),
            201,
            "{damage}"
        );
        let gone = store.sessions().get(gone.key()).unwrap();
        gone.delete()
            .unwrap_or_else(|error| panic!("{damage}: {error}"));
        // Some damage shows only where it is met: what is asked for then is there.
        let seen = store.search(&SearchQuery::new("needle"));
        let seen = seen
            .unwrap_or_else(|error| panic!("{damage}: {error}"))
            .hits
            .len();
        if seen < 20 || found(&store, "appended").len() != 1 {
            store
                .rebuild_search()
                .unwrap_or_else(|error| panic!("{damage}: {error}"));
        }
        store.index_search(Duration::from_secs(60)).unwrap();
        assert_eq!(found(&store, "appended").len(), 1, "{damage}");
        assert_eq!(found(&store, "needle").len(), 20, "{damage}");
        assert!(found(&store, "gone").is_empty(), "{damage}");
        store.rebuild_search().unwrap();
        assert_eq!(found(&store, "needle 199").len(), 1, "{damage}");
        assert_eq!(store.verify().unwrap().findings, [], "{damage}");
    }
}

fn plain_at(path: &std::path::Path) -> Connection {
    Connection::open(path).unwrap()
}

#[test]
fn a_store_that_can_only_be_read_is_searched_as_far_as_it_is_indexed() {
    let test = TestStore::new();
    let session = test.session();
    say(&session, "needle one");
    assert_eq!(found(&test.store, "needle").len(), 1);
    say(&session, "needle two");
    let store = Store::open_with(test.store.path(), &OpenOptions::new().read_only(true)).unwrap();
    let page = store.search(&SearchQuery::new("needle")).unwrap();
    assert_eq!((page.hits.len(), page.unindexed), (1, 1));
    for refused in [
        store.rebuild_search().map(drop),
        store.index_search(Duration::ZERO).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ReadOnly);
    }
    plain(&test.store)
        .execute_batch("UPDATE search_data SET block = randomblob(length(block)) WHERE id > 10")
        .unwrap();
    let refused = store.search(&SearchQuery::new("needle")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    assert!(refused.to_string().contains("search"), "{refused}");
}

#[test]
fn a_writer_is_not_waited_for_longer_than_the_store_allows() {
    let test = TestStore::new();
    let session = test.session();
    say(&session, "needle");
    assert_eq!(found(&test.store, "needle").len(), 1);
    say(&session, "needle");
    let options = OpenOptions::new().busy_timeout(Duration::from_millis(10));
    let second = Store::open_with(test.store.path(), &options).unwrap();
    let page = session
        .write(|tx| {
            tx.append(NewMessage::user("held"))?;
            second.search(&SearchQuery::new("needle"))
        })
        .unwrap();
    assert_eq!((page.hits.len(), page.unindexed), (1, 1));
}

#[test]
fn a_salvaged_store_has_an_index_of_its_own() {
    let test = TestStore::new();
    let session = test.session();
    say(&session, "needle");
    assert_eq!(found(&test.store, "needle").len(), 1);
    let path = test.store.path().to_owned();
    drop((session, test.store));
    let new = test.folder.path().join("new.db");
    assert_eq!(Store::salvage(&path, &new).unwrap().lost, [] as [String; 0]);
    assert_eq!(found(&Store::open(&new).unwrap(), "needle").len(), 1);
}
