//! `checkpoint.json`, version 1: the execution scene as one file.
//!
//! Exactly six fields: `version`, `task`, `turns` (rounds), `tokensUsed`, `messages` and
//! `pendingToolUse` (null, one call, or an array of them). It is written beside its place and
//! renamed there, and read only if it is whole.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::{fmt, fs};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::model::{NewMessage, NewSession, Role, ToolCall};
use crate::store::{ContextMessage, Session, Store};
use crate::transcript::dialect::{Part, Said, What};
use crate::transcript::json::{Object, array, on_one_line};
use crate::workspace::replace::{NewFile, make_folder};

/// The version of the form that is written, and the only one that is read.
const VERSION: u64 = 1;

/// Each field, and what resuming without it would break.
const FIELDS: [(&str, &str); 6] = [
    (
        "version",
        "nobody could tell whether the rest is understood",
    ),
    ("task", "nobody could tell what is being done"),
    ("turns", "the limit on turns would start anew"),
    (
        "tokensUsed",
        "the limit on tokens, and compaction, would start anew",
    ),
    (
        "messages",
        "the model would begin again, behind what was done already",
    ),
    (
        "pendingToolUse",
        "a call that may have taken effect would be forgotten",
    ),
];

/// A checkpoint as it is written.
#[derive(Serialize)]
struct Checkpoint<'a> {
    version: u64,
    task: &'a str,
    turns: u64,
    #[serde(rename = "tokensUsed")]
    tokens_used: u64,
    messages: &'a [ContextMessage],
    #[serde(rename = "pendingToolUse")]
    pending_tool_use: Pending,
}

/// The open calls: none is null, one stands alone.
#[derive(Serialize)]
#[serde(untagged)]
enum Pending {
    None,
    One(Call),
    Many(Vec<Call>),
}

#[derive(Serialize)]
struct Call {
    id: String,
    name: String,
    input: Box<RawValue>,
}

/// Writes the execution scene of a session. The folder is made if it is not there.
///
/// # Errors
/// [`Error::NotFound`] if the session was deleted; [`Error::Io`] if the file cannot be written: then
/// what was there before stays as it was.
pub fn export_checkpoint(session: &Session, path: &Path) -> Result<()> {
    let scene = session.scene()?;
    let open = &scene.context.open_calls;
    // Sub-agents' calls, and those of other branches, are no part of these messages.
    let here = |call: &&ToolCall| call.subpath.is_empty() && open.contains(&call.id);
    let mut calls: Vec<Call> = scene
        .pending
        .iter()
        .filter(here)
        .map(call)
        .collect::<Result<_>>()?;
    let pending_tool_use = match calls.len() {
        0 => Pending::None,
        1 => Pending::One(calls.remove(0)),
        _ => Pending::Many(calls),
    };
    let checkpoint = Checkpoint {
        version: VERSION,
        task: scene.task.as_deref().unwrap_or_default(),
        turns: scene.rounds,
        tokens_used: scene.tokens_used,
        messages: &scene.context.messages,
        pending_tool_use,
    };
    let mut text = serde_json::to_string_pretty(&checkpoint)
        .map_err(|error| Error::Storage(Box::new(error)))?;
    text.push('\n');
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    make_folder(folder).map_err(|error| Error::io("making the folder", folder, error))?;
    let cannot = |error| Error::io("writing", path, error);
    let mut file = NewFile::begin(path, 0o600).map_err(cannot)?;
    file.write_all(text.as_bytes()).map_err(cannot)?;
    file.finish().map_err(cannot)
}

fn call(call: &ToolCall) -> Result<Call> {
    let input = RawValue::from_string(call.input.clone())
        .map_err(|error| Error::Storage(Box::new(error)))?;
    Ok(Call {
        id: call.id.clone(),
        name: call.name.clone(),
        input,
    })
}

/// Makes a session of a checkpoint: its task, its messages, and the rounds and tokens to count on
/// from. Its open calls are pending. What the messages say is kept as the text that it is: numbers
/// of any size, repeated keys and escapes among it.
///
/// # Errors
/// [`Error::Invalid`] for a file that is torn, of an unknown version, or without a field: naming
/// each, and what resuming without it would break. No session is made then.
pub fn import_checkpoint(store: &Store, project_key: &str, path: &Path) -> Result<Session> {
    let bytes = fs::read(path).map_err(|error| Error::io("reading", path, error))?;
    let saved =
        Saved::read(&bytes).map_err(|why| Error::invalid(path.display().to_string(), why))?;
    let new = NewSession::in_project(project_key);
    store.sessions().create_with(&new, |tx| {
        if !saved.task.trim().is_empty() {
            tx.set_task(&saved.task)?;
        }
        for message in saved.messages {
            tx.append(message)?;
        }
        tx.count_on_from(saved.turns, saved.tokens_used)
    })
}

/// A checkpoint as it is read.
struct Saved {
    task: String,
    turns: u64,
    tokens_used: u64,
    messages: Vec<NewMessage>,
}

impl Saved {
    /// Reads a checkpoint, or says what is wrong with it.
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let torn = |error: &dyn fmt::Display| {
            format!("it is torn or no JSON ({error}); take the last whole checkpoint")
        };
        let text = str::from_utf8(bytes).map_err(|error| torn(&error))?;
        let Some(fields) = Object::parse(text) else {
            return Err(match serde_json::from_str::<&RawValue>(text) {
                Err(error) => torn(&error),
                Ok(_) => "it is JSON, but not an object".to_owned(),
            });
        };
        if let Some(version) = fields.get("version").filter(|text| !is_known(text)) {
            return Err(format!(
                "version {version} is not known, only {VERSION} is; read it with the program that wrote it"
            ));
        }
        let missing: Vec<String> = FIELDS
            .iter()
            .filter(|(field, _)| fields.get(field).is_none())
            .map(|(field, breaks)| format!("`{field}` is missing: without it {breaks}"))
            .collect();
        if !missing.is_empty() {
            return Err(missing.join("; "));
        }
        let number = |field: &str| {
            let number = fields.get(field).and_then(|text| text.parse().ok());
            number.ok_or_else(|| format!("`{field}` is not a whole number"))
        };
        let task = fields.string("task");
        let messages = fields.get("messages").and_then(array);
        let messages = messages.ok_or("`messages` is not an array")?;
        pending_is_there(fields.get("pendingToolUse").unwrap_or("null"), &messages)?;
        Ok(Self {
            task: task.ok_or("`task` is not a string")?.into_owned(),
            turns: number("turns")?,
            tokens_used: number("tokensUsed")?,
            messages: (1..).zip(messages).map(message).collect::<Result<_, _>>()?,
        })
    }
}

fn is_known(version: &str) -> bool {
    version.parse() == Ok(VERSION)
}

fn message((number, text): (usize, &str)) -> Result<NewMessage, String> {
    let message = Object::parse(text).unwrap_or_default();
    let content = message
        .get("content")
        .filter(|content| content.starts_with(['"', '[']));
    let content = content.ok_or_else(|| {
        format!("message {number} has no content: it is a text or an array of blocks")
    })?;
    let role = match message.string("role").as_deref() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => {
            let why = "is neither the user's nor the assistant's";
            return Err(format!("message {number} {why}"));
        }
    };
    // A checkpoint is often laid out over many lines; an entry is one.
    Ok(NewMessage::of_json(role, &on_one_line(content)))
}

/// Refuses a pending call that no message makes: it would be forgotten.
fn pending_is_there(pending: &str, messages: &[&str]) -> Result<(), String> {
    if pending == "null" {
        return Ok(());
    }
    let made: HashSet<String> = messages.iter().flat_map(|text| calls_of(text)).collect();
    for call in array(pending).unwrap_or_else(|| vec![pending]) {
        let id = Object::parse(call).and_then(|call| call.string("id").map(String::from));
        let id = id.ok_or("a call in `pendingToolUse` has no id")?;
        if !made.contains(&id) {
            return Err(format!(
                "no message makes the call `{id}` of `pendingToolUse`"
            ));
        }
    }
    Ok(())
}

/// The calls that a message makes, by id.
fn calls_of(message: &str) -> Vec<String> {
    let Some(message) = Object::parse(message) else {
        return Vec::new();
    };
    let said = Said::read(&message);
    let call = |part: &Part<'_>| match &part.what {
        What::Call { id, .. } => Some(id.to_string()),
        _ => None,
    };
    said.parts().iter().filter_map(call).collect()
}
