//! Comparing the changes that follow from a session's transcripts with those that are stored.
//!
//! Rows are in the order in which they were committed, and that is what a rewind goes by: it must be
//! the order in which the changes were made. What is new comes behind; what turns out to belong in
//! between (a sub-agent's transcript that was imported later) has the rows behind it written anew,
//! unless the session has rewound or changed files here meanwhile: then it is left out, and reported
//! as not covered like any call of which nothing is kept.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::edited::{Contents, Edited};
use super::{Made, Wanted, What};
use crate::db::Tx;
use crate::error::Result;
use crate::store::keep_content;
use crate::tables::blobs;
use crate::tables::file_changes::{self, Bound, ChangeRow, NewChange, Told};
use crate::tables::file_states::{PathRow, StateRow};
use crate::transcript::edits::Was;

/// When a transaction holds enough. What follows is found again in the next, so it is not short.
const GROUP_TIME: Duration = Duration::from_secs(1);

/// What tells one change from another: its path, and the call or the message it belongs to.
type Key<'a> = (Option<i64>, Option<i64>, &'a PathRow);

fn key(wanted: &Wanted) -> Key<'_> {
    match &wanted.what {
        What::Edit(edit) => (Some(edit.call), None, &wanted.path),
        What::Between { .. } => (None, wanted.place.message, &wanted.path),
    }
}

fn key_of(row: &ChangeRow) -> Key<'_> {
    match row.tool_use_id {
        Some(_) => (row.call, None, &row.path),
        None => (None, row.message, &row.path),
    }
}

/// Makes what is stored what is wanted, or a part of it.
pub(super) fn reconcile(
    tx: &Tx<'_>,
    session: i64,
    wanted: Vec<Wanted>,
    mut contents: Contents<'_>,
    made: &mut Made,
) -> Result<()> {
    let begun = Instant::now();
    let (stored, own): (Vec<ChangeRow>, Vec<ChangeRow>) = file_changes::of_session(tx, session)?
        .into_iter()
        .partition(|change| change.source == "import");
    let own = Own::of(&own);
    let mut by_key: HashMap<Key<'_>, &ChangeRow> =
        stored.iter().map(|row| (key_of(row), row)).collect();
    let mut found: Vec<Option<&ChangeRow>> = wanted
        .iter()
        .map(|wanted| {
            let Bound { turn, message, .. } = wanted.place;
            let key = key(wanted);
            // One whose turn was not known is written anew in its place.
            let fits = |row: &ChangeRow| row.turn == turn && row.message == message;
            let is_it = by_key.get(&key).is_some_and(|row| fits(row));
            is_it.then(|| by_key.remove(&key)).flatten()
        })
        .collect();
    let mut dropped: Vec<&ChangeRow> = by_key.into_values().collect();
    // From where on something new may be stored.
    let mut free = 0;
    if let Some(at) = out_of_order(&found) {
        let behind = found[at..].iter().flatten();
        let first = behind.clone().map(|row| row.id).min().unwrap_or(i64::MAX);
        if own.last > first {
            free = found
                .iter()
                .rposition(Option::is_some)
                .map_or(0, |last| last + 1);
        } else {
            dropped.extend(behind.copied());
            found[at..].fill(None);
        }
    }
    let freed = drop_rows(tx, &dropped)?;
    for (wanted, row) in wanted.iter().zip(&found) {
        match (&wanted.what, row) {
            (What::Between { before, after }, Some(row)) => {
                update(tx, row, before, after.as_ref())?;
            }
            (What::Edit(_), Some(row)) => made.untold += is_untold(&row.before),
            (_, None) => {}
        }
    }
    for (at, wanted) in wanted.iter().enumerate() {
        if found[at].is_some() {
            continue;
        }
        if at < free || own.is_behind(wanted) {
            made.left_out += u64::from(!wanted.is_last() && !own.tells_of(wanted));
            continue;
        }
        if begun.elapsed() > GROUP_TIME && made.changes > 0 {
            made.goes_on = true;
            break;
        }
        insert(tx, session, wanted, &mut contents, made)?;
    }
    for blob in freed {
        blobs::delete_if_unused(tx, blob)?;
    }
    Ok(())
}

/// What was recorded here of a session's files, as it happened: by hooks, by an app, by rewinds. It
/// stands before what an import adds, so nothing that came before it can be added any more.
struct Own<'a> {
    by_path: HashMap<&'a PathRow, Vec<&'a ChangeRow>>,
    last: i64,
}

impl<'a> Own<'a> {
    fn of(rows: &'a [ChangeRow]) -> Self {
        let mut by_path: HashMap<&PathRow, Vec<&ChangeRow>> = HashMap::new();
        for row in rows {
            by_path.entry(&row.path).or_default().push(row);
        }
        Self {
            by_path,
            last: rows.iter().map(|row| row.id).max().unwrap_or(0),
        }
    }

    fn rows(&self, path: &PathRow) -> impl Iterator<Item = &&'a ChangeRow> {
        self.by_path.get(path).into_iter().flatten()
    }

    /// Whether something here came behind a change that is told of, or may be that very change. What
    /// a file came to behind the last prompt is known where its changes were captured.
    fn is_behind(&self, wanted: &Wanted) -> bool {
        let from = wanted.place.message;
        self.rows(&wanted.path).any(|row| {
            let is_captured = row.operation.is_none();
            let bound = row.message.or(row.turn).filter(|_| is_captured);
            let at = bound.unwrap_or(row.seen_message);
            (is_captured && wanted.is_last()) || from.is_none_or(|from| at >= from)
        })
    }

    /// Whether what a change tells was captured in its turn.
    fn tells_of(&self, wanted: &Wanted) -> bool {
        let turn = wanted.place.turn;
        self.rows(&wanted.path)
            .any(|row| row.operation.is_none() && row.turn == turn)
    }
}

/// From where on the rows that were found are not those of a beginning, in order.
fn out_of_order(found: &[Option<&ChangeRow>]) -> Option<usize> {
    let last = found.iter().rposition(Option::is_some)?;
    let mut before = 0;
    found[..=last].iter().position(|row| match row {
        Some(row) if row.id > before => {
            before = row.id;
            false
        }
        _ => true,
    })
}

/// Removes rows, and returns the blobs they named.
fn drop_rows(tx: &Tx<'_>, rows: &[&ChangeRow]) -> Result<BTreeSet<i64>> {
    let mut freed = BTreeSet::new();
    for row in rows {
        file_changes::delete_imported(tx, row.id)?;
        freed.extend(row.before.blob());
        freed.extend(row.after.as_ref().and_then(StateRow::blob));
    }
    Ok(freed)
}

/// Says anew what is known better now: a backup that was missing came, or the next prompt did.
fn update(
    tx: &Tx<'_>,
    row: &ChangeRow,
    before: &StateRow,
    after: Option<&(StateRow, i64)>,
) -> Result<()> {
    let seen = row.after.as_ref().zip(row.after_ms);
    let after = match (after, seen) {
        // What was found here later stays, where the client tells nothing.
        (None, seen) => seen.filter(|_| row.is_late),
        (Some((state, at_ms)), Some(_)) => Some((state, *at_ms)),
        // Behind a change that was made here since, the client's next word tells of that one.
        (Some((state, at_ms)), None) => {
            let later = file_changes::of_path(tx, &row.path, row.id + 1)?;
            let here = later
                .iter()
                .any(|change| change.session == row.session && change.source != "import");
            (!here).then_some((state, *at_ms))
        }
    };
    let is_same = row.before == *before && row.after.as_ref() == after.map(|(state, _)| state);
    if !is_same {
        file_changes::set_states(tx, row.id, before, after)?;
    }
    Ok(())
}

fn insert(
    tx: &Tx<'_>,
    session: i64,
    wanted: &Wanted,
    contents: &mut Contents<'_>,
    made: &mut Made,
) -> Result<()> {
    let (before, after, edit) = match &wanted.what {
        What::Between { before, after } => (before.clone(), after.clone(), None),
        What::Edit(edit) => {
            let (before, after) = states(tx, edit, contents)?;
            (before, after.map(|after| (after, edit.at_ms)), Some(edit))
        }
    };
    if edit.is_some() {
        made.untold += is_untold(&before);
    }
    let Bound { turn, message, .. } = wanted.place;
    let seen_message = message.or(turn).or(edit.map(|edit| edit.message));
    file_changes::insert(
        tx,
        &NewChange {
            session,
            source: "import",
            operation: None,
            tool_use_id: edit.map(|edit| edit.tool_use_id.as_str()),
            agent: edit.and_then(|edit| edit.agent.as_deref()),
            prompt_id: None,
            place: wanted.place,
            path: &wanted.path,
            before: &before,
            after: after.as_ref().map(|(state, _)| state),
            new_folders: 0,
            told: Some(Told {
                seen_message: seen_message.unwrap_or(0),
                before_ms: wanted.at_ms,
                after_ms: after.as_ref().map(|(_, at_ms)| *at_ms),
            }),
        },
    )?;
    made.changes += 1;
    Ok(())
}

fn is_untold(before: &StateRow) -> u64 {
    u64::from(matches!(before, StateRow::NotKept { .. }))
}

/// The states before and after an edit. A transcript tells no modes.
fn states(
    tx: &Tx<'_>,
    edit: &Edited,
    contents: &mut Contents<'_>,
) -> Result<(StateRow, Option<StateRow>)> {
    let file = |text: &str| -> Result<StateRow> {
        Ok(StateRow::File {
            blob: keep_content(tx, text.as_bytes())?,
            mode: None,
        })
    };
    let told = contents.of(edit)?;
    let after = match told.as_ref().and_then(|told| told.after.as_deref()) {
        Some(after) => Some(file(after)?),
        None => None,
    };
    let before = match told.map_or(Was::Unknown, |told| told.before) {
        Was::Absent => StateRow::Absent,
        Was::Content(text) => file(&text)?,
        Was::Unknown => StateRow::NotKept {
            why: "the transcript does not tell what was there before the edit".to_owned(),
        },
    };
    Ok((before, after))
}
