//! The one way into a transcript: every door stores its entries through a [`Feed`].
//!
//! A feed is open for one transaction. It gives each entry its place, binds it to its parent (and
//! to itself what named it as parent before), moves the head, writes the calls and results, and
//! keeps the session's listing up to date. It reads no other entry.

use std::collections::HashMap;

use serde_json::json;

use super::checkpoints::binding::prompt_arrived;
use super::head::{Arrived, arrive, follow_client, take_notes_up};
use super::history::History;
use super::ledger::{find_call, write_ledger};
use super::listing::{is_listed, mark, said_ms};
use crate::db::Tx;
use crate::error::Result;
use crate::tables::messages::{self, NewPlace, Place};
use crate::tables::operations::{self, COMPLETED};
use crate::tables::scratchpad;
use crate::tables::sessions::{self, SessionRow};
use crate::tables::transcripts::{self, TranscriptRow};
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
        } else {
            // A number without a row is a loss, but where it is noted.
            let detail = json!({"subpath": self.transcript.subpath, "seq": seq}).to_string();
            operations::insert(self.tx, self.session.id, COMPLETED, None, Some(&detail))?;
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
            self.session.listed = is_listed(&self.session.tally, !self.is_main());
            sessions::update(self.tx, &self.session)?;
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
        let opens = on_line && self.is_main() && reading.opens_turn();
        let turn = match parent {
            _ if !self.is_main() || opens => None,
            Some((_, turn)) => turn,
            None => self.transcript.turn,
        };
        // What hangs from another turn than the present one stands on another way, and has that
        // way's notes. A prompt there makes them those of now; a late result does not.
        let elsewhere = parent
            .filter(|(_, turn)| on_line && self.is_main() && *turn != self.transcript.turn)
            .map(|(id, _)| id);
        let scratch = match elsewhere {
            Some(parent) => scratchpad::as_of(self.tx, parent)?,
            None => self.session.scratch.filter(|_| self.is_main()),
        };
        let place = NewPlace {
            session: self.session.id,
            subpath: &self.transcript.subpath,
            seq: self.transcript.next_seq,
            line: on_line.then_some(self.transcript.next_line),
            parent: parent.map(|(id, _)| id),
            turn,
            opens_turn: opens,
            scratch,
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
        if opens && elsewhere.is_some() {
            self.session.scratch = take_notes_up(self.tx, self.session.id, elsewhere)?;
        }
        let turn = if opens {
            prompt_arrived(self.tx, self.session.id, reading.prompt_id.as_deref(), id)?;
            self.open_turn(id)?
        } else {
            turn
        };
        self.transcript.next_seq += 1;
        if reading.parent_uuid.is_some() && parent.is_none() {
            self.transcript.dangling += 1;
        }
        if on_line {
            self.transcript.next_line += 1;
            let parent = parent.map(|(id, _)| id);
            arrive(
                self.tx,
                &mut self.transcript,
                reading,
                Arrived { id, parent, turn },
            )?;
        }
        if indexed {
            self.bind(reading, id, turn)?;
            let (tx, session) = (self.tx, self.session.id);
            let is_main = self.is_main();
            write_ledger(tx, session, (id, turn, is_main), reading, |call| {
                find_call(tx, &self.history, session, call)
            })?;
        }
        self.count(reading, on_line);
        if self.is_main()
            && let Some(leaf) = &reading.moves_head_to
        {
            let (history, transcript) = (&self.history, &mut self.transcript);
            if follow_client(self.tx, history, transcript, leaf.as_deref(), id)? {
                let (session, head) = (&mut self.session, self.transcript.head);
                session.scratch = take_notes_up(self.tx, session.id, head)?;
            }
        }
        Ok(true)
    }

    /// Begins a turn, and notes the listing as it was before it.
    fn open_turn(&mut self, id: i64) -> Result<Option<i64>> {
        self.transcript.turn = Some(id);
        let (session, seq) = (&self.session, self.transcript.next_seq);
        mark(self.tx, session.id, &session.tally, seq)?;
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
            let from_file = matches!(self.origin, Origin::Import(_));
            let said = said_ms(reading, from_file, self.tx.now_ms());
            self.session.conversed_ms = self.session.conversed_ms.max(Some(said));
        }
    }
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
