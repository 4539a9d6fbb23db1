//! Telling what is new in a file from what the store has.
//!
//! The file's lines are matched against the transcript as stored: first the longest common
//! beginning, line by line; behind it, where the client rewrote its tail or others wrote to the
//! transcript too, each line against one equal line still unmatched. Identical side lines are
//! common, so lines are counted, not only looked up. What finds no match is new.

use std::collections::{HashMap, VecDeque};

use super::lines::Numbered;
use crate::db::Tx;
use crate::error::Result;
use crate::store::{Fed, Feed};
use crate::tables::messages::{self, Stored};
use crate::transcript::line::Ending;
use crate::transcript::reading::Reading;

/// How many stored lines are looked at a time.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 4 << 20;

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was stored, as an entry of its own or as bytes without one.
    New,
    /// It was there.
    Known,
    /// It repeats an entry that stands earlier in the file; kept as a line.
    Repeated,
    /// Another entry has its uuid; kept as a line.
    Differing,
}

/// A transcript and a file being matched.
pub(super) struct Matching {
    mode: Mode,
    /// The transcript's next seq after the last thing done here; anything else means that another
    /// writer was there.
    expected_seq: i64,
    /// Whether every stored line has been matched by the file's lines in order, so far.
    exact: bool,
}

enum Mode {
    /// The transcript is exactly what was read before: all that follows is new.
    Behind,
    /// Still within the common beginning.
    Prefix {
        rows: VecDeque<Stored>,
        after: i64,
        skipped: Unmatched,
    },
    /// Behind it.
    Counted(Unmatched),
}

/// Stored lines that no line of the file has matched yet, by their value.
#[derive(Default)]
struct Unmatched(HashMap<[u8; 16], u32>);

impl Unmatched {
    fn add(&mut self, entry: Option<&str>, bytes: &[u8]) {
        *self.0.entry(value_hash(entry, bytes)).or_default() += 1;
    }

    fn take(&mut self, entry: Option<&str>, bytes: &[u8]) -> bool {
        let Some(count) = self.0.get_mut(&value_hash(entry, bytes)) else {
            return false;
        };
        let there = *count > 0;
        *count = count.saturating_sub(1);
        there
    }

    fn is_empty(&self) -> bool {
        self.0.values().all(|count| *count == 0)
    }
}

/// The hash of a line's value: equal for records that differ only in how they are written.
fn value_hash(entry: Option<&str>, bytes: &[u8]) -> [u8; 16] {
    let value = entry.and_then(|entry| serde_json::from_str::<serde_json::Value>(entry).ok());
    let hash = match value {
        Some(mut value) => {
            value.sort_all_objects();
            blake3::hash(value.to_string().as_bytes())
        }
        None => blake3::hash(bytes),
    };
    let mut short = [0; 16];
    short.copy_from_slice(&hash.as_bytes()[..16]);
    short
}

impl Matching {
    /// Matches a whole file against the transcript with this next seq.
    pub(super) fn from_the_start(next_seq: i64) -> Self {
        let mode = Mode::Prefix {
            rows: VecDeque::new(),
            after: 0,
            skipped: Unmatched::default(),
        };
        Self {
            mode,
            expected_seq: next_seq,
            exact: true,
        }
    }

    /// Matches the rest of a file whose beginning the transcript is known to equal.
    pub(super) fn behind_known(next_seq: i64) -> Self {
        Self {
            mode: Mode::Behind,
            expected_seq: next_seq,
            exact: true,
        }
    }

    /// Matches lines of a file that belong to another transcript: they have no order there.
    pub(super) fn foreign(feed: &Feed<'_, '_>, tx: &Tx<'_>) -> Result<Self> {
        let mut unmatched = Unmatched::default();
        add_rows(feed, tx, 0, &mut unmatched)?;
        Ok(Self {
            mode: Mode::Counted(unmatched),
            expected_seq: feed.transcript.next_seq,
            exact: false,
        })
    }

    /// To be called at the beginning of each transaction: takes in what another writer stored.
    pub(super) fn resume(&mut self, feed: &Feed<'_, '_>, tx: &Tx<'_>) -> Result<()> {
        if feed.transcript.next_seq == self.expected_seq {
            return Ok(());
        }
        let from = self.expected_seq - 1;
        match &mut self.mode {
            // Rows behind the common beginning are read when it ends.
            Mode::Prefix { .. } => {}
            Mode::Counted(unmatched) => add_rows(feed, tx, from, unmatched)?,
            Mode::Behind => {
                let mut unmatched = Unmatched::default();
                add_rows(feed, tx, from, &mut unmatched)?;
                self.mode = Mode::Counted(unmatched);
            }
        }
        self.exact = false;
        Ok(())
    }

    /// Notes that rows were stored beside the transcript by the import itself.
    pub(super) fn expect(&mut self, next_seq: i64) {
        self.expected_seq = next_seq;
    }

    /// Matches or stores one segment; `rest` is what else is on its line, from this one on.
    pub(super) fn take(
        &mut self,
        feed: &mut Feed<'_, '_>,
        tx: &Tx<'_>,
        reading: &Reading,
        rest: &[Numbered],
    ) -> Result<Outcome> {
        let outcome = match self.match_line(feed, tx, reading, rest)? {
            true => Outcome::Known,
            false => self.store(feed, reading)?,
        };
        self.expected_seq = feed.transcript.next_seq;
        Ok(outcome)
    }

    /// Whether the transcript is now exactly the lines that were given.
    pub(super) fn is_exact(&mut self, feed: &Feed<'_, '_>, tx: &Tx<'_>) -> Result<bool> {
        if let Mode::Prefix { rows, after, .. } = &mut self.mode {
            refill(feed, tx, rows, after)?;
            rows.retain(|row| !is_beside(row));
        }
        let all_matched = match &self.mode {
            Mode::Behind => true,
            Mode::Prefix { rows, skipped, .. } => rows.is_empty() && skipped.is_empty(),
            Mode::Counted(_) => false,
        };
        Ok(self.exact && all_matched)
    }

    fn match_line(
        &mut self,
        feed: &mut Feed<'_, '_>,
        tx: &Tx<'_>,
        reading: &Reading,
        rest: &[Numbered],
    ) -> Result<bool> {
        let Mode::Prefix {
            rows,
            after,
            skipped,
        } = &mut self.mode
        else {
            let Mode::Counted(unmatched) = &mut self.mode else {
                return Ok(false);
            };
            return Ok(unmatched.take(reading.entry.as_deref(), reading.bytes()));
        };
        loop {
            refill(feed, tx, rows, after)?;
            let Some(row) = rows.pop_front() else {
                self.mode = behind(std::mem::take(skipped));
                return self.match_line(feed, tx, reading, rest);
            };
            if row.bytes() == reading.bytes() {
                if row.ending == Ending::Eof && reading.ending != Ending::Eof {
                    messages::settle_end(tx, row.id, reading.ending)?;
                }
                return Ok(true);
            }
            if row.ending == Ending::Eof && row.entry.is_some() {
                // Only padding came behind the record before its line ended.
                if row.entry == reading.entry && reading.bytes().starts_with(row.bytes()) {
                    messages::settle_padding(tx, row.id, reading)?;
                    return Ok(true);
                }
            } else if row.ending == Ending::Eof {
                // The file went on where it had been cut: the line is stored whole.
                if goes_on(rest, row.bytes()) {
                    feed.take_back(row.id, row.seq)?;
                    let mut unmatched = std::mem::take(skipped);
                    for row in rows.drain(..).filter(|row| !is_beside(row)) {
                        unmatched.add(row.entry.as_deref(), row.bytes());
                    }
                    add_rows(feed, tx, *after, &mut unmatched)?;
                    self.mode = behind(unmatched);
                    return Ok(false);
                }
                messages::settle_end(tx, row.id, Ending::Lf)?;
            }
            if !row.from_file {
                // An entry that an app appended itself: the file goes on behind it.
                if !is_beside(&row) {
                    skipped.add(row.entry.as_deref(), row.bytes());
                }
                continue;
            }
            let mut unmatched = std::mem::take(skipped);
            unmatched.add(row.entry.as_deref(), row.bytes());
            for row in rows.drain(..) {
                unmatched.add(row.entry.as_deref(), row.bytes());
            }
            add_rows(feed, tx, *after, &mut unmatched)?;
            self.mode = Mode::Counted(unmatched);
            return self.match_line(feed, tx, reading, rest);
        }
    }

    fn store(&mut self, feed: &mut Feed<'_, '_>, reading: &Reading) -> Result<Outcome> {
        match feed.push(reading)? {
            Fed::Stored => Ok(Outcome::New),
            Fed::Duplicate(shown) => {
                // The row with the uuid may be one that no line has matched yet.
                let unmatched = match &mut self.mode {
                    Mode::Counted(unmatched) => unmatched.take(Some(&shown), shown.as_bytes()),
                    Mode::Behind | Mode::Prefix { .. } => false,
                };
                if unmatched {
                    return Ok(Outcome::Known);
                }
                feed.push_repeated(reading)?;
                Ok(Outcome::Repeated)
            }
            Fed::Differing => {
                feed.push_repeated(reading)?;
                Ok(Outcome::Differing)
            }
        }
    }
}

/// Whether what is left of a line begins with `bytes`.
fn goes_on(rest: &[Numbered], bytes: &[u8]) -> bool {
    let mut left = bytes;
    for Numbered { reading, .. } in rest {
        let there = reading.bytes();
        if there.len() >= left.len() {
            return there.starts_with(left);
        }
        match left.strip_prefix(there) {
            Some(behind) => left = behind,
            None => return false,
        }
    }
    left.is_empty()
}

/// The mode behind the common beginning, with the lines that were passed over in it.
fn behind(skipped: Unmatched) -> Mode {
    if skipped.is_empty() {
        Mode::Behind
    } else {
        Mode::Counted(skipped)
    }
}

/// Whether the client keeps the entry in a file beside the transcript.
fn is_beside(row: &Stored) -> bool {
    row.kind == "agent_metadata" && !row.from_file
}

fn refill(
    feed: &Feed<'_, '_>,
    tx: &Tx<'_>,
    rows: &mut VecDeque<Stored>,
    after: &mut i64,
) -> Result<()> {
    if rows.is_empty() {
        let page = feed.history.page(tx, *after, PAGE, PAGE_BYTES)?;
        if let Some(last) = page.last() {
            *after = last.seq;
        }
        rows.extend(page);
    }
    Ok(())
}

fn add_rows(feed: &Feed<'_, '_>, tx: &Tx<'_>, after: i64, unmatched: &mut Unmatched) -> Result<()> {
    let mut after = after;
    loop {
        let page = feed.history.page(tx, after, PAGE, PAGE_BYTES)?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = last.seq;
        for row in page.iter().filter(|row| !is_beside(row)) {
            unmatched.add(row.entry.as_deref(), row.bytes());
        }
    }
}
