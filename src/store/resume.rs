//! Resuming: what a model is to be sent to go on, from the head or from any message.

use rusqlite::Connection;

use super::context::{self, Context};
use super::conversation::{self, Conversation};
use super::feed::head_uuid;
use super::history::History;
use super::resolve::Scope;
use super::session::Session;
use super::sessions::Sessions;
use crate::error::{Error, Result};
use crate::model::SessionKey;
use crate::tables::messages::Place;
use crate::tables::{messages, sessions, transcripts};
use crate::transcript::context::OpenEnd;

/// How a session is to be resumed. By default from its head.
#[derive(Clone, Debug, Default)]
pub struct ResumeOptions {
    at: Option<String>,
    drops_turn: Option<String>,
}

impl ResumeOptions {
    /// From the head.
    pub fn new() -> Self {
        Self::default()
    }

    /// From a message, which is kept: what came after it leaves the conversation when the next
    /// message is appended with [`AppendOptions::hang_from`](crate::AppendOptions::hang_from) it.
    pub fn at(mut self, uuid: impl Into<String>) -> Self {
        self.at = Some(uuid.into());
        self
    }

    /// Only if what is dropped is exactly the turn of this prompt.
    pub fn drops_turn(mut self, uuid: impl Into<String>) -> Self {
        self.drops_turn = Some(uuid.into());
        self
    }
}

/// A session taken up again.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// The message that the next one is to hang from, by uuid; `None` before the first one.
    pub head: Option<String>,
    /// What the model is to be sent. `context.open_calls` are the calls whose outcome is unknown.
    pub context: Context,
}

impl Session {
    /// Takes the session up again: what a model is to be sent, from the head or from any message.
    /// Where its task stands (rounds, tokens, open calls, notes and phases) is told by
    /// [`Self::scene`]. Changes nothing and starts nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session; [`Error::Conflict`] with
    /// `Resume rejected by --resume-drops-turn: …` if more or less than that turn would be dropped.
    pub fn resume(&self, options: &ResumeOptions) -> Result<Resumed> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let history = History::of(db, &row, "")?;
            let head = transcripts::head(db, row.id, "")?;
            let at = match &options.at {
                Some(uuid) => Some(message_of(db, &history, self.key(), uuid)?.id),
                None => head,
            };
            if let Some(turn) = &options.drops_turn {
                let (Some(at), Some(_)) = (at, &options.at) else {
                    return Err(Error::invalid(
                        "drops_turn",
                        "it needs a message to resume at",
                    ));
                };
                let prompt = message_of(db, &history, self.key(), turn)?;
                let conversation = conversation::read_from(db, &history, head)?;
                check_dropped(db, &conversation, at, &prompt)?;
            }
            Ok(Resumed {
                head: head_uuid(db, &history, at)?,
                context: context::read_from(db, &history, at, OpenEnd::Answered)?,
            })
        })
    }
}

impl Sessions {
    /// The session in which something was said last: by the last message of a main line, never a
    /// sub-agent's, whatever else was appended since. `None` if there is none: a session is never
    /// made up.
    ///
    /// # Errors
    /// Those of the database.
    pub fn continue_last(&self, scope: &Scope) -> Result<Option<Session>> {
        let row = self.store().db().read(|db| {
            Ok(sessions::last_conversed(
                db,
                scope.project_key.as_deref(),
                scope.cwd.as_deref(),
            )?)
        })?;
        Ok(row.map(|row| Session::new(self.store().clone(), &row)))
    }
}

/// The message that a uuid names, or one clear error.
pub(super) fn message_of(
    db: &Connection,
    history: &History,
    session: &SessionKey,
    uuid: &str,
) -> Result<Place> {
    if uuid.trim().is_empty() {
        return Err(Error::invalid(
            "message",
            format!("its uuid is blank (session `{session}`)"),
        ));
    }
    let place = history.find(db, uuid)?.filter(|place| place.line.is_some());
    place.ok_or_else(|| Error::NotFound {
        what: "message",
        id: format!("{uuid}` in session `{session}"),
    })
}

/// Refuses to drop anything but exactly one turn: what lies behind `at` must begin with the prompt
/// and hold nothing of another turn.
fn check_dropped(
    db: &Connection,
    conversation: &Conversation,
    at: i64,
    prompt: &Place,
) -> Result<()> {
    let rejected =
        |why: &str| Error::Conflict(format!("Resume rejected by --resume-drops-turn: {why}"));
    let Some(kept) = conversation.entries.iter().position(|entry| entry.id == at) else {
        return Err(rejected(
            "the message to resume at is not in the conversation",
        ));
    };
    let dropped = &conversation.entries[kept + 1..];
    let spoken = |kind: &str| matches!(kind, "user" | "assistant");
    let Some(first) = dropped.iter().find(|entry| spoken(&entry.kind)) else {
        return Err(rejected("nothing would be dropped"));
    };
    if first.id != prompt.id {
        return Err(rejected(
            "the dropped range does not start with that turn's prompt",
        ));
    }
    for entry in dropped {
        let turn = messages::place_of(db, entry.id)?.and_then(|place| place.turn);
        if spoken(&entry.kind) && turn != prompt.turn {
            return Err(rejected("the dropped range holds messages of another turn"));
        }
        if entry.kind == "attachment" && entry.entry.contains("\"queued_command\"") {
            return Err(rejected(
                "the dropped range contains absorbed queued content",
            ));
        }
    }
    Ok(())
}
