//! What is not salvaged, and what is never touched.

use super::*;

#[test]
fn what_is_no_store_is_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("empty"), "").unwrap();
    fs::write(at("text"), "once upon a time ".repeat(1000)).unwrap();
    fs::write(at("short"), "x").unwrap();
    fs::write(at("pages of text"), "a".repeat(4 * PAGE)).unwrap();
    for (name, size) in [("small pages", 4096), ("same pages", PAGE)] {
        let conn = Connection::open(at(name)).unwrap();
        conn.execute_batch(&format!(
            "PRAGMA page_size = {size}; CREATE TABLE messages (id INTEGER PRIMARY KEY, text TEXT);
             INSERT INTO messages (text) VALUES ('hello');"
        ))
        .unwrap();
    }
    let before = hashes(folder.path());
    for name in before.keys() {
        let outcome = Store::salvage(at(name), at("saved.db"));
        match name.as_str() {
            "empty" => assert!(matches!(outcome, Err(Error::Damaged { .. })), "{outcome:?}"),
            _ => assert!(
                matches!(&outcome, Err(Error::NotAStore { path, .. }) if *path == at(name)),
                "{name}: {outcome:?}"
            ),
        }
    }
    let missing = Store::salvage(at("nothing"), at("saved.db"));
    assert!(matches!(
        missing,
        Err(Error::NotFound { what: "store", .. })
    ));
    assert_eq!(hashes(folder.path()), before);
}

#[test]
fn what_lies_at_the_new_name_is_never_touched() {
    let victim = Victim::with(|store| drop(desk(store, 1, 2)));
    for name in ["saved.db", "saved.db-wal", "saved.db-journal"] {
        let damaged = victim.damaged(|_| {});
        fs::write(damaged.folder.path().join(name), "mine").unwrap();
        let before = hashes(damaged.folder.path());
        let outcome = Store::salvage(damaged.from(), damaged.to());
        assert!(matches!(outcome, Err(Error::Conflict(_))), "{outcome:?}");
        assert_eq!(hashes(damaged.folder.path()), before);
    }
    let path = victim.path();
    let outcome = Store::salvage(&path, &path);
    assert!(matches!(outcome, Err(Error::Conflict(_))), "{outcome:?}");
    let store = Store::open(&path).unwrap();
    let outcome = Store::salvage(&path, victim.folder.path().join("saved.db"));
    assert!(
        matches!(&outcome, Err(Error::Conflict(what)) if what.contains("open in this process"))
    );
    drop(store);
}

#[test]
fn a_store_of_a_newer_release_is_refused() {
    let victim = Victim::with(|store| drop(desk(store, 1, 2)));
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute_batch("UPDATE refinery_schema_history SET version = 9999 WHERE version = 1")
        .unwrap();
    drop(conn);
    let outcome = Store::salvage(damaged.from(), damaged.to());
    assert!(
        matches!(outcome, Err(Error::NewerSchema { found: 9999, .. })),
        "{outcome:?}"
    );
    assert!(!damaged.to().exists());
}
