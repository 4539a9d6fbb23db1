//! What a model is told after a rewind of files alone: the conversation still speaks of edits that
//! are gone.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::json;

use crate::error::Result;
use crate::model::FileOutcome;
use crate::store::history::History;
use crate::tables::messages;
use crate::tables::rewinds::{self, RewindRow};

/// How many paths a note names.
const NAMED: usize = 20;

/// The entries that tell of rewinds, each with the message that it stands behind. An undone rewind
/// is not told of.
pub(in crate::store) fn notes(
    db: &Connection,
    history: &History,
) -> Result<BTreeMap<i64, Vec<String>>> {
    let mut notes: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    if !history.subpath().is_empty() {
        return Ok(notes);
    }
    for part in &history.parts {
        for rewind in rewinds::of_session(db, part.owner)? {
            let Some(head) = rewind.head_before.filter(|_| is_told(db, &rewind)) else {
                continue;
            };
            let place = messages::place_of(db, head)?;
            if place.is_none_or(|place| history.part_of(&place).is_none()) {
                continue;
            }
            if let Some(text) = text(db, &rewind)? {
                let entry = json!({
                    "type": "user",
                    "isMeta": true,
                    "message": {"role": "user", "content": text},
                });
                notes.entry(head).or_default().push(entry.to_string());
            }
        }
    }
    Ok(notes)
}

fn is_told(db: &Connection, rewind: &RewindRow) -> bool {
    let is_undone = rewinds::undone_by(db, rewind.operation).is_ok_and(|undo| undo.is_some());
    rewind.restores == "files"
        && matches!(rewind.kind.as_str(), "rewind" | "take")
        && rewind.took_effect()
        && !is_undone
}

fn text(db: &Connection, rewind: &RewindRow) -> Result<Option<String>> {
    let files = rewinds::files(db, rewind.operation)?;
    let mut paths: Vec<String> = files
        .into_iter()
        .filter(|file| file.change.is_some() && file.outcome == FileOutcome::Done.as_str())
        .map(|file| file.path.text)
        .collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let more = paths.len().saturating_sub(NAMED);
    paths.truncate(NAMED);
    let mut list = paths.join("\n");
    if more > 0 {
        list.push_str(&format!("\nand {more} more"));
    }
    let what = match rewind.kind.as_str() {
        "take" => format!(
            "were replaced by those of session `{}`; what they held before is",
            rewind.point
        ),
        _ => format!(
            "were put back to what they were before `{}`; edits of them that came after it are",
            rewind.point
        ),
    };
    Ok(Some(format!(
        "These files {what} no longer on disk. Read a file again before relying on it or changing it:\n{list}"
    )))
}
