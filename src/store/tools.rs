//! The tool ledger: which calls were made, how they stand, and settling the open ones.
//!
//! A call is a row from the transaction that stores its message, and pending until a result is
//! stored. The store starts nothing: after a crash it says what was in flight, and the app decides.

use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use super::checkpoints::seen_late;
use super::feed::head_uuid;
use super::head::leave;
use super::history::History;
use super::ledger::{answer_of, find_call};
use super::session::Session;
use super::write::SessionTx;
use crate::error::{Error, Result};
use crate::model::{AppendOptions, Settle, Settled, ToolCall, ToolState};
use crate::tables::messages::Place;
use crate::tables::sessions::SessionRow;
use crate::tables::tool_calls::{self, CallRow};
use crate::tables::{messages, operations, tool_attempts, transcripts};
use crate::transcript::context::INTERRUPTED;
use crate::transcript::reading::Outcome;

/// How many links are followed to tell whether the head still answers a call's response.
const NEAR: usize = 1000;

/// The tool calls of a session.
#[derive(Clone, Debug)]
pub struct Tools {
    session: Session,
}

impl Tools {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// All calls, in the order in which they were made; a fork's begin with those it inherits.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn list(&self) -> Result<Vec<ToolCall>> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            calls(db, &row, &History::of(db, &row, "")?)
        })
    }

    /// The calls that have no result: what was in flight when the app, or the machine, went down.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn pending(&self) -> Result<Vec<ToolCall>> {
        Ok(pending_of(self.list()?))
    }

    /// Settles an open call; of an id used again the newest. Safe to repeat: a call that has a
    /// result keeps it. In a fork, an inherited call is settled for the fork alone.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session has no such call.
    pub fn settle(&self, id: &str, settle: &Settle) -> Result<Settled> {
        self.session.write(|tx| tx.settle(id, settle))
    }

    /// Notes the input that an open call is really run with, where a permission or a hook changed
    /// what the model asked for.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session has no such call.
    pub fn note_input(&self, id: &str, input: &Value) -> Result<()> {
        self.session.write(|tx| {
            let (row, history) = tx.with_history()?;
            let call = tx.call(&history, id)?;
            let number =
                tool_attempts::newest(tx.tx(), row.id, call.id)?.map_or(1, |(number, _)| number);
            Ok(tool_attempts::save(
                tx.tx(),
                row.id,
                call.id,
                number,
                Some(&input.to_string()),
            )?)
        })
    }
}

impl Session {
    /// Its tool calls.
    pub fn tools(&self) -> Tools {
        Tools::new(self.clone())
    }
}

impl SessionTx<'_, '_> {
    /// Settles an open call: see [`Tools::settle`].
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session has no such call.
    pub fn settle(&self, id: &str, settle: &Settle) -> Result<Settled> {
        let (row, history) = self.with_history()?;
        let call = self.call(&history, id)?;
        let before = shown(self.tx(), &row, &history, call.clone())?;
        if before.state != ToolState::Pending {
            return Ok(Settled {
                call: before,
                stored: false,
            });
        }
        if *settle == Settle::Rerun {
            let number = i64::from(before.attempt) + 1;
            tool_attempts::save(self.tx(), row.id, call.id, number, None)?;
        } else {
            self.store_result(&row, &history, &call, &before, settle)?;
            seen_late(self, id)?;
        }
        let detail =
            json!({"call": id, "state": state_of(settle).as_str(), "attempt": before.attempt});
        operations::insert(self.tx(), row.id, "settle", None, Some(&detail.to_string()))?;
        let call = shown(self.tx(), &row, &history, call)?;
        Ok(Settled { call, stored: true })
    }

    fn with_history(&self) -> Result<(SessionRow, History)> {
        let row = self.row()?;
        let history = History::of(self.tx(), &row, "")?;
        Ok((row, history))
    }

    fn call(&self, history: &History, id: &str) -> Result<CallRow> {
        let row = self.row()?;
        let missing = || Error::NotFound {
            what: "tool call",
            id: format!("{id}` in session `{}", self.key()),
        };
        let call = find_call(self.tx(), history, row.id, id)?.ok_or_else(missing)?;
        tool_calls::get(self.tx(), call)?.ok_or_else(missing)
    }

    /// Stores the result. Where the call's response is the newest thing said, it hangs from the head,
    /// behind the results that came before it. Where the conversation has gone on it hangs from its
    /// call, and the head stays where it is: the result is put back when it is read.
    fn store_result(
        &self,
        row: &SessionRow,
        history: &History,
        call: &CallRow,
        shown: &ToolCall,
        settle: &Settle,
    ) -> Result<()> {
        let head = transcripts::head(self.tx(), row.id, &call.subpath)?;
        let (goes_on, parent) = match head {
            Some(_) if !call.subpath.is_empty() => (false, None),
            Some(at) if answers(self.tx(), call, at)? => {
                (false, head_uuid(self.tx(), history, head)?)
            }
            Some(_) => (true, None),
            None => (false, None),
        };
        let mut entry = result_entry(self, row, shown, settle);
        if let Some(parent) = parent {
            entry["parentUuid"] = json!(parent);
        }
        let options = AppendOptions::new().to_subpath(call.subpath.clone());
        self.append_entries([entry.to_string()], &options)?;
        let transcript = transcripts::find(self.tx(), row.id, &call.subpath)?;
        if let Some(mut transcript) =
            transcript.filter(|transcript| goes_on && transcript.head != head)
        {
            leave(self.tx(), history, row.id, transcript.head, head)?;
            transcript.head = head;
            transcripts::save(self.tx(), &transcript)?;
            self.tell_head(history, head)?;
        }
        Ok(())
    }
}

/// All calls of a session, in the order in which they were made.
pub(super) fn calls(
    db: &Connection,
    session: &SessionRow,
    history: &History,
) -> Result<Vec<ToolCall>> {
    let mut calls = Vec::new();
    for part in &history.parts {
        for call in tool_calls::list(db, part.owner, part.until_seq)? {
            calls.push(shown(db, session, history, call)?);
        }
    }
    Ok(calls)
}

/// Those that have no result.
pub(super) fn pending_of(mut calls: Vec<ToolCall>) -> Vec<ToolCall> {
    calls.retain(|call| call.state == ToolState::Pending);
    calls
}

/// Whether a message is the call's, or stands between it and its response's last result.
fn answers(db: &Connection, call: &CallRow, head: i64) -> Result<bool> {
    let mut next = Some(head);
    for _ in 0..NEAR {
        match next {
            None => return Ok(false),
            Some(id) if id == call.message => return Ok(true),
            Some(id) => {
                if !messages::is_of_response(db, id, call.message)? {
                    return Ok(false);
                }
                next = messages::place_of(db, id)?.and_then(|place| place.parent);
            }
        }
    }
    Ok(false)
}

fn result_entry(
    session: &SessionTx<'_, '_>,
    row: &SessionRow,
    call: &ToolCall,
    settle: &Settle,
) -> Value {
    let (content, outcome) = match settle {
        Settle::Result(content) => (content.clone(), Outcome::Ok),
        Settle::Failed(content) => (content.clone(), Outcome::Error),
        Settle::Rejected(reason) => (json!(reason), Outcome::Rejected),
        Settle::Interrupted | Settle::Rerun => (json!(INTERRUPTED), Outcome::Interrupted),
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": call.id, "content": content});
    if outcome != Outcome::Ok {
        block["is_error"] = json!(true);
    }
    let mut entry = json!({
        "parentUuid": call.message,
        "isSidechain": !call.subpath.is_empty(),
        "type": "user",
        "message": {"role": "user", "content": [block]},
        "uuid": Uuid::new_v4().to_string(),
        "timestamp": super::write::iso_time(session.tx().now_ms()),
        "sourceToolAssistantUUID": call.message,
        "toolOutcome": outcome.as_str(),
        "sessionId": row.key.session_id,
    });
    if let Some(agent) = &call.agent {
        entry["agentId"] = json!(agent);
    }
    entry
}

fn state_of(settle: &Settle) -> ToolState {
    match settle {
        Settle::Result(_) => ToolState::Ok,
        Settle::Failed(_) => ToolState::Error,
        Settle::Rejected(_) => ToolState::Rejected,
        Settle::Interrupted => ToolState::Interrupted,
        Settle::Rerun => ToolState::Pending,
    }
}

/// A call as it stands in a session: by the first result that it shows, else pending.
fn shown(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    call: CallRow,
) -> Result<ToolCall> {
    let (state, result) = match answer_of(db, history, session.id, call.id)? {
        Some((place, outcome)) => (ToolState::from_word(&outcome), shown_uuid(history, place)),
        None => (ToolState::Pending, None),
    };
    let uuid = |id: i64| -> Result<Option<String>> {
        let place = messages::place_of(db, id)?;
        Ok(place.and_then(|place| shown_uuid(history, place)))
    };
    let message = uuid(call.message)?.unwrap_or_default();
    let attempt = tool_attempts::newest(db, session.id, call.id)?;
    Ok(ToolCall {
        idempotency_key: idempotency_key(session, &message, &call.tool_use_id),
        name: call.name,
        input: String::from_utf8_lossy(&call.input).into_owned(),
        ran_input: attempt.as_ref().and_then(|(_, input)| input.clone()),
        agent: call.agent,
        subpath: call.subpath,
        turn: match call.turn {
            Some(turn) => uuid(turn)?,
            None => None,
        },
        message,
        started_ms: call.started_ms,
        state,
        result,
        attempt: attempt.map_or(1, |(number, _)| u32::try_from(number).unwrap_or(u32::MAX)),
        id: call.tool_use_id,
    })
}

/// The uuid under which a message is shown, also one of a sub-agent.
fn shown_uuid(history: &History, place: Place) -> Option<String> {
    if place.subpath.is_empty() {
        history.shown_uuid(&place)
    } else {
        place.uuid
    }
}

/// A name for the call that is the same at every attempt: made from what names the call.
fn idempotency_key(session: &SessionRow, message: &str, id: &str) -> String {
    stable_id(&[
        &session.key.project_key,
        &session.key.session_id,
        message,
        id,
    ])
}

/// An id in the form of a uuid that is always the same for the same names.
pub(super) fn stable_id(names: &[&str]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(json!(names).to_string().as_bytes()).as_bytes()[..16]);
    uuid::Builder::from_custom_bytes(bytes)
        .into_uuid()
        .to_string()
}
