//! Reading a conversation: the pure rules of `transcript/`, fed from the tables.
//!
//! The main line is read first, with the entries as long as they take little memory; behind that
//! only the entries that the chain needs are read. So the work depends on the messages of the main
//! line, not on sub-agents' lines or bookkeeping in the same file.

use std::collections::HashMap;

use rusqlite::Connection;

use super::history::History;
use crate::error::Result;
use crate::tables::messages::{self, Light, LightKind};
use crate::tables::sessions::SessionRow;
use crate::tables::{tool_calls, tool_results, transcripts};
use crate::transcript::chain::{Chain, Kind, Link, MainLine, Parent, walk};
use crate::transcript::compaction::{Boundary, Preserved};
use crate::transcript::ids::IdMap;
use crate::transcript::json::Object;
use crate::transcript::parallel::{Pairs, may_miss, put_back};

/// How many bytes of entries are read with the main line, whether the chain needs them or not: most
/// often it needs all, and a second pass over the same pages takes as long as the first.
const READ_ALONG: usize = 32 << 20;

/// A conversation: the active chain of messages, oldest first, parallel calls put back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// Its messages: user, assistant, system and attachment entries.
    pub entries: Vec<ConversationEntry>,
    /// Messages whose link was bridged to the message before them, because they name a parent that
    /// is not there or belongs to a sub-agent; by uuid. What is stored stays as it is.
    pub repaired_links: Vec<String>,
    /// Whether the links form a cycle. The walk ended where it closed.
    pub has_cycle: bool,
    /// An ancestor that the conversation names and the transcript does not hold: what a compaction
    /// left behind in another session, or the parent of the first message.
    pub missing_ancestor: Option<String>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationEntry {
    /// Its uuid.
    pub uuid: String,
    /// Its type: `user`, `assistant`, `system` or `attachment`.
    pub kind: String,
    /// Whether a reader sees it: what the user or the model said, and not the harness.
    pub is_visible: bool,
    /// When it was written, by its own word, in epoch milliseconds.
    pub timestamp_ms: Option<i64>,
    /// The entry as JSON text, as it was stored.
    pub entry: String,
    pub(crate) id: i64,
}

impl Conversation {
    /// What a reader sees: user and assistant messages, without the harness's own.
    pub fn visible(&self) -> impl Iterator<Item = &ConversationEntry> {
        self.entries.iter().filter(|entry| entry.is_visible)
    }

    /// The newest `limit` entries, oldest first.
    pub fn newest(&self, limit: usize) -> &[ConversationEntry] {
        &self.entries[self.entries.len().saturating_sub(limit)..]
    }
}

/// Reads the conversation of a transcript.
pub(super) fn read(db: &Connection, session: &SessionRow, subpath: &str) -> Result<Conversation> {
    let history = History::of(db, session, subpath)?;
    let head = transcripts::head(db, session.id, subpath)?;
    read_from(db, &history, head)
}

/// Reads the conversation that ends with `head`.
pub(super) fn read_from(
    db: &Connection,
    history: &History,
    head: Option<i64>,
) -> Result<Conversation> {
    let Some(head) = head else {
        return Ok(Conversation::default());
    };
    let (mut rows, line) = main_line(db, history, READ_ALONG)?;
    let chain = walk(&line, head, |boundary| preserved(db, history, boundary))?;
    let places = whole(db, history, &line, &chain)?;
    read_missing(db, history, &mut rows, &places)?;
    let missing_ancestor = match chain.places.first() {
        Some(first) => missing_ancestor(db, history, &rows[*first])?,
        None => None,
    };
    show(db, history, &mut rows, &places)?;
    let uuid = |place: &usize| rows[*place].text.as_ref().map(|text| text.uuid.clone());
    let repaired_links = chain.bridged.iter().filter_map(uuid).collect();
    Ok(Conversation {
        repaired_links,
        has_cycle: chain.cycle,
        missing_ancestor,
        entries: places
            .iter()
            .filter_map(|place| shown(&mut rows[*place], history.subpath().is_empty()))
            .collect(),
    })
}

/// The main line of a transcript: its rows, of which the first `max_bytes` of entries are read
/// along, and as the walk sees them.
pub(super) fn main_line(
    db: &Connection,
    history: &History,
    max_bytes: usize,
) -> Result<(Vec<Light>, MainLine)> {
    let mut rows: Vec<Light> = Vec::new();
    let mut left = max_bytes;
    for part in &history.parts {
        let range = (part.after_line, part.until_line);
        let of_part = messages::main_line(db, (part.owner, history.subpath()), range, left)?;
        let read = of_part
            .iter()
            .filter_map(|row| row.text.as_ref())
            .map(|text| text.entry.len());
        left = left.saturating_sub(read.sum());
        rows.extend(of_part);
    }
    let line = MainLine::new(links(db, history, &mut rows)?);
    Ok((rows, line))
}

fn links(db: &Connection, history: &History, rows: &mut [Light]) -> Result<Vec<Link>> {
    let on_line: IdMap<()> = rows.iter().map(|row| (row.id, ())).collect();
    let mut found = HashMap::new();
    rows.iter_mut()
        .map(|row| {
            let parent = match row.parent {
                Some(id) if on_line.contains_key(&id) => Parent::At(id),
                Some(id) => main_line_parent(db, history, (row.id, id), &mut found)?,
                None if row.names_parent => Parent::Missing,
                None => Parent::Root,
            };
            Ok(Link {
                id: row.id,
                parent,
                is_indirect: row.parent.is_some_and(|id| !on_line.contains_key(&id)),
                kind: match row.kind {
                    LightKind::User => Kind::User,
                    LightKind::Assistant => Kind::Assistant,
                    LightKind::Boundary => Kind::Boundary,
                    LightKind::Other => Kind::Other,
                },
                response: row.response.take(),
                timestamp_ms: row.timestamp_ms,
            })
        })
        .collect()
}

/// The main-line message that a row hangs from through bookkeeping entries, given its parent.
fn main_line_parent(
    db: &Connection,
    history: &History,
    (row, parent): (i64, i64),
    found: &mut HashMap<i64, Parent>,
) -> Result<Parent> {
    let mut passed = Vec::new();
    let (mut row, mut at) = (row, parent);
    let parent = loop {
        if let Some(parent) = found.get(&at) {
            break *parent;
        }
        if passed.contains(&at) || history.parent_in(db, row, Some(at))?.is_none() {
            break Parent::Missing;
        }
        passed.push(at);
        match messages::step(db, at)? {
            None => break Parent::Missing,
            Some(step) if step.on_main_line => break Parent::At(at),
            Some(step) if step.is_sidechain => break Parent::Missing,
            Some(step) => match step.parent {
                Some(parent) => (row, at) = (at, parent),
                None if step.names_parent => break Parent::Missing,
                None => break Parent::Root,
            },
        }
    };
    found.extend(passed.into_iter().map(|id| (id, parent)));
    Ok(parent)
}

/// The messages that a compaction kept as they were, oldest first.
pub(super) fn preserved(db: &Connection, history: &History, boundary: i64) -> Result<Vec<i64>> {
    let (Some(place), Some(entry)) = (
        messages::place_of(db, boundary)?,
        messages::entry(db, boundary)?,
    ) else {
        return Ok(Vec::new());
    };
    let Some(part) = history.part_of(&place) else {
        return Ok(Vec::new());
    };
    let find = |uuid: &str| history.find_in(db, part, uuid);
    match Boundary::read(&entry).preserved {
        Preserved::None => Ok(Vec::new()),
        Preserved::Uuids(uuids) => uuids
            .iter()
            .filter_map(|uuid| find(uuid).transpose())
            .collect(),
        Preserved::Segment { head, tail } => {
            let (Some(head), Some(mut at)) = (find(&head)?, find(&tail)?) else {
                return Ok(Vec::new());
            };
            let mut kept = vec![at];
            while at != head {
                let parent = messages::step(db, at)?.and_then(|step| step.parent);
                match history.parent_in(db, at, parent)? {
                    Some(parent) if !kept.contains(&parent) => at = parent,
                    _ => return Ok(Vec::new()),
                }
                kept.push(at);
            }
            kept.reverse();
            Ok(kept)
        }
    }
}

/// A chain with its parallel calls put back.
pub(super) fn whole(
    db: &Connection,
    history: &History,
    line: &MainLine,
    chain: &Chain,
) -> Result<Vec<usize>> {
    if !may_miss(line, chain) {
        return Ok(chain.places.clone());
    }
    let mut pairs = Pairs::default();
    for part in &history.parts {
        pairs.calls.extend(tool_calls::by_message(db, part.owner)?);
        pairs
            .results
            .extend(tool_results::by_message(db, part.owner)?);
    }
    Ok(put_back(line, chain, &pairs))
}

/// Reads the texts at `places` of the main line that were not read along.
fn read_missing(
    db: &Connection,
    history: &History,
    rows: &mut [Light],
    places: &[usize],
) -> Result<()> {
    let missing = places.iter().filter(|place| rows[**place].text.is_none());
    let wanted: HashMap<i64, usize> = missing.map(|place| (rows[*place].line, *place)).collect();
    let (Some(first), Some(last)) = (wanted.keys().min(), wanted.keys().max()) else {
        return Ok(());
    };
    for part in &history.parts {
        let (from, to) = (
            part.after_line.max(first - 1) + 1,
            part.until_line.min(*last),
        );
        if from > to {
            continue;
        }
        messages::entries_between(
            db,
            (part.owner, history.subpath()),
            (from, to),
            |line| wanted.contains_key(&line),
            |line, text| {
                if let Some(place) = wanted.get(&line) {
                    rows[*place].text = Some(text);
                }
            },
        )?;
    }
    Ok(())
}

/// Puts the texts of inherited messages as the transcript shows them.
fn show(db: &Connection, history: &History, rows: &mut [Light], places: &[usize]) -> Result<()> {
    let mut mapped: Vec<_> = history
        .parts
        .iter()
        .map(|part| history.mapped(part))
        .collect();
    for place in places {
        let row = &mut rows[*place];
        let at = history
            .parts
            .partition_point(|part| part.until_line < row.line);
        let (Some(part), Some(text)) = (history.parts.get(at), row.text.as_mut()) else {
            continue;
        };
        if part.is_inherited {
            text.entry = mapped[at].entry(db, row.id, Some(&text.uuid), row.parent, &text.entry)?;
            text.uuid = history.uuid_of(row.id, part, &text.uuid);
        }
    }
    Ok(())
}

fn shown(row: &mut Light, of_main: bool) -> Option<ConversationEntry> {
    let text = row.text.take()?;
    let speaks = matches!(row.kind, LightKind::User | LightKind::Assistant);
    Some(ConversationEntry {
        uuid: text.uuid,
        kind: text.kind,
        // Every entry of a sub-agent is a sidechain's: in its own transcript that hides nothing.
        is_visible: speaks && !row.is_meta && !(of_main && text.is_sidechain),
        timestamp_ms: row.timestamp_ms,
        entry: text.entry,
        id: row.id,
    })
}

/// The ancestor that the first message of a conversation names and the transcript does not hold.
fn missing_ancestor(db: &Connection, history: &History, first: &Light) -> Result<Option<String>> {
    // As it was stored: what a fork shows of such a reference is null.
    let (Some(place), Some(text)) = (messages::place_of(db, first.id)?, &first.text) else {
        return Ok(None);
    };
    let Some(part) = history.part_of(&place) else {
        return Ok(None);
    };
    let Some(entry) = Object::parse(&text.entry) else {
        return Ok(None);
    };
    let named = entry
        .string("parentUuid")
        .or_else(|| entry.string("logicalParentUuid"));
    let Some(uuid) = named.filter(|uuid| !uuid.is_empty()) else {
        return Ok(None);
    };
    let there = history.find_in(db, part, &uuid)?.is_some();
    Ok((!there).then(|| uuid.into_owned()))
}
