//! Appending, durably: one entry, one message through the typed door, and 500 entries in one call.

use turnkeep::{AppendOptions, NewMessage};

use crate::entries::Maker;
use crate::kit::{bare_append, bare_with_session, new_session, new_store, print_beside, time};

const ENTRY_BYTES: usize = 1024;
const BATCH: usize = 500;

/// One entry of 1 KiB, on disk when the call returns.
pub fn one_entry() {
    let messages = new_session(&new_store()).messages();
    let options = AppendOptions::new();
    let mut maker = Maker::new(ENTRY_BYTES);
    let ours = || {
        let entry = maker.next();
        time(|| messages.append_entries([entry], &options).unwrap())
    };
    print_beside("append::one_entry", 1000, (1.0, "entries"), ours, bare(1));
}

/// The same through `NewMessage`, beside an insert of an entry that is made already.
pub fn one_message() {
    let messages = new_session(&new_store()).messages();
    let text = "x".repeat(ENTRY_BYTES - 300);
    let ours = || {
        let message = NewMessage::user(text.clone());
        time(|| messages.append(message).unwrap())
    };
    print_beside(
        "append::one_message",
        1000,
        (1.0, "messages"),
        ours,
        bare(1),
    );
}

/// 500 entries of 1 KiB in one call.
pub fn batch() {
    let messages = new_session(&new_store()).messages();
    let options = AppendOptions::new();
    let mut maker = Maker::new(ENTRY_BYTES);
    let ours = || {
        let entries = maker.take(BATCH);
        time(|| messages.append_entries(entries, &options).unwrap())
    };
    print_beside(
        "append::batch",
        60,
        (BATCH as f64, "entries"),
        ours,
        bare(BATCH),
    );
}

fn bare(count: usize) -> impl FnMut() -> std::time::Duration {
    let conn = bare_with_session();
    let mut maker = Maker::new(ENTRY_BYTES);
    let mut seq = 1;
    move || {
        let entries = maker.take(count);
        let took = time(|| bare_append(&conn, seq, &entries));
        seq += count as i64;
        took
    }
}
