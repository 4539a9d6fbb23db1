//! Comparing two sessions with a common origin: what each said and did since.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::changes::visible;
use super::differ::{Side, below, diff};
use super::moments::Moment;
use super::paths::below_root;
use super::roots::{base_of, places_of};
use crate::error::{Error, Result};
use crate::model::FileDiff;
use crate::store::conversation::{self, ConversationEntry};
use crate::store::history::History;
use crate::store::kinship::ancestors;
use crate::store::session::Session;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions::SessionRow;

/// What two sessions with a common origin did differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How many messages both conversations begin with.
    pub common: usize,
    /// The last of these, by its uuid in the one session and in the other.
    pub last_common: Option<(String, String)>,
    /// What only the one session's conversation says, behind that.
    pub left: Vec<ConversationEntry>,
    /// What only the other one's says.
    pub right: Vec<ConversationEntry>,
    /// The files that either changed and that are not the same in both.
    pub files: Vec<ForkedFile>,
}

/// A file that is not the same in two sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkedFile {
    /// From how the one session left it to how the other did; under the one's path.
    pub diff: FileDiff,
    /// Its path in the other session, if that works in a folder of its own.
    pub other_path: PathBuf,
    /// Whether the one session changed it, apart from what both show.
    pub changed_left: bool,
    /// Whether the other one did.
    pub changed_right: bool,
}

impl Session {
    /// What this session and another one did differently since their common origin: in talk, along
    /// the two conversations, and in files, as each session left them. The same file is found also
    /// where each works in a root of its own. Nothing on the disk is looked at.
    ///
    /// # Errors
    /// [`Error::Invalid`] if they have no common origin, or are in two stores.
    pub fn compare(&self, other: &Session) -> Result<Comparison> {
        if self.store().path() != other.store().path() {
            let why = "the sessions are in two stores";
            return Err(Error::invalid("comparison", why));
        }
        self.store().db().read(|db| {
            let (one, two) = (Left::of(db, self)?, Left::of(db, other)?);
            if !have_common_origin(db, &one.row, &two.row)? {
                let why = format!(
                    "`{}` and `{}` have no common origin",
                    self.key(),
                    other.key()
                );
                return Err(Error::invalid("comparison", why));
            }
            let [mut left, mut right] = [
                conversation::read(db, &one.row, "")?.entries,
                conversation::read(db, &two.row, "")?.entries,
            ];
            let pairs = left.iter().zip(&right);
            // A fork that a client made has rows of its own under the same uuids.
            let same = |(one, two): &(&ConversationEntry, &ConversationEntry)| {
                one.id == two.id || one.uuid == two.uuid
            };
            let common = pairs.take_while(same).count();
            let last = common.checked_sub(1);
            Ok(Comparison {
                common,
                last_common: last.map(|at| (left[at].uuid.clone(), right[at].uuid.clone())),
                left: left.split_off(common),
                right: right.split_off(common),
                files: files(db, &one, &two)?,
            })
        })
    }
}

/// How a session left its files.
pub(super) struct Left {
    pub(super) row: SessionRow,
    roots: Vec<PathBuf>,
    changes: Vec<ChangeRow>,
    states: BTreeMap<PathRow, StateRow>,
}

impl Left {
    pub(super) fn of(db: &Connection, session: &Session) -> Result<Self> {
        Self::at(db, session, None)
    }

    /// At a moment, or as it left them last.
    pub(super) fn at(db: &Connection, session: &Session, moment: Option<&str>) -> Result<Self> {
        let row = session.row(db)?;
        let history = History::of(db, &row, "")?;
        let changes = visible(db, &history)?;
        let moment = match moment {
            Some(name) => Moment::find(db, &row, &history, &changes, name)?,
            None => Moment::End,
        };
        if moment == Moment::Now {
            let why = "it is taken from what the other session recorded, not from the disk";
            return Err(Error::invalid("point `now`", why));
        }
        Ok(Self {
            roots: places_of(db, &row, &history)?,
            states: moment.states(&changes),
            row,
            changes,
        })
    }

    /// The path that a file of another session has in this one: below one of its roots if it tracks
    /// it there, else the very same.
    pub(super) fn path_of(&self, path: &Path, name: &Path) -> PathBuf {
        let below_roots = self.roots.iter().map(|root| root.join(name));
        let mut known = below_roots.chain([path.to_owned()]);
        let found = known.find(|path| self.states.contains_key(&PathRow::of(path)));
        found.unwrap_or_else(|| path.to_owned())
    }

    pub(super) fn state(&self, path: &Path) -> Option<&StateRow> {
        self.states.get(&PathRow::of(path))
    }

    /// The path that another session has for a file of this one.
    pub(super) fn in_other(&self, other: &Self, path: &Path) -> PathBuf {
        other.path_of(path, below_root(&self.roots, path))
    }
}

fn have_common_origin(db: &Connection, one: &SessionRow, two: &SessionRow) -> Result<bool> {
    let family = |row: &SessionRow| -> Result<HashSet<i64>> {
        let above = ancestors(db, row)?;
        Ok(above.iter().map(|row| row.id).chain([row.id]).collect())
    };
    Ok(!family(one)?.is_disjoint(&family(two)?))
}

fn files(db: &Connection, one: &Left, two: &Left) -> Result<Vec<ForkedFile>> {
    let ids = |left: &Left| -> HashSet<i64> { left.changes.iter().map(|row| row.id).collect() };
    let (of_one, of_two) = (ids(one), ids(two));
    let own = |left: &Left, other: &HashSet<i64>| -> Vec<ChangeRow> {
        let changes = left.changes.iter().filter(|row| !other.contains(&row.id));
        changes.cloned().collect()
    };
    let (by_one, by_two) = (own(one, &of_two), own(two, &of_one));
    // Each file once, by its path in the one and in the other.
    let mut paths: BTreeSet<(PathBuf, PathBuf)> = BTreeSet::new();
    for row in &by_one {
        let path = row.path.path();
        let other = one.in_other(two, &path);
        paths.insert((path, other));
    }
    for row in &by_two {
        let path = row.path.path();
        let other = two.in_other(one, &path);
        paths.insert((other, path));
    }
    let base = base_of(&one.row);
    let mut found = Vec::new();
    for (path, other_path) in paths {
        let touches = |rows: &[ChangeRow], path: &Path| {
            rows.iter().find(|row| row.path.path() == *path).cloned()
        };
        let (first_left, first_right) = (touches(&by_one, &path), touches(&by_two, &other_path));
        // Where a session never changed a file, it is as the other one found it.
        let before = |first: &Option<ChangeRow>| match first {
            Some(first) => first.before.clone(),
            None => StateRow::Absent,
        };
        let from = one.state(&path).cloned();
        let to = two.state(&other_path).cloned();
        let from = Side::of(db, &from.unwrap_or_else(|| before(&first_right)))?;
        let to = Side::of(db, &to.unwrap_or_else(|| before(&first_left)))?;
        if let Some(diff) = diff(&path, below(base.as_deref(), &path), from, to) {
            found.push(ForkedFile {
                diff,
                other_path,
                changed_left: first_left.is_some(),
                changed_right: first_right.is_some(),
            });
        }
    }
    Ok(found)
}
