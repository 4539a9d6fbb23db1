//! Whose rows a transcript is made of, and under which uuids they are shown.
//!
//! A session's main transcript is its own rows; a fork's begins with rows of its ancestors, each
//! piece a range of numbers, and goes on with its own. Sub-agents' transcripts are never inherited.
//! Everything that reads a transcript reads it through here, so that a fork is read as any session
//! is.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::error::Result;
use crate::tables::lineage;
use crate::tables::messages::{self, Place, Stored};
use crate::tables::sessions::{self, SessionRow};
use crate::transcript::derived::{derive, row_of};
use crate::transcript::json::{Object, quote};
use crate::transcript::line::Ending;
use crate::transcript::remap::{Identity, remap};

/// The rows of one session, from behind `after` to `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) owner: i64,
    pub(crate) after_seq: i64,
    pub(crate) until_seq: i64,
    pub(crate) after_line: i64,
    pub(crate) until_line: i64,
    pub(crate) is_inherited: bool,
}

/// The pieces of a transcript, oldest first; the last one is the session's own.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The session's id, as a JSON string.
    session_id: String,
    prefix: Option<String>,
    /// The direct origin: its row, its id as a JSON string, and the beginning of its own derived uuids.
    origin: Option<(i64, String, Option<String>)>,
    subpath: String,
    pub(crate) parts: Vec<Part>,
}

impl History {
    pub(crate) fn of(db: &Connection, session: &SessionRow, subpath: &str) -> Result<Self> {
        let mut pieces = match (&session.fork_prefix, subpath) {
            (Some(_), "") => lineage::parts(db, session.id)?,
            _ => Vec::new(),
        };
        let (last_seq, last_line) = pieces
            .first()
            .map_or((0, 0), |piece| (piece.last_seq, piece.last_line));
        let own = Part {
            owner: session.id,
            after_seq: last_seq,
            until_seq: i64::MAX,
            after_line: last_line,
            until_line: i64::MAX,
            is_inherited: false,
        };
        pieces.reverse();
        let mut parts = Vec::with_capacity(pieces.len() + 1);
        let (mut after_seq, mut after_line) = (0, 0);
        for piece in pieces {
            parts.push(Part {
                owner: piece.owner,
                after_seq,
                until_seq: piece.last_seq,
                after_line,
                until_line: piece.last_line,
                is_inherited: true,
            });
            (after_seq, after_line) = (piece.last_seq, piece.last_line);
        }
        parts.push(own);
        let origin = match session
            .forked_from
            .filter(|_| session.fork_prefix.is_some())
        {
            Some(origin) => sessions::find_any(db, origin)?
                .map(|row| (row.id, quote(&row.key.session_id), row.fork_prefix)),
            None => None,
        };
        Ok(Self {
            session_id: quote(&session.key.session_id),
            prefix: session.fork_prefix.clone(),
            origin,
            subpath: subpath.to_owned(),
            parts,
        })
    }

    pub(crate) fn subpath(&self) -> &str {
        &self.subpath
    }

    /// The part that the session's own rows are.
    pub(crate) fn own(&self) -> Option<&Part> {
        self.parts.last()
    }

    pub(crate) fn part_of(&self, place: &Place) -> Option<&Part> {
        let holds = |part: &&Part| {
            part.owner == place.session && part.after_seq < place.seq && place.seq <= part.until_seq
        };
        if place.subpath == self.subpath {
            self.parts.iter().find(holds)
        } else {
            None
        }
    }

    /// The message that a uuid names in this transcript.
    pub(crate) fn find(&self, db: &Connection, uuid: &str) -> Result<Option<Place>> {
        let Some(own) = self.own() else {
            return Ok(None);
        };
        if let Some(place) = messages::find_place(db, own.owner, &self.subpath, uuid)? {
            return Ok(Some(place));
        }
        self.find_inherited(db, uuid)
    }

    /// The inherited message that a uuid names.
    pub(crate) fn find_inherited(&self, db: &Connection, uuid: &str) -> Result<Option<Place>> {
        let row = self
            .prefix
            .as_deref()
            .and_then(|prefix| row_of(prefix, uuid));
        let place = match row {
            Some(row) => messages::place_of(db, row)?,
            None => None,
        };
        let shown = |place: &Place| {
            place.uuid.is_some() && self.part_of(place).is_some_and(|part| part.is_inherited)
        };
        Ok(place.filter(shown))
    }

    /// The row that the uuid in an entry of one part's owner names, within this transcript.
    pub(crate) fn find_in(&self, db: &Connection, part: &Part, uuid: &str) -> Result<Option<i64>> {
        let place = match messages::find_place(db, part.owner, &self.subpath, uuid)? {
            Some(place) => Some(place),
            // What the owner itself inherits, it shows under a beginning of its own.
            None => match sessions::fork_prefix(db, part.owner)?
                .and_then(|prefix| row_of(&prefix, uuid))
            {
                Some(row) => messages::place_of(db, row)?,
                None => None,
            },
        };
        Ok(place
            .filter(|place| self.part_of(place).is_some())
            .map(|place| place.id))
    }

    /// The uuid under which a row is shown here.
    pub(crate) fn uuid_of(&self, id: i64, part: &Part, own_uuid: &str) -> String {
        match &self.prefix {
            Some(prefix) if part.is_inherited => derive(prefix, id),
            _ => own_uuid.to_owned(),
        }
    }

    /// The uuid under which a row that is looked up by its id is shown here.
    pub(crate) fn shown_uuid(&self, place: &Place) -> Option<String> {
        let part = self.part_of(place)?;
        Some(self.uuid_of(place.id, part, place.uuid.as_deref()?))
    }

    /// The lines behind `after_seq`, as they are shown, until there are `max_rows` or their bytes
    /// pass `max_bytes`; at least one if there is one.
    pub(crate) fn page(
        &self,
        db: &Connection,
        after_seq: i64,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<Vec<Stored>> {
        let mut lines: Vec<Stored> = Vec::new();
        let mut bytes = 0;
        for part in self.parts.iter().filter(|part| part.until_seq > after_seq) {
            let mut after = part.after_seq.max(after_seq);
            loop {
                let rows = max_rows.saturating_sub(lines.len());
                let room = max_bytes.saturating_sub(bytes);
                if rows == 0 || room == 0 {
                    return Ok(lines);
                }
                let range = (part.owner, self.subpath.as_str(), after, part.until_seq);
                let page = messages::page(db, range, rows, room)?;
                let Some(last) = page.last() else { break };
                after = last.seq;
                bytes += page.iter().map(|row| row.bytes().len()).sum::<usize>();
                if part.is_inherited {
                    // Half a line belongs to its file, not to the conversation.
                    let whole = page.into_iter().filter(|row| row.entry.is_some());
                    let mut mapped = Mapped::new(self, part);
                    for row in whole {
                        lines.push(mapped.shown(db, row)?);
                    }
                } else {
                    lines.extend(page);
                }
            }
        }
        Ok(lines)
    }

    /// All entries, in order.
    pub(crate) fn entries(&self, db: &Connection) -> Result<Vec<String>> {
        let mut entries = Vec::new();
        let (inherited, own) = self.parts.split_at(self.parts.len() - 1);
        let range = |part: &Part| (part.owner, part.after_seq, part.until_seq);
        let mut mapped: Option<(usize, Mapped<'_>)> = None;
        messages::each_entry(
            db,
            &self.subpath,
            inherited.iter().map(range),
            |at, row| -> Result<()> {
                let mapped = match &mut mapped {
                    Some((of, mapped)) if *of == at => mapped,
                    other => &mut other.insert((at, Mapped::new(self, &inherited[at]))).1,
                };
                entries.push(mapped.entry(db, row.id, row.uuid, row.parent, row.entry)?);
                Ok(())
            },
        )?;
        for part in own {
            let (owner, after, until) = range(part);
            let mut own = messages::entries(db, (owner, &self.subpath, after, until))?;
            entries.append(&mut own);
        }
        Ok(entries)
    }

    /// The parent of a row of this transcript, as long as that is in it: one that was stored later,
    /// behind a fork's cut, is none here.
    pub(crate) fn parent_in(
        &self,
        db: &Connection,
        id: i64,
        parent: Option<i64>,
    ) -> Result<Option<i64>> {
        // What was there before a row is in every transcript that holds the row.
        let Some(late) = parent.filter(|parent| *parent > id) else {
            return Ok(parent);
        };
        let place = messages::place_of(db, late)?;
        Ok(place
            .filter(|place| self.part_of(place).is_some())
            .map(|place| place.id))
    }

    /// The message of the main line that was stored last before a row.
    fn message_before(&self, db: &Connection, row: i64) -> Result<Option<i64>> {
        let Some(place) = messages::place_of(db, row)? else {
            return Ok(None);
        };
        let parts = self.parts.iter().rev();
        for part in parts.filter(|part| part.after_seq < place.seq) {
            let range = (part.after_seq, part.until_seq.min(place.seq - 1));
            let found = messages::last_on_line(db, (part.owner, &self.subpath), range)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The entry of an inherited row, as it is shown here.
    pub(crate) fn shown_entry(
        &self,
        db: &Connection,
        place: &Place,
        entry: String,
    ) -> Result<String> {
        let Some(part) = self.part_of(place).filter(|part| part.is_inherited) else {
            return Ok(entry);
        };
        let mut mapped = Mapped::new(self, part);
        mapped.entry(db, place.id, place.uuid.as_deref(), place.parent, &entry)
    }

    /// Shows entries of one part, one after another.
    pub(crate) fn mapped<'h>(&'h self, part: &'h Part) -> Mapped<'h> {
        Mapped::new(self, part)
    }
}

/// Shows inherited entries of one part; remembers what it looked up.
pub(crate) struct Mapped<'h> {
    history: &'h History,
    part: &'h Part,
    found: HashMap<String, Option<i64>>,
}

impl<'h> Mapped<'h> {
    fn new(history: &'h History, part: &'h Part) -> Self {
        Self {
            history,
            part,
            found: HashMap::new(),
        }
    }

    fn shown(&mut self, db: &Connection, row: Stored) -> Result<Stored> {
        let entry = match &row.entry {
            Some(entry) => Some(self.entry(db, row.id, row.uuid.as_deref(), row.parent, entry)?),
            None => None,
        };
        Ok(Stored {
            entry,
            raw: None,
            ending: Ending::Lf,
            ..row
        })
    }

    /// An entry as it is shown.
    pub(crate) fn entry(
        &mut self,
        db: &Connection,
        id: i64,
        uuid: Option<&str>,
        parent: Option<i64>,
        entry: &str,
    ) -> Result<String> {
        let history = self.history;
        let (Some(prefix), Some((origin, origin_id, origin_prefix))) =
            (&history.prefix, &history.origin)
        else {
            return Ok(entry.to_owned());
        };
        let copied = self.part.owner != *origin;
        let there = |id: i64, uuid: &str| match origin_prefix {
            Some(prefix) if copied => derive(prefix, id),
            _ => uuid.to_owned(),
        };
        let named = match uuid {
            Some(uuid) => Some((id, there(id, uuid))),
            None => self
                .repeated(db, entry)?
                .map(|(id, uuid)| (id, there(id, &uuid))),
        };
        let parent = match history.parent_in(db, id, parent)? {
            None if uuid.is_some() => self.bridged(db, id, entry)?,
            parent => parent,
        };
        let derived = named.as_ref().map(|(id, _)| derive(prefix, *id));
        let parent = parent.map(|parent| derive(prefix, parent));
        let identity = Identity {
            session_id: &history.session_id,
            uuid: derived.as_deref(),
            parent_uuid: parent.as_deref(),
            origin: (
                origin_id,
                named.as_ref().map_or("", |(_, there)| there.as_str()),
            ),
        };
        remap(entry, &identity, &mut |name| {
            Ok(self.find(db, name)?.map(|row| derive(prefix, row)))
        })
    }

    /// The row that a uuid in an entry of this part names.
    fn find(&mut self, db: &Connection, uuid: &str) -> Result<Option<i64>> {
        if let Some(row) = self.found.get(uuid) {
            return Ok(*row);
        }
        let row = self.history.find_in(db, self.part, uuid)?;
        self.found.insert(uuid.to_owned(), row);
        Ok(row)
    }

    /// The row whose uuid an entry repeats, and that uuid: both are shown under the same one.
    fn repeated(&mut self, db: &Connection, entry: &str) -> Result<Option<(i64, String)>> {
        let uuid = Object::parse(entry).and_then(|entry| entry.string("uuid").map(String::from));
        let Some(uuid) = uuid else { return Ok(None) };
        Ok(self.find(db, &uuid)?.map(|row| (row, uuid)))
    }

    /// Where a message with a broken link is shown to hang: from the message before it, as the
    /// conversation has it. Without a parent it would begin a new one wherever it is read.
    fn bridged(&self, db: &Connection, id: i64, entry: &str) -> Result<Option<i64>> {
        let is_broken = Object::parse(entry).is_some_and(|entry| {
            let parent = entry.string("parentUuid");
            parent.is_some_and(|uuid| !uuid.is_empty()) && !entry.is_true("isSidechain")
        });
        match is_broken {
            true => self.history.message_before(db, id),
            false => Ok(None),
        }
    }
}
