//! `turnkeep tag`

use super::out::Out;
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Give a session a tag, or take it away
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Its tag
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    tag: Option<String>,

    /// Take the tag away
    #[arg(long)]
    clear: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let session = session(&store, &args.id, args.within.project())?;
    session.tag(args.tag.as_deref())?;
    Out::new().changed(
        call.json,
        &session,
        if args.clear { "untagged" } else { "tagged" },
    )?;
    Ok(Done::All)
}
