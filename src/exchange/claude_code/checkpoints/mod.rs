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
                "no file checkpoints in this transcript; of {} edits, {known} can be taken back by what the tools answered",
                self.edits
            ));
        } else if self.untold > 0 {
            notes.push(format!(
                "{} edits are outside the checkpoints, and nothing tells what was there before them",
                self.untold
            ));
        }
        let more = [
            (
                self.missing,
                "backups of the checkpoints are missing: those states cannot be restored",
            ),
            (
                self.astray,
                "checkpoint records name messages that are not there, and were passed over",
            ),
            (
                self.left_out,
                "edits came in behind changes that were made here, and are not covered",
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
    let mut covered: HashSet<(usize, u32)> = HashSet::new();
    let mut uncovered: Vec<Edited> = Vec::new();
    for edit in edits {
        let number = recorded.number(&edit.path);
        let noted = edit.behind.checked_sub(1);
        match (noted, number) {
            (Some(at), Some(path)) if recorded.points[at].backup(path).is_some() => {
                covered.insert((at, path));
            }
            _ => uncovered.push(edit),
        }
    }
    // By the prompt it begins at, counted from 1.
    let mut between: Vec<(usize, Wanted)> = Vec::new();
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
        between.push((
            at + 1,
            Wanted {
                path: recorded.paths[path as usize].clone(),
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
            },
        ));
    };
    for (at, point) in recorded.points.iter().enumerate() {
        for (path, backup) in point.files() {
            if let Some(before) = last[*path as usize].replace((at, *backup)) {
                add(before, *path, Some((at, *backup)));
            }
        }
    }
    for (path, last) in (0..).zip(last) {
        if let Some(last) = last {
            add(last, path, None);
        }
    }
    between.sort_by(|(at, one), (there, other)| (at, &one.path).cmp(&(there, &other.path)));
    let mut all = Vec::with_capacity(between.len() + uncovered.len());
    let mut between = between.into_iter().peekable();
    for edit in uncovered {
        while let Some((_, wanted)) = between.next_if(|(at, _)| *at <= edit.behind) {
            all.push(wanted);
        }
        all.push(Wanted {
            path: edit.path.clone(),
            place: edit.place,
            at_ms: edit.at_ms,
            what: What::Edit(Box::new(edit)),
        });
    }
    all.extend(between.map(|(_, wanted)| wanted));
    all
}
