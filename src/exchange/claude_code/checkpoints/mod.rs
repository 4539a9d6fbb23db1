//! The client's file checkpoints, as file changes.
//!
//! A snapshot says how the tracked files were at a prompt. Between two of them the client's and the
//! session's doings lie: edits that follow one from another from the first state on are one change a
//! call, and what is left between them and the next state is one change of the turn. Where no call of
//! the turn can have made it, it is nobody's in the session. What no snapshot covers (a sub-agent's
//! edits, turns without checkpoints) is made of what the tools answered, one change a call. Nothing
//! is guessed: what is not told is not kept, with the reason.
//!
//! All of it follows from what is stored, so an import only says that a session is due, and what
//! follows is compared with what there is. Repeating it changes nothing.

mod chain;
mod edited;
mod reconcile;
mod recorded;
mod wanted;
mod writers;

use std::collections::HashSet;

pub(super) use recorded::BACKUPS;

use self::edited::{Contents, edits};
use self::recorded::Recorded;
use self::wanted::Stored;
use self::writers::Writers;
use crate::db::Tx;
use crate::error::Result;
use crate::store::History;
use crate::tables::checkpoints_due;
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::sessions::SessionRow;
use crate::transcript::edits::EDITORS;
use crate::transcript::file_history::{DELTA, SNAPSHOT};
use crate::transcript::reading::Reading;

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
    let (stored, own): (Vec<ChangeRow>, Vec<ChangeRow>) = file_changes::of_session(tx, session.id)?
        .into_iter()
        .partition(|change| change.source == "import");
    let writers = Writers::of(tx, session, &history, &recorded, &edits)?;
    let calls: HashSet<i64> = edits.iter().map(|edit| edit.call).collect();
    let mut contents = Contents::new(tx, session.id, calls);
    let (wanted, uncovered) = wanted::wanted(
        tx,
        session.id,
        &recorded,
        edits,
        &writers,
        &mut contents,
        &Stored::of(&stored, &own),
    )?;
    made.uncovered = uncovered;
    made.refused = recorded.refused;
    let rows = (stored.as_slice(), own.as_slice());
    reconcile::reconcile(tx, session.id, wanted, rows, contents, &mut made)?;
    if !made.goes_on {
        checkpoints_due::delete(tx, session.id)?;
    }
    Ok(made)
}
