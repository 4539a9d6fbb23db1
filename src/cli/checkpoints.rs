//! `turnkeep checkpoints`

use clap::ValueEnum;
use serde_json::json;

use super::out::{Out, harmless_line, size};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Tell, or set, whether what a session's tools change is kept
///
/// Without on or off, tells which it is. What was kept before stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Which it is to be
    #[arg(value_name = "on|off", hide_possible_values = true)]
    state: Option<Switch>,

    #[command(flatten)]
    within: Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = match args.state {
        Some(_) => call.open(false)?,
        None => call.look()?,
    };
    let session = session(&store, &args.id, args.within.project())?;
    let files = session.files();
    if let Some(state) = args.state {
        files.set_enabled(state == Switch::On)?;
    }
    let enabled = files.is_enabled()?;
    let bytes = files.stored_bytes()?;
    let mut out = Out::new();
    if call.json {
        let shown = json!({"session_id": session.id(), "enabled": enabled, "stored_bytes": bytes});
        out.line(&shown.to_string())?;
    } else {
        let state = if enabled { "on" } else { "off" };
        let key = harmless_line(&session.key().to_string());
        out.line(&format!(
            "checkpoints of {key} are {state}; {} kept",
            size(bytes)
        ))?;
    }
    Ok(Done::All)
}
