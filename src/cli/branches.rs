//! `turnkeep branches`

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::out::{Out, Style, count, fit, pad, time};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// List the ways a session's messages end, or move its head to one
///
/// Nothing that left the conversation is deleted: it is a branch.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// Move the head to this message: what came after it leaves the conversation
    #[arg(long, value_name = "UUID")]
    switch: Option<String>,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = if args.switch.is_some() {
        call.open(false)?
    } else {
        call.look()?
    };
    let session = session(&store, &args.id, args.within.project())?;
    if let Some(uuid) = &args.switch {
        session.switch_to(uuid)?;
    }
    let branches = session.branches()?;
    let mut out = Out::new();
    if call.json {
        let shown: Vec<_> = branches
            .iter()
            .map(|branch| {
                json!({
                    "leaf": branch.leaf,
                    "messages": branch.messages,
                    "prompt": branch.prompt,
                    "timestamp_ms": branch.timestamp_ms,
                    "current": branch.is_current,
                })
            })
            .collect();
        out.line(&json!({"branches": shown}).to_string())?;
        return Ok(Done::All);
    }
    for branch in &branches {
        let mark = if branch.is_current { "*" } else { " " };
        let at = pad(&branch.timestamp_ms.map(time).unwrap_or_default(), 16);
        let messages = count(branch.messages as u64, "entry");
        let head = format!("{mark} {}  {at}  {messages}", fit(&branch.leaf, 36));
        let room = out.width().saturating_sub(head.width() + 2);
        let prompt = fit(branch.prompt.as_deref().unwrap_or(""), room.max(8));
        out.line(&format!("{head}  {}", out.styled(Style::Dim, &prompt)))?;
    }
    Ok(Done::All)
}
