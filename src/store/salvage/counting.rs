//! Counting a session's listing anew, and the marks along its main transcript.

use std::collections::BTreeMap;

use crate::db::Tx;
use crate::error::Result;
use crate::store::listing::{add, mark, said_ms, tally_at};
use crate::tables::messages::Stored;
use crate::tables::sessions::SessionRow;
use crate::tables::{lineage, listing_marks, mending as sql, messages};
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

/// The listing of a main transcript, as it grows with its lines.
pub(super) struct Counting<'t, 'c> {
    tx: &'t Tx<'c>,
    session: i64,
    tally: Tally,
    /// What the session's row keeps, where its marks are lost.
    given: Tally,
    marks: BTreeMap<i64, String>,
    /// When something was last said, if the session's row does not know.
    said: Option<Option<i64>>,
}

impl<'t, 'c> Counting<'t, 'c> {
    /// Begins with what a fork inherits; what it is a fork of has been counted before it, as it is older.
    pub(super) fn begin(tx: &'t Tx<'c>, row: &SessionRow) -> Result<Self> {
        let beginning = match row.fork_prefix {
            Some(_) => lineage::find(tx, row.id)?,
            None => None,
        };
        let said = match (row.conversed_ms, row.forked_at) {
            (Some(_), _) => None,
            (None, Some(at)) if row.fork_prefix.is_some() => Some(messages::said_ms(tx, at)?),
            (None, _) => Some(None),
        };
        let mut counting = Self {
            tx,
            session: row.id,
            tally: Tally::default(),
            given: row.tally.clone(),
            marks: listing_marks::all(tx, row.id)?.into_iter().collect(),
            said,
        };
        if let Some(cut) = beginning {
            counting.tally = tally_at(tx, cut.base, cut.last_seq)?;
            counting.mend_mark(cut.last_seq.saturating_add(1))?;
        }
        Ok(counting)
    }

    /// Takes in the next line.
    pub(super) fn take(&mut self, line: &Stored, reading: Option<&Reading>) -> Result<()> {
        let opens = line.on_main_line && reading.is_some_and(Reading::opens_turn);
        while let Some(seq) = self.marks.first_key_value().map(|(seq, _)| *seq)
            && seq < line.seq
        {
            self.mend_mark(seq)?;
        }
        if opens || self.marks.contains_key(&line.seq) {
            self.mend_mark(line.seq)?;
        }
        add(&mut self.tally, line, reading);
        if let (Some(said), Some(reading)) = (&mut self.said, reading)
            && line.on_main_line
            && reading.takes_the_head()
        {
            let (_, stored_ms) = sql::times(self.tx, line.id)?;
            *said = (*said).max(Some(said_ms(reading, line.from_file, stored_ms)));
        }
        Ok(())
    }

    /// The listing, and when something was last said if the session's row does not know.
    pub(super) fn end(mut self) -> Result<(Tally, Option<i64>)> {
        while let Some(seq) = self.marks.first_key_value().map(|(seq, _)| *seq) {
            self.mend_mark(seq)?;
        }
        Ok((self.tally, self.said.flatten()))
    }

    /// Makes the mark before the row `seq` say what there is before that row.
    fn mend_mark(&mut self, seq: i64) -> Result<()> {
        let kept = self.marks.remove(&seq);
        let kept: Option<Tally> = kept.and_then(|text| serde_json::from_str(&text).ok());
        let beside = |given: &Tally| Tally {
            listing: self.tally.listing.clone().beside(&given.listing),
            ..self.tally.clone()
        };
        let right = match &kept {
            Some(kept) => beside(kept),
            None => beside(&self.given),
        };
        let is_right = kept.is_some_and(|mut kept| {
            (kept.listing.created_ms, kept.listing.newest_ms) = (None, None);
            kept == right
        });
        if !is_right {
            mark(self.tx, self.session, &right, seq)?;
        }
        Ok(())
    }
}
