//! A session's listing as its entries make it, and the marks by which it is found as of any row.

use rusqlite::Connection;

use crate::db::Tx;
use crate::error::{Error, Result};
use crate::tables::listing_marks;
use crate::tables::messages::{self, Stored};
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

/// How many rows are read at a time to find the listing as of a row.
const PAGE: usize = 200;
const PAGE_BYTES: usize = 8 << 20;

/// Notes the listing of a session as it is before the row `seq` of its main transcript.
pub(super) fn mark(tx: &Tx<'_>, session: i64, tally: &Tally, seq: i64) -> Result<()> {
    let listing = serde_json::to_string(tally).map_err(|error| Error::Storage(Box::new(error)))?;
    Ok(listing_marks::insert(tx, session, seq, &listing)?)
}

/// The listing of a main transcript as of one of its session's own rows: from the newest mark, and
/// the entries since, which are at most a turn's.
pub(super) fn tally_at(db: &Connection, owner: i64, seq: i64) -> Result<Tally> {
    let (mut after, mut tally) = match listing_marks::find(db, owner, seq)? {
        Some((marked, listing)) => {
            let tally =
                serde_json::from_str(&listing).map_err(|error| Error::Storage(Box::new(error)))?;
            (marked - 1, tally)
        }
        None => (0, Tally::default()),
    };
    loop {
        let rows = messages::page(db, (owner, "", after, seq), PAGE, PAGE_BYTES)?;
        let Some(last) = rows.last() else {
            return Ok(tally);
        };
        after = last.seq;
        for row in &rows {
            let reading = row.entry.as_deref().and_then(Reading::of_entry);
            add(&mut tally, row, reading.as_ref());
        }
    }
}

/// Takes the next line of a main transcript into a tally, and what it says, if it holds a record.
pub(super) fn add(tally: &mut Tally, line: &Stored, reading: Option<&Reading>) {
    match (&line.entry, reading) {
        (Some(_), Some(reading)) => tally.add(reading, line.on_main_line),
        (Some(_), None) => tally.entries += 1,
        (None, _) => {}
    }
}

/// When a message was said: what an app appends is said now, what a file holds at the time that it
/// names, and never later than it was stored.
pub(super) fn said_ms(reading: &Reading, from_file: bool, stored_ms: i64) -> i64 {
    match reading.timestamp_ms {
        Some(time) if from_file => time.min(stored_ms),
        _ => stored_ms,
    }
}

/// Whether lists show a session: not one that is a sub-agent's transcript, and not one of which
/// there is bookkeeping alone, or (`has_others`) other transcripts than the main one alone.
pub(super) fn is_listed(tally: &Tally, has_others: bool) -> bool {
    let shows_nothing = tally.listing.summary().is_none() && tally.messages == 0;
    let bookkeeping = shows_nothing && (tally.entries > 0 || has_others);
    tally.listing.is_sidechain != Some(true) && !bookkeeping
}
