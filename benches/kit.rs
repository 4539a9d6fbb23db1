//! Where the data lies, the bare side of every comparison, and how the two are timed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, named_params};
use turnkeep::{Durability, NewSession, OpenOptions, Session, Store};

use crate::entries::Entry;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Says where all data goes. The caller removes it.
pub fn use_folder(folder: &Path) {
    FOLDER.set(folder.to_owned()).unwrap();
}

/// A new, empty folder.
pub fn new_folder() -> PathBuf {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed).to_string();
    let folder = FOLDER.get().unwrap().join(number);
    std::fs::create_dir(&folder).unwrap();
    folder
}

/// A new store, as durable as it is unless told otherwise.
pub fn new_store() -> Store {
    Store::open(new_folder().join("store.db")).unwrap()
}

/// A new store to be filled before anything is measured. `clock` tells the time of each write.
pub fn new_store_to_fill(clock: impl Fn() -> i64 + Send + Sync + 'static) -> Store {
    let options = OpenOptions::new()
        .durability(Durability::Normal)
        .clock(clock);
    Store::open_with(new_folder().join("store.db"), &options).unwrap()
}

/// A session without entries.
pub fn new_session(store: &Store) -> Session {
    let new = NewSession::in_project("shop").id("bench").cwd("/srv/shop");
    store.sessions().create(new).unwrap()
}

/// A bare connection to a file with the store's schema, set up as the store sets up its own.
pub fn bare(path: &Path) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.execute_batch(
        "PRAGMA foreign_keys = ON;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA wal_autocheckpoint = 1000;
         PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA synchronous = FULL;",
    )
    .unwrap();
    conn.set_prepared_statement_cache_capacity(128);
    conn
}

/// A bare connection to a new file with one session, row 1, that has no entries.
pub fn bare_with_session() -> Connection {
    let store = new_store();
    new_session(&store);
    bare(store.path())
}

/// Stores entries in one transaction: one insert each, and nothing else.
pub fn bare_append(conn: &Connection, first_seq: i64, entries: &[Entry]) {
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    for (seq, entry) in (first_seq..).zip(entries) {
        conn.prepare_cached(
            "INSERT INTO messages (session, subpath, seq, line, uuid, parent, parent_uuid, kind, role,
                 timestamp_ms, stored_ms, entry)
             VALUES (1, '', :seq, :seq, :uuid, :parent, :parent_uuid, :kind, :kind, :time, :time, :entry)",
        )
        .unwrap()
        .execute(named_params! {
            ":seq": seq,
            ":uuid": entry.uuid,
            ":parent": seq - 1,
            ":parent_uuid": entry.parent,
            ":kind": entry.kind,
            ":time": 1_795_961_337_000 + seq,
            ":entry": entry.text,
        })
        .unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
}

/// How long `work` takes; what it answers is dropped outside of that.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    let answer = work();
    let took = begun.elapsed();
    drop(answer);
    took
}

/// Times ours and the bare side in turn, so that what else the machine does meets both alike, and
/// prints the medians with the middle half around them, and the median of the ratios.
pub fn print_beside(
    name: &str,
    rounds: usize,
    (amount, unit): (f64, &str),
    mut ours: impl FnMut() -> Duration,
    mut bare: impl FnMut() -> Duration,
) {
    let (mut our_times, mut bare_times, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let times = (ours().as_secs_f64(), bare().as_secs_f64());
        our_times.push(times.0);
        bare_times.push(times.1);
        ratios.push(times.0 / times.1);
    }
    let [low, ratio, high] = quartiles(&mut ratios);
    println!("{name}: {ratio:.2} x bare ({low:.2} to {high:.2})");
    for (side, times) in [("ours", &mut our_times), ("bare", &mut bare_times)] {
        let [low, median, high] = quartiles(times).map(|seconds| seconds * 1000.0);
        let rate = amount / median * 1000.0;
        println!("    {side}  {median:>9.3} ms ({low:.3} to {high:.3})  {rate:>9.0} {unit}/s");
    }
}

/// The quarter marks of some values.
pub fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
