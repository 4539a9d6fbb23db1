//! `turnkeep delete`

use std::io::{self, IsTerminal, Write};

use serde_json::json;

use super::out::{Out, count, harmless_line};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Delete a session: transcripts, sub-agents, files
///
/// Asks first on a terminal. What was imported stays in its source, and another import takes it in
/// again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let session = session(&store, &args.id, args.within.project())?;
    let info = session.info()?;
    let key = harmless_line(&session.key().to_string());
    if !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal() {
        let name = info.summary.as_deref().unwrap_or("nothing said yet");
        eprint!(
            "delete {key} ({name}, {})? [y/N] ",
            count(info.entries, "entry")
        );
        io::stderr().flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            eprintln!("nothing was deleted");
            return Ok(Done::All);
        }
    }
    session.delete()?;
    let mut out = Out::new();
    if call.json {
        out.line(&json!({"session_id": info.session_id, "project_key": info.project_key, "deleted": true}).to_string())?;
    } else {
        out.line(&format!("deleted {key}"))?;
    }
    Ok(Done::All)
}
