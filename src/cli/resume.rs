//! `turnkeep resume`

use std::io;

use serde::Serialize;
use turnkeep::{ContextMessage, ResumeOptions};

use super::fail::Failure;
use super::out::{Out, Style, harmless, harmless_line};
use super::place::{Within, scope, session};
use super::{Call, Done, Outcome};

/// Show what a model is to be sent to go on with a session, and what is open in it
///
/// Changes nothing: `append` goes on from the head it names.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    #[arg(required_unless_present = "newest", conflicts_with = "newest")]
    id: Option<String>,

    /// The session in which something was said last
    #[arg(long = "continue", id = "newest")]
    newest: bool,

    /// Go on from this message: what came after it leaves the conversation with the next append
    #[arg(long, value_name = "UUID")]
    at: Option<String>,

    /// Only if what is dropped is exactly the turn of this prompt
    #[arg(long, value_name = "UUID", requires = "at")]
    drops_turn: Option<String>,

    #[command(flatten)]
    within: Within,
}

/// What `--json` prints; the contents of messages are not printed anew.
#[derive(Serialize)]
struct Shown<'a> {
    session_id: &'a str,
    project_key: &'a str,
    head: Option<&'a str>,
    context: &'a [ContextMessage],
    open_calls: &'a [String],
    orphan_results: &'a [String],
    repaired_links: &'a [String],
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = match &args.id {
        Some(id) => session(&store, id, args.within.project())?,
        None => {
            let scope = scope(&store, args.within.project())?;
            let newest = store.sessions().continue_last(&scope)?;
            newest.ok_or_else(|| {
                Failure::Store(turnkeep::Error::NotFound {
                    what: "session",
                    id: "to continue".to_owned(),
                })
            })?
        }
    };
    let mut options = ResumeOptions::new();
    if let Some(at) = &args.at {
        options = options.at(at);
    }
    if let Some(turn) = &args.drops_turn {
        options = options.drops_turn(turn);
    }
    let resumed = session.resume(&options)?;
    let mut out = Out::new();
    if call.json {
        let shown = Shown {
            session_id: session.id(),
            project_key: &session.key().project_key,
            head: resumed.head.as_deref(),
            context: &resumed.context.messages,
            open_calls: &resumed.context.open_calls,
            orphan_results: &resumed.context.orphan_results,
            repaired_links: &resumed.context.repaired_links,
        };
        let json = serde_json::to_string(&shown).map_err(io::Error::other)?;
        out.line(&json)?;
        return Ok(Done::All);
    }
    out.line(&out.styled(Style::Bold, &harmless_line(&session.key().to_string())))?;
    for message in &resumed.context.messages {
        let json = serde_json::to_string(message).map_err(io::Error::other)?;
        out.line(&harmless(&json))?;
    }
    for call in &resumed.context.open_calls {
        out.line(&format!(
            "{} {call}: its outcome is unknown",
            out.styled(Style::Bad, "open:")
        ))?;
    }
    out.line(&format!(
        "head {}",
        resumed.head.as_deref().unwrap_or("none")
    ))?;
    Ok(Done::All)
}
