//! Reading a conversation: the pure rules of `transcript/`, fed from the tables.
//!
//! The main line is read first, with the entries as long as they take little memory; behind that
//! only the entries that the chain needs are read. So the work depends on the messages of the main
//! line, not on sub-agents' lines or bookkeeping in the same file.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::error::Result;
use crate::tables::messages::{self, Light, LightKind};
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
pub(super) fn read(db: &Connection, session: i64, subpath: &str) -> Result<Conversation> {
    let Some(head) = transcripts::find(db, session, subpath)?.and_then(|row| row.head) else {
        return Ok(Conversation::default());
    };
    let transcript = (session, subpath);
    let mut rows = messages::main_line(db, session, subpath, READ_ALONG)?;
    let line = MainLine::new(links(db, &mut rows)?);
    let chain = walk(&line, head, |boundary| preserved(db, transcript, boundary))?;
    let places = whole(db, session, &line, &chain)?;
    read_missing(db, transcript, &mut rows, &places)?;
    let uuid = |place: &usize| rows[*place].text.as_ref().map(|text| text.uuid.clone());
    let repaired_links = chain.bridged.iter().filter_map(uuid).collect();
    let first = chain.places.first();
    let missing_ancestor = match first.and_then(|place| rows[*place].text.as_ref()) {
        Some(first) => missing_ancestor(db, transcript, &first.entry)?,
        None => None,
    };
    Ok(Conversation {
        repaired_links,
        has_cycle: chain.cycle,
        missing_ancestor,
        entries: places
            .iter()
            .filter_map(|place| shown(&mut rows[*place]))
            .collect(),
    })
}

fn links(db: &Connection, rows: &mut [Light]) -> Result<Vec<Link>> {
    let on_line: IdMap<()> = rows.iter().map(|row| (row.id, ())).collect();
    let mut found = HashMap::new();
    rows.iter_mut()
        .map(|row| {
            let parent = match row.parent {
                Some(id) if on_line.contains_key(&id) => Parent::At(id),
                Some(id) => main_line_parent(db, id, &mut found)?,
                None if row.names_parent => Parent::Missing,
                None => Parent::Root,
            };
            Ok(Link {
                id: row.id,
                parent,
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

/// The main-line message that a bookkeeping entry hangs from, through others of its like.
fn main_line_parent(
    db: &Connection,
    from: i64,
    found: &mut HashMap<i64, Parent>,
) -> Result<Parent> {
    let mut passed = Vec::new();
    let mut at = from;
    let parent = loop {
        if let Some(parent) = found.get(&at) {
            break *parent;
        }
        if passed.contains(&at) {
            break Parent::Missing;
        }
        passed.push(at);
        match messages::step(db, at)? {
            None => break Parent::Missing,
            Some(step) if step.on_main_line => break Parent::At(at),
            Some(step) if step.is_sidechain => break Parent::Missing,
            Some(step) => match step.parent {
                Some(parent) => at = parent,
                None if step.names_parent => break Parent::Missing,
                None => break Parent::Root,
            },
        }
    };
    found.extend(passed.into_iter().map(|id| (id, parent)));
    Ok(parent)
}

/// The messages that a compaction kept as they were, oldest first.
pub(super) fn preserved(
    db: &Connection,
    (session, subpath): (i64, &str),
    boundary: i64,
) -> Result<Vec<i64>> {
    let Some(entry) = messages::entry(db, boundary)? else {
        return Ok(Vec::new());
    };
    let find = |uuid: &str| -> Result<Option<i64>> {
        Ok(messages::find_id(db, session, subpath, uuid)?.map(|(id, _)| id))
    };
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
                match messages::step(db, at)?.and_then(|step| step.parent) {
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

fn whole(db: &Connection, session: i64, line: &MainLine, chain: &Chain) -> Result<Vec<usize>> {
    if !may_miss(line, chain) {
        return Ok(chain.places.clone());
    }
    let pairs = Pairs {
        calls: tool_calls::by_message(db, session)?,
        results: tool_results::by_message(db, session)?,
    };
    Ok(put_back(line, chain, &pairs))
}

/// Reads the texts at `places` of the main line that were not read along.
fn read_missing(
    db: &Connection,
    transcript: (i64, &str),
    rows: &mut [Light],
    places: &[usize],
) -> Result<()> {
    let missing = places.iter().filter(|place| rows[**place].text.is_none());
    let wanted: HashMap<i64, usize> = missing.map(|place| (rows[*place].line, *place)).collect();
    let (Some(first), Some(last)) = (wanted.keys().min(), wanted.keys().max()) else {
        return Ok(());
    };
    messages::entries_between(
        db,
        transcript,
        (*first, *last),
        |line| wanted.contains_key(&line),
        |line, text| {
            if let Some(place) = wanted.get(&line) {
                rows[*place].text = Some(text);
            }
        },
    )?;
    Ok(())
}

fn shown(row: &mut Light) -> Option<ConversationEntry> {
    let text = row.text.take()?;
    let speaks = matches!(row.kind, LightKind::User | LightKind::Assistant);
    Some(ConversationEntry {
        uuid: text.uuid,
        kind: text.kind,
        is_visible: speaks && !row.is_meta && !text.is_sidechain,
        timestamp_ms: row.timestamp_ms,
        entry: text.entry,
        id: row.id,
    })
}

/// The ancestor that the first message of a conversation names and the transcript does not hold.
fn missing_ancestor(
    db: &Connection,
    (session, subpath): (i64, &str),
    first: &str,
) -> Result<Option<String>> {
    let Some(entry) = Object::parse(first) else {
        return Ok(None);
    };
    let named = entry
        .string("parentUuid")
        .or_else(|| entry.string("logicalParentUuid"));
    let Some(uuid) = named.filter(|uuid| !uuid.is_empty()) else {
        return Ok(None);
    };
    let there = messages::find_id(db, session, subpath, &uuid)?.is_some();
    Ok((!there).then(|| uuid.into_owned()))
}
