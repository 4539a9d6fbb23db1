//! `turnkeep tool`

use clap::Subcommand;
use serde_json::{Value, json};
use turnkeep::{Settle, ToolCall, ToolState};

use super::fail::Failure;
use super::out::{Out, Style, fit, pad, time};
use super::place::session;
use super::{Call, Done, Outcome};

/// List a session's tool calls, and settle those that are open
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List tool calls: how each stands
    Ls {
        /// The session
        id: String,

        /// Only those that have no result
        #[arg(long)]
        pending: bool,
    },
    /// Settle an open call; one that has a result keeps it
    #[command(group = clap::ArgGroup::new("how").required(true))]
    Settle {
        /// The session
        id: String,

        /// The call, by its tool-use id
        #[arg(value_name = "CALL")]
        call: String,

        /// Its result was found out: a text, or JSON with --json-content
        #[arg(long, group = "how", value_name = "CONTENT")]
        result: Option<String>,

        /// It failed, and this is what it said
        #[arg(long, group = "how", value_name = "CONTENT")]
        failed: Option<String>,

        /// It was not allowed to run
        #[arg(long, group = "how", value_name = "REASON")]
        rejected: Option<String>,

        /// It is given up: the model is told that its outcome is unknown
        #[arg(long, group = "how")]
        interrupted: bool,

        /// It is run again by the app: it stays pending, with a higher attempt number
        #[arg(long, group = "how")]
        rerun: bool,

        /// The content is JSON: an array of blocks
        #[arg(long)]
        json_content: bool,
    },
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    match &args.command {
        Command::Ls { id, pending } => list(call, id, *pending),
        Command::Settle {
            id,
            call: tool,
            result,
            failed,
            rejected,
            rerun,
            json_content,
            ..
        } => {
            let settle = match (result, failed, rejected) {
                (Some(content), ..) => Settle::Result(value(content, *json_content)?),
                (_, Some(content), _) => Settle::Failed(value(content, *json_content)?),
                (_, _, Some(reason)) => Settle::Rejected(reason.clone()),
                _ if *rerun => Settle::Rerun,
                _ => Settle::Interrupted,
            };
            let store = call.open(false)?;
            let settled = session(&store, id, None)?.tools().settle(tool, &settle)?;
            let mut out = Out::new();
            if call.json {
                let mut shown = json(&settled.call);
                shown["stored"] = json!(settled.stored);
                out.line(&shown.to_string())?;
            } else {
                let note = if settled.stored {
                    ""
                } else {
                    " (it had a result, which is kept)"
                };
                out.line(&format!("{tool} is {}{note}", settled.call.state.as_str()))?;
            }
            Ok(Done::All)
        }
    }
}

fn list(call: &Call, id: &str, pending: bool) -> Outcome {
    let store = call.look()?;
    let tools = session(&store, id, None)?.tools();
    let calls = if pending {
        tools.pending()?
    } else {
        tools.list()?
    };
    let mut out = Out::new();
    if call.json {
        let calls: Vec<Value> = calls.iter().map(json).collect();
        out.line(&json!({ "calls": calls }).to_string())?;
        return Ok(Done::All);
    }
    for tool in &calls {
        let state = pad(tool.state.as_str(), 11);
        let style = if tool.state == ToolState::Ok {
            Style::Dim
        } else {
            Style::Bad
        };
        let head = format!("{}  {}", time(tool.started_ms), pad(&fit(&tool.id, 24), 24));
        let room = out.width().saturating_sub(head.chars().count() + 15);
        let what = fit(&format!("{} {}", tool.name, tool.input), room.max(8));
        out.line(&format!("{head}  {}  {what}", out.styled(style, &state)))?;
    }
    if calls.is_empty() {
        out.line("no tool calls")?;
    }
    Ok(Done::All)
}

fn value(content: &str, is_json: bool) -> Result<Value, Failure> {
    if !is_json {
        return Ok(json!(content));
    }
    serde_json::from_str(content)
        .map_err(|error| Failure::wrong_use(format!("the content is not JSON: {error}")))
}

/// A call as JSON; its input stays the text it is.
pub(super) fn json(call: &ToolCall) -> Value {
    json!({
        "id": call.id,
        "name": call.name,
        "state": call.state,
        "input": call.input,
        "ran_input": call.ran_input,
        "agent": call.agent,
        "subpath": call.subpath,
        "turn": call.turn,
        "message": call.message,
        "result": call.result,
        "attempt": call.attempt,
        "idempotency_key": call.idempotency_key,
        "started_ms": call.started_ms,
    })
}
