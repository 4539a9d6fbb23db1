//! What the client's checkpoint records say: how each tracked file was at each prompt.
//!
//! A snapshot repeats every tracked file, so names are kept once and a state is two numbers.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use rusqlite::Connection;

use crate::error::Result;
use crate::store::{History, resolve_path};
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::sessions::SessionRow;
use crate::tables::{messages, session_files};
use crate::transcript::file_history::{Backup, DELTA, Record, SNAPSHOT, Tracked};
use crate::transcript::json::Object;
use crate::workspace::names::is_component;

/// Where the client's backups are among a session's files.
pub(in crate::exchange::claude_code) const BACKUPS: &str = "file-history/";

/// A prompt at which the client noted how its tracked files were.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) message: i64,
    pub(super) turn: Option<i64>,
    /// The session that the message was stored in.
    pub(super) owner: i64,
    pub(super) at_ms: i64,
    /// Sorted by path when all is read.
    files: Vec<File>,
}

/// A tracked file at a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    /// The number of its path.
    pub(super) path: u32,
    /// The number of its backup.
    pub(super) backup: u32,
    /// Whether it was added at its first edit in the turn, and not at the prompt itself.
    pub(super) is_late: bool,
}

impl Noted {
    /// A file, if it was tracked.
    pub(super) fn file(&self, path: u32) -> Option<File> {
        let at = self.files.binary_search_by_key(&path, |file| file.path);
        at.ok().map(|at| self.files[at])
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }
}

/// All that is recorded of a session's files.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// In the order of the prompts.
    pub(super) points: Vec<Noted>,
    pub(super) paths: Vec<PathRow>,
    numbers: HashMap<PathRow, u32>,
    /// What each backup holds.
    pub(super) states: Vec<StateRow>,
    /// What was refused, in words, each once.
    pub(super) refused: Vec<String>,
    /// How many records name a message that is not there.
    pub(super) astray: u64,
    /// How many backups are missing.
    pub(super) missing: u64,
}

impl Recorded {
    pub(super) fn read(db: &Connection, session: &SessionRow, history: &History) -> Result<Self> {
        let mut reader = Reader {
            db,
            history,
            cwd: session.tally.listing.cwd.clone(),
            found: Self::default(),
            points: HashMap::new(),
            backups: HashMap::new(),
            paths: HashMap::new(),
        };
        for at in 0..history.parts.len() {
            reader.part(at)?;
        }
        let mut found = reader.found;
        found.points = reader.points.into_values().collect();
        found.points.sort_by_key(|point| point.message);
        for point in &mut found.points {
            // Of one file the first word counts: a delta adds and never replaces.
            point.files.sort_by_key(|file| file.path);
            point.files.dedup_by_key(|file| file.path);
        }
        Ok(found)
    }

    /// How many prompts had been noted at this time.
    pub(super) fn behind(&self, at_ms: i64) -> usize {
        self.points.partition_point(|point| point.at_ms <= at_ms)
    }

    /// The number of a path, if it was ever tracked.
    pub(super) fn number(&self, path: &PathRow) -> Option<u32> {
        self.numbers.get(path).copied()
    }

    /// Whether two backups are known to hold the same.
    pub(super) fn same(&self, one: u32, other: u32) -> bool {
        one == other || self.states[one as usize].is(&self.states[other as usize])
    }
}

struct Reader<'a> {
    db: &'a Connection,
    history: &'a History,
    cwd: Option<String>,
    found: Recorded,
    points: HashMap<i64, Noted>,
    backups: HashMap<Backup, u32>,
    /// The numbers of paths as they are recorded, seen from a folder; `None` for one that is refused.
    paths: HashMap<(Option<String>, String), Option<u32>>,
}

impl Reader<'_> {
    /// Reads the records of one part of the transcript. Deltas come last: they add to snapshots.
    fn part(&mut self, at: usize) -> Result<()> {
        let part = &self.history.parts[at];
        let piece = (part.owner, part.after_seq, part.until_seq);
        let mut prompts: HashMap<String, Option<i64>> = HashMap::new();
        let mut deltas = Vec::new();
        messages::each_of_kinds(self.db, piece, (SNAPSHOT, DELTA), |entry| -> Result<()> {
            let Some(record) = Record::read(entry) else {
                return Ok(());
            };
            let message = match prompts.get(&record.prompt) {
                Some(known) => *known,
                None => {
                    let found = self.history.find_in(self.db, part, &record.prompt)?;
                    prompts.insert(record.prompt.clone(), found);
                    found
                }
            };
            match message {
                None => self.found.astray += 1,
                Some(message) if record.is_delta => deltas.push((message, record.files)),
                Some(message) => self.note(message, record.files, record.is_late)?,
            }
            Ok(())
        })?;
        for (message, files) in deltas {
            self.note(message, files, true)?;
        }
        Ok(())
    }

    fn note(&mut self, message: i64, files: Vec<Tracked>, is_late: bool) -> Result<()> {
        if !self.points.contains_key(&message) {
            let Some(place) = messages::place_of(self.db, message)? else {
                return Ok(());
            };
            let noted = Noted {
                message,
                turn: place.turn,
                owner: place.session,
                at_ms: messages::said_ms(self.db, message)?.unwrap_or(0),
                files: Vec::new(),
            };
            self.points.insert(message, noted);
        }
        // The folder that relative paths are seen from is that of the message, if one is needed.
        let mut base: Option<Option<String>> = None;
        for file in files {
            let needs_base = file.real_folder.is_none() && !Path::new(&file.path).is_absolute();
            let folder = match (&file.real_folder, needs_base) {
                (Some(folder), _) => Some(folder.clone()),
                (None, false) => None,
                (None, true) => match &base {
                    Some(base) => base.clone(),
                    None => base.insert(self.folder_of(message)?).clone(),
                },
            };
            let Some(path) = self.path(folder, &file) else {
                continue;
            };
            let backup = self.backup(file.backup, &file.path)?;
            if let Some(point) = self.points.get_mut(&message) {
                point.files.push(File {
                    path,
                    backup,
                    is_late,
                });
            }
        }
        Ok(())
    }

    fn folder_of(&self, message: i64) -> Result<Option<String>> {
        let entry = messages::entry(self.db, message)?;
        let said = entry.as_deref().and_then(|entry| {
            Object::parse(entry).and_then(|entry| entry.string("cwd").map(String::from))
        });
        Ok(said.or_else(|| self.cwd.clone()))
    }

    fn path(&mut self, folder: Option<String>, file: &Tracked) -> Option<u32> {
        let key = (folder, file.path.clone());
        if let Some(known) = self.paths.get(&key) {
            return *known;
        }
        let number = match place(key.0.as_deref(), file) {
            Ok(path) => {
                let path = PathRow::of(&path);
                let next = u32::try_from(self.found.paths.len()).unwrap_or(u32::MAX);
                let number = *self.found.numbers.entry(path.clone()).or_insert(next);
                if number == next {
                    self.found.paths.push(path);
                }
                Some(number)
            }
            Err(why) => {
                let what = format!("the checkpoint of `{}` was refused: {why}", file.path);
                self.found.refused.push(what);
                None
            }
        };
        self.paths.insert(key, number);
        number
    }

    fn backup(&mut self, backup: Backup, path: &str) -> Result<u32> {
        if let Some(known) = self.backups.get(&backup) {
            return Ok(*known);
        }
        let state = match &backup {
            Backup::Absent => StateRow::Absent,
            Backup::Untold => not_kept("its record names no backup"),
            Backup::Named(name) if !is_component(name) => {
                let what =
                    format!("the backup `{name}` of `{path}` was refused: it is no plain name");
                self.found.refused.push(what);
                not_kept("the name of its backup leads elsewhere")
            }
            Backup::Named(name) => match self.kept(name)? {
                Some(state) => state,
                None => {
                    self.found.missing += 1;
                    not_kept("backup missing")
                }
            },
        };
        let number = u32::try_from(self.found.states.len()).unwrap_or(u32::MAX);
        self.found.states.push(state);
        self.backups.insert(backup, number);
        Ok(number)
    }

    /// A backup as it was kept with the session, or with one that it was forked from.
    fn kept(&self, name: &str) -> Result<Option<StateRow>> {
        let path = format!("{BACKUPS}{name}");
        for part in self.history.parts.iter().rev() {
            if let Some(file) = session_files::find(self.db, part.owner, &path)? {
                return Ok(Some(StateRow::File {
                    blob: file.blob,
                    mode: Some(file.mode),
                }));
            }
        }
        Ok(None)
    }
}

/// Where a tracked file lies.
fn place(folder: Option<&str>, file: &Tracked) -> Result<PathBuf, String> {
    let climbs = |path: &str| {
        let mut parts = Path::new(path).components();
        parts.any(|part| part == Component::ParentDir)
    };
    if climbs(&file.path) || folder.is_some_and(climbs) {
        return Err("it leads elsewhere by `..`".to_owned());
    }
    let Some(name) = Path::new(&file.path).file_name() else {
        return Err("it names no file".to_owned());
    };
    let path = match (folder, &file.real_folder) {
        (None, _) if Path::new(&file.path).is_absolute() => PathBuf::from(&file.path),
        (None, _) => return Err("it is relative, and the session has no folder".to_owned()),
        (Some(folder), Some(_)) => Path::new(folder).join(name),
        (Some(folder), None) => Path::new(folder).join(&file.path),
    };
    if !path.is_absolute() {
        return Err("its folder is not absolute".to_owned());
    }
    resolve_path(&path).map_err(|error| error.to_string())
}

fn not_kept(why: &str) -> StateRow {
    StateRow::NotKept {
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_below_the_folder_or_named_whole() {
        let file = |path: &str, real: Option<&str>| Tracked {
            path: path.to_owned(),
            real_folder: real.map(str::to_owned),
            backup: Backup::Absent,
        };
        let base = Some("/no/such");
        for (folder, file, right) in [
            (base, file("a..b.txt", None), "/no/such/a..b.txt"),
            (base, file("~/home.txt", None), "/no/such/~/home.txt"),
            (base, file("..\\win.txt", None), "/no/such/..\\win.txt"),
            (None, file("/etc/evil.txt", None), "/etc/evil.txt"),
            (Some("/real"), file("sub/a", Some("/real")), "/real/a"),
        ] {
            #[cfg(unix)]
            assert_eq!(place(folder, &file).unwrap(), Path::new(right), "{file:?}");
        }
        for (folder, file) in [
            (base, file("../../outside.txt", None)),
            (base, file("/etc/../x", None)),
            (None, file("a", None)),
            (Some("real"), file("a", Some("real"))),
            (Some("/real/../x"), file("a", Some("/real/../x"))),
            (base, file("", None)),
            (Some("/real"), file("", Some("/real"))),
        ] {
            assert!(place(folder, &file).is_err(), "{folder:?} {file:?}");
        }
    }
}
