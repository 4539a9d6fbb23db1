//! Reading a session of 10,000 entries of 2 KiB: whole, and as a conversation.

use std::process::Command;
use std::sync::LazyLock;

use divan::Bencher;
use rusqlite::Connection;
use turnkeep::{Session, Store, TranscriptKey, claude_code};

use crate::entries::Maker;
use crate::kit;

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

#[divan::bench_group(sample_count = 40, sample_size = 1)]
mod load {
    use super::*;

    #[divan::bench]
    fn ours(bencher: Bencher) {
        let (store, session) = &*FILLED;
        let (store, key) = (store.session_store(), session.key().transcript(""));
        bencher.bench_local(|| store.load(&key).unwrap().unwrap());
    }

    #[divan::bench]
    fn bare(bencher: Bencher) {
        let conn = kit::bare(FILLED.0.path());
        bencher.bench_local(|| bare_load(&conn));
    }

    #[divan::bench]
    fn ours_transcript(bencher: Bencher) {
        let session = &FILLED.1;
        bencher.bench_local(|| session.transcript("").unwrap());
    }
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

#[divan::bench_group(sample_count = 40, sample_size = 1)]
mod conversation {
    use super::*;

    #[divan::bench]
    fn ours(bencher: Bencher) {
        let session = &FILLED.1;
        bencher.bench_local(|| session.conversation("").unwrap());
    }
}

/// Prints how long the Agent SDK takes for the same conversation, from a file of its own making.
pub fn print_sdk() {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/target/oracle/bin/python");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle/time_messages.py");
    if !std::path::Path::new(python).exists() {
        println!("\nconversation, SDK: left out; `scripts/oracle` makes the venv it runs in");
        return;
    }
    let (folder, session) = (kit::new_folder(), &FILLED.1);
    claude_code::export_config_folder(&folder, std::slice::from_ref(session)).unwrap();
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
    let visible = session.conversation("").unwrap().visible().count();
    assert_eq!(told["messages"], visible, "both read the same conversation");
    println!(
        "\nconversation, SDK: {:.1} ms for the same {visible} messages (median of 5)",
        told["median_ms"].as_f64().unwrap()
    );
}
