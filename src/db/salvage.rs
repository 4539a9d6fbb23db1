//! What is left of a damaged file, for reading, and a new store to put it into.
//!
//! The damaged file is copied first and only the copy is worked on: its log is folded in, a header that was
//! overwritten is written anew, and the page count made to fit. The new store is made as any other: under a temporary
//! name, private, and given its own name when it is whole.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::copy::copy_quietly;
use super::create::{Unfinished, create_with, folder_of};
use super::faults::locate;
use super::header::{Header, Says};
use super::log::{Folded, fold};
use super::pages::{HEADER, PAGE, Pages};
use super::patience::Patience;
use super::place::{Found, Place, io_error};
use super::rights::create_folder;
use super::schema::Schema;
use super::tx::{begin_write, commit};
use super::{OpenOptions, Tx, process};
use crate::error::{Error, Result};

/// A private copy of a damaged file, and the ways to read it. Dropped, it leaves nothing behind.
pub(crate) struct Remains {
    /// The copy as a database; none if even its schema cannot be read.
    conn: Option<Connection>,
    pages: Pages,
    /// What was found wrong so far, in words.
    lost: Vec<String>,
    given: PathBuf,
    says: Says,
    _copy: Unfinished,
    _log: Unfinished,
}

/// Makes a store at `to` with what `work` takes from the remains of the file at `from`.
///
/// `work` is given a transaction on the new, empty store; references are not checked in it. It runs once more where no
/// write-ahead log can be had.
///
/// # Errors
/// [`Error::Conflict`] if something lies at `to`, or `from` is open in this process; [`Error::NotFound`],
/// [`Error::NotAStore`] and [`Error::Damaged`] if there is nothing to save; [`Error::NewerSchema`]; [`Error::Busy`] if
/// others keep writing to `from`; those of `work`. Nothing is left at `to` then, and `from` is never changed.
pub(crate) fn salvage<T>(
    from: &Path,
    to: &Path,
    mut work: impl FnMut(&Remains, &Tx<'_>) -> Result<T>,
) -> Result<T> {
    let given = Place::absolute(from)?;
    let to = Place::absolute(to)?;
    let Found::File(place) = Place::find(&given)? else {
        return Err(Error::NotFound {
            what: "store",
            id: from.display().to_string(),
        });
    };
    check_free(&to)?;
    if place.identity().is_some_and(process::has_open) {
        return Err(Error::Conflict(format!(
            "`{}` is open in this process: close it before it is salvaged",
            given.display()
        )));
    }
    let options = OpenOptions::new();
    let schema = Schema::embedded();
    let mut patience = Patience::new(options.busy_timeout);
    let remains = Remains::take(&place, &to, &schema, &mut patience)?;
    let mut outcome = None;
    let content = &mut |conn: &Connection| {
        let filled = fill(conn, &options, |tx| work(&remains, tx));
        outcome = Some(filled.map_err(|error| locate(&to, Duration::ZERO, error))?);
        Ok(())
    };
    let placed = create_with(&to, &schema, None, None, &mut patience, content)?;
    outcome.filter(|_| placed).ok_or_else(|| taken(&to))
}

/// Runs `work` in a transaction on a store that nobody else has.
fn fill<T>(
    conn: &Connection,
    options: &OpenOptions,
    work: impl FnOnce(&Tx<'_>) -> Result<T>,
) -> Result<T> {
    conn.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF;",
    )?;
    let mut patience = Patience::new(options.busy_timeout);
    let open = begin_write(conn, options.busy_timeout, &mut patience)?;
    let outcome = work(&Tx::new(conn, (options.clock)()))?;
    commit(open, &mut patience)?;
    Ok(outcome)
}

/// Makes sure that nothing lies under the new store's name, and no log that SQLite would fold into it.
fn check_free(to: &Path) -> Result<()> {
    let place = Place {
        given: to.to_owned(),
        file: to.to_owned(),
    };
    for path in [
        to.to_owned(),
        place.beside("-wal"),
        place.beside("-journal"),
    ] {
        if fs::symlink_metadata(&path).is_ok() {
            return Err(taken(&path));
        }
    }
    Ok(())
}

fn taken(path: &Path) -> Error {
    Error::Conflict(format!(
        "`{}` is there already: what is salvaged goes into a new file",
        path.display()
    ))
}

impl Remains {
    fn take(place: &Place, to: &Path, schema: &Schema, patience: &mut Patience) -> Result<Self> {
        let folder = folder_of(to);
        create_folder(folder)?;
        let copy = Unfinished::begin(to, folder)?;
        let log = Unfinished::begin(to, folder)?;
        let mut lost = copy_quietly(place, &copy.path, &log.path, patience)?;
        roll_back(&copy.path);
        let write = |path: &Path| {
            let opened = File::options().read(true).write(true).open(path);
            opened.map_err(|error| io_error("opening the copy", path, error))
        };
        let (mut file, mut log_file) = (write(&copy.path)?, write(&log.path)?);
        let failed = |error| io_error("preparing the copy", &copy.path, error);
        let folded = fold(&mut log_file, &mut file).map_err(failed)?;
        let (header, says) = settle(place, &mut file, &folded, &mut lost)?;
        let pages = count(&file).map_err(failed)?;
        drop(file);
        let file = File::open(&copy.path).map_err(failed)?;
        let pages = Pages::new(
            file,
            pages,
            header.freelist(),
            Some(log_file),
            folded.behind,
        );
        let conn = open(&copy.path).ok();
        if let Some(conn) = &conn
            && let Err(error @ Error::NewerSchema { .. }) =
                schema.check(&place.given, conn, patience)
        {
            return Err(error);
        }
        Ok(Self {
            conn,
            pages,
            lost,
            given: place.given.clone(),
            says,
            _copy: copy,
            _log: log,
        })
    }

    /// The copy as a database; `None` if its schema cannot be read.
    pub(crate) fn conn(&self) -> Option<&Connection> {
        self.conn.as_ref()
    }

    /// The pages of the copy.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// What was found wrong with the file as a whole.
    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    /// The error for a file in which nothing of a store was found.
    pub(crate) fn nothing_of_a_store(&self) -> Error {
        let path = self.given.clone();
        match self.says {
            Says::Store | Says::DamagedStore => Error::Damaged {
                path,
                why: "nothing in it can be read".to_owned(),
            },
            Says::AnotherApplication => Error::NotAStore {
                path,
                why: "it is an SQLite file of another application".to_owned(),
            },
            Says::Nothing => not_sqlite(path),
        }
    }
}

fn not_sqlite(path: PathBuf) -> Error {
    Error::NotAStore {
        path,
        why: "it does not begin as an SQLite file does, and holds nothing of a store".to_owned(),
    }
}

/// Lets SQLite undo, in the copy, the transaction that a rollback journal beside it belongs to.
fn roll_back(copy: &Path) {
    let mut journal = copy.as_os_str().to_owned();
    journal.push("-journal");
    if fs::metadata(&journal).is_ok() {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if let Ok(conn) = Connection::open_with_flags(copy, flags) {
            // What does not work here is found by reading.
            let _ = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()));
        }
        let _ = fs::remove_file(&journal);
    }
}

/// Makes the copy a file that SQLite reads: whole pages, a header, no log.
fn settle(
    place: &Place,
    file: &mut File,
    folded: &Folded,
    lost: &mut Vec<String>,
) -> Result<(Header, Says)> {
    let failed = |error| io_error("preparing the copy", &place.given, error);
    let bytes = file.metadata().map_err(failed)?.len();
    let mut found = [0; HEADER];
    if bytes < HEADER as u64 {
        return Err(not_sqlite(place.given.clone()));
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    file.read_exact(&mut found).map_err(failed)?;
    let found = Header::new(found);
    let says = found.says();
    let odd = !bytes.is_multiple_of(PAGE as u64);
    if says == Says::Nothing && odd {
        return Err(not_sqlite(place.given.clone()));
    }
    let pages = u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
    let mut header = if says == Says::Store {
        found.clone()
    } else {
        lost.push("the header: the first 100 bytes of the file are not those of a store; they were written anew in the copy".to_owned());
        Header::fresh(pages)
    };
    if says == Says::Store && (odd || found.pages().is_some_and(|noted| noted > pages)) {
        lost.push(format!(
            "the end of the file: {} pages of {PAGE} bytes are noted, {} whole ones are there",
            found.pages().unwrap_or(pages),
            bytes / PAGE as u64
        ));
    }
    if found.has_log() && !place.beside("-wal").exists() && place.has_content("-shm") {
        lost.push("the write-ahead log: its index is there and the log itself is not; what was not yet folded into the file is missing".to_owned());
    }
    if !folded.behind.is_empty() {
        lost.push(format!(
            "the write-ahead log: it is damaged, and {} pages behind the damaged place could not be folded in",
            folded.behind.len()
        ));
    }
    header.settle(pages);
    let mut write = || {
        file.set_len(u64::from(pages) * PAGE as u64)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(header.bytes())
    };
    write().map_err(failed)?;
    Ok((header, says))
}

fn count(file: &File) -> io::Result<u32> {
    let pages = file.metadata()?.len() / PAGE as u64;
    Ok(u32::try_from(pages).unwrap_or(u32::MAX))
}

/// Opens the copy for reading, if its schema can be read.
fn open(copy: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(copy, flags)?;
    conn.execute_batch(
        "PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON;",
    )?;
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(conn)
}
