//! `turnkeep rename`

use super::out::Out;
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Give a session a title
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Its title
    title: String,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let session = session(&store, &args.id, args.within.project())?;
    session.rename(&args.title)?;
    Out::new().changed(call.json, &session, "renamed")?;
    Ok(Done::All)
}
