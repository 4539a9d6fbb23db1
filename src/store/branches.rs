//! Branches: the ways a session's messages end, and moving its head from one to another.

use std::collections::HashSet;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::conversation::{main_line, preserved, whole};
use super::feed::head_uuid;
use super::head::{move_to, take_notes_up};
use super::history::History;
use super::parts::EntryPart;
use super::resume::message_of;
use super::session::Session;
use super::write::SessionTx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::AppendOptions;
use crate::tables::{messages, operations, transcripts};
use crate::transcript::chain::{Kind, MainLine, Parent, walk};

/// A way in which a session's messages end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its last message, by uuid: switch the head to it to take the branch up again.
    pub leaf: String,
    /// How many messages lead to it.
    pub messages: usize,
    /// What its newest prompt says.
    pub prompt: Option<String>,
    /// When its last message was written, in epoch milliseconds.
    pub timestamp_ms: Option<i64>,
    /// Whether the head is on it.
    pub is_current: bool,
}

impl Session {
    /// The branches of the main transcript, the current one first, then the newest. Nothing that
    /// left the conversation is ever deleted: it is listed here.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn branches(&self) -> Result<Vec<Branch>> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let history = History::of(db, &row, "")?;
            let head = transcripts::head(db, row.id, "")?;
            branches(db, &history, head)
        })
    }

    /// Moves the head to a message of the main transcript: the next message hangs from it, and what
    /// came after it leaves the conversation. Nothing is deleted. The client honours the move when
    /// it resumes from an export.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session. Nothing changes then.
    pub fn switch_to(&self, uuid: &str) -> Result<()> {
        self.write(|tx| tx.switch_to(uuid))
    }
}

impl SessionTx<'_, '_> {
    /// Moves the head: see [`Session::switch_to`].
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session.
    pub fn switch_to(&self, uuid: &str) -> Result<()> {
        let row = self.row()?;
        let history = History::of(self.tx(), &row, "")?;
        let place = message_of(self.tx(), &history, self.key(), uuid)?;
        move_head(self, &history, Some(place.id))
    }

    /// Appends the entry by which the client knows where the head is, and returns its uuid.
    pub(super) fn tell_head(&self, history: &History, head: Option<i64>) -> Result<Option<String>> {
        let uuid = head_uuid(self.tx(), history, head)?;
        let entry = head_entry(&self.key().session_id, uuid.as_deref());
        self.append_entries([entry.to_string()], &AppendOptions::new())?;
        Ok(uuid)
    }
}

/// Moves the head, says so to the client, and logs it.
fn move_head(session: &SessionTx<'_, '_>, history: &History, head: Option<i64>) -> Result<()> {
    if let Some(uuid) = move_head_to(session, history, head)? {
        let detail = json!({"head": uuid}).to_string();
        let id = session.row()?.id;
        operations::insert(session.tx(), id, "switch", None, Some(&detail))?;
    }
    Ok(())
}

/// Moves the head, with the notes as of there, and says so to the client. Answers the head's uuid,
/// or `None` if it was there already.
pub(super) fn move_head_to(
    session: &SessionTx<'_, '_>,
    history: &History,
    head: Option<i64>,
) -> Result<Option<Option<String>>> {
    let tx: &Tx<'_> = session.tx();
    let row = session.row()?;
    let Some(mut transcript) = transcripts::find(tx, row.id, "")? else {
        return Ok(None);
    };
    if !move_to(tx, history, &mut transcript, head)? {
        return Ok(None);
    }
    transcripts::save(tx, &transcript)?;
    take_notes_up(tx, row.id, head)?;
    session.tell_head(history, head).map(Some)
}

/// The entry by which the client knows that the head was moved.
pub(super) fn head_entry(session_id: &str, head: Option<&str>) -> Value {
    json!({"type": "last-prompt", "leafUuid": head, "explicit": true, "rewound": true, "sessionId": session_id})
}

fn branches(db: &Connection, history: &History, head: Option<i64>) -> Result<Vec<Branch>> {
    let (rows, line) = main_line(db, history, 0)?;
    let mut leaves = leaves(&line);
    // The current one first, then from the newest on: a leaf that a branch before holds (a result
    // of a parallel call, put back) ends no branch of its own.
    leaves.sort_by_key(|place| std::cmp::Reverse(*place));
    if let Some(head) = head.and_then(|head| line.place(head)) {
        leaves.retain(|place| *place != head);
        leaves.insert(0, head);
    }
    let mut covered = HashSet::new();
    let mut found = Vec::new();
    for place in leaves {
        if covered.contains(&place) {
            continue;
        }
        let chain = walk(&line, line.links[place].id, |boundary| {
            preserved(db, history, boundary)
        })?;
        let places = whole(db, history, &line, &chain)?;
        let is_new = places.iter().any(|place| !covered.contains(place));
        covered.extend(places.iter().copied());
        if !is_new {
            continue;
        }
        let ids: Vec<i64> = places.iter().map(|place| rows[*place].id).collect();
        found.push(branch(db, history, &line, place, &ids, head)?);
    }
    Ok(found)
}

/// Where a branch could end: the messages of the user or the model that nothing said hangs from.
fn leaves(line: &MainLine) -> Vec<usize> {
    let speaks = |place: usize| matches!(line.links[place].kind, Kind::User | Kind::Assistant);
    let mut continued = HashSet::new();
    for (place, link) in line.links.iter().enumerate() {
        if !speaks(place) {
            continue;
        }
        let mut parent = link.parent;
        while let Parent::At(id) = parent {
            let Some(at) = line.place(id) else { break };
            if !continued.insert(at) || speaks(at) {
                break;
            }
            parent = line.links[at].parent;
        }
    }
    (0..line.links.len())
        .filter(|place| speaks(*place) && !continued.contains(place))
        .collect()
}

fn branch(
    db: &Connection,
    history: &History,
    line: &MainLine,
    leaf: usize,
    ids: &[i64],
    head: Option<i64>,
) -> Result<Branch> {
    let link = &line.links[leaf];
    let place = messages::place_of(db, link.id)?;
    let shown = place.as_ref().and_then(|place| history.shown_uuid(place));
    let prompt = match place.and_then(|place| place.turn) {
        Some(turn) => messages::entry(db, turn)?,
        None => None,
    };
    let text = prompt
        .iter()
        .flat_map(|entry| EntryPart::read(entry))
        .find_map(|part| match part {
            EntryPart::Text(text) => Some(text),
            _ => None,
        });
    Ok(Branch {
        leaf: shown.ok_or_else(|| Error::NotFound {
            what: "message",
            id: link.id.to_string(),
        })?,
        messages: ids.len(),
        prompt: text,
        timestamp_ms: link.timestamp_ms,
        is_current: head.is_some_and(|head| ids.contains(&head)),
    })
}
