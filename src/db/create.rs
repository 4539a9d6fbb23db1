//! Making a new store, so that it appears under its name whole and private, or not at all.
//!
//! The file is made and migrated under a temporary name in the same folder and then given its own. Of several
//! processes that do so at once one wins, and the others use its file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};

use super::APPLICATION_ID;
use super::faults::translate;
use super::journal::{self, Journal};
use super::pages::PAGE;
use super::patience::Patience;
use super::place::{Place, io_error};
use super::rights::{SIDE_FILES, create_folder, create_private, sync_folder};
use super::schema::Schema;
use crate::error::{Error, Result};

/// First part of the name that a store has while it is made.
const UNFINISHED: &str = ".turnkeep-new-";

/// Age at which an unfinished store has no maker any more.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Makes a store at `given` unless another process does so first. Either way a store is there afterwards.
///
/// # Errors
/// [`Error::Io`], [`Error::Full`], [`Error::ReadOnly`]; nothing is left under the name or beside it.
pub(super) fn create(
    given: &Path,
    schema: &Schema,
    forced: Option<Journal>,
    network: Option<&str>,
    patience: &mut Patience,
) -> Result<()> {
    create_with(given, schema, forced, network, patience, &mut |_| Ok(())).map(drop)
}

/// Makes a store at `given` that holds what `content` puts into it, and answers whether it is there now: `false` if
/// something else took the name first. `content` runs once more where no write-ahead log can be had.
///
/// # Errors
/// As [`create`], and those of `content`; nothing is left under the name or beside it.
pub(super) fn create_with(
    given: &Path,
    schema: &Schema,
    forced: Option<Journal>,
    network: Option<&str>,
    patience: &mut Patience,
    content: &mut dyn FnMut(&Connection) -> Result<()>,
) -> Result<bool> {
    let folder = folder_of(given);
    create_folder(folder)?;
    sweep(folder);
    let network = network.or_else(|| journal::network(folder));
    let wanted = journal::choose(forced, network);
    let mut unfinished = Unfinished::begin(given, folder)?;
    let mut outcome = fill(&unfinished.path, schema, wanted, patience, content);
    if matches!(&outcome, Err(Fault::Sqlite(error)) if journal::worth_a_rollback(wanted, forced, error))
    {
        drop(unfinished);
        unfinished = Unfinished::begin(given, folder)?;
        outcome = fill(
            &unfinished.path,
            schema,
            Journal::Rollback,
            patience,
            content,
        );
    }
    outcome.map_err(|fault| match fault {
        Fault::Sqlite(error) => {
            rename_in(translate(&unfinished.path, patience.waited(), error), given)
        }
        Fault::Known(error) => rename_in(error, given),
        Fault::Content(error) => error,
    })?;
    let placed = match put_in_place(&unfinished.path, given) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(io_error("creating", given, error)),
    };
    drop(unfinished);
    sync_folder(folder)?;
    Ok(placed)
}

/// The folder of an absolute path.
pub(super) fn folder_of(given: &Path) -> &Path {
    given.parent().unwrap_or(given)
}

/// What went wrong while a file was filled: as SQLite said it, or already in our words.
enum Fault {
    Sqlite(rusqlite::Error),
    Known(Error),
    /// Of what the caller put in; it names what it means.
    Content(Error),
}

/// Makes the content of a new store and closes the file, so that it stands alone, without side files, and on the disk.
///
/// Nothing is synced on the way, as nobody will look at a file that was not finished.
fn fill(
    path: &Path,
    schema: &Schema,
    wanted: Journal,
    patience: &mut Patience,
    content: &mut dyn FnMut(&Connection) -> Result<()>,
) -> Result<(), Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(Fault::Sqlite)?;
    conn.execute_batch(&format!(
        "PRAGMA page_size = {PAGE};
         PRAGMA synchronous = OFF;
         PRAGMA journal_mode = MEMORY;
         PRAGMA application_id = {APPLICATION_ID};"
    ))
    .map_err(Fault::Sqlite)?;
    schema
        .install(path, &mut conn, patience)
        .map_err(Fault::Known)?;
    content(&conn).map_err(Fault::Content)?;
    journal::settle(&conn, wanted, patience).map_err(Fault::Sqlite)?;
    conn.close().map_err(|(_, error)| Fault::Sqlite(error))?;
    // SQLite has let go of the file and nobody else knows its name, so a descriptor of ours drops no lock.
    fs::File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| Fault::Known(io_error("syncing", path, error)))
}

/// Gives a finished store its name, unless the name is taken.
fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    // A rename has no moment at which the file has two names. Not every file system can do it without replacing.
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            outcome => return outcome.map_err(io::Error::from),
        }
    }
    fs::hard_link(from, to)
}

/// A store that is being made; dropped, it leaves nothing behind.
pub(super) struct Unfinished {
    pub path: PathBuf,
}

impl Unfinished {
    /// Makes the empty file in `folder`, private whatever the umask. It is closed before SQLite opens it.
    pub fn begin(given: &Path, folder: &Path) -> Result<Self> {
        let path = folder.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4()));
        create_private(&path).map_err(|error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly {
                path: given.to_owned(),
            },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full {
                path: given.to_owned(),
            },
            _ => io_error("creating", given, error),
        })?;
        Ok(Self { path })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes an unfinished store and whatever lies beside it.
fn remove(path: &Path) {
    let place = Place {
        given: path.to_owned(),
        file: path.to_owned(),
    };
    for suffix in SIDE_FILES {
        let _ = fs::remove_file(place.beside(suffix));
    }
    let _ = fs::remove_file(path);
}

/// Removes unfinished stores whose makers died. What cannot be looked at or removed is left for another time.
fn sweep(folder: &Path) {
    let Some(oldest) = SystemTime::now().checked_sub(ABANDONED) else {
        return;
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(UNFINISHED));
        let old = || {
            entry
                .metadata()
                .and_then(|there| there.modified())
                .is_ok_and(|time| time < oldest)
        };
        if ours && old() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Lets an error about the temporary name speak of the store's own.
fn rename_in(error: Error, given: &Path) -> Error {
    let path = given.to_owned();
    match error {
        Error::Busy { waited, .. } => Error::Busy { path, waited },
        Error::Damaged { why, .. } => Error::Damaged { path, why },
        Error::ReadOnly { .. } => Error::ReadOnly { path },
        Error::Full { .. } => Error::Full { path },
        Error::Gone { .. } => Error::Gone { path },
        Error::Io { source, .. } => io_error("creating", given, source),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create_at(path: &Path) -> Result<()> {
        create(
            path,
            &Schema::embedded(),
            None,
            None,
            &mut Patience::new(Duration::from_secs(5)),
        )
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_store_stands_alone_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/store.db");
        create_at(&path).unwrap();
        assert_eq!(names(path.parent().unwrap()), ["store.db"]);
        let conn = Connection::open(&path).unwrap();
        let number = |pragma: &str| {
            conn.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(number("page_size"), 8192);
        assert_eq!(number("application_id"), 0x544b_4550);
        assert_eq!(journal::current(&conn).unwrap(), Journal::Wal);
    }

    #[test]
    fn a_file_that_is_already_there_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fs::write(&path, "mine").unwrap();
        create_at(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert_eq!(names(folder.path()), ["store.db"]);
    }

    #[test]
    fn a_failed_creation_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let broken = super::super::schema::tests::extended(&[("bad", "CREATE NONSENSE")]);
        let outcome = create(
            &path,
            &broken,
            None,
            None,
            &mut Patience::new(Duration::from_secs(1)),
        );
        assert!(outcome.is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn only_abandoned_makings_are_swept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let old = SystemTime::now() - Duration::from_secs(2 * 60 * 60);
        for name in [
            ".turnkeep-new-old",
            ".turnkeep-new-old-journal",
            ".turnkeep-new-young",
            "other",
        ] {
            fs::write(at(name), "x").unwrap();
            if name != ".turnkeep-new-young" {
                fs::File::options()
                    .write(true)
                    .open(at(name))
                    .unwrap()
                    .set_modified(old)
                    .unwrap();
            }
        }
        create_at(&at("store.db")).unwrap();
        assert_eq!(
            names(folder.path()),
            [".turnkeep-new-young", "other", "store.db"]
        );
    }
}
