//! What a rewind does not cover: calls that may have changed something, of which nothing is kept.

use std::collections::{BTreeMap, HashSet};

use rusqlite::Connection;

use super::aim::Aim;
use super::changes::visible;
use super::points::Point;
use crate::error::Result;
use crate::model::NotCovered;
use crate::store::history::History;
use crate::tables::tool_calls::{self, CallRow};
use crate::tables::{tool_results, watched_calls};

/// Tools of the client that change nothing outside the conversation. What another tool does nobody
/// knows.
const HARMLESS: [&str; 27] = [
    "Agent",
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "KillBash",
    "KillShell",
    "LS",
    "ListMcpResourcesTool",
    "Monitor",
    "NotebookRead",
    "Read",
    "ReadMcpResourceTool",
    "Skill",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
];

/// What happened since the point and is not taken back, by tool; for an undo nothing is said.
pub(super) fn not_covered(
    db: &Connection,
    history: &History,
    aim: &Aim,
) -> Result<Vec<NotCovered>> {
    let Aim::Point { point, .. } = aim else {
        return Ok(Vec::new());
    };
    let changes = visible(db, history)?;
    let captured: HashSet<&str> = changes
        .iter()
        .filter_map(|change| change.tool_use_id.as_deref())
        .collect();
    let mut tools: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    let mut watched = 0;
    for part in &history.parts {
        for call in tool_calls::list(db, part.owner, part.until_seq)? {
            if !is_since(&call, point) {
                continue;
            }
            let outside = watched_calls::outside(db, part.owner, &call.tool_use_id)?;
            if !outside.is_empty() {
                watched += 1;
                for (what, count, reason) in outside.iter().flat_map(|text| read(text)) {
                    found.push(NotCovered {
                        what,
                        count,
                        reason,
                    });
                }
                continue;
            }
            let is_covered = captured.contains(call.tool_use_id.as_str());
            if is_covered || HARMLESS.contains(&call.name.as_str()) || never_ran(db, &call)? {
                continue;
            }
            *tools.entry(call.name).or_default() += 1;
        }
    }
    if watched > 0 {
        found.push(NotCovered {
            what: "watched commands".to_owned(),
            count: watched,
            reason: "what they changed outside the watched folders is not known".to_owned(),
        });
    }
    found.extend(tools.into_iter().map(|(what, count)| NotCovered {
        what,
        count,
        reason: "nothing was captured of what these calls changed".to_owned(),
    }));
    Ok(found)
}

/// Something that was not covered: what, how many of them, and why.
pub(super) type Outside = (String, usize, String);

fn read(text: &str) -> Vec<Outside> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Whether a call was made at a point or after it.
fn is_since(call: &CallRow, point: &Point) -> bool {
    match point {
        Point::Start => true,
        Point::Prompt { message } => call.message >= *message,
        Point::Call {
            call: Some(from), ..
        } => call.id >= *from,
        Point::Call { .. } => false,
    }
}

/// Whether a call was not allowed to run.
fn never_ran(db: &Connection, call: &CallRow) -> Result<bool> {
    let outcomes = tool_results::of_call(db, call.id)?;
    Ok(outcomes.iter().any(|(_, outcome)| outcome == "rejected"))
}
