//! The other way round: the files that a turn touched, the files of which anything is recorded, and
//! the sessions that touched a file.

use std::path::{Path, PathBuf};

use super::contents::Contents;
use super::effects::Deed;
use super::telling::state_info;
use super::{Audit, Question, asked_path, seen_from};
use crate::error::Result;
use crate::model::{ChangeFilter, SessionKey, TouchedFile, TouchingSession};
use crate::store::checkpoints::Sight;
use crate::store::copies::Copies;
use crate::tables::audit::{Asked, AskedPath, Deeds, From, page, paths_below, sessions_of_path};
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::PathRow;
use crate::tables::sessions;
use crate::workspace::path::is_within;

/// How many rows are read at a time.
const ROWS: usize = 200;

impl Audit {
    /// The files that a turn of a session touched, each once, in the order in which they were first
    /// changed: what was there before the turn, and what it left. `uuid` names any message of the
    /// turn.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if there is no such session or turn.
    pub fn files_of_turn(&self, session: &SessionKey, uuid: &str) -> Result<Vec<TouchedFile>> {
        let filter = ChangeFilter::new().session(session).turn(uuid);
        let session = self.session(&filter)?;
        self.db().read(|db| {
            let question = Question::of(db, &filter, session.as_ref())?;
            let sight = match &question.view {
                Some(view) => Some(Sight::of(db, &view.history)?),
                None => None,
            };
            let copies = Copies::new(db);
            let mut files: Vec<(ChangeRow, usize)> = Vec::new();
            for row in page(db, &question.asked, From::Behind(0), usize::MAX)? {
                if !question.means(&copies, sight.as_ref(), &row)? {
                    continue;
                }
                match files.iter_mut().find(|(first, _)| first.path == row.path) {
                    Some((first, count)) => {
                        first.after = row.after;
                        *count += 1;
                    }
                    None => files.push((row, 1)),
                }
            }
            let contents = Contents::new(db);
            let told = files.into_iter().map(|(file, changes)| {
                let counts = Deed::of(&contents, &file)?.and_then(|deed| deed.counts());
                Ok(TouchedFile {
                    path: file.path.path(),
                    changes,
                    before: state_info(db, &file.before)?,
                    after: match &file.after {
                        Some(after) => Some(state_info(db, after)?),
                        None => None,
                    },
                    insertions: counts.map(|counts| counts.0),
                    deletions: counts.map(|counts| counts.1),
                })
            });
            told.collect()
        })
    }

    /// The files of which a change is recorded, in the order of their paths: this one, and those below
    /// it if it is a folder. They need not be there any more. A relative path is seen from the
    /// process's current folder.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the path cannot be resolved.
    pub fn files(&self, path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let path = seen_from(None, path.as_ref())?;
        let rows = self
            .db()
            .read(|db| Ok(paths_below(db, &PathRow::of(&path).text)?))?;
        let mut paths: Vec<PathBuf> = rows.iter().map(PathRow::path).collect();
        paths.retain(|found| is_within(&path, found));
        paths.sort();
        Ok(paths)
    }

    /// The sessions that changed a file, or any file below a folder, the one that did last first. A
    /// relative path is seen from the process's current folder.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the path cannot be resolved.
    pub fn sessions_of(&self, path: impl AsRef<Path>) -> Result<Vec<TouchingSession>> {
        let path = seen_from(None, path.as_ref())?;
        self.db().read(|db| {
            let asked = asked_path(db, &path)?;
            let copies = Copies::new(db);
            let mut told = Vec::new();
            for deeds in sessions_of_path(db, &asked)? {
                let Some(deeds) = without_copies(&copies, &asked, &path, deeds)? else {
                    continue;
                };
                let Some(session) = sessions::find_any(db, deeds.session)? else {
                    continue;
                };
                told.push(TouchingSession {
                    session: session.key,
                    is_deleted: session.is_deleted,
                    changes: u64::try_from(deeds.changes).unwrap_or(0),
                    first_ms: deeds.first_ms,
                    last_ms: deeds.last_ms,
                });
            }
            told.sort_by_key(|touching| std::cmp::Reverse(touching.last_ms));
            Ok(told)
        })
    }
}

/// What a session did to a path itself, what a client copied into it left out; `None` if that is nothing.
fn without_copies(
    copies: &Copies<'_>,
    path: &AskedPath,
    folder: &Path,
    deeds: Deeds,
) -> Result<Option<Deeds>> {
    if deeds.imported == 0 {
        return Ok(Some(deeds));
    }
    let asked = Asked {
        path: Some(path.clone()),
        sessions: vec![deeds.session],
        ..Asked::default()
    };
    let mut own: Option<Deeds> = None;
    let mut behind = 0;
    loop {
        let rows = page(copies.db, &asked, From::Behind(behind), ROWS)?;
        let Some(last) = rows.last() else {
            return Ok(own);
        };
        behind = last.id;
        for row in &rows {
            if !is_within(folder, &row.path.path()) || copies.is_repeated(row)? {
                continue;
            }
            let counted = own.get_or_insert(Deeds {
                changes: 0,
                first_ms: row.before_ms,
                last_ms: row.before_ms,
                ..deeds
            });
            counted.changes += 1;
            counted.first_ms = counted.first_ms.min(row.before_ms);
            counted.last_ms = counted.last_ms.max(row.before_ms);
        }
    }
}
