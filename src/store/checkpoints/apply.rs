//! Applying what a rewind has recorded: each file is written beside and renamed.
//!
//! First everything is made ready beside, then it is put in place, so that what cannot be done shows
//! before anything is touched. Before each step the path must hold what was recorded: what somebody
//! changed in between is left alone. The same code finishes a rewind that was cut short.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::plan::Trees;
use super::states::{Found, inner_folders};
use crate::error::{Error, Result};
use crate::model::FileOutcome;
use crate::store::{Store, blobs as contents};
use crate::tables::blobs;
use crate::tables::file_states::{NEW_FILE, StateRow, path_of};
use crate::tables::rewinds::RewindFileRow;
use crate::workspace::tree::{Refused, Tree};

/// Why a file was left that somebody changed while the rewind ran.
const CHANGED: &str = "it was changed while the rewind ran";

/// Why nothing was done to a file that could have been put back.
const PUT_BACK: &str = "put back, as another file could not be done";

/// What came of one file.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) file: RewindFileRow,
    pub(super) outcome: FileOutcome,
    pub(super) reason: Option<String>,
}

/// How far a file has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// It holds what it should; whether by this very run.
    Done,
    /// What it should hold lies ready beside it.
    Ready,
    Stopped(FileOutcome, String),
}

/// Applies the files of a rewind. With `whole`, if one cannot be done all are put back.
pub(super) fn apply(
    store: &Store,
    files: Vec<RewindFileRow>,
    whole: bool,
    is_recovery: bool,
) -> Result<Vec<Applied>> {
    let named = files.iter().flat_map(|file| [&file.before, &file.after]);
    let blobs: Vec<i64> = named.filter_map(StateRow::blob).collect();
    let mut hand = Hand {
        store,
        trees: Trees::default(),
        blobs: store.db().read(|db| Ok(blobs::by_hash(db, &blobs)?))?,
    };
    let mut steps = Vec::with_capacity(files.len());
    for file in &files {
        if is_recovery {
            hand.clear(file);
        }
        steps.push(hand.ready(file)?);
    }
    // All are written before the first is synced: the file system commits them together.
    for (file, step) in files.iter().zip(&mut steps) {
        if *step == Step::Ready {
            *step = hand.sync_beside(file, &file.after);
        }
    }
    let is_stopped = |step: &Step| matches!(step, Step::Stopped(..));
    let mut stopped = whole && steps.iter().any(is_stopped);
    for (file, step) in files.iter().zip(&mut steps) {
        if !stopped && *step == Step::Ready {
            *step = hand.put(file)?;
            stopped = whole && is_stopped(step);
        }
    }
    if !stopped {
        hand.sync_folders(&files, &mut steps);
        stopped = whole && steps.iter().any(is_stopped);
    }
    for (file, step) in files.iter().zip(&mut steps).rev() {
        if stopped {
            hand.take_back(file, step)?;
        } else if is_stopped(step) && hand.holds(file, &file.after)? {
            // Only what came after it failed.
            *step = Step::Done;
        }
    }
    for (file, step) in files.iter().zip(&steps) {
        match step {
            Step::Done if file.after == StateRow::Absent => {
                hand.remove_folders(file, file.old_folders);
            }
            Step::Stopped(..) => hand.clear(file),
            _ => {}
        }
    }
    let applied = files.into_iter().zip(steps).map(|(file, step)| {
        let (outcome, reason) = match step {
            Step::Stopped(outcome, reason) => (outcome, Some(reason)),
            Step::Done | Step::Ready => (FileOutcome::Done, file.reason.clone()),
        };
        Applied {
            file,
            outcome,
            reason,
        }
    });
    Ok(applied.collect())
}

/// A new name for what lies beside a file until it is renamed.
pub(super) fn temp_name() -> String {
    format!(".turnkeep-{}", Uuid::new_v4())
}

struct Hand<'a> {
    store: &'a Store,
    trees: Trees,
    /// The blobs that the files are to hold or held, by their hash.
    blobs: HashMap<Vec<u8>, i64>,
}

impl Hand<'_> {
    /// The folder that a file is reached through, if it is still the one that was recorded.
    fn tree(&mut self, file: &RewindFileRow) -> Result<&Tree, Refused> {
        let root = path_of(&file.root);
        let tree = self.trees.get(&root).map_err(Refused::Io)?;
        let id = tree.id();
        if (id.device as i64, id.inode as i64) != file.root_id {
            let why = format!("{} is another folder now", root.display());
            return Err(Refused::Io(io::Error::new(io::ErrorKind::NotFound, why)));
        }
        Ok(tree)
    }

    /// What lies at a file's path now.
    fn found(&mut self, file: &RewindFileRow) -> Result<Result<Found, Refused>> {
        let max_bytes = u64::MAX;
        let present = match self.tree(file) {
            Ok(tree) => tree.look(&relative(file), max_bytes),
            Err(refused) => Err(refused),
        };
        match present {
            Ok(present) => {
                let known = |hash: &[u8; 32]| Ok(self.blobs.get(&hash[..]).copied());
                Found::among(present, known).map(Ok)
            }
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Makes a file ready beside its place.
    fn ready(&mut self, file: &RewindFileRow) -> Result<Step> {
        let found = match self.found(file)? {
            Ok(found) => found,
            Err(refused) => return Ok(failed(&refused)),
        };
        if found.state().is(&file.after) {
            return Ok(Step::Done);
        }
        if !found.state().is(&file.before) {
            return Ok(Step::Stopped(FileOutcome::Left, CHANGED.to_owned()));
        }
        self.beside(file, &file.after)
    }

    /// Writes a state beside a file's place.
    fn beside(&mut self, file: &RewindFileRow, state: &StateRow) -> Result<Step> {
        let bytes = match state.blob() {
            Some(blob) => Some(self.content(blob)?),
            None => None,
        };
        let temp = file.temp.as_deref().unwrap_or_default();
        let path = relative(file);
        let written = self.tree(file).and_then(|tree| {
            if matches!(state, StateRow::Absent) || only_mode(file).is_some() {
                return Ok(());
            }
            for folder in tree.missing_folders(&path)? {
                tree.make_folder(&folder)?;
            }
            match (state, &bytes) {
                (StateRow::Symlink { target }, _) => {
                    tree.link_beside(&path, temp, &path_of(target))
                }
                (StateRow::File { mode, .. }, Some(bytes)) => {
                    tree.write_beside(&path, temp, bytes, mode.unwrap_or(NEW_FILE))
                }
                _ => Ok(()),
            }
        });
        Ok(match written {
            Ok(()) => Step::Ready,
            Err(refused) => failed(&refused),
        })
    }

    /// Makes what lies ready beside a file durable.
    fn sync_beside(&mut self, file: &RewindFileRow, state: &StateRow) -> Step {
        let is_written = matches!(state, StateRow::File { .. }) && only_mode(file).is_none();
        let (path, temp) = (relative(file), file.temp.as_deref().unwrap_or_default());
        let synced = match self.tree(file) {
            Ok(tree) if is_written => tree.sync_beside(&path, temp),
            Ok(_) => Ok(()),
            Err(refused) => Err(refused),
        };
        match synced {
            Ok(()) => Step::Ready,
            Err(refused) => failed(&refused),
        }
    }

    /// Puts what lies ready in place.
    fn put(&mut self, file: &RewindFileRow) -> Result<Step> {
        let found = match self.found(file)? {
            Ok(found) => found,
            Err(refused) => return Ok(failed(&refused)),
        };
        if !found.state().is(&file.before) {
            return Ok(Step::Stopped(FileOutcome::Left, CHANGED.to_owned()));
        }
        Ok(match self.place(file, &file.after) {
            Ok(()) => Step::Done,
            Err(refused) => failed(&refused),
        })
    }

    fn place(&mut self, file: &RewindFileRow, state: &StateRow) -> Result<(), Refused> {
        let (path, temp) = (relative(file), file.temp.as_deref().unwrap_or_default());
        let tree = self.tree(file)?;
        match state {
            StateRow::Absent => tree.remove(&path),
            StateRow::File {
                mode: Some(mode), ..
            } if only_mode(file).is_some() => tree.set_mode(&path, *mode),
            _ => tree.put(&path, temp),
        }
    }

    /// Gives a file back what it held before the rewind. One that somebody else changed is left.
    fn take_back(&mut self, file: &RewindFileRow, step: &mut Step) -> Result<()> {
        self.clear(file);
        if self.holds(file, &file.after)? && !file.after.is(&file.before) {
            let placed = match self.beside(file, &file.before)? {
                Step::Ready => {
                    self.sync_beside(file, &file.before);
                    let placed = self.place(file, &file.before);
                    let path = relative(file);
                    // It is as before, durable or not.
                    let _ = self.tree(file).and_then(|tree| tree.sync_folder(&path));
                    placed.is_ok()
                }
                _ => false,
            };
            if !placed && !self.holds(file, &file.before)? {
                // It stays as the rewind left it, and is recorded so.
                *step = Step::Done;
                return Ok(());
            }
        }
        if self.holds(file, &file.before)? {
            self.remove_folders(file, file.new_folders);
        }
        if !matches!(step, Step::Stopped(..)) {
            *step = Step::Stopped(FileOutcome::Left, PUT_BACK.to_owned());
        }
        Ok(())
    }

    /// Whether a file's path holds a state now.
    fn holds(&mut self, file: &RewindFileRow, state: &StateRow) -> Result<bool> {
        Ok(self.found(file)?.is_ok_and(|found| found.state().is(state)))
    }

    /// Makes the files' folders durable, each once. A file of one that cannot be is said to have failed.
    fn sync_folders(&mut self, files: &[RewindFileRow], steps: &mut [Step]) {
        let mut synced = HashSet::new();
        for (file, step) in files.iter().zip(steps) {
            let path = relative(file);
            let folder = path.parent().map(Path::to_owned);
            if *step == Step::Done && synced.insert((file.root.clone(), folder)) {
                let done = self.tree(file).and_then(|tree| tree.sync_folder(&path));
                if let Err(refused) = done {
                    *step = failed(&refused);
                }
            }
        }
    }

    /// Removes what lies ready beside a file. If that cannot be done, its name tells whose it is.
    fn clear(&mut self, file: &RewindFileRow) {
        let path = relative(file);
        if let (Some(temp), Ok(tree)) = (file.temp.as_deref(), self.tree(file)) {
            let _ = tree.drop_beside(&path, temp);
        }
    }

    /// Removes the `count` innermost folders of a file that are empty.
    fn remove_folders(&mut self, file: &RewindFileRow, count: u32) {
        let path = relative(file);
        let Ok(tree) = self.tree(file) else { return };
        for folder in inner_folders(&path, count) {
            if folder.as_os_str().is_empty() || !tree.remove_empty_folder(&folder).unwrap_or(false)
            {
                break;
            }
        }
    }

    fn content(&self, blob: i64) -> Result<Vec<u8>, Error> {
        self.store
            .db()
            .read(|db| contents::read(db, self.store.path(), blob))
    }
}

/// The content, if only the mode of it is to change.
fn only_mode(file: &RewindFileRow) -> Option<i64> {
    file.before
        .blob()
        .filter(|blob| file.after.blob() == Some(*blob))
}

fn failed(refused: &Refused) -> Step {
    Step::Stopped(FileOutcome::Failed, refused.to_string())
}

/// A file's path below its root.
fn relative(file: &RewindFileRow) -> PathBuf {
    let path = file.path.path();
    let root = path_of(&file.root);
    path.strip_prefix(&root).map(Path::to_owned).unwrap_or(path)
}
