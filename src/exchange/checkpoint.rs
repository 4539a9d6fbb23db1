//! `checkpoint.json`, version 1: the execution scene as one file.
//!
//! Exactly six fields: `version`, `task`, `turns` (rounds), `tokensUsed`, `messages` and
//! `pendingToolUse` (null, one call, or an array of them). It is written beside its place and
//! renamed there, and read only if it is whole.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::model::{NewMessage, NewSession, ToolCall};
use crate::store::{ContextMessage, Session, Store};
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
/// from. Its open calls are pending.
///
/// # Errors
/// [`Error::Invalid`] for a file that is torn, of an unknown version, or without a field: naming
/// each, and what resuming without it would break. No session is made then.
pub fn import_checkpoint(store: &Store, project_key: &str, path: &Path) -> Result<Session> {
    let text = fs::read_to_string(path).map_err(|error| Error::io("reading", path, error))?;
    let refused = |why| Error::invalid(path.display().to_string(), why);
    let value = read(&text).map_err(refused)?;
    let messages = messages(&value).map_err(refused)?;
    let new = NewSession::in_project(project_key);
    store.sessions().create_with(&new, |tx| {
        let task = value["task"].as_str().unwrap_or_default();
        if !task.trim().is_empty() {
            tx.set_task(task)?;
        }
        for message in messages {
            tx.append(message)?;
        }
        let number = |field: &str| value[field].as_u64().unwrap_or(0);
        tx.count_on_from(number("turns"), number("tokensUsed"))
    })
}

/// Reads a checkpoint's fields, or says what is wrong with it.
fn read(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        format!("it is torn or no JSON ({error}); take the last whole checkpoint")
    })?;
    let Some(fields) = value.as_object() else {
        return Err("it is JSON, but not an object".to_owned());
    };
    if let Some(version) = fields
        .get("version")
        .filter(|version| version.as_u64() != Some(VERSION))
    {
        return Err(format!(
            "version {version} is not known, only {VERSION} is; read it with the program that wrote it"
        ));
    }
    let missing: Vec<String> = FIELDS
        .iter()
        .filter(|(field, _)| !fields.contains_key(*field))
        .map(|(field, breaks)| format!("`{field}` is missing: without it {breaks}"))
        .collect();
    if !missing.is_empty() {
        return Err(missing.join("; "));
    }
    let kinds = [
        ("task", value["task"].is_string(), "a string"),
        ("turns", value["turns"].is_u64(), "a whole number"),
        ("tokensUsed", value["tokensUsed"].is_u64(), "a whole number"),
        ("messages", value["messages"].is_array(), "an array"),
    ];
    match kinds.iter().find(|(_, right, _)| !right) {
        Some((field, _, kind)) => Err(format!("`{field}` is not {kind}")),
        None => pending_is_there(&value).map(|()| value),
    }
}

fn messages(value: &Value) -> Result<Vec<NewMessage>, String> {
    let messages = value["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let read = |(number, message): (usize, &Value)| {
        let content = &message["content"];
        if !content.is_string() && !content.is_array() {
            return Err(format!(
                "message {number} has no content: it is a text or an array of blocks"
            ));
        }
        match message["role"].as_str() {
            Some("user") => Ok(NewMessage::user(content.clone())),
            Some("assistant") => Ok(NewMessage::response(
                &json!({"role": "assistant", "content": content}),
            )),
            _ => Err(format!(
                "message {number} is neither the user's nor the assistant's"
            )),
        }
    };
    (1..).zip(messages).map(read).collect()
}

/// Refuses a pending call that no message makes: it would be forgotten.
fn pending_is_there(value: &Value) -> Result<(), String> {
    let pending = match &value["pendingToolUse"] {
        Value::Null => return Ok(()),
        Value::Array(calls) => calls.as_slice(),
        call => std::slice::from_ref(call),
    };
    let made = |id: &Value| {
        value["messages"].as_array().is_some_and(|messages| {
            messages
                .iter()
                .filter_map(|message| message["content"].as_array())
                .flatten()
                .any(|block| block["type"] == "tool_use" && block["id"] == *id)
        })
    };
    match pending.iter().find(|call| !made(&call["id"])) {
        Some(call) => Err(format!(
            "no message makes the call {} of `pendingToolUse`",
            call["id"]
        )),
        None => Ok(()),
    }
}
