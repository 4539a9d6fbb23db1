//! Restore points: every prompt, every tool call, the beginning, and names given to them.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use rusqlite::Connection;

use super::Files;
use super::changes::{is_since, visible};
use crate::error::{Error, Result};
use crate::model::RestorePoint;
use crate::store::history::History;
use crate::store::ledger::find_call;
use crate::store::parts::EntryPart;
use crate::store::tools::calls;
use crate::tables::file_changes::ChangeRow;
use crate::tables::labels::{self, LabelRow};
use crate::tables::messages::{self, Place};
use crate::tables::sessions::SessionRow;
use crate::tables::{file_changes, operations, tool_calls, transcripts};

/// The name of the point before everything.
const START: &str = "@start";

/// The name of the newest prompt.
const LAST: &str = "@last";

/// How much of a prompt a list shows, in characters.
const TEXT: usize = 200;

/// A restore point, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// Before everything.
    Start,
    /// Before a prompt.
    Prompt { message: i64 },
    /// Before a tool call; one that was captured and never stored has no row.
    Call {
        tool_use_id: String,
        call: Option<i64>,
        message: Option<i64>,
        /// The first change that was recorded for it.
        first_change: Option<i64>,
    },
}

impl Files {
    /// The restore points of the session, oldest first, each with the files that were changed
    /// since: `@start`, then its prompts and tool calls, also those that were captured and are not
    /// stored.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn points(&self) -> Result<Vec<RestorePoint>> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            list(db, &row)
        })
    }

    /// Gives a restore point a name of its own, by which it can be rewound to; a name that is in
    /// use goes to the new point.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank name, or one that begins with `@`;
    /// [`Error::NoCheckpoint`] if there is no such point.
    pub fn label(&self, point: &str, name: &str) -> Result<()> {
        let name = name.trim();
        if name.is_empty() || name.starts_with('@') {
            let why = "a label is not blank and does not begin with `@`";
            return Err(Error::invalid("label", why));
        }
        self.session.write(|tx| {
            let row = tx.row()?;
            let history = History::of(tx.tx(), &row, "")?;
            let (message, tool_use_id) = match find(tx.tx(), &row, &history, point)? {
                Point::Start => (None, None),
                Point::Prompt { message } => (Some(message), None),
                Point::Call { tool_use_id, .. } => (None, Some(tool_use_id)),
            };
            let label = LabelRow {
                name: name.to_owned(),
                message,
                tool_use_id,
            };
            labels::save(tx.tx(), row.id, &label)?;
            let detail = serde_json::json!({"point": point, "label": name});
            operations::insert(tx.tx(), row.id, "label", None, Some(&detail.to_string()))?;
            Ok(())
        })
    }
}

/// The point that a name leads to.
///
/// # Errors
/// [`Error::NoCheckpoint`] if there is none; [`Error::Invalid`] for a beginning that several share.
pub(super) fn find(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    name: &str,
) -> Result<Point> {
    let none = || Error::NoCheckpoint {
        point: name.to_owned(),
    };
    if name.trim().is_empty() {
        return Err(none());
    }
    if name == START {
        return Ok(Point::Start);
    }
    if let Some(back) = name.strip_prefix(LAST) {
        let back = match back.strip_prefix('~') {
            Some(number) => number.parse().map_err(|_| none())?,
            None if back.is_empty() => 0,
            None => return Err(none()),
        };
        let prompt = newest_prompts(db, session, history)?.nth(back);
        return prompt
            .map(|message| Point::Prompt { message })
            .ok_or_else(none);
    }
    if let Some(place) = history.find(db, name)? {
        return match place.turn {
            Some(turn) if turn == place.id => Ok(Point::Prompt { message: turn }),
            _ => Err(none()),
        };
    }
    if let Some(point) = call_point(db, session, history, name)? {
        return Ok(point);
    }
    if let Some(point) = labelled(db, session, history, name)? {
        return Ok(point);
    }
    by_beginning(db, session, history, name)?.ok_or_else(none)
}

fn labelled(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    name: &str,
) -> Result<Option<Point>> {
    for part in history.parts.iter().rev() {
        let Some(label) = labels::find(db, part.owner, name)? else {
            continue;
        };
        match (label.message, &label.tool_use_id) {
            (Some(message), _) => {
                let place = messages::place_of(db, message)?;
                if place.is_some_and(|place| history.part_of(&place).is_some()) {
                    return Ok(Some(Point::Prompt { message }));
                }
            }
            (None, Some(id)) => {
                if let Some(point) = call_point(db, session, history, id)? {
                    return Ok(Some(point));
                }
            }
            (None, None) => return Ok(Some(Point::Start)),
        }
    }
    Ok(None)
}

fn call_point(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    tool_use_id: &str,
) -> Result<Option<Point>> {
    let call = match find_call(db, history, session.id, tool_use_id)? {
        Some(id) => tool_calls::get(db, id)?,
        None => None,
    };
    let mut first_change = None;
    for part in &history.parts {
        let changes = file_changes::of_call(db, part.owner, tool_use_id)?;
        // An id that is used again means the newest call.
        let of_call = changes.iter().filter(|change| match &call {
            Some(call) => change.call == Some(call.id),
            None => !part.is_inherited,
        });
        first_change = of_call.map(|change| change.id).next().or(first_change);
    }
    if call.is_none() && first_change.is_none() {
        return Ok(None);
    }
    Ok(Some(Point::Call {
        tool_use_id: tool_use_id.to_owned(),
        call: call.as_ref().map(|call| call.id),
        message: call.map(|call| call.message),
        first_change,
    }))
}

/// The point whose id begins so, if there is exactly one.
fn by_beginning(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    beginning: &str,
) -> Result<Option<Point>> {
    let mut found: BTreeMap<String, Point> = BTreeMap::new();
    for place in prompts(db, history)? {
        let shown = history.shown_uuid(&place);
        if let Some(uuid) = shown.filter(|uuid| uuid.starts_with(beginning)) {
            found.insert(uuid, Point::Prompt { message: place.id });
        }
    }
    let changes = visible(db, history)?;
    let stored = calls(db, session, history)?.into_iter().map(|call| call.id);
    let captured = unstored(&changes).into_iter().map(|(_, id)| id.to_owned());
    for id in stored.chain(captured) {
        if id.starts_with(beginning)
            && let Some(point) = call_point(db, session, history, &id)?
        {
            found.insert(id, point);
        }
    }
    if found.len() > 1 {
        let names: Vec<String> = found.into_keys().take(10).collect();
        let why = format!("several points begin so: {}", names.join(", "));
        return Err(Error::invalid(format!("point `{beginning}`"), why));
    }
    Ok(found.into_values().next())
}

/// The messages that open turns, in the order in which they were stored.
pub(super) fn prompts(db: &Connection, history: &History) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for part in &history.parts {
        let range = (part.after_seq, part.until_seq);
        places.extend(messages::openers(db, part.owner, range)?);
    }
    Ok(places)
}

/// The prompts of the conversation, from the head back.
fn newest_prompts<'d>(
    db: &'d Connection,
    session: &SessionRow,
    history: &'d History,
) -> Result<impl Iterator<Item = i64> + use<'d>> {
    let head = transcripts::head(db, session.id, "")?;
    let mut next = match head {
        Some(head) => messages::place_of(db, head)?.and_then(|place| place.turn),
        None => None,
    };
    Ok(std::iter::from_fn(move || {
        let turn = next?;
        let place = messages::place_of(db, turn).ok()??;
        history.part_of(&place)?;
        let before = match place.parent {
            Some(parent) => messages::place_of(db, parent).ok()?,
            None => None,
        };
        next = before.and_then(|before| before.turn);
        Some(turn)
    }))
}

/// What a prompt says.
pub(in crate::store) fn text_of(db: &Connection, message: i64) -> Result<Option<String>> {
    let parts = messages::entry(db, message)?.map(|entry| EntryPart::read(&entry));
    let text = parts.into_iter().flatten().find_map(|part| match part {
        EntryPart::Text(text) => Some(text),
        _ => None,
    });
    Ok(text)
}

fn list(db: &Connection, session: &SessionRow) -> Result<Vec<RestorePoint>> {
    let history = History::of(db, session, "")?;
    let changes = visible(db, &history)?;
    let mut names: Vec<LabelRow> = Vec::new();
    for part in history.parts.iter().rev() {
        for label in labels::list(db, part.owner)? {
            if !names.iter().any(|known| known.name == label.name) {
                names.push(label);
            }
        }
    }
    let changed = |point: &Point| -> Vec<PathBuf> {
        let since = changes.iter().filter(|change| is_since(change, point));
        let mut seen = HashSet::new();
        let each_once = since.filter(|change| seen.insert(&change.path));
        each_once.map(|change| change.path.path()).collect()
    };
    let named = |wanted: &dyn Fn(&LabelRow) -> bool| -> Vec<String> {
        let names = names.iter().filter(|label| wanted(label));
        names.map(|label| label.name.clone()).collect()
    };
    let mut points = vec![(
        0,
        RestorePoint {
            id: START.to_owned(),
            tool: None,
            text: None,
            labels: named(&|label| label.message.is_none() && label.tool_use_id.is_none()),
            timestamp_ms: None,
            changed: changed(&Point::Start),
        },
    )];
    for place in prompts(db, &history)? {
        let Some(id) = history.shown_uuid(&place) else {
            continue;
        };
        let text = text_of(db, place.id)?.map(|text| text.chars().take(TEXT).collect());
        points.push((
            place.id,
            RestorePoint {
                id,
                tool: None,
                text,
                labels: named(&|label| label.message == Some(place.id)),
                timestamp_ms: messages::said_ms(db, place.id)?,
                changed: changed(&Point::Prompt { message: place.id }),
            },
        ));
    }
    for part in &history.parts {
        for call in tool_calls::list(db, part.owner, part.until_seq)? {
            let Some(point) = call_point(db, session, &history, &call.tool_use_id)? else {
                continue;
            };
            points.push((
                call.message,
                RestorePoint {
                    tool: Some(call.name),
                    text: None,
                    labels: named(&|label| {
                        label.tool_use_id.as_deref() == Some(call.tool_use_id.as_str())
                    }),
                    timestamp_ms: Some(call.started_ms),
                    changed: changed(&point),
                    id: call.tool_use_id,
                },
            ));
        }
    }
    for (seen_message, id) in unstored(&changes) {
        let Some(point) = call_point(db, session, &history, id)? else {
            continue;
        };
        points.push((
            seen_message,
            RestorePoint {
                id: id.to_owned(),
                tool: None,
                text: None,
                labels: named(&|label| label.tool_use_id.as_deref() == Some(id)),
                timestamp_ms: None,
                changed: changed(&point),
            },
        ));
    }
    points.sort_by_key(|(at, _)| *at);
    Ok(points.into_iter().map(|(_, point)| point).collect())
}

/// The calls that were captured and are not stored, or not yet, each with the message that was the
/// newest then.
fn unstored(changes: &[ChangeRow]) -> Vec<(i64, &str)> {
    let mut seen = HashSet::new();
    let calls = changes.iter().filter(|change| change.call.is_none());
    calls
        .filter_map(|change| Some((change.seen_message, change.tool_use_id.as_deref()?)))
        .filter(|(_, id)| seen.insert(*id))
        .collect()
}
