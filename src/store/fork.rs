//! Forking: a handful of rows, whatever the length of the history.

use serde_json::json;
use uuid::Uuid;

use super::Store;
use super::feed::head_uuid;
use super::history::History;
use super::listing::{mark, tally_at};
use super::resume::message_of;
use super::session::Session;
use super::write::SessionTx;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::{AppendOptions, ForkOptions, SessionKey};
use crate::tables::lineage::LineageRow;
use crate::tables::messages;
use crate::tables::sessions::{self, SessionRow};
use crate::tables::transcripts::{self, TranscriptRow};
use crate::tables::{left_turns, lineage, operations, scratchpad};
use crate::transcript::derived::new_prefix;
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

impl Session {
    /// Makes a session that begins as this one does. Costs the same for ten messages and a hundred
    /// thousand: nothing is copied. The fork's messages have uuids of their own, and this session
    /// never changes by what is done to the fork, nor the fork by what is done here.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session; [`Error::Conflict`] if the
    /// fork's id is taken; [`Error::Invalid`] for a blank id. Nothing is made then.
    pub fn fork(&self, options: &ForkOptions) -> Result<Self> {
        let row = self.store().db().write(|tx| fork(tx, self, options))?;
        Ok(Self::new(self.store().clone(), &row))
    }
}

/// Where a fork leaves its origin.
struct Cut {
    lineage: LineageRow,
    head: Option<i64>,
    /// Whether a reader takes the head for the head: it is the last that was said.
    head_speaks: bool,
    tally: Tally,
}

fn fork(tx: &Tx<'_>, session: &Session, options: &ForkOptions) -> Result<SessionRow> {
    let source = session.row(tx)?;
    let key = new_key(tx, &source, options)?;
    let history = History::of(tx, &source, "")?;
    let cut = match &options.up_to {
        Some(uuid) => cut_at(tx, &history, session, uuid)?,
        None => cut_at_head(tx, &source)?,
    };
    let cwd = options
        .cwd
        .clone()
        .or_else(|| cut.tally.listing.cwd.clone());
    let mut row = sessions::insert(tx, &key, cwd.as_deref(), None)?;
    sessions::set_origin(tx, row.id, (source.id, cut.head), Some(&new_prefix()))?;
    row.tally = cut.tally.clone();
    row.tally.listing.cwd = cwd;
    row.created_ms = source.created_ms;
    row.conversed_ms = match cut.head {
        Some(head) => messages::said_ms(tx, head)?,
        None => None,
    };
    sessions::update(tx, &row)?;
    let note = match (&options.up_to, cut.head) {
        (Some(_), Some(head)) => scratchpad::as_of(tx, head)?,
        _ => source.scratch,
    };
    scratchpad::set_newest(tx, row.id, note)?;
    row.scratch = note;
    lineage::insert(tx, row.id, cut.lineage)?;
    let turn = match cut.head {
        Some(head) => messages::place_of(tx, head)?.and_then(|place| place.turn),
        None => None,
    };
    let transcript = TranscriptRow {
        next_seq: cut.lineage.last_seq + 1,
        next_line: cut.lineage.last_line + 1,
        head: cut.head,
        turn,
        ..TranscriptRow::new(row.id, "")
    };
    transcripts::save(tx, &transcript)?;
    mark(tx, row.id, &row.tally, transcript.next_seq)?;
    introduce(session.store(), tx, &row, &source, options, &cut)?;
    let detail = json!({"from": source.key.to_string(), "up_to": options.up_to}).to_string();
    operations::insert(tx, row.id, "fork", None, Some(&detail))?;
    sessions::find_row(tx, row.id)?.ok_or_else(|| Error::no_session(key.to_string()))
}

fn new_key(tx: &Tx<'_>, source: &SessionRow, options: &ForkOptions) -> Result<SessionKey> {
    let id = match &options.session_id {
        Some(id) if id.trim().is_empty() => {
            return Err(Error::invalid("session id of the fork", "it is blank"));
        }
        Some(id) => id.clone(),
        None => Uuid::new_v4().to_string(),
    };
    let key = SessionKey::new(source.key.project_key.clone(), id)?;
    match sessions::find(tx, &key)? {
        Some(_) => Err(Error::Conflict(format!(
            "session `{key}` exists already; nothing was forked"
        ))),
        None => Ok(key),
    }
}

fn cut_at(tx: &Tx<'_>, history: &History, session: &Session, uuid: &str) -> Result<Cut> {
    let place = message_of(tx, history, session.key(), uuid)?;
    let entry = messages::entry(tx, place.id)?;
    let entry = entry.as_deref().and_then(Reading::of_entry);
    let lineage = LineageRow {
        base: place.session,
        last_seq: place.seq,
        last_line: place.line.unwrap_or(0),
    };
    Ok(Cut {
        lineage,
        head: Some(place.id),
        head_speaks: entry.is_some_and(|reading| reading.takes_the_head()),
        tally: tally_at(tx, place.session, place.seq)?,
    })
}

fn cut_at_head(tx: &Tx<'_>, source: &SessionRow) -> Result<Cut> {
    let transcript =
        transcripts::find(tx, source.id, "")?.unwrap_or_else(|| TranscriptRow::new(source.id, ""));
    let mut last_seq = transcript.next_seq - 1;
    // Half a line may still be completed in its place: it is never shown in a fork.
    let half = messages::last(tx, source.id, "")?
        .filter(|last| last.kind == "partial" && last.entry.is_none());
    if half.is_some() {
        last_seq -= 1;
    }
    let lineage = LineageRow {
        base: source.id,
        last_seq,
        last_line: transcript.next_line - 1,
    };
    Ok(Cut {
        lineage,
        head: transcript.head,
        head_speaks: true,
        tally: source.tally.clone(),
    })
}

/// Appends the fork's own first entries: its title, and where a reader goes by the last message of
/// the file, which message is its head.
fn introduce(
    store: &Store,
    tx: &Tx<'_>,
    fork: &SessionRow,
    source: &SessionRow,
    options: &ForkOptions,
    cut: &Cut,
) -> Result<()> {
    let session = SessionTx::new(store, tx, fork.id, fork.key.clone());
    let given = options
        .title
        .as_deref()
        .map(str::trim)
        .filter(|title| !title.is_empty());
    let title = given.map_or_else(|| derived_title(source), String::from);
    let id = &fork.key.session_id;
    let mut entries = vec![json!({"type": "custom-title", "customTitle": title, "sessionId": id})];
    let moved = left_turns::any(tx, source.id)?;
    if moved {
        left_turns::note_any(tx, fork.id)?;
    }
    if moved || !cut.head_speaks {
        let history = History::of(tx, &session.row()?, "")?;
        let head = head_uuid(tx, &history, cut.head)?;
        entries.push(super::branches::head_entry(id, head.as_deref()));
    }
    session.append_entries(
        entries.iter().map(ToString::to_string),
        &AppendOptions::new(),
    )?;
    Ok(())
}

/// The title the SDK derives: the source's own, else its first prompt.
fn derived_title(source: &SessionRow) -> String {
    let listing = &source.tally.listing;
    let name = listing
        .title()
        .or(listing.first_prompt())
        .unwrap_or("Forked session");
    format!("{name} (fork)")
}
