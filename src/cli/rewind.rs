//! `turnkeep rewind`

use super::place::{Within, session};
use super::rewinding::{How, carry_out};
use super::{Call, Outcome};

/// Go back to a restore point: files, conversation, or both
///
/// A file that somebody else changed since is a conflict and is left alone. With both, one file that
/// cannot be put back stops everything. What a rewind overwrites is kept: `undo` brings it back.
/// Exit codes: 4 if nothing was done, 6 if something was left; 3 for an unknown point.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The restore point: an id, the beginning of one, a label, @last, @last~2 or @start
    #[arg(long, value_name = "POINT")]
    to: String,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = args.how.store(call)?;
    let session = session(&store, &args.id, args.within.project())?;
    if !store.is_read_only() {
        // What a command left whose watcher was killed belongs to what is taken back.
        session.files().finish_watches()?;
    }
    let plan = session.plan_rewind(&args.how.options(&session, &args.to)?)?;
    let what = format!("rewind to {}", args.to);
    carry_out(call, &args.how, &session, &plan, &what)
}
