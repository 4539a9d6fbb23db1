//! Opening a file that is there: is it ours, is it whole, can it be used as asked.
//!
//! The first connection answers that, and stays. Until the file is known to be a store, nothing is done that would
//! change it: closing this connection does not even fold another application's log into its file.

use std::path::PathBuf;

use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::faults::{self, codes, translate};
use super::journal::{self, Journal};
use super::patience::Patience;
use super::place::{Identity, Place};
use super::pragmas::{self, Settings};
use super::process::Ticket;
use super::schema::Schema;
use super::{APPLICATION_ID, OpenOptions, rights};
use crate::error::{Error, Result};

/// A store that was opened and found good.
pub(super) struct Opened {
    pub place: Place,
    pub ticket: Ticket,
    /// The connection that examined the file, set up as its access asks.
    pub first: Connection,
    pub access: Access,
    pub journal: Journal,
    pub notes: Vec<String>,
}

/// How connections may use the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Write,
    Read,
    /// Without locks and side files, as if nobody could change the file: for a folder that may not be written.
    Frozen,
}

/// What went wrong: as SQLite said it, so that another way can be tried, or already in our words.
enum Fault {
    Sqlite(rusqlite::Error),
    Known(Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Known(error)
    }
}

impl Fault {
    fn explain(self, place: &Place, patience: &Patience) -> Error {
        match self {
            Self::Sqlite(error) => translate(&place.given, patience.waited(), error),
            Self::Known(error) => error,
        }
    }
}

/// Opens the file as the options ask.
///
/// # Errors
/// [`Error::NotAStore`], [`Error::Damaged`], [`Error::NewerSchema`], [`Error::ReadOnly`] when it was to be written and
/// cannot be, [`Error::Busy`], [`Error::Conflict`] when its journal cannot be changed as the file system demands.
pub(super) fn open(
    place: Place,
    options: &OpenOptions,
    schema: &Schema,
    network: Option<&str>,
    patience: &mut Patience,
) -> Result<Opened> {
    let network = network.or_else(|| journal::network(&place.file));
    if options.read_only {
        open_reading(place, options, schema, network, patience)
    } else {
        open_writing(place, options, schema, network, patience)
    }
}

fn open_writing(
    place: Place,
    options: &OpenOptions,
    schema: &Schema,
    network: Option<&str>,
    patience: &mut Patience,
) -> Result<Opened> {
    let wanted = journal::choose(options.journal, network);
    // Alone with the file, SQLite keeps a log's index in its own memory: a log left on a network file system can be
    // folded in without sharing memory there.
    let alone = wanted == Journal::Rollback && network.is_some();
    let outcome = match try_writing(&place, wanted, alone, options, schema, patience) {
        Err(Fault::Sqlite(error)) if journal::worth_a_rollback(wanted, options.journal, &error) => {
            try_writing(&place, Journal::Rollback, true, options, schema, patience)
                .map_err(|_| Fault::Sqlite(error))
        }
        outcome => outcome,
    };
    let (mut first, ticket, journal) = outcome.map_err(|fault| match fault {
        Fault::Sqlite(error) if alone && faults::is_busy(&error) && place.beside("-wal").exists() => {
            Error::Conflict(format!(
                "`{}` has a write-ahead log, lies on a network or shared file system ({}) and is open elsewhere: close it there, so that it can change to a rollback journal",
                place.given.display(),
                network.unwrap_or("unknown"),
            ))
        }
        fault => fault.explain(&place, patience),
    })?;
    let mut notes = rights::tighten(&place, false);
    notes.extend(journal::remark(journal, options.journal, network));
    schema.bring_up(&place, &mut first, patience)?;
    let set_up = first
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .and_then(|_| pragmas::common(&first, options.settings()));
    set_up.map_err(|error| Fault::Sqlite(error).explain(&place, patience))?;
    Ok(Opened {
        place,
        ticket,
        first,
        access: Access::Write,
        journal,
        notes,
    })
}

fn try_writing(
    place: &Place,
    wanted: Journal,
    alone: bool,
    options: &OpenOptions,
    schema: &Schema,
    patience: &mut Patience,
) -> Result<(Connection, Ticket, Journal), Fault> {
    let (conn, ticket) = connect(place, Access::Write, alone, options)?;
    if conn.is_readonly("main")? {
        return Err(Fault::Known(Error::ReadOnly {
            path: place.given.clone(),
        }));
    }
    // A file that is refused keeps its journal too.
    schema.check(&place.given, &conn, patience)?;
    let journal = journal::settle(&conn, wanted, patience)?;
    if alone {
        // The lock goes with the next use.
        conn.execute_batch("PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema;")?;
    }
    Ok((conn, ticket, journal))
}

fn open_reading(
    place: Place,
    options: &OpenOptions,
    schema: &Schema,
    network: Option<&str>,
    patience: &mut Patience,
) -> Result<Opened> {
    let (first, ticket, access, journal) =
        try_reading(&place, options, network).map_err(|fault| fault.explain(&place, patience))?;
    let found = schema.check(&place.given, &first, patience)?;
    if found < schema.known() {
        return Err(unreadable(
            &place,
            &format!(
                "it has schema {found} and this release reads {}: open it once for writing, which migrates it",
                schema.known()
            ),
        ));
    }
    pragmas::reader(&first, options.settings())
        .map_err(|error| Fault::Sqlite(error).explain(&place, patience))?;
    let mut notes = rights::tighten(&place, true);
    if access == Access::Frozen {
        notes.push(
            "the store is read without locks, as no side files can be made here: changes made by others meanwhile are not seen"
                .to_owned(),
        );
    }
    Ok(Opened {
        place,
        ticket,
        first,
        access,
        journal,
        notes,
    })
}

/// Opens for reading, and without locks where that is the only way and safe: when no log and no journal holds changes
/// that are not in the file.
fn try_reading(
    place: &Place,
    options: &OpenOptions,
    network: Option<&str>,
) -> Result<(Connection, Ticket, Access, Journal), Fault> {
    let attempt = connect(place, Access::Read, false, options)
        .and_then(|(conn, ticket)| Ok((journal::current(&conn)?, conn, ticket)));
    let refusal = match attempt {
        Ok((Journal::Wal, ..)) if network.is_some() => None,
        Ok((journal, conn, ticket)) => return Ok((conn, ticket, Access::Read, journal)),
        Err(Fault::Sqlite(error)) if needs_side_files(&error) => Some(error),
        Err(fault) => return Err(fault),
    };
    if place.has_content("-wal") || place.has_content("-journal") {
        return Err(Fault::Known(unreadable(
            place,
            "a log or journal beside it holds changes that are not in the file yet, and cannot be used from here: open it once for writing, or copy both to a folder that may be written",
        )));
    }
    match connect(place, Access::Frozen, false, options) {
        Ok((conn, ticket)) => Ok((conn, ticket, Access::Frozen, Journal::Wal)),
        Err(fault) => Err(refusal.map_or(fault, Fault::Sqlite)),
    }
}

fn needs_side_files(error: &rusqlite::Error) -> bool {
    faults::lacks_wal(error) || matches!(codes(error), Some((ErrorCode::ReadOnly, _)))
}

fn unreadable(place: &Place, why: &str) -> Error {
    Error::Invalid {
        what: format!("`{}` opened for reading", place.given.display()),
        why: why.to_owned(),
    }
}

/// Opens a connection, makes sure that it is on the file that the path names, and that this file is a store.
fn connect(
    place: &Place,
    access: Access,
    alone: bool,
    options: &OpenOptions,
) -> Result<(Connection, Ticket), Fault> {
    // On an overlay file system the first open for writing makes a copy with another number; the second finds it.
    for _ in 0..3 {
        let Some(identity) = place.identity() else {
            break;
        };
        let ticket = Ticket::take(identity)?;
        let conn = Connection::open_with_flags(access.name(place), access.flags())?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        conn.busy_timeout(options.busy_timeout)?;
        if alone {
            conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
        }
        identify(place, &conn)?;
        if place.identity() == Some(ticket.file()) {
            return Ok((conn, ticket));
        }
    }
    Err(Fault::Known(Error::Gone {
        path: place.given.clone(),
    }))
}

/// Reads the mark that a store carries in its header.
fn identify(place: &Place, conn: &Connection) -> Result<(), Fault> {
    let foreign = |why: String| {
        Fault::Known(Error::NotAStore {
            path: place.given.clone(),
            why,
        })
    };
    match conn.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0)) {
        Ok(APPLICATION_ID) => Ok(()),
        Ok(0) => Err(foreign("it is an SQLite file of another application".to_owned())),
        Ok(other) => Err(foreign(format!("it is an SQLite file of another application (id {other:#x})"))),
        Err(error) if faults::is_foreign(&error) => Err(foreign(
            "it does not begin as an SQLite file does (if it was a store once, `turnkeep salvage` saves what can be read)"
                .to_owned(),
        )),
        Err(error) => Err(Fault::Sqlite(error)),
    }
}

impl Access {
    fn flags(self) -> OpenFlags {
        // Each connection is used by one thread at a time, so SQLite needs no mutex of its own. Without CREATE a file
        // that vanished is an error and not an empty store.
        OpenFlags::SQLITE_OPEN_NO_MUTEX
            | match self {
                Self::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
                Self::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
                Self::Frozen => OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI,
            }
    }

    fn name(self, place: &Place) -> PathBuf {
        match self {
            Self::Write | Self::Read => place.file.clone(),
            Self::Frozen => place.frozen_uri().into(),
        }
    }

    /// Prepares what opens further connections of this kind.
    pub fn manager(
        self,
        place: &Place,
        file: Identity,
        settings: Settings,
        set_up: fn(&Connection, Settings) -> rusqlite::Result<()>,
    ) -> SqliteConnectionManager {
        let at = place.clone();
        SqliteConnectionManager::file(self.name(place))
            .with_flags(self.flags())
            .with_init(move |conn| {
                if at.identity() != Some(file) {
                    return Err(faults::moved());
                }
                set_up(conn, settings)
            })
    }
}
