//! Appending, durably: one entry, and 500 in one call.

use divan::Bencher;
use divan::counter::ItemsCount;
use turnkeep::{AppendOptions, NewMessage};

use crate::entries::Maker;
use crate::kit::{bare_append, bare_with_session, new_session, new_store};

const ENTRY_BYTES: usize = 1024;
const BATCH: usize = 500;

/// One entry of 1 KiB, on disk when the call returns.
#[divan::bench_group(sample_count = 400, sample_size = 1)]
mod one {
    use super::*;

    #[divan::bench]
    fn ours_entry(bencher: Bencher) {
        let messages = new_session(&new_store()).messages();
        let options = AppendOptions::new();
        let mut maker = Maker::new(ENTRY_BYTES);
        bencher
            .with_inputs(|| maker.next())
            .bench_local_refs(|entry| messages.append_entries([entry], &options).unwrap());
    }

    #[divan::bench]
    fn bare(bencher: Bencher) {
        let conn = bare_with_session();
        let mut maker = Maker::new(ENTRY_BYTES);
        let mut seq = 0;
        bencher
            .with_inputs(|| [maker.next()])
            .bench_local_refs(|entry| {
                seq += 1;
                bare_append(&conn, seq, entry);
            });
    }

    #[divan::bench]
    fn ours_message(bencher: Bencher) {
        let messages = new_session(&new_store()).messages();
        let text = "x".repeat(ENTRY_BYTES - 300);
        bencher
            .with_inputs(|| NewMessage::user(text.clone()))
            .bench_local_values(|message| messages.append(message).unwrap());
    }
}

/// 500 entries of 1 KiB in one call.
#[divan::bench_group(sample_count = 40, sample_size = 1)]
mod batch {
    use super::*;

    #[divan::bench]
    fn ours(bencher: Bencher) {
        let messages = new_session(&new_store()).messages();
        let options = AppendOptions::new();
        let mut maker = Maker::new(ENTRY_BYTES);
        bencher
            .counter(ItemsCount::new(BATCH))
            .with_inputs(|| maker.take(BATCH))
            .bench_local_refs(|entries| messages.append_entries(entries.iter(), &options).unwrap());
    }

    #[divan::bench]
    fn bare(bencher: Bencher) {
        let conn = bare_with_session();
        let mut maker = Maker::new(ENTRY_BYTES);
        let mut seq = 1;
        bencher
            .counter(ItemsCount::new(BATCH))
            .with_inputs(|| maker.take(BATCH))
            .bench_local_refs(|entries| {
                bare_append(&conn, seq, entries);
                seq += 500;
            });
    }
}
