//! Recovery: a rewind that was cut short is finished, or put back, by the next open for writing.
//!
//! Only an open that gets the lock at once does so, and only in the folder that was recorded (by
//! device and inode). A path that holds neither what it held before nor what it is to hold was
//! changed by somebody else: it is left alone, and the rewind ends in part.

use std::path::PathBuf;

use super::apply::apply;
use super::finish::finish;
use super::plan::Trees;
use crate::error::Result;
use crate::store::Store;
use crate::tables::file_states::path_of;
use crate::tables::rewinds::{self, RewindFileRow, RewindRow};
use crate::tables::{operations, sessions};

impl Store {
    /// Recovers the rewinds that were cut short, and says so, a sentence each. Opening a store for
    /// writing does this.
    pub(in crate::store) fn recover_rewinds(&self, may: bool) -> Result<Vec<String>> {
        if self.unfinished()?.is_empty() {
            return Ok(Vec::new());
        }
        let lock = match self.is_read_only() || !may {
            true => None,
            false => self.db().try_lock_work()?,
        };
        let Some(_lock) = lock else {
            return self.say_unfinished(&self.unfinished()?);
        };
        let mut said = Vec::new();
        // Another process may have finished them while this one came for the lock.
        for rewind in self.unfinished()? {
            said.push(self.recover(&rewind)?);
        }
        Ok(said)
    }

    fn unfinished(&self) -> Result<Vec<RewindRow>> {
        self.db().read(|db| Ok(rewinds::unfinished(db)?))
    }

    fn say_unfinished(&self, rewinds: &[RewindRow]) -> Result<Vec<String>> {
        let say = |rewind: &RewindRow| {
            let what = self.name(rewind)?;
            Ok(format!(
                "{what} is unfinished: it is being applied, or was cut short and is finished by the next open for writing"
            ))
        };
        rewinds.iter().map(say).collect()
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

    fn recover(&self, rewind: &RewindRow) -> Result<String> {
        let what = self.name(rewind)?;
        let files = self
            .db()
            .read(|db| Ok(rewinds::files(db, rewind.operation)?))?;
        let files: Vec<RewindFileRow> = files
            .into_iter()
            .filter(|file| file.temp.is_some())
            .collect();
        if let Some(root) = missing_root(&files) {
            return Ok(format!(
                "{what} is unfinished: {} is not the folder it was begun in",
                root.display()
            ));
        }
        let whole = rewind.restores == "both" && !rewind.accepts_part;
        let applied = apply(self, files, whole, true)?;
        let ended = finish(self, rewind, &applied)?;
        let how = match ended.status {
            "done" => "was finished",
            "part" => "was finished in part",
            _ => "was put back",
        };
        self.db().write(|tx| {
            let detail = serde_json::json!({"operation": rewind.operation, "status": ended.status});
            operations::insert(
                tx,
                rewind.session,
                "recover",
                None,
                Some(&detail.to_string()),
            )?;
            Ok(())
        })?;
        Ok(format!("{what}, which had been cut short, {how}"))
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
