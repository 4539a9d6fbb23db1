//! The one way into a transcript: every door stores its entries through a [`Feed`].
//!
//! A feed is open for one transaction. It gives each entry its place, binds it to its parent (and
//! to itself what named it as parent before), moves the head, writes the calls and results, and
//! keeps the session's listing up to date. It reads no other entry.

use std::collections::HashMap;

use super::head::{Arrival, moves_head};
use super::history::History;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::tables::messages::{self, NewPlace, Place};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::transcripts::{self, TranscriptRow};
use crate::tables::{left_turns, listing_marks, scratchpad, tool_calls, tool_results};
use crate::transcript::prompt::Opens;
use crate::transcript::reading::Reading;

/// Where entries come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An app, now.
    Append,
    /// A file, written some time ago; the row of `import_sources` it is.
    Import(i64),
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// It was stored.
    Stored,
    /// The row with its uuid says the same; the entry as it is shown.
    Duplicate(String),
    /// The row with its uuid says something else.
    Differing,
}

/// A transcript being added to.
pub(crate) struct Feed<'t, 'c> {
    tx: &'t Tx<'c>,
    pub(crate) session: SessionRow,
    pub(crate) transcript: TranscriptRow,
    pub(crate) history: History,
    origin: Origin,
    had_entries: bool,
    stored: bool,
    /// The messages stored by this feed: id and turn by uuid.
    recent: HashMap<String, (i64, Option<i64>)>,
}

impl<'t, 'c> Feed<'t, 'c> {
    pub(crate) fn open(
        tx: &'t Tx<'c>,
        session: SessionRow,
        subpath: &str,
        origin: Origin,
    ) -> Result<Self> {
        let transcript = transcripts::find(tx, session.id, subpath)?
            .unwrap_or_else(|| TranscriptRow::new(session.id, subpath));
        let history = History::of(tx, &session, subpath)?;
        let had_entries = session.tally.entries > 0;
        Ok(Self {
            tx,
            session,
            transcript,
            history,
            origin,
            had_entries,
            stored: false,
            recent: HashMap::new(),
        })
    }

    fn is_main(&self) -> bool {
        self.transcript.subpath.is_empty()
    }

    /// The head's uuid, as it is shown in this transcript.
    pub(crate) fn head_uuid(&self) -> Result<Option<String>> {
        head_uuid(self.tx, &self.history, self.transcript.head)
    }

    /// Stores an entry, unless its uuid is taken.
    pub(crate) fn push(&mut self, reading: &Reading) -> Result<Fed> {
        let inherited = match &reading.uuid {
            Some(uuid) => self.history.find_inherited(self.tx, uuid)?,
            None => None,
        };
        let known = match inherited {
            Some(place) => Some(place),
            None if self.store(reading, true)? => return Ok(Fed::Stored),
            None => {
                let uuid = reading.uuid.as_deref().unwrap_or_default();
                messages::find_place(self.tx, self.session.id, &self.transcript.subpath, uuid)?
            }
        };
        let shown = match &known {
            Some(place) => self.shown(place)?,
            None => None,
        };
        Ok(match shown {
            Some(shown) if same_value(&shown, reading) => Fed::Duplicate(shown),
            _ => Fed::Differing,
        })
    }

    fn shown(&self, place: &Place) -> Result<Option<String>> {
        match messages::entry(self.tx, place.id)? {
            Some(entry) => Ok(Some(self.history.shown_entry(self.tx, place, entry)?)),
            None => Ok(None),
        }
    }

    /// Stores an entry whose uuid is taken: as a line of the file, without a place of its own.
    pub(crate) fn push_repeated(&mut self, reading: &Reading) -> Result<()> {
        self.store(reading, false).map(drop)
    }

    /// Takes back half a record, so that it can be stored whole: in its place if that is the last,
    /// else at the end. No fork shows it.
    pub(crate) fn take_back(&mut self, id: i64, seq: i64) -> Result<()> {
        messages::remove(self.tx, id)?;
        if seq + 1 == self.transcript.next_seq {
            self.transcript.next_seq = seq;
        }
        self.stored = true;
        Ok(())
    }

    /// Writes back the session's and the transcript's rows.
    pub(crate) fn finish(mut self) -> Result<(SessionRow, TranscriptRow)> {
        if self.stored || !self.transcript.exists {
            transcripts::save(self.tx, &self.transcript)?;
            self.transcript.exists = true;
        }
        if self.stored {
            self.keep_times();
            let row = &mut self.session;
            let listing = &row.tally.listing;
            let shows_nothing = listing.summary().is_none() && row.tally.messages == 0;
            let bookkeeping =
                shows_nothing && (row.tally.entries > 0 || !self.transcript.subpath.is_empty());
            row.listed = listing.is_sidechain != Some(true) && !bookkeeping;
            sessions::update(self.tx, row)?;
        }
        Ok((self.session, self.transcript))
    }

    fn keep_times(&mut self) {
        if !self.is_main() {
            return;
        }
        let now = self.tx.now_ms();
        let row = &mut self.session;
        row.appended_ms = Some(row.appended_ms.unwrap_or(now).max(now));
        let listing = &row.tally.listing;
        let newest = match self.origin {
            Origin::Append => now,
            Origin::Import(_) => listing.newest_ms.map_or(now, |time| time.min(now)),
        };
        if self.had_entries {
            row.last_modified_ms = row.last_modified_ms.max(newest);
        } else {
            row.last_modified_ms = newest;
            row.created_ms = listing
                .created_ms
                .map_or(row.created_ms, |time| time.min(now));
        }
    }

    /// Stores a row; `false` if its uuid is taken.
    fn store(&mut self, reading: &Reading, indexed: bool) -> Result<bool> {
        let on_line = indexed && reading.is_main_line(&self.transcript.subpath);
        let parent = self.parent(reading)?;
        let opens = reading
            .opens
            .filter(|opens| on_line && self.is_main() && *opens != Opens::Nothing)
            .is_some();
        let turn = match parent {
            _ if !self.is_main() || opens => None,
            Some((_, turn)) => turn,
            None => self.transcript.turn,
        };
        let place = NewPlace {
            session: self.session.id,
            subpath: &self.transcript.subpath,
            seq: self.transcript.next_seq,
            line: on_line.then_some(self.transcript.next_line),
            parent: parent.map(|(id, _)| id),
            turn,
            opens_turn: opens,
            scratch: self.session.scratch.filter(|_| self.is_main()),
            import_source: match self.origin {
                Origin::Append => None,
                Origin::Import(source) => Some(source),
            },
            indexed,
        };
        let Some(id) = messages::insert(self.tx, place, reading)? else {
            return Ok(false);
        };
        self.stored = true;
        let turn = if opens { self.open_turn(id)? } else { turn };
        self.transcript.next_seq += 1;
        if reading.parent_uuid.is_some() && parent.is_none() {
            self.transcript.dangling += 1;
        }
        if on_line {
            self.transcript.next_line += 1;
            self.arrive(reading, id, parent.map(|(id, _)| id), turn, opens)?;
        }
        if indexed {
            self.bind(reading, id, turn)?;
            self.ledger(reading, id, turn)?;
        }
        self.count(reading, on_line);
        if self.is_main()
            && let Some(leaf) = &reading.moves_head_to
        {
            self.follow_client(leaf.as_deref())?;
        }
        Ok(true)
    }

    /// Begins a turn, and notes the listing as it was before it.
    fn open_turn(&mut self, id: i64) -> Result<Option<i64>> {
        self.transcript.turn = Some(id);
        mark(self.tx, &self.session, self.transcript.next_seq)?;
        Ok(Some(id))
    }

    /// The row and turn of the entry's parent, if it is there.
    fn parent(&self, reading: &Reading) -> Result<Option<(i64, Option<i64>)>> {
        let Some(uuid) = reading.parent_uuid.as_deref() else {
            return Ok(None);
        };
        if let Some(found) = self.recent.get(uuid) {
            return Ok(Some(*found));
        }
        let place = self.history.find(self.tx, uuid)?;
        Ok(place.map(|place| (place.id, place.turn)))
    }

    /// Moves the head to a message of the main line that just arrived, if it is to move.
    fn arrive(
        &mut self,
        reading: &Reading,
        id: i64,
        parent: Option<i64>,
        turn: Option<i64>,
        opens: bool,
    ) -> Result<()> {
        let head = self.transcript.head;
        let was_left = match turn.filter(|_| self.is_main() && !opens && parent != head) {
            Some(turn) => left_turns::contains(self.tx, self.session.id, turn)?,
            None => false,
        };
        let arrival = Arrival {
            speaks: reading.takes_the_head(),
            extends: head.is_none() || parent == head,
            was_left,
        };
        if moves_head(arrival) {
            self.transcript.head = Some(id);
        }
        Ok(())
    }

    /// Honours the client's own move of the head (`last-prompt` with `explicit`).
    fn follow_client(&mut self, leaf: Option<&str>) -> Result<()> {
        let place = match leaf {
            Some(leaf) => self.history.find(self.tx, leaf)?,
            None => None,
        };
        let known = leaf.is_none() || place.as_ref().is_some_and(|place| place.line.is_some());
        let head = place.map(|place| place.id);
        if known && head != self.transcript.head {
            super::head::leave(
                self.tx,
                &self.history,
                self.session.id,
                self.transcript.head,
                head,
            )?;
            self.transcript.head = head;
            self.session.scratch = match head {
                Some(head) => scratchpad::as_of(self.tx, head)?,
                None => None,
            };
            scratchpad::set_newest(self.tx, self.session.id, self.session.scratch)?;
        }
        Ok(())
    }

    /// Binds the entries that named this one as their parent before it was there.
    fn bind(&mut self, reading: &Reading, id: i64, turn: Option<i64>) -> Result<()> {
        let Some(uuid) = &reading.uuid else {
            return Ok(());
        };
        self.recent.insert(uuid.clone(), (id, turn));
        if self.transcript.dangling > 0 {
            let bound = messages::bind_children(
                self.tx,
                self.session.id,
                &self.transcript.subpath,
                uuid,
                id,
            )?;
            self.transcript.dangling -= i64::try_from(bound).unwrap_or(0);
        }
        Ok(())
    }

    fn ledger(&self, reading: &Reading, id: i64, turn: Option<i64>) -> Result<()> {
        let session = self.session.id;
        for call in &reading.calls {
            tool_calls::insert(self.tx, session, id, call, reading.agent.as_deref(), turn)?;
        }
        for answer in &reading.results {
            let call = find_call(self.tx, &self.history, session, &answer.call)?;
            tool_results::insert(self.tx, session, id, call, answer)?;
        }
        Ok(())
    }

    fn count(&mut self, reading: &Reading, on_line: bool) {
        if reading.entry.is_none() {
            return;
        }
        self.transcript.entries += 1;
        if !self.is_main() {
            return;
        }
        self.session.tally.add(reading, on_line);
        if on_line && reading.takes_the_head() {
            let now = self.tx.now_ms();
            let said = match self.origin {
                Origin::Append => now,
                Origin::Import(_) => reading.timestamp_ms.unwrap_or(now).min(now),
            };
            self.session.conversed_ms = self.session.conversed_ms.max(Some(said));
        }
    }
}

/// Notes the listing of a session as it is before the row `seq` of its main transcript.
pub(crate) fn mark(tx: &Tx<'_>, session: &SessionRow, seq: i64) -> Result<()> {
    let listing =
        serde_json::to_string(&session.tally).map_err(|error| Error::Storage(Box::new(error)))?;
    Ok(listing_marks::insert(tx, session.id, seq, &listing)?)
}

/// The uuid under which a transcript shows its head.
pub(crate) fn head_uuid(
    db: &rusqlite::Connection,
    history: &History,
    head: Option<i64>,
) -> Result<Option<String>> {
    let place = match head {
        Some(head) => messages::place_of(db, head)?,
        None => None,
    };
    Ok(place.and_then(|place| history.shown_uuid(&place)))
}

/// The newest call with this tool-use id that a session made or inherited.
pub(crate) fn find_call(
    db: &rusqlite::Connection,
    history: &History,
    session: i64,
    tool_use_id: &str,
) -> Result<Option<i64>> {
    if let Some(call) = tool_calls::find_newest(db, session, tool_use_id, i64::MAX)? {
        return Ok(Some(call));
    }
    for part in history.parts.iter().rev().filter(|part| part.is_inherited) {
        if let Some(call) = tool_calls::find_newest(db, part.owner, tool_use_id, part.until_seq)? {
            return Ok(Some(call));
        }
    }
    Ok(None)
}

/// Whether a stored entry and a reading are the same JSON value, however they are written.
fn same_value(stored: &str, reading: &Reading) -> bool {
    let Some(entry) = reading.entry.as_deref() else {
        return false;
    };
    if stored == entry {
        return true;
    }
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    value(stored).is_some_and(|stored| Some(stored) == value(entry))
}
