//! The changes that follow from what a session's transcripts record, in the order in which they were
//! made.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rusqlite::Connection;

use super::chain::{Followed, Hash, Lies, follow};
use super::edited::{Contents, Edited};
use super::recorded::Recorded;
use super::writers::Writers;
use crate::error::Result;
use crate::store::Bound;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{PathRow, StateRow};

/// A change that follows from a session's transcripts.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) path: PathRow,
    pub(super) place: Bound,
    pub(super) at_ms: i64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// Between two moments at which the file is known; after the last prompt nobody knows.
    Between {
        before: Before,
        after: Option<(StateRow, i64)>,
    },
    /// What one call did; with the ends, if checkpoints cover it.
    Edit(Box<Edited>, Option<Ends>),
}

/// What lay there before.
#[derive(Debug)]
pub(super) enum Before {
    Noted(StateRow),
    /// What the last edit of a chain left.
    Left(Hash),
}

/// What checkpoints tell of the states around a call; what they do not tell, its answer does.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) before: Option<StateRow>,
    pub(super) after: Option<StateRow>,
}

impl Wanted {
    /// Whether it is what came of a file behind the last prompt, which nobody knows.
    pub(super) fn is_last(&self) -> bool {
        matches!(&self.what, What::Between { after: None, .. })
    }

    /// Whether it is what no call of the session is known to have done: where files were rewound here,
    /// it may be that.
    pub(super) fn may_be_of_here(&self) -> bool {
        match &self.what {
            What::Between { before, .. } => {
                self.place.turn.is_none() || matches!(before, Before::Left(_))
            }
            What::Edit(..) => false,
        }
    }
}

/// What was made of the session before.
#[derive(Debug, Default)]
pub(super) struct Stored<'a> {
    of_calls: HashMap<i64, &'a ChangeRow>,
    /// Changes between prompts that stay one, with the turn they are of: something was done here to
    /// the same file since, so that no other can take their place.
    settled: HashMap<(Option<i64>, &'a PathRow), &'a ChangeRow>,
}

impl<'a> Stored<'a> {
    /// `own` is what was recorded here as it happened.
    pub(super) fn of(rows: &'a [ChangeRow], own: &[ChangeRow]) -> Self {
        let mut last: HashMap<&PathRow, i64> = HashMap::new();
        for row in own {
            last.insert(&row.path, row.id);
        }
        let mut stored = Self::default();
        for row in rows {
            if row.tool_use_id.is_some() {
                stored.of_calls.extend(row.call.map(|call| (call, row)));
            } else if last.get(&row.path).is_some_and(|last| *last > row.id) {
                stored.settled.insert((row.message, &row.path), row);
            }
        }
        stored
    }
}

/// A state of a tracked file: the number of the prompt, and that of the backup.
type Noted = (usize, u32);

/// The changes in the order in which they were made, and how many edits no checkpoint covers.
pub(super) fn wanted(
    db: &Connection,
    session: i64,
    recorded: &Recorded,
    edits: Vec<Edited>,
    writers: &Writers,
    contents: &mut Contents<'_>,
    stored: &Stored<'_>,
) -> Result<(Vec<Wanted>, u64)> {
    let edited = edits.iter().map(|edit| edit.path.clone()).collect();
    let Covered { covered, uncovered } = Covered::of(recorded, edits);
    let number = uncovered.len() as u64;
    let mut maker = Maker {
        db,
        recorded,
        writers,
        contents,
        stored,
        // What came before a file was tracked comes before what is noted of it, in the same turn too.
        early: uncovered
            .iter()
            .map(|edit| (edit.behind, edit.path.clone()))
            .collect(),
        edited,
        covered,
        all: Vec::new(),
    };
    let mut last: Vec<Option<Noted>> = vec![None; recorded.paths.len()];
    for (at, point) in recorded.points.iter().enumerate() {
        for file in point.files() {
            let now = (at, file.backup);
            if let Some(before) = last[file.path as usize].replace(now) {
                maker.add(session, before, file.path, Some(now))?;
            }
        }
    }
    for (path, last) in (0..).zip(last) {
        if let Some(last) = last {
            maker.add(session, last, path, None)?;
        }
    }
    let mut all = maker.all;
    all.extend(uncovered.into_iter().map(|edit| Ordered {
        order: Order::of_edit(&edit),
        wanted: step(edit, None),
    }));
    all.sort_by(|one, other| {
        (&one.order, &one.wanted.path).cmp(&(&other.order, &other.wanted.path))
    });
    let all = all.into_iter().map(|ordered| ordered.wanted).collect();
    Ok((all, number))
}

/// Where a change stands: by how many prompts were noted before it, and the place behind the last of
/// them; edits by time, and what came behind one right behind it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order(usize, Place, (i64, i64, i64), bool);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    AtThePrompt,
    ByTime,
    BehindTheEdits,
    BehindTheTurn,
}

impl Order {
    fn of_edit(edit: &Edited) -> Self {
        let by_time = (edit.at_ms, edit.message, edit.call);
        Self(edit.behind, Place::ByTime, by_time, false)
    }
}

#[derive(Debug)]
struct Ordered {
    order: Order,
    wanted: Wanted,
}

fn step(edit: Edited, ends: Option<Ends>) -> Wanted {
    Wanted {
        path: edit.path.clone(),
        place: edit.place,
        at_ms: edit.at_ms,
        what: What::Edit(Box::new(edit), ends),
    }
}

/// Makes changes of the states that were noted.
struct Maker<'a, 'c> {
    db: &'a Connection,
    recorded: &'a Recorded,
    writers: &'a Writers,
    contents: &'a mut Contents<'c>,
    stored: &'a Stored<'a>,
    early: HashSet<(usize, PathRow)>,
    /// The files that the session edited.
    edited: HashSet<PathRow>,
    covered: HashMap<(usize, u32), Vec<Edited>>,
    all: Vec<Ordered>,
}

impl Maker<'_, '_> {
    /// Adds what happened to a file between two states that follow each other.
    fn add(
        &mut self,
        session: i64,
        (at, backup): Noted,
        number: u32,
        next: Option<Noted>,
    ) -> Result<()> {
        let recorded = self.recorded;
        let point = &recorded.points[at];
        let edits = self.covered.remove(&(at, number)).unwrap_or_default();
        let is_same = next.is_some_and(|(_, next)| recorded.same(backup, next));
        if point.owner != session || (is_same && edits.is_empty()) {
            return Ok(());
        }
        let before = &recorded.states[backup as usize];
        let next = next.map(|(at, backup)| (&recorded.states[backup as usize], at));
        // What is not kept is as good as not known.
        let after = next
            .filter(|(state, _)| !matches!(state, StateRow::NotKept { .. }))
            .map(|(state, at)| (state.clone(), recorded.points[at].at_ms));
        let path = &recorded.paths[number as usize];
        let end = next.map_or(recorded.points.len(), |(_, at)| at);
        let others = self.others(at..end, path, edits.is_empty());
        let settled = self.stored.settled.get(&(Some(point.message), path));
        // What came behind an edit is of the time of that.
        let settled = settled.filter(|row| row.before_ms == point.at_ms);
        let followed = match settled {
            Some(_) => Followed::default(),
            None => {
                let from = (point.message, before);
                let stored = &self.stored.of_calls;
                follow(self.db, from, &edits, self.contents, stored)?
            }
        };
        let is_whole = followed.left.len() == edits.len();
        let is_end = next.is_none() && is_whole && !others;
        if let Some(left) = followed.left.last() {
            let reached = match &after {
                Some((state, _)) if is_whole => Lies::of(self.db, state)?,
                _ => None,
            };
            let reached = reached.is_some_and(|reached| reached == Lies::File(*left));
            let edits = edits.into_iter().take(followed.left.len()).collect();
            let noted = after.as_ref().map(|(state, _)| state.clone());
            self.steps(edits, before, noted.filter(|_| reached));
            if !reached && !is_end {
                self.behind_the_last(path, *left, after);
            }
            return Ok(());
        }
        if edits.is_empty() && is_end && settled.is_none() {
            return Ok(());
        }
        let is_nobodys = match settled {
            Some(row) => row.turn.is_none(),
            None => edits.is_empty() && after.is_some() && !others,
        };
        let is_early = self.early.contains(&(at + 1, path.clone()));
        let place = match (is_nobodys, is_early) {
            (true, _) => Place::BehindTheTurn,
            (false, true) => Place::BehindTheEdits,
            (false, false) => Place::AtThePrompt,
        };
        self.all.push(Ordered {
            order: Order(at + 1, place, (0, 0, 0), false),
            wanted: Wanted {
                path: path.clone(),
                place: Bound {
                    call: None,
                    turn: point.turn.filter(|_| !is_nobodys),
                    message: Some(point.message),
                },
                at_ms: point.at_ms,
                what: What::Between {
                    before: Before::Noted(before.clone()),
                    after,
                },
            },
        });
        Ok(())
    }

    /// Whether something else than the edits that are covered may have changed a file between two
    /// prompts at which it was noted.
    fn others(&self, mut prompts: Range<usize>, path: &PathRow, is_unedited: bool) -> bool {
        let first = prompts.start;
        // A file is tracked once it is edited: where no edit of it is told, the transcript lacks calls.
        !self.edited.contains(path)
            || prompts.any(|at| {
                let is_edited = self.early.contains(&(at + 1, path.clone()));
                self.writers.any(at) || (is_edited && (is_unedited || at > first))
            })
    }

    /// Adds edits one by one: what the first found is noted, and perhaps what the last left.
    fn steps(&mut self, edits: Vec<Edited>, before: &StateRow, mut after: Option<StateRow>) {
        let count = edits.len();
        for (number, edit) in (1..).zip(edits) {
            let ends = Ends {
                before: (number == 1).then(|| before.clone()),
                after: after.take_if(|_| number == count),
            };
            self.all.push(Ordered {
                order: Order::of_edit(&edit),
                wanted: step(edit, Some(ends)),
            });
        }
    }

    /// Adds what happened to a file behind the edit that was added last.
    fn behind_the_last(&mut self, path: &PathRow, left: Hash, after: Option<(StateRow, i64)>) {
        let Some(Ordered { order, wanted }) = self.all.last() else {
            return;
        };
        let Order(behind, place, by_time, _) = *order;
        let behind_it = Ordered {
            order: Order(behind, place, by_time, true),
            wanted: Wanted {
                path: path.clone(),
                place: Bound {
                    call: None,
                    ..wanted.place
                },
                at_ms: wanted.at_ms,
                what: What::Between {
                    before: Before::Left(left),
                    after,
                },
            },
        };
        self.all.push(behind_it);
    }
}

/// The edits by whether a checkpoint tells how the file was before them.
struct Covered {
    /// By the prompt and the path whose checkpoint covers them, in the order of time.
    covered: HashMap<(usize, u32), Vec<Edited>>,
    uncovered: Vec<Edited>,
}

impl Covered {
    fn of(recorded: &Recorded, edits: Vec<Edited>) -> Self {
        let mut found = Self {
            covered: HashMap::new(),
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
                        || found.covered.contains_key(&(at, file.path)) =>
                {
                    found.covered.entry((at, file.path)).or_default().push(edit);
                }
                _ => found.uncovered.push(edit),
            }
        }
        found
    }
}
