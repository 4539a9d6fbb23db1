//! `turnkeep undo`

use super::place::{Within, session};
use super::rewinding::{How, carry_out};
use super::{Call, Outcome};

/// Take a rewind back; undoing an undo does it again
///
/// Without an operation, the newest rewind that was not undone; by default all that it restored.
/// What was changed again since is a conflict and is left alone.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The rewind or the undo, by the number that `operations` shows
    #[arg(long, value_name = "N")]
    operation: Option<i64>,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = args.how.store(call)?;
    let session = session(&store, &args.id, args.within.project())?;
    let options = args.how.options(&session, "")?;
    let plan = session.plan_undo(args.operation, &options)?;
    let what = match args.operation {
        Some(operation) => format!("undo of operation {operation}"),
        None => "undo of the newest rewind".to_owned(),
    };
    carry_out(call, &args.how, &session, &plan, &what)
}
