//! What a rewind does not cover: calls that may have changed something, of which nothing is kept.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use rusqlite::Connection;

use super::aim::Aim;
use super::binding::launched_by;
use super::changes::{self, is_imported};
use super::course::Ground;
use super::paths::{paths_of, resolve_path};
use super::points::Point;
use crate::error::Result;
use crate::model::NotCovered;
use crate::tables::file_changes::{Bound, ChangeRow};
use crate::tables::tool_calls::{self, CallRow};
use crate::tables::{messages, tool_results, watched_calls};
use crate::transcript::edits::EDITORS;

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

/// Whether a tool of the client is known to change nothing outside the conversation.
pub(crate) fn is_harmless(tool: &str) -> bool {
    HARMLESS.contains(&tool)
}

/// What happened since the point and is not taken back, by tool; for an undo nothing is said.
pub(super) fn not_covered(db: &Connection, ground: &Ground, aim: &Aim) -> Result<Vec<NotCovered>> {
    let Aim::Point { point, .. } = aim else {
        return Ok(Vec::new());
    };
    let Ground {
        history, changes, ..
    } = ground;
    let captured: HashSet<&str> = changes
        .iter()
        .filter_map(|change| change.tool_use_id.as_deref())
        .collect();
    let noted = noted(changes, point);
    let mut launches: HashMap<String, Bound> = HashMap::new();
    let mut tools: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    let mut watched = 0;
    for part in &history.parts {
        for call in tool_calls::list(db, part.owner, part.until_seq)? {
            // A sub-agent's call is of the turn that launched it.
            let own = Bound {
                call: None,
                turn: call.turn,
                message: Some(call.message),
            };
            let place = match call.subpath.as_str() {
                "" => own,
                agent => match launches.get(agent) {
                    Some(launch) => *launch,
                    None => {
                        let launch = launched_by(db, part.owner, history, agent)?;
                        let launch = launch.unwrap_or(own);
                        *launches.entry(agent.to_owned()).or_insert(launch)
                    }
                },
            };
            if !is_since(&call, place, point) {
                continue;
            }
            let outside = watched_calls::outside(db, part.owner, &call.tool_use_id)?;
            if !outside.is_empty() {
                watched += 1;
                found.extend(outside.iter().flat_map(|text| read(text)));
                continue;
            }
            let is_covered = captured.contains(call.tool_use_id.as_str());
            if is_covered
                || is_harmless(&call.name)
                || never_ran(db, &call)?
                || is_noted(db, &call, place, &noted)?
            {
                continue;
            }
            *tools.entry(call.name).or_default() += 1;
        }
    }
    // Calls that were watched and are not stored: hooks come without the transcript.
    let from = moment(db, changes, point)?;
    for part in history.parts.iter().filter(|part| !part.is_inherited) {
        let mut unstored = HashSet::new();
        for (call, text) in watched_calls::since(db, part.owner, from)? {
            if tool_calls::find_newest(db, part.owner, &call, i64::MAX)?.is_some() {
                continue;
            }
            found.extend(read(&text));
            watched += usize::from(unstored.insert(call));
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

/// The files that a client's checkpoints cover since a point, with the prompt of the first that does.
fn noted(changes: &[ChangeRow], point: &Point) -> HashMap<PathBuf, i64> {
    let mut noted = HashMap::new();
    for change in changes {
        let is_noted = is_imported(change) && change.tool_use_id.is_none();
        if is_noted && changes::is_since(change, point) {
            // What a turn's last edit left is followed from the checkpoint at its prompt.
            let from = change.turn.unwrap_or(change.seen_message);
            noted
                .entry(change.path.path())
                .or_insert(from.min(change.seen_message));
        }
    }
    noted
}

/// Whether a client's checkpoint that is gone back over covers what an editing tool did.
fn is_noted(
    db: &Connection,
    call: &CallRow,
    place: Bound,
    noted: &HashMap<PathBuf, i64>,
) -> Result<bool> {
    if noted.is_empty() || !EDITORS.contains(&call.name.as_str()) {
        return Ok(false);
    }
    let covers = |path: &PathBuf| {
        let path = resolve_path(path).ok();
        let from = path.and_then(|path| noted.get(&path));
        from.is_some_and(|from| place.message.is_some_and(|at| *from <= at))
    };
    let paths = paths_of(db, call)?;
    Ok(!paths.is_empty() && paths.iter().all(covers))
}

/// When a point was, by the clock of the store.
fn moment(db: &Connection, changes: &[ChangeRow], point: &Point) -> Result<i64> {
    let (first, message) = match point {
        Point::Start => return Ok(0),
        Point::Prompt { message } => (None, Some(*message)),
        Point::Call {
            first_change,
            message,
            ..
        } => (*first_change, *message),
    };
    if let Some(change) = changes.iter().find(|change| Some(change.id) == first) {
        return Ok(change.before_ms);
    }
    Ok(match message {
        Some(message) => messages::stored_ms(db, message)?.unwrap_or(0),
        None => 0,
    })
}

/// What lay outside the bounds of a watch, as it is stored.
pub(super) fn text(outside: &[NotCovered]) -> String {
    let fields = outside
        .iter()
        .map(|one| (&one.what, one.count, &one.reason));
    serde_json::Value::from_iter(fields.map(|fields| serde_json::json!(fields))).to_string()
}

fn read(text: &str) -> Vec<NotCovered> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Whether a call was made at a point or after it; a sub-agent's, whether it was launched then.
fn is_since(call: &CallRow, place: Bound, point: &Point) -> bool {
    let is_main = call.subpath.is_empty();
    let launched = place.message.unwrap_or(call.message);
    match point {
        Point::Start => true,
        Point::Prompt { message } if is_main => call.message >= *message,
        Point::Prompt { message } => place.turn.unwrap_or(launched) >= *message,
        Point::Call {
            message: Some(message),
            ..
        } if !is_main => launched >= *message,
        Point::Call {
            call: Some(from), ..
        } => call.id >= *from,
        Point::Call { .. } => false,
    }
}

/// Whether a call was not allowed to run, or changed nothing: an editing tool that answers with an
/// error has refused.
fn never_ran(db: &Connection, call: &CallRow) -> Result<bool> {
    let edits = EDITORS.contains(&call.name.as_str());
    let outcomes = tool_results::of_call(db, call.id)?;
    Ok(outcomes
        .iter()
        .any(|(_, outcome)| outcome == "rejected" || (edits && outcome == "error")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lay_outside_is_stored_as_lists() {
        let outside = [NotCovered {
            what: "/srv/shop".to_owned(),
            count: 3,
            reason: "excluded".to_owned(),
        }];
        let stored = text(&outside);
        assert_eq!(stored, r#"[["/srv/shop",3,"excluded"]]"#);
        assert_eq!(read(&stored), outside);
        assert_eq!(text(&[]), "[]");
    }
}
