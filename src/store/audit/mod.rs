//! THE AUDIT: which turn, call and session changed which file, and what is left of it.
//!
//! Everything is told from what was recorded: the states before and after each change, and nothing
//! that lies on the disk. The changes of one path, by all sessions, are a chain in the order in which
//! they were committed (imported ones in the order of their own times, as they were made before they
//! were stored). A change is in effect as far as the last state of that chain still holds what it did.

mod blame;
mod contents;
mod effects;
mod listing;
mod news;
mod replay;
mod telling;
mod touched;

pub(super) use telling::state_info;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::Store;
use super::checkpoints::Sight;
use super::copies::Copies;
use super::history::History;
use super::session::Session;
use crate::error::{Error, Result};
use crate::model::ChangeFilter;
use crate::tables::audit::{Asked, AskedPath, From, any_below, page, turns_named};
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::PathRow;
use crate::tables::messages;
use crate::tables::sessions::SessionRow;
use crate::workspace::folders::real_folder;
use crate::workspace::path::{absolute, is_within};

/// Which turn, call and session changed which file.
#[derive(Clone, Debug)]
pub struct Audit {
    store: Store,
}

impl Store {
    /// Which turn, call and session changed which file, and what is left of it.
    pub fn audit(&self) -> Audit {
        Audit {
            store: self.clone(),
        }
    }
}

impl Audit {
    fn db(&self) -> &crate::db::Database {
        self.store.db()
    }

    fn session(&self, filter: &ChangeFilter) -> Result<Option<Session>> {
        match &filter.session {
            Some(key) => Ok(Some(self.store.sessions().get(key)?)),
            None => Ok(None),
        }
    }
}

/// A session that changes are told of, and what it shows.
struct View {
    row: SessionRow,
    history: History,
    /// The changes that a client's copies in it tell of.
    copies: HashSet<i64>,
    /// The changes that those were copied from, with the turn that the session shows each in, and the
    /// sessions that made them.
    copied: HashMap<i64, Option<i64>>,
    origins: BTreeSet<i64>,
}

impl View {
    fn of(db: &Connection, session: &Session) -> Result<Self> {
        let row = session.row(db)?;
        let history = History::of(db, &row, "")?;
        let mut view = Self {
            row,
            history,
            copies: HashSet::new(),
            copied: HashMap::new(),
            origins: BTreeSet::new(),
        };
        let copies = Copies::new(db);
        let sight = Sight::of(db, &view.history)?;
        for part in &view.history.parts {
            if copies.origin(part.owner)?.is_none() {
                continue;
            }
            for change in file_changes::of_session(db, part.owner)? {
                if !sight.shows(db, &change)? {
                    continue;
                }
                for original in copies.originals_of(&change)? {
                    view.copies.insert(change.id);
                    view.copied.insert(original.id, change.turn);
                    view.origins.insert(original.session);
                }
            }
        }
        Ok(view)
    }

    /// The turn that the session shows a change in.
    fn turn(&self, change: &ChangeRow) -> Option<i64> {
        let copied = self.copied.get(&change.id).copied().flatten();
        copied.or(change.turn)
    }
}

/// A filter as it was resolved against the store.
struct Question {
    asked: Asked,
    path: Option<PathBuf>,
    view: Option<View>,
}

impl Question {
    fn of(db: &Connection, filter: &ChangeFilter, session: Option<&Session>) -> Result<Self> {
        let view = match session {
            Some(session) => Some(View::of(db, session)?),
            None => None,
        };
        let cwd = view
            .as_ref()
            .and_then(|view| view.row.tally.listing.cwd.as_deref());
        let path = match &filter.path {
            Some(path) => Some(seen_from(cwd.map(Path::new), path)?),
            None => None,
        };
        let mut asked = Asked {
            path: match &path {
                Some(path) => Some(asked_path(db, path)?),
                None => None,
            },
            tool: filter.tool.clone(),
            agent: filter.agent.clone(),
            since_ms: filter.since_ms,
            until_ms: filter.until_ms,
            ..Asked::default()
        };
        if let Some(view) = &view {
            let owners = view.history.parts.iter().map(|part| part.owner);
            asked.sessions = owners.chain(view.origins.iter().copied()).collect();
        }
        if let Some(uuid) = &filter.turn {
            let mut turns = match &view {
                Some(view) => vec![turn_of(db, view, uuid)?],
                None => turns_named(db, uuid)?,
            };
            if turns.is_empty() {
                return Err(Error::NotFound {
                    what: "turn",
                    id: uuid.clone(),
                });
            }
            let copies = Copies::new(db);
            for turn in turns.clone() {
                turns.extend(copies.originals(turn)?);
            }
            asked.turns = Some(turns);
        }
        Ok(Self { asked, path, view })
    }

    /// Whether the tables would choose a row.
    fn chooses(&self, db: &Connection, row: &ChangeRow) -> Result<bool> {
        let first = page(db, &self.asked, From::Behind(row.id - 1), 1)?;
        Ok(first.first().is_some_and(|found| found.id == row.id))
    }

    /// Whether a row that the tables chose is really meant. What a client copied is meant once, as the
    /// change of the session that made it.
    fn means(
        &self,
        copies: &Copies<'_>,
        sight: Option<&Sight<'_>>,
        row: &ChangeRow,
    ) -> Result<bool> {
        let is_there = |path: &PathBuf| {
            let found = row.path.path();
            found == *path || is_within(path, &found)
        };
        if !self.path.as_ref().is_none_or(is_there) {
            return Ok(false);
        }
        match (&self.view, sight) {
            (Some(view), _) if view.copies.contains(&row.id) => Ok(false),
            (Some(view), _) if view.copied.contains_key(&row.id) => Ok(true),
            (_, Some(sight)) => sight.shows(copies.db, row),
            (_, None) => Ok(!copies.is_repeated(row)?),
        }
    }
}

fn asked_path(db: &Connection, path: &Path) -> Result<AskedPath> {
    let row = PathRow::of(path);
    Ok(if any_below(db, &row.text)? {
        AskedPath::Below(row.text)
    } else {
        AskedPath::File(row)
    })
}

/// The message that opened the turn of the message with this uuid.
fn turn_of(db: &Connection, view: &View, uuid: &str) -> Result<i64> {
    let place = view.history.find(db, uuid)?;
    let turn = place.and_then(|place| place.turn);
    turn.ok_or_else(|| Error::NotFound {
        what: "turn",
        id: format!("{uuid}` in session `{}", view.row.key),
    })
}

/// A path as it is stored; of a link to a folder the folder's. A relative one is seen from a folder,
/// else from the current one.
fn seen_from(folder: Option<&Path>, path: &Path) -> Result<PathBuf> {
    let current;
    let base = match folder.filter(|folder| folder.is_absolute()) {
        Some(folder) => folder,
        None if path.is_absolute() => Path::new("/"),
        None => {
            current = std::env::current_dir().map_err(|error| Error::io("finding", ".", error))?;
            &current
        }
    };
    let path = absolute(base, path).map_err(|error| Error::io("finding", path, error))?;
    Ok(real_folder(&path).ok().flatten().unwrap_or(path))
}

/// The uuid under which a session shows a message, its own or one that it inherits.
fn uuid_in(db: &Connection, session: &SessionRow, message: i64) -> Result<Option<String>> {
    let Some(place) = messages::place_of(db, message)? else {
        return Ok(None);
    };
    Ok(match (&session.fork_prefix, place.uuid) {
        (_, None) => None,
        (Some(prefix), Some(_)) if place.session != session.id => {
            Some(crate::transcript::derived::derive(prefix, place.id))
        }
        (_, uuid) => uuid,
    })
}
