//! What a rewind goes back to: a restore point, or the state before another rewind.

use rusqlite::Connection;

use super::changes::{is_behind, without_undone};
use super::plan::{Wanted, wanted};
use super::points::{Point, find, text_of};
use super::take::Taken;
use crate::error::{Error, Result};
use crate::model::{FileOutcome, Restore, RewindOptions};
use crate::store::history::History;
use crate::store::session::Session;
use crate::tables::file_changes::ChangeRow;
use crate::tables::rewinds::{self, RewindRow};
use crate::tables::sessions::SessionRow;
use crate::tables::{file_changes, messages, scratchpad};

/// How many links are followed from a call back to where its response begins.
const NEAR: usize = 10_000;

/// What a rewind goes back to.
#[derive(Clone, Debug)]
pub(super) enum Aim {
    Point { point: Point, name: String },
    Undo(Box<RewindRow>),
    Take(Box<Taken>),
}

/// Where the conversation is to end.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) head: Option<i64>,
    pub(super) scratch: Option<i64>,
    pub(super) removed_prompt: Option<String>,
}

impl Aim {
    pub(super) fn point(
        db: &Connection,
        session: &Session,
        options: &RewindOptions,
    ) -> Result<Self> {
        let row = session.row(db)?;
        let history = History::of(db, &row, "")?;
        Ok(Self::Point {
            point: find(db, &row, &history, &options.point)?,
            name: options.point.clone(),
        })
    }

    /// The operation to be undone, and the options to do it with: by default all that it restored.
    pub(super) fn undo(
        db: &Connection,
        session: &Session,
        operation: Option<i64>,
        options: &RewindOptions,
    ) -> Result<(Self, RewindOptions)> {
        let row = session.row(db)?;
        let missing = |what: &'static str, id: String| Error::NotFound { what, id };
        let rewinds = rewinds::of_session(db, row.id)?;
        let is_meant =
            |rewind: &RewindRow| operation.is_none_or(|operation| rewind.operation == operation);
        if let Some(rewind) = rewinds
            .iter()
            .rev()
            .find(|rewind| rewind.status == "unfinished" && is_meant(rewind))
        {
            return Err(Error::Conflict(format!(
                "{} {} is unfinished: it is being applied, or a folder that it was begun in is not there",
                rewind.kind, rewind.operation
            )));
        }
        let rewind = match operation {
            Some(operation) => rewinds::get(db, operation)?
                .filter(|rewind| rewind.session == row.id && rewind.took_effect())
                .ok_or_else(|| missing("rewind or undo with the number", operation.to_string()))?,
            None => newest_not_undone(db, rewinds)?
                .ok_or_else(|| missing("rewind to undo in session", row.key.to_string()))?,
        };
        let rewind = match standing(db, rewind)? {
            Standing::In(rewind) => rewind,
            Standing::Undone { operation, by } => {
                return Err(Error::Conflict(format!(
                    "operation {operation} was undone by operation {by}; undo that one to redo it"
                )));
            }
        };
        let restored = match rewind.restores.as_str() {
            "files" => Restore::Files,
            "conversation" => Restore::Conversation,
            _ => Restore::Both,
        };
        let restore = if options.restore == Restore::Both {
            restored
        } else {
            options.restore
        };
        let options = RewindOptions {
            restore,
            ..options.clone()
        };
        Ok((Self::Undo(Box::new(rewind)), options))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Point { .. } => "rewind",
            Self::Undo(_) => "undo",
            Self::Take(_) => "take",
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Point { name, .. } => name.clone(),
            Self::Undo(rewind) => rewind.operation.to_string(),
            Self::Take(taken) => taken.name.clone(),
        }
    }

    pub(super) fn undoes(&self) -> Option<i64> {
        match self {
            Self::Point { .. } | Self::Take(_) => None,
            Self::Undo(rewind) => Some(rewind.operation),
        }
    }

    /// What each path is to become. `changes` are those that the session shows.
    pub(super) fn wanted(
        &self,
        db: &Connection,
        history: &History,
        changes: &[ChangeRow],
    ) -> Result<Vec<Wanted>> {
        match self {
            Self::Point { point, .. } => wanted(db, history, changes, point),
            Self::Undo(rewind) => undone(db, rewind),
            Self::Take(taken) => taken.wanted(db, history),
        }
    }

    /// Where the conversation is to end.
    pub(super) fn target(
        &self,
        db: &Connection,
        session: &SessionRow,
        history: &History,
        head: Option<i64>,
        restore: Restore,
    ) -> Result<Target> {
        if !restore.conversation() {
            return Ok(Target {
                head,
                scratch: session.scratch,
                removed_prompt: None,
            });
        }
        let mut removed_prompt = None;
        let target = match self {
            Self::Undo(rewind) => {
                if head != rewind.head_after {
                    return Err(Error::Conflict(format!(
                        "the conversation has gone on since operation {}; undo its files alone",
                        rewind.operation
                    )));
                }
                return Ok(Target {
                    head: rewind.head_before,
                    scratch: rewind.scratch_before,
                    removed_prompt: None,
                });
            }
            // Files alone are taken over.
            Self::Take(_) => head,
            Self::Point {
                point: Point::Start,
                ..
            } => None,
            Self::Point {
                point: Point::Prompt { message },
                ..
            } => {
                removed_prompt = text_of(db, *message)?;
                parent(db, history, *message)?
            }
            Self::Point {
                point: Point::Call { message, .. },
                name,
            } => before_response(db, history, *message, name)?,
        };
        let scratch = match target {
            Some(message) => scratchpad::as_of(db, message)?,
            None => None,
        };
        Ok(Target {
            head: target,
            scratch,
            removed_prompt,
        })
    }
}

/// How a rewind stands after undos and redos.
enum Standing {
    /// In effect: by itself, or by the last redo of it.
    In(RewindRow),
    Undone {
        operation: i64,
        by: i64,
    },
}

fn standing(db: &Connection, mut rewind: RewindRow) -> Result<Standing> {
    loop {
        let Some(by) = rewinds::undone_by(db, rewind.operation)? else {
            return Ok(Standing::In(rewind));
        };
        let redone = match rewinds::undone_by(db, by)? {
            Some(redo) => rewinds::get(db, redo)?,
            None => None,
        };
        match redone {
            Some(redone) => rewind = redone,
            None => {
                return Ok(Standing::Undone {
                    operation: rewind.operation,
                    by,
                });
            }
        }
    }
}

fn newest_not_undone(db: &Connection, rewinds: Vec<RewindRow>) -> Result<Option<RewindRow>> {
    for rewind in rewinds.into_iter().rev() {
        if matches!(rewind.kind.as_str(), "rewind" | "take")
            && rewind.took_effect()
            && let Standing::In(rewind) = standing(db, rewind)?
        {
            return Ok(Some(rewind));
        }
    }
    Ok(None)
}

/// What undoing a rewind makes of each path that it changed.
fn undone(db: &Connection, rewind: &RewindRow) -> Result<Vec<Wanted>> {
    let mut found = Vec::new();
    for file in rewinds::files(db, rewind.operation)? {
        let Some(change) = file
            .change
            .filter(|_| file.outcome == FileOutcome::Done.as_str())
        else {
            continue;
        };
        let changes = file_changes::of_path(db, &file.path, change)?;
        let own = changes.first().filter(|own| own.id == change).cloned();
        let counts = |later: &ChangeRow| {
            let is_later = |own: &ChangeRow| own.id == later.id || is_behind(later, own);
            own.as_ref().is_some_and(is_later)
        };
        let later = changes.into_iter().filter(counts).collect();
        let later = without_undone(db, later)?;
        let is_last = matches!(&later[..], [only] if only.id == change);
        found.push(Wanted {
            path: file.path,
            target: file.before,
            expected: Some(file.after),
            conflict: (!is_last).then(|| "it was changed again since".to_owned()),
            made_folders: file.new_folders,
        });
    }
    Ok(found)
}

fn parent(db: &Connection, history: &History, message: i64) -> Result<Option<i64>> {
    let parent = messages::place_of(db, message)?.and_then(|place| place.parent);
    history.parent_in(db, message, parent)
}

/// What the whole response that makes a call hangs from.
fn before_response(
    db: &Connection,
    history: &History,
    message: Option<i64>,
    name: &str,
) -> Result<Option<i64>> {
    let place = match message {
        Some(message) => messages::place_of(db, message)?,
        None => None,
    };
    let Some(place) = place.filter(|place| history.part_of(place).is_some()) else {
        return Err(Error::invalid(
            format!("point `{name}`"),
            "the call is not in the conversation (a sub-agent made it, or it is not stored yet); restore files alone",
        ));
    };
    let mut next = place.id;
    for _ in 0..NEAR {
        match parent(db, history, next)? {
            Some(before) if messages::is_of_response(db, before, place.id)? => next = before,
            before => return Ok(before),
        }
    }
    Ok(Some(next))
}
