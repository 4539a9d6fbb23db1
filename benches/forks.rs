//! Forks: making them, what they take of the file, and reading what they inherit.

use std::path::Path;
use std::time::Duration;

use turnkeep::{ForkOptions, Session, Store, TranscriptKey};

use crate::entries::Maker;
use crate::kit::{self, bare_append, bare_with_session, print_beside, time};

/// Entries of the sessions that are forked.
const ENTRY_BYTES: usize = 1024;
/// Entries of the sessions that are read.
const READ_BYTES: usize = 2048;
const READ_ENTRIES: usize = 10_000;
const CHAIN: usize = 1000;

/// A store with a conversation of `count` messages, open as durable as it is unless told otherwise.
fn filled(count: usize, entry_bytes: usize) -> (Store, Session) {
    let store = kit::new_store_to_fill(|| 1_795_961_337_000);
    let key = TranscriptKey::main("-srv-shop", "source").unwrap();
    for entries in Maker::new(entry_bytes).conversation(count).chunks(500) {
        store.session_store().append(&key, entries).unwrap();
    }
    let path = store.path().to_owned();
    drop(store);
    let store = Store::open(path).unwrap();
    let session = store.sessions().get(&key.session).unwrap();
    (store, session)
}

/// A durable insert of one entry, and nothing else.
fn one_insert() -> impl FnMut() -> Duration {
    let conn = bare_with_session();
    let mut maker = Maker::new(ENTRY_BYTES);
    let mut seq = 0;
    move || {
        let entries = [maker.next()];
        seq += 1;
        time(|| bare_append(&conn, seq, &entries))
    }
}

pub fn of_1_000() {
    print_fork("forks::of_1_000", 1_000);
}

pub fn of_10_000() {
    print_fork("forks::of_10_000", 10_000);
}

pub fn of_100_000() {
    print_fork("forks::of_100_000", 100_000);
}

/// A fork of a session with `count` messages, on disk when the call returns: at its head, and at
/// messages from all over it.
fn print_fork(name: &str, count: usize) {
    let (_store, session) = filled(count, ENTRY_BYTES);
    let head = ForkOptions::new();
    let ours = || time(|| session.fork(&head).unwrap());
    print_beside(name, 400, (1.0, "forks"), ours, one_insert());
    let entries = session.conversation("").unwrap().entries;
    let mut forks = 0;
    let ours = || {
        forks += 1;
        let at = &entries[forks * 7919 % entries.len()];
        let options = ForkOptions::new().up_to(&at.uuid);
        time(|| session.fork(&options).unwrap())
    };
    print_beside(
        &format!("{name}, up to a message"),
        400,
        (1.0, "forks"),
        ours,
        one_insert(),
    );
}

/// How much the file grows by forks of a session with 100,000 messages.
pub fn growth() {
    let (store, session) = filled(100_000, ENTRY_BYTES);
    let path = store.path().to_owned();
    drop(store);
    let mut made = 0;
    let before = checkpointed(&path);
    println!("forks::growth: of a session of 100,000 messages, a file of {before} bytes");
    for count in [1_000, 10_000] {
        while made < count {
            session.fork(&ForkOptions::new()).unwrap();
            made += 1;
        }
        let grown = checkpointed(&path) - before;
        println!(
            "    {count:>6} forks  {grown:>10} bytes  {:>6} bytes each",
            grown / count
        );
    }
    let fork = session.fork(&ForkOptions::new()).unwrap();
    let shown = |session: &Session| session.conversation("").unwrap().entries.len();
    assert_eq!(shown(&fork), shown(&session));
}

/// The size of a store's file with all that its log holds.
fn checkpointed(path: &Path) -> u64 {
    let conn = kit::bare(path);
    let whole = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy: i64 = conn.query_row(whole, [], |row| row.get(0)).unwrap();
    assert_eq!(busy, 0);
    std::fs::metadata(path).unwrap().len()
}

/// A fork's entries and conversation, beside its source's.
pub fn fork_beside_source() {
    let (store, source) = filled(READ_ENTRIES, READ_BYTES);
    let fork = source.fork(&ForkOptions::new()).unwrap();
    print_reads("forks::read", &store, &fork, &source);
}

/// The last of a chain of forks of forks, beside a session that holds the same lines itself.
pub fn chain_beside_plain() {
    let (store, source) = filled(READ_ENTRIES, READ_BYTES);
    let mut last = source;
    for _ in 0..CHAIN {
        last = last.fork(&ForkOptions::new()).unwrap();
    }
    let plain = TranscriptKey::main("-srv-shop", "plain").unwrap();
    let lines = store
        .session_store()
        .load(&last.key().transcript(""))
        .unwrap()
        .unwrap();
    assert!(lines.len() >= READ_ENTRIES + CHAIN);
    for lines in lines.chunks(500) {
        store.session_store().append(&plain, lines).unwrap();
    }
    let plain = store.sessions().get(&plain.session).unwrap();
    print_reads(&format!("forks::chain of {CHAIN}"), &store, &last, &plain);
}

fn print_reads(name: &str, store: &Store, ours: &Session, other: &Session) {
    let loads = store.session_store();
    let load = |session: &Session| {
        let key = session.key().transcript("");
        time(|| loads.load(&key).unwrap().unwrap())
    };
    let amount = (READ_ENTRIES as f64, "entries");
    print_beside(
        &format!("{name}, load"),
        40,
        amount,
        || load(ours),
        || load(other),
    );
    let conversation = |session: &Session| time(|| session.conversation("").unwrap());
    let name = format!("{name}, conversation");
    print_beside(
        &name,
        40,
        amount,
        || conversation(ours),
        || conversation(other),
    );
}
