//! Comparing the changes that follow from a session's transcripts with those that are stored.
//!
//! Rows are in the order in which they were committed, and that is what a rewind goes by: it must be
//! the order in which the changes were made. What is new comes behind; what turns out to belong in
//! between (a sub-agent's transcript that was imported later) has the rows behind it written anew,
//! unless the session has rewound or changed files here meanwhile: then it is left out, and reported
//! as not covered like any call of which nothing is kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::Made;
use super::edited::{Contents, Edited};
use super::wanted::{Before, Ends, Wanted, What};
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
        What::Edit(edit, _) => (Some(edit.call), None, &wanted.path),
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
    (stored, own): (&[ChangeRow], &[ChangeRow]),
    mut contents: Contents<'_>,
    made: &mut Made,
) -> Result<()> {
    let begun = Instant::now();
    let own = Own::of(own);
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
    // What cannot be told anew behind what was done here stays as it was told.
    let (kept, mut dropped): (Vec<&ChangeRow>, Vec<&ChangeRow>) =
        by_key.into_values().partition(|row| own.follows(row));
    let kept: HashSet<&PathRow> = kept.iter().map(|row| &row.path).collect();
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
                let before = resolve(tx, before)?.unwrap_or_else(|| row.before.clone());
                update(tx, row, &before, after.as_ref())?;
            }
            (What::Edit(_, Some(ends)), Some(row)) => update_ends(tx, row, ends)?,
            (What::Edit(_, None), Some(row)) => made.untold += is_untold(&row.before),
            (_, None) => {}
        }
    }
    for (at, wanted) in wanted.iter().enumerate() {
        if found[at].is_some() {
            continue;
        }
        if at < free || own.is_behind(wanted) {
            let is_told = wanted.is_last() || own.tells_of(wanted) || kept.contains(&wanted.path);
            made.left_out += u64::from(!is_told && !wanted.may_be_of_here());
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

    /// Whether something here was recorded behind a stored change of the same file.
    fn follows(&self, row: &ChangeRow) -> bool {
        self.rows(&row.path).any(|own| own.id > row.id)
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

/// The state that a change is told to have found; `None` if it is the end of calls that are not stored.
fn resolve(tx: &Tx<'_>, before: &Before) -> Result<Option<StateRow>> {
    Ok(match before {
        Before::Noted(state) => Some(state.clone()),
        Before::Left(hash) => {
            let blob = blobs::find(tx, hash)?;
            blob.map(|blob| StateRow::File { blob, mode: None })
        }
    })
}

/// Says anew which modes checkpoints tell around a call, as its neighbours are known better now.
fn update_ends(tx: &Tx<'_>, row: &ChangeRow, ends: &Ends) -> Result<()> {
    let told = |noted: &Option<StateRow>, stored: &StateRow| match (noted, stored) {
        (Some(noted), _) => noted.clone(),
        (None, StateRow::File { blob, .. }) => StateRow::File {
            blob: *blob,
            mode: None,
        },
        (None, stored) => stored.clone(),
    };
    let before = told(&ends.before, &row.before);
    let after = row.after.as_ref().map(|after| told(&ends.after, after));
    if row.before != before || row.after != after {
        let after = after.as_ref().zip(row.after_ms);
        file_changes::set_states(tx, row.id, &before, after)?;
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
        What::Between { before, after } => {
            let Some(before) = resolve(tx, before)? else {
                return Ok(());
            };
            (before, after.clone(), None)
        }
        What::Edit(edit, ends) => {
            let (before, after) = states(tx, edit, ends.as_ref(), contents)?;
            (
                before,
                after.map(|after| (after, edit.at_ms)),
                Some((edit, ends)),
            )
        }
    };
    if let Some((_, None)) = edit {
        made.untold += is_untold(&before);
    }
    let edit = edit.map(|(edit, _)| edit);
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

/// The states before and after an edit. A transcript tells no modes, and checkpoints some.
fn states(
    tx: &Tx<'_>,
    edit: &Edited,
    ends: Option<&Ends>,
    contents: &mut Contents<'_>,
) -> Result<(StateRow, Option<StateRow>)> {
    let (noted_before, noted_after) = ends.map_or((None, None), |ends| {
        (ends.before.clone(), ends.after.clone())
    });
    if let (Some(before), Some(after)) = (&noted_before, &noted_after) {
        return Ok((before.clone(), Some(after.clone())));
    }
    let file = |text: &str| -> Result<StateRow> {
        Ok(StateRow::File {
            blob: keep_content(tx, text.as_bytes())?,
            mode: None,
        })
    };
    let told = contents.of(edit)?;
    let after = match (
        noted_after,
        told.as_ref().and_then(|told| told.after.as_deref()),
    ) {
        (Some(after), _) => Some(after),
        (None, Some(after)) => Some(file(after)?),
        (None, None) => None,
    };
    let before = match (noted_before, told.map_or(Was::Unknown, |told| told.before)) {
        (Some(before), _) => before,
        (None, Was::Absent) => StateRow::Absent,
        (None, Was::Content(text)) => file(&text)?,
        (None, Was::Unknown) => StateRow::NotKept {
            why: "the transcript does not tell what was there before the edit".to_owned(),
        },
    };
    Ok((before, after))
}
