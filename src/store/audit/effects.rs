//! What a change did, and what is left of it.

use std::collections::HashMap;
use std::rc::Rc;

use super::contents::Contents;
use crate::error::Result;
use crate::model::{ChangeSource, Effect};
use crate::store::checkpoints::{is_copy, is_imported};
use crate::store::copies::Copies;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::StateRow;
use crate::workspace::line_diff::{added, count_shared, removed, shared};
use crate::workspace::lines::lines;

/// How many of the newest changes of a path are looked at for the one that ended another.
pub(super) const NEWEST: usize = 2_000;

/// How many of them are looked at one by one; from there on the search halves what is left.
const NEAR: usize = 64;

/// The chain of a path's changes in the order in which they were made. An imported change that two
/// transcripts tell of (the client copies a session's records when it forks it) counts once, as that of
/// the session that made it. Where only a copy tells what such a change left, it left that.
pub(super) fn in_order(copies: &Copies<'_>, mut rows: Vec<ChangeRow>) -> Result<Vec<ChangeRow>> {
    if !rows.iter().any(is_imported) {
        return Ok(rows);
    }
    rows.sort_by_key(|row| (row.before_ms, row.id));
    let mut chain: Vec<ChangeRow> = Vec::with_capacity(rows.len());
    let mut left: HashMap<i64, (StateRow, Option<i64>)> = HashMap::new();
    for row in rows {
        if let Some(original) = copies.originals_of(&row)?.pop() {
            if let (None, Some(after)) = (original.after, row.after) {
                left.insert(original.id, (after, row.after_ms));
            }
            continue;
        }
        let same_time = chain.iter_mut().rev();
        let mut same_time = same_time.take_while(|other| other.before_ms == row.before_ms);
        match same_time.find(|other| is_copy(&row, other)) {
            None => chain.push(row),
            Some(other) if copies.rank(row.session)? < copies.rank(other.session)? => *other = row,
            Some(_) => {}
        }
    }
    for row in &mut chain {
        if let Some((after, after_ms)) = left.remove(&row.id) {
            (row.after, row.after_ms) = (Some(after), after_ms);
        }
    }
    Ok(chain)
}

/// What a change did to its path.
pub(super) struct Deed {
    creates: bool,
    after: StateRow,
    before_text: Option<Rc<[u8]>>,
    after_text: Option<Rc<[u8]>>,
    added: Vec<usize>,
    removed: Vec<usize>,
}

/// What is left of a change in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    All,
    Some,
    None,
    Unknown,
}

impl Deed {
    /// What a change did; `None` if what it left is not known.
    pub(super) fn of(contents: &Contents<'_>, row: &ChangeRow) -> Result<Option<Self>> {
        let Some(after) = row.after.clone() else {
            return Ok(None);
        };
        let mut deed = Self {
            creates: row.before == StateRow::Absent,
            before_text: contents.text(&row.before)?,
            after_text: contents.text(&after)?,
            after,
            added: Vec::new(),
            removed: Vec::new(),
        };
        let (from, to) = (&deed.before_text, &deed.after_text);
        let runs = match (from, to) {
            (Some(from), Some(to)) => shared(from, to),
            _ => Vec::new(),
        };
        let count = |text: &Option<Rc<[u8]>>| text.as_deref().map_or(0, |text| lines(text).len());
        deed.added = added(&runs, count(to));
        deed.removed = removed(&runs, count(from));
        Ok(Some(deed))
    }

    /// How many lines came and how many went, where both contents are text.
    pub(super) fn counts(&self) -> Option<(usize, usize)> {
        let both = self.before_text.is_some() && self.after_text.is_some();
        both.then_some((self.added.len(), self.removed.len()))
    }

    /// What is left of it in a state of the path.
    fn left(&self, contents: &Contents<'_>, state: &StateRow) -> Result<Left> {
        if let StateRow::NotKept { .. } = state {
            return Ok(Left::Unknown);
        }
        let whole = |is_so: bool| if is_so { Left::All } else { Left::None };
        let text = match (&self.after, &self.after_text) {
            (StateRow::NotKept { .. }, _) => return Ok(Left::Unknown),
            (StateRow::File { .. }, Some(text)) => text,
            (StateRow::File { blob, .. }, None) => return Ok(whole(state.blob() == Some(*blob))),
            (after, _) => return Ok(whole(after.is(state))),
        };
        let StateRow::File { blob, .. } = state else {
            return Ok(Left::None);
        };
        if self.after.blob() == Some(*blob) && !self.added.is_empty() {
            return Ok(Left::All);
        }
        let Some(now) = contents.text(state)? else {
            // What cannot be compared line by line is another content.
            return Ok(Left::None);
        };
        let amount = |kept: usize, of: usize| match kept {
            0 => Left::None,
            kept if kept == of => Left::All,
            _ => Left::Some,
        };
        if !self.added.is_empty() {
            let kept = count_shared(&shared(text, &now), &self.added);
            return Ok(amount(kept, self.added.len()));
        }
        match &self.before_text {
            Some(before) if !self.removed.is_empty() => {
                let back = count_shared(&shared(before, &now), &self.removed);
                Ok(amount(self.removed.len() - back, self.removed.len()))
            }
            // An empty file stands while there is a file; a mode while it is that. Of a mode that was not
            // recorded nothing is said.
            _ => {
                let (mode, now) = (mode_of(&self.after), mode_of(state));
                Ok(whole(
                    self.creates || mode.is_none() || now.is_none() || mode == now,
                ))
            }
        }
    }
}

fn mode_of(state: &StateRow) -> Option<u32> {
    match state {
        StateRow::File { mode, .. } => *mode,
        _ => None,
    }
}

/// What came of a change, given the chain of its path, and which later one took the last of it away.
pub(super) fn effect(
    contents: &Contents<'_>,
    row: &ChangeRow,
    deed: &Deed,
    chain: &[ChangeRow],
) -> Result<(Effect, Option<i64>)> {
    if row.before.is(&deed.after) {
        return Ok((Effect::Nothing, None));
    }
    // Of a change that two transcripts tell of one stands in the chain.
    let place = |is_it: &dyn Fn(&ChangeRow) -> bool| chain.iter().position(is_it);
    let at = place(&|other| other.id == row.id).or_else(|| place(&|other| is_copy(row, other)));
    let later = &chain[at.map_or(0, |at| at + 1)..];
    let is_newer = |other: &&ChangeRow| at.is_some() || other.id > row.id;
    let later = steps(later.iter().filter(is_newer));
    let last = match later.last() {
        Some(last) => last.after.unwrap_or(last.before),
        None => &deed.after,
    };
    Ok(match deed.left(contents, last)? {
        Left::All => (Effect::InEffect, None),
        Left::Some => (Effect::InPart, None),
        Left::Unknown => (Effect::Unknown, None),
        Left::None => ended(contents, deed, &later, at.is_some())?,
    })
}

/// A later change as it counts for an earlier one.
struct Step<'c> {
    row: &'c ChangeRow,
    before: &'c StateRow,
    after: Option<&'c StateRow>,
}

impl Step<'_> {
    fn source(&self) -> ChangeSource {
        ChangeSource::from_word(&self.row.source)
    }
}

/// The steps of a chain. An undo that gives back what a rewind found is one step with it, and with all
/// between them: what was gone already did not go by these.
fn steps<'c>(chain: impl Iterator<Item = &'c ChangeRow>) -> Vec<Step<'c>> {
    let mut steps: Vec<Step<'c>> = Vec::new();
    for row in chain {
        let mut step = Step {
            row,
            before: &row.before,
            after: row.after.as_ref(),
        };
        if step.source() == ChangeSource::Undo
            && let Some(after) = step.after
        {
            let undone = |step: &Step<'_>| step.source().restores() && step.before.is(after);
            if let Some(at) = steps.iter().rposition(undone) {
                step.before = steps[at].before;
                steps.truncate(at);
            }
        }
        steps.push(step);
    }
    steps
}

/// How a change ended of which nothing is left: the last state on the way in which something was.
fn ended(
    contents: &Contents<'_>,
    deed: &Deed,
    later: &[Step<'_>],
    is_whole: bool,
) -> Result<(Effect, Option<i64>)> {
    let stands = |state: &StateRow| -> Result<bool> {
        Ok(matches!(
            deed.left(contents, state)?,
            Left::All | Left::Some
        ))
    };
    let by = |step: &Step<'_>| match step.source() {
        ChangeSource::Rewind | ChangeSource::Undo => (Effect::Rewound, Some(step.row.id)),
        _ => (Effect::Overwritten, Some(step.row.id)),
    };
    let mut end = later.len();
    while end > 0 && end + NEAR > later.len() {
        let step = &later[end - 1];
        if stands(step.before)? {
            return Ok(by(step));
        }
        end -= 1;
        if end > 0 {
            if later[end - 1].after.map_or(Ok(false), &stands)? {
                return Ok((Effect::Outside, None));
            }
        } else if is_whole && stands(&deed.after)? {
            // What lay there before the next change was no longer what this one left.
            return Ok((Effect::Outside, None));
        }
    }
    if end == 0 {
        return Ok((Effect::Overwritten, None));
    }
    // Further back: some change before which it stood and after which it did not.
    let (mut first, mut behind) = (0, end);
    while first + 1 < behind {
        let middle = first.midpoint(behind);
        match stands(later[middle].before)? {
            true => first = middle,
            false => behind = middle,
        }
    }
    let step = &later[first];
    Ok(match stands(step.before)? {
        true if step.after.map_or(Ok(false), &stands)? => (Effect::Outside, None),
        true => by(step),
        false if is_whole => (Effect::Outside, None),
        false => (Effect::Overwritten, None),
    })
}
