//! `turnkeep fork`

use std::path::PathBuf;

use serde_json::json;
use turnkeep::ForkOptions;

use super::out::{Out, harmless_line};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Make a session that begins as another one does, and goes on alone
///
/// Costs the same whatever the length of the history: nothing is copied. The source never changes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Up to this message, which is included [default: all]
    #[arg(long, value_name = "UUID")]
    up_to: Option<String>,

    /// The fork's title [default: the session's, with " (fork)" behind]
    #[arg(long)]
    title: Option<String>,

    /// The directory the fork works in [default: the session's]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let source = session(&store, &args.id, args.within.project())?;
    let mut options = ForkOptions::new();
    if let Some(uuid) = &args.up_to {
        options = options.up_to(uuid);
    }
    if let Some(title) = &args.title {
        options = options.titled(title);
    }
    if let Some(cwd) = &args.cwd {
        let cwd = std::path::absolute(cwd)?;
        options = options.cwd(cwd.to_string_lossy());
    }
    let fork = source.fork(&options)?;
    let lineage = fork.lineage()?;
    let mut out = Out::new();
    if call.json {
        let shown = json!({"session_id": fork.id(), "forked_from": source.id(), "up_to": lineage.forked_at});
        out.line(&shown.to_string())?;
    } else {
        let at = lineage
            .forked_at
            .map_or_else(String::new, |uuid| format!(" up to {uuid}"));
        let source = harmless_line(&source.key().to_string());
        out.line(&format!(
            "{}\nforked from {source}{at}",
            harmless_line(fork.id())
        ))?;
    }
    Ok(Done::All)
}
