//! SQLite's codes, turned into errors that name the file and say what to do.

use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::{ErrorCode, ffi};

use super::place::io_error;
use crate::error::{Error, Result};

/// Lets closures use `?`. The error is sharpened once the closure has returned.
impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(Box::new(error))
    }
}

/// Sharpens an error that came out of a closure on the store at `path`: a raw error of SQLite becomes one that names
/// the file; every other is passed on.
pub(super) fn locate(path: &Path, waited: Duration, error: Error) -> Error {
    match error {
        Error::Storage(source) => match source.downcast::<rusqlite::Error>() {
            Ok(raw) => translate(path, waited, *raw),
            Err(source) => Error::Storage(source),
        },
        other => other,
    }
}

/// Says what an error of SQLite means for the store at `path`, after a wait of `waited`.
///
/// An error about a statement or a value stays [`Error::Storage`].
pub(super) fn translate(path: &Path, waited: Duration, error: rusqlite::Error) -> Error {
    // Read first: later calls may set it anew.
    let last = io::Error::last_os_error();
    let Some((code, extended)) = codes(&error) else {
        return error.into();
    };
    let at = || path.to_owned();
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Busy { path: at(), waited },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Damaged {
            path: at(),
            why: error.to_string(),
        },
        ErrorCode::DiskFull => Error::Full { path: at() },
        ErrorCode::ReadOnly if extended == ffi::SQLITE_READONLY_DBMOVED || is_gone(path) => {
            Error::Gone { path: at() }
        }
        ErrorCode::ReadOnly => Error::ReadOnly { path: at() },
        ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_CORRUPTFS => Error::Damaged {
            path: at(),
            why: error.to_string(),
        },
        // The index of the write-ahead log could not be given its size.
        ErrorCode::SystemIoFailure if extended == ffi::SQLITE_IOERR_SHMSIZE => {
            Error::Full { path: at() }
        }
        ErrorCode::SystemIoFailure if is_of_writing(extended) && is_want_of_space(&last) => {
            Error::Full { path: at() }
        }
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::FileLockingProtocolFailed => refused(path, error),
        _ => error.into(),
    }
}

/// Whether it was writing, or making durable what was written, that failed. The system's number of the
/// error is this thread's last then.
fn is_of_writing(extended: i32) -> bool {
    matches!(
        extended,
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE
    )
}

/// Whether the file may not grow: the disk is full, a quota is used up, or the process may not write
/// longer files. SQLite itself knows the first alone as a full disk.
fn is_want_of_space(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), FileTooLarge | QuotaExceeded | StorageFull)
}

/// Finds out why the operating system would not let SQLite at the file: SQLite does not pass that on.
fn refused(path: &Path, error: rusqlite::Error) -> Error {
    if is_gone(path) {
        return Error::Gone {
            path: path.to_owned(),
        };
    }
    match may_use(path) {
        Err(Refusal::Read(source)) => io_error("reading", path, source),
        Err(Refusal::Write) => Error::ReadOnly {
            path: path.to_owned(),
        },
        Ok(()) => io_error("using", path, io::Error::other(error)),
    }
}

enum Refusal {
    Read(io::Error),
    Write,
}

/// Asks whether this process may read and write the file, and make side files beside it.
#[cfg(unix)]
fn may_use(path: &Path) -> Result<(), Refusal> {
    use rustix::fs::{Access, access};
    let folder = path.parent().unwrap_or(path);
    access(path, Access::READ_OK).map_err(|errno| Refusal::Read(errno.into()))?;
    access(path, Access::WRITE_OK).map_err(|_| Refusal::Write)?;
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|_| Refusal::Write)
}

#[cfg(not(unix))]
fn may_use(path: &Path) -> Result<(), Refusal> {
    let there = std::fs::metadata(path).map_err(Refusal::Read)?;
    if there.permissions().readonly() {
        Err(Refusal::Write)
    } else {
        Ok(())
    }
}

fn is_gone(path: &Path) -> bool {
    std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The primary and the extended code of an error of SQLite itself.
pub(super) fn codes(error: &rusqlite::Error) -> Option<(ErrorCode, i32)> {
    error
        .sqlite_error()
        .map(|raw| (raw.code, raw.extended_code))
}

/// Whether another connection was in the way, so that a later try may succeed.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        codes(error),
        Some((ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _))
    )
}

/// Whether the file's header is not SQLite's.
pub(super) fn is_foreign(error: &rusqlite::Error) -> bool {
    matches!(codes(error), Some((ErrorCode::NotADatabase, _)))
}

/// Whether SQLite could not have the memory or the files that a write-ahead log needs.
pub(super) fn lacks_wal(error: &rusqlite::Error) -> bool {
    match codes(error) {
        Some((ErrorCode::CannotOpen | ErrorCode::FileLockingProtocolFailed, _)) => true,
        Some((ErrorCode::SystemIoFailure, extended)) => matches!(
            extended,
            ffi::SQLITE_IOERR_SHMOPEN
                | ffi::SQLITE_IOERR_SHMMAP
                | ffi::SQLITE_IOERR_SHMLOCK
                | ffi::SQLITE_IOERR_LOCK
        ),
        _ => false,
    }
}

/// The error of a connection that found another file under the name than the one the store was opened on.
pub(super) fn moved() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY_DBMOVED), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(code: i32) -> Error {
        let file = tempfile::NamedTempFile::new().unwrap();
        let raw = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        locate(file.path(), Duration::from_secs(3), Error::from(raw))
    }

    #[test]
    fn every_code_that_has_a_remedy_is_told_apart() {
        assert!(
            matches!(translated(ffi::SQLITE_BUSY), Error::Busy { waited, .. } if waited.as_secs() == 3)
        );
        assert!(matches!(
            translated(ffi::SQLITE_BUSY_SNAPSHOT),
            Error::Busy { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_CORRUPT_INDEX),
            Error::Damaged { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_NOTADB),
            Error::Damaged { .. }
        ));
        assert!(matches!(translated(ffi::SQLITE_FULL), Error::Full { .. }));
        assert!(matches!(
            translated(ffi::SQLITE_IOERR_SHMSIZE),
            Error::Full { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_READONLY),
            Error::ReadOnly { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_READONLY_DBMOVED),
            Error::Gone { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_IOERR_READ),
            Error::Io { .. }
        ));
        assert!(matches!(
            translated(ffi::SQLITE_CONSTRAINT_UNIQUE),
            Error::Storage(_)
        ));
    }

    #[test]
    fn every_want_of_space_is_one() {
        use rustix::io::Errno;
        for errno in [Errno::FBIG, Errno::DQUOT, Errno::NOSPC] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert!(is_want_of_space(&error), "{error}");
        }
        assert!(!is_want_of_space(&io::Error::from(Errno::IO)));
        assert!(is_of_writing(ffi::SQLITE_IOERR_WRITE));
        assert!(!is_of_writing(ffi::SQLITE_IOERR_READ));
    }

    #[test]
    fn a_file_that_is_no_longer_there_is_gone() {
        let raw = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), None);
        let error = translate(Path::new("/nowhere/store.db"), Duration::ZERO, raw);
        assert!(matches!(error, Error::Gone { .. }));
    }

    #[test]
    fn an_error_of_another_kind_is_passed_on() {
        let error = locate(Path::new("/x"), Duration::ZERO, Error::Conflict("c".into()));
        assert!(matches!(error, Error::Conflict(text) if text == "c"));
        let error = locate(
            Path::new("/x"),
            Duration::ZERO,
            Error::Storage("other".into()),
        );
        assert!(matches!(error, Error::Storage(_)));
        let error = locate(
            Path::new("/x"),
            Duration::ZERO,
            rusqlite::Error::QueryReturnedNoRows.into(),
        );
        assert!(matches!(error, Error::Storage(_)));
    }
}
