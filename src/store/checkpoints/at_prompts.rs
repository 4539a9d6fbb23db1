//! How the files of a session were at each of its prompts, for a client that goes back by those.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::changes::{is_since, visible};
use super::looking::states_at;
use super::points::{Point, prompts};
use crate::error::Result;
use crate::store::history::History;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::messages;

/// A prompt, and the files that were changed in its turn or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AtPrompt {
    /// The uuid under which the session shows it.
    pub(crate) uuid: String,
    pub(crate) at_ms: i64,
    pub(crate) files: BTreeMap<PathRow, StateRow>,
}

/// The prompts of a session in order, with the files whose every state is known to the last bit:
/// absence, or content and mode. A file that is not, at one of them, is left out of all.
pub(crate) fn at_prompts(db: &Connection, history: &History) -> Result<Vec<AtPrompt>> {
    let changes = visible(db, history)?;
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let prompts = prompts(db, history)?;
    let mut found: Vec<AtPrompt> = Vec::with_capacity(prompts.len());
    let mut inexact: BTreeSet<PathRow> = BTreeSet::new();
    for (at, place) in prompts.iter().enumerate() {
        let Some(uuid) = history.shown_uuid(place) else {
            continue;
        };
        let next = prompts
            .get(at + 1)
            .map(|next| Point::Prompt { message: next.id });
        let is_begun =
            |change: &&ChangeRow| next.as_ref().is_none_or(|next| !is_since(change, next));
        let begun: BTreeSet<&PathRow> = changes
            .iter()
            .filter(is_begun)
            .map(|change| &change.path)
            .collect();
        let mut files = states_at(&changes, &Point::Prompt { message: place.id });
        files.retain(|path, _| begun.contains(path));
        inexact.extend(
            files
                .iter()
                .filter(|(path, state)| path.raw.is_some() || !is_exact(state))
                .map(|(path, _)| path.clone()),
        );
        found.push(AtPrompt {
            uuid,
            at_ms: messages::said_ms(db, place.id)?.unwrap_or(0),
            files,
        });
    }
    for prompt in &mut found {
        prompt.files.retain(|path, _| !inexact.contains(path));
    }
    Ok(found)
}

fn is_exact(state: &StateRow) -> bool {
    matches!(
        state,
        StateRow::Absent | StateRow::File { mode: Some(_), .. }
    )
}
