//! A lock beside the store that the system drops when its holder dies.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use super::Database;
use super::place::io_error;
use super::rights::{SIDE_FILES, open_private};
use crate::error::Result;

/// Suffix of the file that is locked while the files of a work tree are changed.
pub(super) const WORK: &str = "-rewind";

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Database {
    /// Takes the lock under which the files of a work tree are changed; `None` if it is taken. It
    /// holds among all processes, and among the handles of one.
    ///
    /// # Errors
    /// [`crate::Error::Io`] if the lock's file cannot be made or locked.
    pub fn try_lock_work(&self) -> Result<Option<Lock>> {
        let path = self.place().beside(WORK);
        let file = open_private(&path).map_err(|error| io_error("opening", &path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(io_error("locking", &path, error)),
        }
    }

    /// The store's file and everything that lies beside it, without links.
    pub fn own_paths(&self) -> Vec<PathBuf> {
        let place = self.place();
        let beside = SIDE_FILES.iter().chain([&WORK]);
        std::iter::once(place.file.clone())
            .chain(beside.map(|suffix| place.beside(suffix)))
            .collect()
    }

    /// How many bytes the store's file has.
    pub fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.place().file).map_or(0, |file| file.len())
    }
}
