//! The one way into a transcript: every door stores its entries through a [`Feed`].
//!
//! A feed is open for one transaction. It gives each entry its place, binds it to its parent (and
//! to itself what named it as parent before), moves the head, writes the calls and results, and
//! keeps the session's listing up to date. It reads no other entry.

use std::collections::HashMap;

use crate::db::Tx;
use crate::error::Result;
use crate::tables::messages::{self, Known, Place};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::transcripts::{self, TranscriptRow};
use crate::tables::{tool_calls, tool_results};
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
    /// The row with its uuid says the same; its id.
    Duplicate(i64),
    /// The row with its uuid says something else; its id.
    Differing(i64),
}

/// A transcript being added to.
pub(crate) struct Feed<'t, 'c> {
    tx: &'t Tx<'c>,
    pub(crate) session: SessionRow,
    pub(crate) transcript: TranscriptRow,
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
        let had_entries = session.entries > 0;
        Ok(Self {
            tx,
            session,
            transcript,
            origin,
            had_entries,
            stored: false,
            recent: HashMap::new(),
        })
    }

    fn is_main(&self) -> bool {
        self.transcript.subpath.is_empty()
    }

    /// Stores an entry, unless its uuid is taken.
    pub(crate) fn push(&mut self, reading: &Reading) -> Result<Fed> {
        if self.store(reading, true)? {
            return Ok(Fed::Stored);
        }
        let uuid = reading.uuid.as_deref().unwrap_or_default();
        let known = messages::find(self.tx, self.session.id, &self.transcript.subpath, uuid)?;
        Ok(match known {
            Some(Known { id, entry, .. }) if same_value(entry.as_deref(), reading) => {
                Fed::Duplicate(id)
            }
            Some(Known { id, .. }) => Fed::Differing(id),
            None => Fed::Duplicate(0),
        })
    }

    /// Stores an entry whose uuid is taken: as a line of the file, without a place of its own.
    pub(crate) fn push_repeated(&mut self, reading: &Reading) -> Result<()> {
        self.store(reading, false).map(drop)
    }

    /// Takes back the last row, half a record, so that it can be stored whole.
    pub(crate) fn take_back(&mut self, id: i64, seq: i64) -> Result<bool> {
        if seq + 1 != self.transcript.next_seq {
            return Ok(false);
        }
        messages::remove(self.tx, id)?;
        self.transcript.next_seq = seq;
        self.stored = true;
        Ok(true)
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
            let shows_nothing = row.listing.summary().is_none() && row.messages == 0;
            let bookkeeping =
                shows_nothing && (row.entries > 0 || !self.transcript.subpath.is_empty());
            row.listed = row.listing.is_sidechain != Some(true) && !bookkeeping;
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
        let newest = match self.origin {
            Origin::Append => now,
            Origin::Import(_) => row.listing.newest_ms.map_or(now, |time| time.min(now)),
        };
        if self.had_entries {
            row.last_modified_ms = row.last_modified_ms.max(newest);
        } else {
            row.last_modified_ms = newest;
            row.created_ms = row
                .listing
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
            .filter(|opens| on_line && self.is_main() && *opens != Opens::Nothing);
        let turn = match parent {
            _ if !self.is_main() || opens.is_some() => None,
            Some((_, turn)) => turn,
            None => self.transcript.turn,
        };
        let place = Place {
            session: self.session.id,
            subpath: &self.transcript.subpath,
            seq: self.transcript.next_seq,
            line: on_line.then_some(self.transcript.next_line),
            parent: parent.map(|(id, _)| id),
            turn,
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
        self.transcript.next_seq += 1;
        if reading.parent_uuid.is_some() && parent.is_none() {
            self.transcript.dangling += 1;
        }
        let turn = if opens.is_some() {
            messages::open_turn(self.tx, id)?;
            self.transcript.turn = Some(id);
            Some(id)
        } else {
            turn
        };
        if on_line {
            self.transcript.next_line += 1;
            self.move_head(reading, id, parent.map(|(id, _)| id));
        }
        if indexed {
            self.bind(reading, id, turn)?;
            self.ledger(reading, id, turn)?;
        }
        self.count(reading, on_line, opens.is_some());
        Ok(true)
    }

    /// The row and turn of the entry's parent, if it is there.
    fn parent(&self, reading: &Reading) -> Result<Option<(i64, Option<i64>)>> {
        let Some(uuid) = reading.parent_uuid.as_deref() else {
            return Ok(None);
        };
        if let Some(found) = self.recent.get(uuid) {
            return Ok(Some(*found));
        }
        Ok(messages::find_id(
            self.tx,
            self.session.id,
            &self.transcript.subpath,
            uuid,
        )?)
    }

    /// What the user or the model said becomes the head wherever it hangs. Anything else of the
    /// main line becomes it only by hanging from it: a late attachment of an old branch does not
    /// bring that branch back.
    fn move_head(&mut self, reading: &Reading, id: i64, parent: Option<i64>) {
        let head = self.transcript.head;
        let extends = if head.is_none() { true } else { parent == head };
        if reading.takes_the_head() || extends {
            self.transcript.head = Some(id);
            self.transcript.head_uuid.clone_from(&reading.uuid);
        }
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
            let call = tool_calls::find_newest(self.tx, session, &answer.call)?;
            tool_results::insert(self.tx, session, id, call, answer)?;
        }
        Ok(())
    }

    fn count(&mut self, reading: &Reading, on_line: bool, opens: bool) {
        if reading.entry.is_none() {
            return;
        }
        self.transcript.entries += 1;
        if !self.is_main() {
            return;
        }
        self.session.entries += 1;
        self.session.listing.fold(&reading.facts);
        if on_line && matches!(reading.kind.as_str(), "user" | "assistant") {
            self.session.messages += 1;
        }
        if opens {
            self.session.turns += 1;
        }
    }
}

/// Whether a stored entry and a reading are the same JSON value, however they are written.
fn same_value(stored: Option<&str>, reading: &Reading) -> bool {
    let (Some(stored), Some(entry)) = (stored, reading.entry.as_deref()) else {
        return false;
    };
    if stored == entry {
        return true;
    }
    let value = |text| serde_json::from_str::<serde_json::Value>(text).ok();
    value(stored).is_some_and(|stored| Some(stored) == value(entry))
}
