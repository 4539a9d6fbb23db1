//! `turnkeep scratch`

use clap::Subcommand;
use serde_json::{Value, json};
use turnkeep::{Error, Session};

use super::fail::Failure;
use super::out::{Out, Style, fit, harmless, pad, time};
use super::place::session;
use super::{Call, Done, Outcome};

/// Read and write a session's scratchpad: key/value notes
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the value of a key
    Get {
        /// The session
        id: String,
        /// The key
        key: String,
        /// As it was when this message was stored
        #[arg(long, value_name = "UUID")]
        at: Option<String>,
    },
    /// Set a key: to JSON if the value is JSON, else to the text
    Set {
        /// The session
        id: String,
        /// The key
        key: String,
        /// The value
        #[arg(allow_hyphen_values = true)]
        value: String,
        /// Take the value as text, whatever it looks like
        #[arg(long)]
        text: bool,
    },
    /// Delete a key
    Rm {
        /// The session
        id: String,
        /// The key
        key: String,
    },
    /// List the keys and their values
    Ls {
        /// The session
        id: String,
        /// As they were when this message was stored
        #[arg(long, value_name = "UUID")]
        at: Option<String>,
    },
    /// Show the values a key had, newest first
    History {
        /// The session
        id: String,
        /// The key
        key: String,
    },
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let mut out = Out::new();
    match &args.command {
        Command::Get { id, key, at } => {
            let notes = session(&call.look()?, id, None)?.scratchpad();
            let value = match at {
                Some(at) => notes.get_at(at, key)?,
                None => notes.get(key)?,
            };
            let value = value.ok_or_else(|| Error::NotFound {
                what: "scratchpad key",
                id: key.clone(),
            })?;
            out.line(&shown(call, &value))?;
        }
        Command::Set {
            id,
            key,
            value,
            text,
        } => {
            let parsed = if *text {
                None
            } else {
                serde_json::from_str::<Value>(value).ok()
            };
            let value = parsed.unwrap_or_else(|| json!(value));
            let session = session(&call.open(false)?, id, None)?;
            session.scratchpad().set(key, &value)?;
            changed(call, &mut out, &session, key, Some(&value))?;
        }
        Command::Rm { id, key } => {
            let session = session(&call.open(false)?, id, None)?;
            session.scratchpad().delete(key)?;
            changed(call, &mut out, &session, key, None)?;
        }
        Command::Ls { id, at } => {
            let notes = session(&call.look()?, id, None)?.scratchpad();
            let notes = match at {
                Some(at) => notes.list_at(at)?,
                None => notes.list()?,
            };
            if call.json {
                out.line(&json!({ "scratchpad": notes }).to_string())?;
            } else {
                for (key, value) in &notes {
                    let key = pad(&fit(key, 24), 24);
                    let room = out.width().saturating_sub(26);
                    out.line(&format!(
                        "{}  {}",
                        out.styled(Style::Bold, &key),
                        fit(&value.to_string(), room)
                    ))?;
                }
            }
        }
        Command::History { id, key } => {
            let versions = session(&call.look()?, id, None)?
                .scratchpad()
                .history(key)?;
            if call.json {
                let all: Vec<Value> = versions
                    .iter()
                    .map(|version| json!({"value": version.value, "deleted": version.value.is_none(), "set_ms": version.set_ms, "message": version.message}))
                    .collect();
                out.line(&json!({ "history": all }).to_string())?;
            } else {
                for version in &versions {
                    let value = version
                        .value
                        .as_ref()
                        .map_or_else(|| "(deleted)".to_owned(), Value::to_string);
                    let room = out.width().saturating_sub(18);
                    out.line(&format!("{}  {}", time(version.set_ms), fit(&value, room)))?;
                }
            }
        }
    }
    Ok(Done::All)
}

/// A value: as JSON, or of a text the text.
fn shown(call: &Call, value: &Value) -> String {
    match value {
        Value::String(text) if !call.json => harmless(text),
        value => value.to_string(),
    }
}

fn changed(
    call: &Call,
    out: &mut Out,
    session: &Session,
    key: &str,
    value: Option<&Value>,
) -> Result<(), Failure> {
    let line = match (call.json, value) {
        (true, _) => json!({"session_id": session.id(), "key": key, "value": value}).to_string(),
        (false, Some(_)) => format!("set {key}"),
        (false, None) => format!("deleted {key}"),
    };
    Ok(out.line(&line)?)
}
