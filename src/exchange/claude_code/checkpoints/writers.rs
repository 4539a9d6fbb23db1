//! In which turns something may have written files that no editing tool answers for.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use super::edited::{Edited, before};
use super::recorded::Recorded;
use crate::error::Result;
use crate::store::{History, is_harmless, launched_by};
use crate::tables::sessions::SessionRow;
use crate::tables::tool_calls::{self, BriefCall};
use crate::tables::{messages, transcripts};
use crate::transcript::edits::EDITORS;
use crate::transcript::json::Object;

/// The tools that launch a sub-agent.
const LAUNCHERS: [&str; 2] = ["Agent", "Task"];

/// The prompts that were noted, and behind which a call was made that may have written any file.
#[derive(Debug, Default)]
pub(super) struct Writers(HashSet<usize>);

impl Writers {
    pub(super) fn of(
        db: &Connection,
        session: &SessionRow,
        history: &History,
        recorded: &Recorded,
        edits: &[Edited],
    ) -> Result<Self> {
        let known: HashSet<i64> = edits.iter().map(|edit| edit.call).collect();
        // A sub-agent's own calls tell what it did, if its transcript is here.
        let mut imported: HashSet<String> = HashSet::new();
        for subpath in transcripts::subpaths(db, session.id)? {
            let meta = messages::last_of_kind(db, session.id, &subpath, "agent_metadata")?;
            let meta = meta.as_deref().and_then(Object::parse);
            imported.extend(meta.and_then(|meta| meta.string("toolUseId").map(String::from)));
        }
        let mut launches: HashMap<String, usize> = HashMap::new();
        let mut found = HashSet::new();
        for call in tool_calls::brief(db, session.id)? {
            if !may_write(&call, &known, &imported) {
                continue;
            }
            let behind = if call.subpath.is_empty() {
                before(&recorded.points, call.message)
            } else {
                let launched = match launches.get(&call.subpath) {
                    Some(launched) => *launched,
                    None => {
                        let place = launched_by(db, session.id, history, &call.subpath)?;
                        let message = place.and_then(|place| place.message);
                        let launched = message.map_or(0, |at| before(&recorded.points, at));
                        *launches.entry(call.subpath.clone()).or_insert(launched)
                    }
                };
                let at_ms = messages::said_ms(db, call.message)?.unwrap_or(0);
                recorded.behind(at_ms).max(launched)
            };
            found.extend(behind.checked_sub(1));
        }
        Ok(Self(found))
    }

    /// Whether something may have written behind a prompt and before the next.
    pub(super) fn any(&self, at: usize) -> bool {
        self.0.contains(&at)
    }
}

/// Whether a call may have written a file without an answer that tells what.
fn may_write(call: &BriefCall, known: &HashSet<i64>, imported: &HashSet<String>) -> bool {
    let outcome = call.outcome.as_deref();
    if outcome == Some("rejected") {
        return false;
    }
    let name = call.name.as_str();
    if EDITORS.contains(&name) {
        // One that answers with an error has refused.
        return outcome != Some("error") && !known.contains(&call.id);
    }
    if LAUNCHERS.contains(&name) {
        return !imported.contains(&call.tool_use_id);
    }
    !is_harmless(name)
}
