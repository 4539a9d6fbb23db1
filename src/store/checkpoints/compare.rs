//! Comparing two sessions with a common origin: what each said and did since.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
use crate::store::copies::Copies;
use crate::store::history::History;
use crate::store::kinship::ancestors;
use crate::store::session::Session;
use crate::tables::claims;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions::{self, SessionRow};
use crate::transcript::derived::derive;

/// What two sessions with a common origin did differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// How many messages both conversations have: those that they begin with, and what a client copied,
    /// wherever it stands.
    pub common: usize,
    /// The last of these, by its uuid in the one session and in the other.
    pub last_common: Option<(String, String)>,
    /// What only the one session's conversation says.
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
            let copies = Copies::new(db);
            let [mut left, mut right] = [
                named(&copies, conversation::read(db, &one.row, "")?.entries)?,
                named(&copies, conversation::read(db, &two.row, "")?.entries)?,
            ];
            let (of_one, of_two) = shown(&copies, &one, &two)?;
            let (of_left, of_right) = (names(&left, &of_one), names(&right, &of_two));
            let of_both = |(name, _): &&(String, ConversationEntry)| {
                of_left.contains_key(name) && of_right.contains_key(name)
            };
            let last = left.iter().rfind(of_both);
            let last = last.or_else(|| right.iter().rfind(of_both));
            let last = last.and_then(|(name, _)| {
                Some((of_left.get(name)?.clone(), of_right.get(name)?.clone()))
            });
            let both = left.iter().chain(&right).filter(of_both);
            let common = both
                .map(|(name, _)| name.as_str())
                .collect::<HashSet<_>>()
                .len();
            left.retain(|(name, _)| !of_right.contains_key(name));
            right.retain(|(name, _)| !of_left.contains_key(name));
            let entries = |side: Vec<(String, ConversationEntry)>| {
                side.into_iter().map(|(_, entry)| entry).collect()
            };
            Ok(Comparison {
                common,
                last_common: last,
                left: entries(left),
                right: entries(right),
                files: files(&copies, (&one, &of_one), (&two, &of_two))?,
            })
        })
    }
}

/// How a session left its files.
pub(super) struct Left {
    pub(super) row: SessionRow,
    history: History,
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
            history,
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

/// Messages under the names that they had where they were said: a copy that a client made has a row of its
/// own, and often another uuid.
fn named(
    copies: &Copies<'_>,
    entries: Vec<ConversationEntry>,
) -> Result<Vec<(String, ConversationEntry)>> {
    let named = entries.into_iter().map(|entry| {
        let name = copies.first_uuid(entry.id)?;
        Ok((name.unwrap_or_else(|| entry.uuid.clone()), entry))
    });
    named.collect()
}

/// The messages that a session has, by their names: the uuid it shows each under.
fn names(entries: &[(String, ConversationEntry)], shown: &Shown) -> HashMap<String, String> {
    let said = entries
        .iter()
        .map(|(name, entry)| (name.clone(), entry.uuid.clone()));
    shown.messages.clone().into_iter().chain(said).collect()
}

/// What two sessions show of each other's. Where no client copied anything, rows tell all.
fn shown(copies: &Copies<'_>, one: &Left, two: &Left) -> Result<(Shown, Shown)> {
    let mut has_copies = false;
    for part in one.history.parts.iter().chain(&two.history.parts) {
        has_copies |= copies.origin(part.owner)?.is_some();
    }
    let of = |left: &Left| Shown::of(copies, left, has_copies);
    Ok((of(one)?, of(two)?))
}

/// What a session shows of changes that others made.
struct Shown {
    /// Its changes, and those that they are copies of.
    changes: HashSet<i64>,
    /// The sessions that clients copied it from, or what it was forked from, with the last message that it
    /// has of each. What came before that is not in the copy if it was compacted away.
    origins: HashMap<i64, Option<i64>>,
    /// If there are such: all its messages by the names that they had where they were said, on whatever
    /// branch, and the uuids it shows them under. What a sub-agent changed in a turn is told by no copy.
    messages: HashMap<String, String>,
}

impl Shown {
    fn of(copies: &Copies<'_>, left: &Left, has_copies: bool) -> Result<Self> {
        let mut shown = Self {
            changes: HashSet::new(),
            origins: HashMap::new(),
            messages: HashMap::new(),
        };
        for row in &left.changes {
            shown.changes.insert(row.id);
            shown
                .changes
                .extend(copies.originals_of(row)?.iter().map(|row| row.id));
        }
        for part in &left.history.parts {
            if !has_copies {
                break;
            }
            let (mut copy, mut last) = (part.owner, None);
            while let Some(origin) = copies.origin(copy)? {
                let forked_at = sessions::find_any(copies.db, copy)?.and_then(|row| row.forked_at);
                let further = match last {
                    Some(last) => copies.originals(last)?.first().copied(),
                    None => None,
                };
                // A fork of the copy may end before what the copy holds last.
                last = further.or(forked_at).filter(|_| !part.is_inherited);
                if shown.origins.insert(origin, last).is_some() {
                    break;
                }
                copy = origin;
            }
            for (message, uuid) in claims::main_line(copies.db, part.owner, part.until_seq)? {
                let uuid = match &left.row.fork_prefix {
                    Some(prefix) if part.is_inherited => derive(prefix, message),
                    _ => uuid,
                };
                let name = copies.first_uuid(message)?;
                shown.messages.extend(name.map(|name| (name, uuid)));
            }
        }
        Ok(shown)
    }

    fn has(&self, copies: &Copies<'_>, change: &ChangeRow) -> Result<bool> {
        let is_known = |row: &ChangeRow| self.changes.contains(&row.id);
        if is_known(change) || copies.originals_of(change)?.iter().any(is_known) {
            return Ok(true);
        }
        let message = change.message.filter(|_| change.operation.is_none());
        let (Some(last), Some(message)) = (self.origins.get(&change.session), message) else {
            return Ok(false);
        };
        if last.is_some_and(|last| message <= last) {
            return Ok(true);
        }
        let name = copies.first_uuid(message)?;
        Ok(name.is_some_and(|name| self.messages.contains_key(&name)))
    }
}

fn files(
    copies: &Copies<'_>,
    (one, of_one): (&Left, &Shown),
    (two, of_two): (&Left, &Shown),
) -> Result<Vec<ForkedFile>> {
    let db = copies.db;
    let own = |left: &Left, other: &Shown| -> Result<Vec<ChangeRow>> {
        let mut own = Vec::new();
        for row in &left.changes {
            if !other.has(copies, row)? {
                own.push(row.clone());
            }
        }
        Ok(own)
    };
    let (by_one, by_two) = (own(one, of_two)?, own(two, of_one)?);
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
