//! The client's file checkpoints, as file changes.
//!
//! A snapshot says how the tracked files were at a prompt. Between two of them the client's and the
//! session's doings lie, so a file that differs is one change, of the turn of the first. What no
//! snapshot covers (a sub-agent's edits, turns without checkpoints) is made of what the tools
//! answered, one change a call. Nothing is guessed: what is not told is not kept, with the reason.
//!
//! All of it follows from what is stored, so an import only says that a session is due, and what
//! follows is compared with what there is. Repeating it changes nothing.

mod edited;
mod reconcile;
mod recorded;

use std::collections::HashSet;

pub(super) use recorded::BACKUPS;

use self::edited::{Contents, Edited, edits};
use self::recorded::Recorded;
use crate::db::Tx;
use crate::error::Result;
use crate::store::{Bound, History};
use crate::tables::checkpoints_due;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions::SessionRow;
use crate::transcript::edits::EDITORS;
use crate::transcript::file_history::{DELTA, SNAPSHOT};
use crate::transcript::reading::Reading;

/// A change that follows from a session's transcripts.
#[derive(Debug)]
struct Wanted {
    path: PathRow,
    place: Bound,
    at_ms: i64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Between a prompt and the next at which the file is known; after the last nobody knows.
    Between {
        before: StateRow,
        after: Option<(StateRow, i64)>,
    },
    /// What one call did.
    Edit(Box<Edited>),
}

impl Wanted {
    /// Whether it is what came of a file behind the last prompt, which nobody knows.
    fn is_last(&self) -> bool {
        matches!(&self.what, What::Between { after: None, .. })
    }
}

/// What was made of one session.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    /// How many changes were stored now.
    pub(super) changes: u64,
    /// How many edits succeeded.
    pub(super) edits: u64,
    /// How many of them no checkpoint covers, and of how many of those nothing tells what was there
    /// before.
    pub(super) uncovered: u64,
    pub(super) untold: u64,
    /// How many changes came too late for their place.
    pub(super) left_out: u64,
    /// Whether the client noted any file.
    pub(super) has_checkpoints: bool,
    pub(super) refused: Vec<String>,
    pub(super) astray: u64,
    pub(super) missing: u64,
    /// Whether there is more to do.
    pub(super) goes_on: bool,
}

impl Made {
    /// What somebody who means to rewind should know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.edits > 0 && !self.has_checkpoints {
            let known = self.uncovered - self.untold;
            notes.push(format!(
                "no file checkpoints in this transcript; of {} edit(s), {known} can be taken back by what the tools answered",
                self.edits
            ));
        } else if self.untold > 0 {
            notes.push(format!(
                "{} edit(s) are outside the checkpoints, and nothing tells what was there before them",
                self.untold
            ));
        }
        let more = [
            (
                self.missing,
                "backup(s) of the checkpoints are missing: those states cannot be restored",
            ),
            (
                self.astray,
                "checkpoint record(s) name messages that are not there, and were passed over",
            ),
            (
                self.left_out,
                "change(s) are older than what was captured or rewound here, and are not covered",
            ),
        ];
        let more = more.into_iter().filter(|(number, _)| *number > 0);
        notes.extend(more.map(|(number, what)| format!("{number} {what}")));
        notes
    }
}

/// Whether an entry may tell of edits.
pub(super) fn tells_of_edits(reading: &Reading) -> bool {
    matches!(reading.kind.as_str(), SNAPSHOT | DELTA | "agent_metadata")
        || !reading.results.is_empty()
        || reading
            .calls
            .iter()
            .any(|call| EDITORS.contains(&call.name.as_str()))
}

/// Makes the file changes that follow from what is stored of a session; as many as one transaction
/// is to hold.
pub(super) fn make(tx: &Tx<'_>, session: &SessionRow) -> Result<Made> {
    let history = History::of(tx, session, "")?;
    let recorded = Recorded::read(tx, session, &history)?;
    let edits = edits(tx, session, &history, &recorded)?;
    let mut made = Made {
        edits: edits.len() as u64,
        has_checkpoints: recorded
            .points
            .iter()
            .any(|point| !point.files().is_empty()),
        astray: recorded.astray,
        missing: recorded.missing,
        ..Made::default()
    };
    let wanted = wanted(session.id, &recorded, edits);
    let calls = wanted.iter().filter_map(|wanted| match &wanted.what {
        What::Edit(edit) => Some(edit.call),
        What::Between { .. } => None,
    });
    let calls: HashSet<i64> = calls.collect();
    made.uncovered = calls.len() as u64;
    made.refused = recorded.refused;
    let contents = Contents::new(tx, session.id, calls);
    reconcile::reconcile(tx, session.id, wanted, contents, &mut made)?;
    if !made.goes_on {
        checkpoints_due::delete(tx, session.id)?;
    }
    Ok(made)
}

/// The changes in the order in which they were made.
fn wanted(session: i64, recorded: &Recorded, edits: Vec<Edited>) -> Vec<Wanted> {
    let Covered { covered, uncovered } = Covered::of(recorded, edits);
    // What came before a file was tracked comes before what is noted of it, in the same turn too.
    let early: HashSet<(usize, &PathRow)> = uncovered
        .iter()
        .map(|edit| (edit.behind, &edit.path))
        .collect();
    // By how many prompts were noted before, and the place behind the last of them.
    let mut all: Vec<(usize, u8, Wanted)> = Vec::new();
    let mut last: Vec<Option<(usize, u32)>> = vec![None; recorded.paths.len()];
    let mut add = |(at, backup): (usize, u32), path: u32, next: Option<(usize, u32)>| {
        let point = &recorded.points[at];
        let is_same = next.is_some_and(|(_, next)| recorded.same(backup, next));
        if point.owner != session || (is_same && !covered.contains(&(at, path))) {
            return;
        }
        // What is not kept is as good as not known.
        let after = next
            .map(|(at, backup)| (&recorded.states[backup as usize], recorded.points[at].at_ms))
            .filter(|(state, _)| !matches!(state, StateRow::NotKept { .. }));
        let path = &recorded.paths[path as usize];
        let order = if early.contains(&(at + 1, path)) {
            2
        } else {
            0
        };
        let wanted = Wanted {
            path: path.clone(),
            place: Bound {
                call: None,
                turn: point.turn,
                message: Some(point.message),
            },
            at_ms: point.at_ms,
            what: What::Between {
                before: recorded.states[backup as usize].clone(),
                after: after.map(|(state, at_ms)| (state.clone(), at_ms)),
            },
        };
        all.push((at + 1, order, wanted));
    };
    for (at, point) in recorded.points.iter().enumerate() {
        for file in point.files() {
            let now = (at, file.backup);
            if let Some(before) = last[file.path as usize].replace(now) {
                add(before, file.path, Some(now));
            }
        }
    }
    for (path, last) in (0..).zip(last) {
        if let Some(last) = last {
            add(last, path, None);
        }
    }
    all.sort_by(|one, other| (one.0, one.1, &one.2.path).cmp(&(other.0, other.1, &other.2.path)));
    all.extend(uncovered.into_iter().map(|edit| {
        let behind = edit.behind;
        let wanted = Wanted {
            path: edit.path.clone(),
            place: edit.place,
            at_ms: edit.at_ms,
            what: What::Edit(Box::new(edit)),
        };
        (behind, 1, wanted)
    }));
    // Stable: edits stay in the order of time.
    all.sort_by_key(|(behind, order, _)| (*behind, *order));
    all.into_iter().map(|(_, _, wanted)| wanted).collect()
}

/// The edits by whether a checkpoint tells how the file was before them.
struct Covered {
    /// The prompts and paths whose checkpoint covers an edit.
    covered: HashSet<(usize, u32)>,
    uncovered: Vec<Edited>,
}

impl Covered {
    fn of(recorded: &Recorded, edits: Vec<Edited>) -> Self {
        let mut found = Self {
            covered: HashSet::new(),
            uncovered: Vec::new(),
        };
        // A file that is added in a turn is so at the first edit by the main agent.
        let noted = |edit: &Edited| {
            let at = edit.behind.checked_sub(1)?;
            let file = recorded.points[at].file(recorded.number(&edit.path)?)?;
            Some((at, file))
        };
        for edit in edits {
            match noted(&edit) {
                Some((at, file))
                    if edit.subpath.is_empty()
                        || !file.is_late
                        || found.covered.contains(&(at, file.path)) =>
                {
                    found.covered.insert((at, file.path));
                }
                _ => found.uncovered.push(edit),
            }
        }
        found
    }
}
