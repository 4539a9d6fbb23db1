//! Recovery: a rewind that was cut short is finished, or put back, by the next open for writing, or
//! before the next rewind of a process that has the store open.
//!
//! An open does so only if it gets the lock at once, and only in the folder that was recorded (by
//! device and inode). A path that holds neither what it held before nor what it is to hold was
//! changed by somebody else: it is left alone, and the rewind ends in part.

use std::path::PathBuf;

use super::apply::{Applied, apply};
use super::finish::{Ended, finish};
use super::plan::Trees;
use crate::db::Lock;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::tables::file_states::path_of;
use crate::tables::rewinds::{self, RewindFileRow, RewindRow};
use crate::tables::sessions;

/// A rewind that had been cut short and was ended.
pub(super) struct Recovered {
    kind: String,
    status: &'static str,
    /// What became of it, in a sentence.
    pub(super) said: String,
}

impl Recovered {
    /// Whether it is an undo, and took effect.
    pub(super) fn has_undone(&self) -> bool {
        self.kind == "undo" && self.status != "put_back"
    }
}

/// What came of the try to recover a rewind.
enum Tried {
    Ended(Recovered),
    /// Its folder is not there. Why it stays unfinished, in a sentence.
    Elsewhere(String),
}

impl Store {
    /// Recovers the rewinds that were cut short, and says so, a sentence each. Opening a store for
    /// writing does this.
    pub(in crate::store) fn recover_rewinds(&self) -> Result<Vec<String>> {
        if self.unfinished()?.is_empty() {
            return Ok(Vec::new());
        }
        let lock = match self.recovers {
            true => self.db().try_lock_work()?,
            false => None,
        };
        // Another process may have finished them while this one came for the lock.
        let unfinished = self.unfinished()?;
        if lock.is_none() {
            return unfinished.iter().map(|rewind| self.say(rewind)).collect();
        }
        let say = |rewind| match self.recover(rewind)? {
            Tried::Ended(Recovered { said, .. }) | Tried::Elsewhere(said) => Ok(said),
        };
        unfinished.iter().map(say).collect()
    }

    /// Recovers what was cut short before the files of a session are looked at to rewind them: also
    /// this process may have failed to record how a rewind ended. Waits for one of the session that
    /// is being applied. Answers those of the session.
    ///
    /// # Errors
    /// [`Error::Conflict`], with its number, if one of the session is unfinished and may not be
    /// recovered here, or is still being applied after ten seconds; [`Error::Unrecorded`] if it could
    /// not be recorded once more. One whose folder is not there stands in nobody's way.
    pub(super) fn recover_before(&self, session: i64) -> Result<Vec<Recovered>> {
        let unfinished = self.unfinished()?;
        if unfinished.is_empty() {
            return Ok(Vec::new());
        }
        let own = unfinished.iter().find(|rewind| rewind.session == session);
        let lock = match (self.recovers, own) {
            (false, _) => None,
            (true, None) => self.db().try_lock_work()?,
            (true, Some(_)) => match self.lock_rewinds() {
                Err(Error::Busy { .. }) => None,
                lock => Some(lock?),
            },
        };
        match (lock, own) {
            (Some(lock), _) => self.recover_under(&lock, session),
            (None, Some(own)) => Err(Error::Conflict(self.say(own)?)),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Recovers what was cut short, unless something is being applied: nobody is waited for.
    ///
    /// # Errors
    /// As [`Store::recover_under`].
    pub(super) fn recover_if_free(&self, session: i64) -> Result<()> {
        if self.recovers
            && !self.unfinished()?.is_empty()
            && let Some(lock) = self.db().try_lock_work()?
        {
            self.recover_under(&lock, session)?;
        }
        Ok(())
    }

    /// Recovers what was cut short, under the lock: those of other sessions as far as it goes. Answers those
    /// of the session.
    ///
    /// # Errors
    /// As [`Store::recover_before`].
    pub(super) fn recover_under(&self, _: &Lock, session: i64) -> Result<Vec<Recovered>> {
        let mut recovered = Vec::new();
        for rewind in self.unfinished()? {
            let is_own = rewind.session == session;
            if !self.recovers {
                match is_own {
                    true => return Err(Error::Conflict(self.say(&rewind)?)),
                    false => continue,
                }
            }
            match self.recover(&rewind) {
                Ok(Tried::Ended(ended)) if is_own => recovered.push(ended),
                Err(error) if is_own => return Err(error),
                _ => {}
            }
        }
        Ok(recovered)
    }

    /// Applies what was recorded, and records how it ended.
    ///
    /// # Errors
    /// [`Error::Unrecorded`].
    pub(super) fn carry_out(
        &self,
        rewind: &RewindRow,
        files: Vec<RewindFileRow>,
        is_recovery: bool,
    ) -> Result<(Vec<Applied>, Ended)> {
        let whole = rewind.restores == "both" && !rewind.accepts_part;
        let done = apply(self, files, whole, is_recovery).and_then(|applied| {
            let ended = finish(self, rewind, &applied, is_recovery)?;
            Ok((applied, ended))
        });
        // Nothing is put back: the record says what the files are to become, and who finds it goes on.
        done.map_err(|source| Error::Unrecorded {
            kind: rewind.kind.clone(),
            operation: rewind.operation,
            source: Box::new(source),
        })
    }

    fn unfinished(&self) -> Result<Vec<RewindRow>> {
        self.db().read(|db| Ok(rewinds::unfinished(db)?))
    }

    fn say(&self, rewind: &RewindRow) -> Result<String> {
        let what = self.name(rewind)?;
        Ok(format!(
            "{what} is unfinished: it is being applied, or was cut short and is finished by the next open for writing"
        ))
    }

    fn name(&self, rewind: &RewindRow) -> Result<String> {
        let session = self
            .db()
            .read(|db| Ok(sessions::find_any(db, rewind.session)?))?;
        let key = session.map_or_else(String::new, |row| row.key.to_string());
        Ok(format!(
            "{} {} of session `{key}`",
            rewind.kind, rewind.operation
        ))
    }

    fn recover(&self, rewind: &RewindRow) -> Result<Tried> {
        let what = self.name(rewind)?;
        let files = self
            .db()
            .read(|db| Ok(rewinds::files(db, rewind.operation)?))?;
        let files: Vec<RewindFileRow> = files
            .into_iter()
            .filter(|file| file.temp.is_some())
            .collect();
        if let Some(root) = missing_root(&files) {
            return Ok(Tried::Elsewhere(format!(
                "{what} is unfinished: {} is not the folder it was begun in",
                root.display()
            )));
        }
        let (_, Ended { status, .. }) = self.carry_out(rewind, files, true)?;
        let how = match status {
            "done" => "was finished",
            "part" => "was finished in part",
            _ => "was put back",
        };
        Ok(Tried::Ended(Recovered {
            kind: rewind.kind.clone(),
            status,
            said: format!("{what}, which had been cut short, {how}"),
        }))
    }
}

/// A folder that is not there, or is another one than was recorded.
fn missing_root(files: &[RewindFileRow]) -> Option<PathBuf> {
    let mut trees = Trees::default();
    for file in files {
        let root = path_of(&file.root);
        let id = trees.get(&root).map(|tree| tree.id());
        let same = id.is_ok_and(|id| (id.device as i64, id.inode as i64) == file.root_id);
        if !same {
            return Some(root);
        }
    }
    None
}
