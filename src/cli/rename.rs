//! `turnkeep rename`

use super::out::Out;
use super::place::session;
use super::{Call, Done, Outcome};

/// Give a session a title
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Its title
    title: String,

    /// Look only in this project: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let session = session(&store, &args.id, args.project.as_deref())?;
    session.rename(&args.title)?;
    Out::new().changed(call.json, &session, "renamed")?;
    Ok(Done::All)
}
