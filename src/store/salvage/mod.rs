//! Saving what can be read of a damaged store into a new one.
//!
//! Rows are copied as they are, so that ids, numbers and uuids stay what they were (`copying`). Then they are brought
//! into agreement: rows in a wrong place go, sessions that lost their row get one (`placing`), forks get what they begin
//! with (`forks`), and what every append keeps up is computed anew from the entries, by the rules of the append
//! (`mending`). Nothing is left out in silence.

mod contents;
mod copying;
mod counting;
mod forks;
mod heads;
mod known;
mod looking;
mod mending;
mod order;
mod placing;
mod unread;
mod whole;

use std::path::Path;

use copying::Copying;
use mending::Copied;
use placing::Places;

use super::Store;
use crate::db::{self, Remains, Tx};
use crate::error::Result;
use crate::tables::{mending as sql, salvage};

/// The largest row id or number that is believed. They count up from 1; a larger one is damage.
const MOST_ID: i64 = 1 << 52;

/// What a salvage saved, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Salvaged {
    /// How many sessions the new store has.
    pub sessions: u64,
    /// How many entries, sub-agents' as well; what a fork shows of another session is counted there, if that is live.
    pub entries: u64,
    /// How many files beside transcripts: large outputs, checkpoint backups.
    pub files: u64,
    /// What could not be read, or was not what it had been, in words that name the table and the rows. Empty: the new
    /// store equals the old one.
    pub lost: Vec<String>,
}

impl Store {
    /// Saves what can be read of the store at `from` into a new store at `to`.
    ///
    /// `from` may be damaged anywhere: in its header, in any page, in its log; its end may be missing. It is never
    /// changed: a private copy of it beside `to` is worked on and removed. Ids, numbers and uuids stay as they were, and
    /// forks show what they showed, also of deleted sessions. A session whose row is lost and whose entries are not is
    /// named `salvaged/session-…`, and so is a deleted one whose entries a fork shows. A fork of which it is lost what it
    /// begins with keeps its own entries. [`Store::verify`] finds nothing wrong with the new store, and importing the same
    /// files into it again brings back what was lost of them.
    ///
    /// SQLite keeps no checksums: a byte changed within a text that still reads as one is noticed in imported
    /// transcripts, whose hash is known, and not in others.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if something lies at `to`, or `from` is open in this process;
    /// [`Error::NotFound`](crate::Error::NotFound); [`Error::NotAStore`](crate::Error::NotAStore) and
    /// [`Error::Damaged`](crate::Error::Damaged) if nothing of a store is in the file;
    /// [`Error::NewerSchema`](crate::Error::NewerSchema); [`Error::Busy`](crate::Error::Busy) if others keep writing to
    /// `from`; [`Error::Full`](crate::Error::Full). Nothing is left at `to` then.
    pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Salvaged> {
        db::salvage(from.as_ref(), to.as_ref(), save)
    }
}

/// Puts what remains into a new store.
fn save(remains: &Remains, tx: &Tx<'_>) -> Result<Salvaged> {
    let tables = salvage::tables(tx)?;
    let indexes = salvage::drop_indexes(tx)?;
    let mut lost = remains.lost().to_vec();

    let mut copying = Copying::new(remains, tx, &tables);
    copying.copy_tables()?;
    let mut places = Places::read(tx)?;
    let misplaced = places.take_misplaced_away(tx)?;
    copying.look_page_by_page(&places.missing(tx)?)?;
    if !copying.found_a_store() {
        return Err(remains.nothing_of_a_store());
    }
    copying.tell(&mut lost);
    // Rows that were found on their own are placed as the others were.
    let mut places = Places::read(tx)?;
    let misplaced = [misplaced, places.take_misplaced_away(tx)?].concat();
    placing::tell_misplaced(&misplaced, &mut lost);

    let counters = copying.counters()?;
    let rowless = placing::name_sessions(tx, &mut lost)?;
    placing::settle_doubles(tx, &mut lost)?;
    forks::settle_prefixes(tx, &mut lost)?;
    salvage::make_indexes(tx, &indexes)?;
    contents::remove_broken(tx, &mut lost)?;
    placing::remove_unreferred(tx, &tables, &mut lost)?;
    forks::mend_forks(tx, &mut lost)?;
    placing::tell_missing(tx, &places.missing(tx)?, &mut lost)?;

    let copied = Copied {
        rowless,
        left_lost: copying.has_lost_of("left_turns"),
    };
    mending::mend(tx, &copied, &mut lost)?;
    for (table, last) in counters {
        salvage::set_counter(tx, &table, last)?;
    }
    let (sessions, entries, files) = sql::totals(tx)?;
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(Salvaged {
        sessions: count(sessions),
        entries: count(entries),
        files: count(files),
        lost,
    })
}
