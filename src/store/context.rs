//! Reading a context: the conversation, with what a compaction kept put back behind its summary.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::value::RawValue;

use super::checkpoints;
use super::conversation::{self, Conversation, ConversationEntry};
use super::history::History;
use super::ledger::answer_of;
use crate::error::{Error, Result};
use crate::model::Role;
use crate::tables::sessions::SessionRow;
use crate::tables::{messages, tool_calls, transcripts};
use crate::transcript::compaction::Boundary;
use crate::transcript::context::{OpenEnd, Spoken, make};
use crate::transcript::json::Object;
use crate::transcript::reading::Reading;

/// A context: what a model is to be sent, and what had to be done to make it valid.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The messages: roles alternate, each call is answered directly behind it.
    pub messages: Vec<ContextMessage>,
    /// Calls that have no result yet, by tool-use id. Each is answered by one error result that
    /// says that its outcome is unknown.
    pub open_calls: Vec<String>,
    /// Results that were left out because they answer no call, or one that was answered; by
    /// tool-use id.
    pub orphan_results: Vec<String>,
    /// How many lines were left out because they only report an API failure.
    pub api_errors: usize,
    /// As in [`Conversation`].
    pub repaired_links: Vec<String>,
    /// As in [`Conversation`].
    pub missing_ancestor: Option<String>,
}

/// One message of a context.
#[derive(Clone, Debug, Serialize)]
pub struct ContextMessage {
    /// Who speaks.
    pub role: Role,
    /// A string or an array of blocks, made of slices of what is stored: numbers, order of keys
    /// and signatures are untouched.
    pub content: Box<RawValue>,
}

impl PartialEq for ContextMessage {
    /// Whether they say the same, to the byte.
    fn eq(&self, other: &Self) -> bool {
        self.role == other.role && self.content.get() == other.content.get()
    }
}

/// Reads the context of a transcript.
pub(super) fn read(db: &Connection, session: &SessionRow, subpath: &str) -> Result<Context> {
    let history = History::of(db, session, subpath)?;
    let head = transcripts::head(db, session.id, subpath)?;
    read_from(db, &history, head, OpenEnd::Answered)
}

/// Reads the context of the conversation that ends with `head`.
pub(super) fn read_from(
    db: &Connection,
    history: &History,
    head: Option<i64>,
    end: OpenEnd,
) -> Result<Context> {
    let conversation = conversation::read_from(db, history, head)?;
    let kept = kept_by_compaction(db, history, &conversation)?;
    let mut spoken = Vec::with_capacity(conversation.entries.len() + kept.len());
    let mut kept_follows = kept
        .iter()
        .map(|(id, entry)| Spoken { id: *id, entry })
        .peekable();
    let notes = checkpoints::notes(db, history)?;
    for entry in &conversation.entries {
        spoken.push(Spoken {
            id: entry.id,
            entry: &entry.entry,
        });
        let notes = notes.get(&entry.id).into_iter().flatten();
        spoken.extend(notes.map(|note| Spoken {
            id: entry.id,
            entry: note,
        }));
        if kept_follows.peek().is_some() && is_summary(entry) {
            spoken.extend(kept_follows.by_ref());
        }
    }
    let made = make(&spoken, end);
    let messages = made.messages.into_iter().map(|message| {
        let role = if message.role == "assistant" {
            Role::Assistant
        } else {
            Role::User
        };
        let content = RawValue::from_string(message.content)
            .map_err(|error| Error::Storage(Box::new(error)))?;
        Ok(ContextMessage { role, content })
    });
    Ok(Context {
        messages: messages.collect::<Result<_>>()?,
        open_calls: made.open_calls,
        orphan_results: made.orphan_results,
        api_errors: made.api_errors,
        repaired_links: conversation.repaired_links,
        missing_ancestor: conversation.missing_ancestor,
    })
}

/// The messages that the compaction at the beginning of the conversation kept, and that the
/// conversation does not hold already.
fn kept_by_compaction(
    db: &Connection,
    history: &History,
    conversation: &Conversation,
) -> Result<Vec<(i64, String)>> {
    let boundary = conversation
        .entries
        .first()
        .filter(|first| first.kind == "system");
    let Some(boundary) =
        boundary.filter(|first| Boundary::read(&first.entry) != Boundary::default())
    else {
        return Ok(Vec::new());
    };
    let there = |id: &i64| conversation.entries.iter().any(|entry| entry.id == *id);
    let kept = conversation::preserved(db, history, boundary.id)?;
    let mut entries = Vec::new();
    let mut answers = Vec::new();
    for id in kept.iter().copied().filter(|id| !there(id)) {
        let Some(entry) = messages::entry(db, id)? else {
            continue;
        };
        // A call that was open then may have a result now, which the boundary does not name.
        for answer in answers_to(db, history, id, &entry)? {
            if !there(&answer) && !kept.contains(&answer) && !answers.contains(&answer) {
                answers.push(answer);
            }
        }
        entries.push((id, entry));
    }
    for id in answers {
        entries.extend(messages::entry(db, id)?.map(|entry| (id, entry)));
    }
    Ok(entries)
}

/// The messages that answer the calls of a message.
fn answers_to(db: &Connection, history: &History, message: i64, entry: &str) -> Result<Vec<i64>> {
    let (Some(own), Some(place)) = (history.own(), messages::place_of(db, message)?) else {
        return Ok(Vec::new());
    };
    let mut answers = Vec::new();
    for call in Reading::of_entry(entry)
        .iter()
        .flat_map(|reading| &reading.calls)
    {
        if let Some(call) = tool_calls::find_in_message(db, (place.session, message), &call.id)? {
            let answer = answer_of(db, history, own.owner, call)?;
            answers.extend(answer.map(|(place, _)| place.id));
        }
    }
    Ok(answers)
}

fn is_summary(entry: &ConversationEntry) -> bool {
    entry.kind == "user"
        && Object::parse(&entry.entry).is_some_and(|entry| entry.is_true("isCompactSummary"))
}
