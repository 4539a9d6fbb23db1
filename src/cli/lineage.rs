//! `turnkeep lineage`

use std::io;

use serde_json::{Value, json};
use turnkeep::Kin;

use super::out::{Out, Style, fit};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Show where a session comes from, and what was forked from it
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = session(&store, &args.id, args.within.project())?;
    let mut out = Out::new();
    if call.json {
        let lineage = session.lineage()?;
        let kin = |all: &[Kin]| all.iter().map(shown).collect::<Vec<_>>();
        let shown = json!({
            "session_id": session.id(),
            "project_key": session.key().project_key,
            "forked_at": lineage.forked_at,
            "ancestors": kin(&lineage.ancestors),
            "children": kin(&lineage.children),
            "family": kin(&session.family()?),
        });
        out.line(&shown.to_string())?;
    } else {
        draw(&mut out, &session.family()?, session.id())?;
    }
    Ok(Done::All)
}

fn shown(kin: &Kin) -> Value {
    json!({
        "session_id": kin.key.session_id,
        "project_key": kin.key.project_key,
        "summary": kin.summary,
        "forked_at": kin.forked_at,
        "deleted": kin.is_deleted,
        "inferred": kin.is_inferred,
        "depth": kin.depth,
    })
}

/// Draws a family as a tree, one session a line.
pub(super) fn draw(out: &mut Out, family: &[Kin], this: &str) -> io::Result<()> {
    // Whether another fork of the same origin follows, for each depth on the way.
    let mut follows: Vec<bool> = Vec::new();
    for (at, kin) in family.iter().enumerate() {
        let more = family[at + 1..]
            .iter()
            .find(|next| next.depth <= kin.depth)
            .is_some_and(|next| next.depth == kin.depth);
        follows.truncate(kin.depth);
        follows.push(more);
        let bars: String = follows
            .iter()
            .take(kin.depth)
            .skip(1)
            .map(|more| if *more { "│  " } else { "   " })
            .collect();
        let branch = match (kin.depth, more) {
            (0, _) => "",
            (_, true) => "├─ ",
            (_, false) => "└─ ",
        };
        let lead = format!("{bars}{branch}");
        let mut notes = Vec::new();
        if kin.key.session_id == this {
            notes.push("this one");
        }
        if kin.is_deleted {
            notes.push("deleted");
        }
        if kin.is_inferred {
            notes.push("made by the client");
        }
        let notes = if notes.is_empty() {
            String::new()
        } else {
            format!(" ({})", notes.join(", "))
        };
        let id = fit(&kin.key.session_id, 36);
        let used = lead.chars().count() + id.chars().count() + notes.len() + 2;
        let name = fit(
            kin.summary.as_deref().unwrap_or(""),
            out.width().saturating_sub(used).max(8),
        );
        out.line(&format!(
            "{lead}{id}  {}{}",
            out.styled(Style::Bold, &name),
            out.styled(Style::Dim, &notes)
        ))?;
    }
    Ok(())
}
