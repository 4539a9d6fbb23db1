//! Reading a session of 10,000 entries of 2 KiB: whole, and as a conversation.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use divan::Bencher;
use rusqlite::Connection;
use turnkeep::{Session, Store, TranscriptKey, claude_code};

use crate::entries::Maker;
use crate::kit::{self, print_beside, quartiles, time};

const ENTRIES: usize = 10_000;
const ENTRY_BYTES: usize = 2048;
const SESSION_ID: &str = "b0000000-0000-4000-8000-000000000000";

/// The store and its session.
static FILLED: LazyLock<(Store, Session)> = LazyLock::new(|| {
    let store = kit::new_store_to_fill(|| 1_795_961_337_000);
    let key = TranscriptKey::main("-srv-shop", SESSION_ID).unwrap();
    for entries in Maker::new(ENTRY_BYTES).conversation(ENTRIES).chunks(500) {
        store.session_store().append(&key, entries).unwrap();
    }
    let session = store.sessions().get(&key.session).unwrap();
    (store, session)
});

/// All entries, as the Agent SDK's `SessionStore` loads them.
pub fn load() {
    let (store, session) = &*FILLED;
    let (loads, key) = (store.session_store(), session.key().transcript(""));
    let conn = kit::bare(store.path());
    print_beside(
        "read::load",
        60,
        (ENTRIES as f64, "entries"),
        || time(|| loads.load(&key).unwrap().unwrap()),
        || time(|| bare_load(&conn)),
    );
}

fn bare_load(conn: &Connection) -> Vec<String> {
    conn.prepare_cached(
        "SELECT entry FROM messages WHERE session = 1 AND subpath = '' ORDER BY seq",
    )
    .unwrap()
    .query_map([], |row| row.get(0))
    .unwrap()
    .collect::<Result<_, _>>()
    .unwrap()
}

/// Every line with its number, kind and bytes.
#[divan::bench(sample_count = 60, sample_size = 1)]
fn transcript(bencher: Bencher) {
    let session = &FILLED.1;
    bencher.bench_local(|| session.transcript("").unwrap());
}

/// The conversation, beside what the Agent SDK makes of the same session's file.
pub fn conversation() {
    let session = &FILLED.1;
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/target/oracle/bin/python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/time_messages.py");
    let ours = || 1000.0 * time(|| session.conversation("").unwrap()).as_secs_f64();
    if !Path::new(python).exists() {
        println!("read::conversation: {:.1} ms", ours());
        println!("    The SDK is left out: `scripts/oracle` makes the venv it runs in.");
        return;
    }
    let folder = kit::new_folder();
    claude_code::export_config_folder(&folder, std::slice::from_ref(session)).unwrap();
    let visible = session.conversation("").unwrap().visible().count();
    let (mut our_times, mut sdk_times) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        our_times.extend((0..10).map(|_| ours()));
        let output = Command::new(python)
            .arg(script)
            .arg(&folder)
            .arg(SESSION_ID)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["messages"], visible, "both read the same conversation");
        sdk_times.push(told["median_ms"].as_f64().unwrap());
    }
    let (ours, sdk) = (quartiles(&mut our_times), quartiles(&mut sdk_times));
    println!(
        "read::conversation: {:.1} x as fast as the SDK, {visible} messages",
        sdk[1] / ours[1]
    );
    for (side, [low, median, high]) in [("ours", ours), ("SDK ", sdk)] {
        println!("    {side}  {median:>9.3} ms ({low:.3} to {high:.3})");
    }
}
