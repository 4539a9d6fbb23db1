//! The handle on one open file: it lends connections for the length of a closure.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use rusqlite::Connection;
use scheduled_thread_pool::ScheduledThreadPool;

use super::create::create;
use super::existing::{self, Access, Opened};
use super::faults::locate;
use super::patience::Patience;
use super::place::{Found, Place};
use super::pool::{Closing, Pool, Shortage};
use super::process::Ticket;
use super::schema::Schema;
use super::tx::{begin_read, begin_write, commit};
use super::{Journal, OpenOptions, Tx, pragmas};
use crate::error::{Error, Result};

/// Connections that read at the same time, at most.
const READERS: u32 = 4;

/// One open file. Clones share it; any number of threads may use it.
#[derive(Clone)]
pub(crate) struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    place: Place,
    options: OpenOptions,
    schema: Schema,
    journal: Journal,
    notes: Vec<String>,
    /// One connection, so that the writers of this process queue here and not at the file's lock; none if read-only.
    writers: Option<Pool>,
    readers: Pool,
    /// The thread that is inside [`Database::write`].
    writing: Mutex<Option<ThreadId>>,
    /// SQLite's counter of changes to the schema when it was last found to be one that is known.
    schema_seen: AtomicI64,
    /// After the pools, as it waits for their connections; before the ticket, which says that the file is closed.
    closing: Closing,
    ticket: Ticket,
}

impl Database {
    /// Opens the file at `path`, making or migrating it first where that is needed and allowed.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is missing and not to be made; [`Error::NotAStore`] and [`Error::Damaged`], which
    /// leave the file as it is; [`Error::NewerSchema`]; [`Error::ReadOnly`] when it was to be written and cannot be;
    /// [`Error::Busy`]; [`Error::Full`]; [`Error::ForkedProcess`] when the process that this one was forked from has
    /// it open; [`Error::Io`].
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_with(path, options, Schema::embedded(), None)
    }

    /// Opens with another schema, or as if on another file system, than the real ones.
    pub(super) fn open_with(
        path: &Path,
        options: &OpenOptions,
        schema: Schema,
        network: Option<&str>,
    ) -> Result<Self> {
        let given = Place::absolute(path)?;
        let mut patience = Patience::new(options.busy_timeout);
        let place = match Place::find(&given)? {
            Found::File(place) => place,
            Found::Nothing if options.create && !options.read_only => {
                create(&given, &schema, options.journal, network, &mut patience)?;
                match Place::find(&given)? {
                    Found::File(place) => place,
                    Found::Nothing => return Err(Error::Gone { path: given }),
                }
            }
            Found::Nothing => {
                return Err(Error::NotFound {
                    what: "store",
                    id: path.display().to_string(),
                });
            }
        };
        let opened = existing::open(place, options, &schema, network, &mut patience)?;
        Self::assemble(opened, options, schema)
    }

    fn assemble(opened: Opened, options: &OpenOptions, schema: Schema) -> Result<Self> {
        let Opened {
            place,
            ticket,
            first,
            access,
            journal,
            notes,
        } = opened;
        let settings = options.settings();
        let opener = Arc::new(
            ScheduledThreadPool::builder()
                .num_threads(1)
                .thread_name_pattern("turnkeep-opener")
                .build(),
        );
        let closing = Closing::new();
        let reading = access.manager(&place, ticket.file(), settings, pragmas::reader);
        let (writers, readers) = if access == Access::Write {
            let set_up = if journal == Journal::Wal {
                pragmas::common
            } else {
                pragmas::rollback_writer
            };
            let writing = access.manager(&place, ticket.file(), settings, set_up);
            (
                Some(Pool::new(writing, Some(first), 1, &opener, &closing)?),
                Pool::new(reading, None, READERS, &opener, &closing)?,
            )
        } else {
            (
                None,
                Pool::new(reading, Some(first), READERS, &opener, &closing)?,
            )
        };
        let inner = Inner {
            place,
            options: options.clone(),
            schema,
            journal,
            notes,
            writers,
            readers,
            writing: Mutex::new(None),
            schema_seen: AtomicI64::new(-1),
            closing,
            ticket,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Lends a connection for reading. All that `work` reads is of one moment: the newest that was committed when it
    /// read first. The snapshot ends with the call, so keep `work` short and do not call `read` inside it.
    ///
    /// # Errors
    /// Those of `work`, sharpened where they come from SQLite; [`Error::Gone`], [`Error::ForkedProcess`],
    /// [`Error::NewerSchema`] and [`Error::Busy`].
    pub fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let inner = &*self.inner;
        inner.check_file()?;
        inner.lend(&inner.readers, |conn, patience| {
            let _open = begin_read(conn)?;
            inner.check_schema(conn, patience)?;
            work(conn)
        })
    }

    /// Lends a write transaction. When this returns `Ok`, all that `work` stored is durable in the file that bears the
    /// store's name. When `work` fails or panics, or the process dies, nothing of it is stored.
    ///
    /// # Errors
    /// Those of `work`, sharpened where they come from SQLite; [`Error::ReadOnly`], [`Error::Gone`],
    /// [`Error::ForkedProcess`], [`Error::NewerSchema`], [`Error::Full`]; [`Error::Busy`] when other writers kept the
    /// lock for all of the busy timeout; [`Error::Conflict`] when called inside another `write` on this store.
    pub fn write<T>(&self, work: impl FnOnce(&Tx<'_>) -> Result<T>) -> Result<T> {
        let inner = &*self.inner;
        let Some(writers) = &inner.writers else {
            return Err(Error::ReadOnly {
                path: inner.place.given.clone(),
            });
        };
        inner.check_file()?;
        if *inner.writing() == Some(thread::current().id()) {
            return Err(Error::Conflict(
                "a write was begun inside another on the same store: use the transaction that is open".to_owned(),
            ));
        }
        inner.lend(writers, |conn, patience| {
            let _turn = Turn::take(inner);
            let open = begin_write(conn, inner.options.busy_timeout, patience)?;
            inner.check_schema(conn, patience)?;
            let outcome = work(&Tx::new(conn, (inner.options.clock)()))?;
            // Once more, as the work may have been long.
            inner.check_file()?;
            commit(open, patience)?;
            inner.cut_log(conn);
            Ok(outcome)
        })
    }

    /// Makes the handle look as if it had been opened in the process that this one was forked from.
    #[cfg(test)]
    pub(super) fn forge_fork(&mut self) {
        let inner = Arc::get_mut(&mut self.inner).expect("a handle that was not cloned");
        inner.ticket.forge();
    }

    pub(super) fn place(&self) -> &Place {
        &self.inner.place
    }

    /// The path as the caller gave it, made absolute.
    pub fn path(&self) -> &Path {
        &self.inner.place.given
    }

    /// The kind of journal that the store runs on.
    pub fn journal(&self) -> Journal {
        self.inner.journal
    }

    /// Whether every write will be refused.
    pub fn is_read_only(&self) -> bool {
        self.inner.writers.is_none()
    }

    /// What the open had to do or warns of, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.inner.notes
    }
}

impl Inner {
    /// Lends a connection of a pool and names the file in what goes wrong.
    fn lend<T>(
        &self,
        pool: &Pool,
        work: impl FnOnce(&Connection, &mut Patience) -> Result<T>,
    ) -> Result<T> {
        let path = &self.place.given;
        let mut patience = Patience::new(self.options.busy_timeout);
        pool.lend(&mut patience, work)
            .map_err(|shortage| match shortage {
                Shortage::AllLent => Error::Busy {
                    path: path.clone(),
                    waited: patience.waited(),
                },
                Shortage::Failed(error) => locate(path, patience.waited(), error),
            })
    }

    /// Makes sure that this is the process that opened the file, and that the path still names that file: what is
    /// written into a deleted or replaced file is lost in silence.
    fn check_file(&self) -> Result<()> {
        self.ticket.check()?;
        if self.place.identity() == Some(self.ticket.file()) {
            Ok(())
        } else {
            Err(Error::Gone {
                path: self.place.given.clone(),
            })
        }
    }

    /// Makes sure, inside a transaction, that no newer release has migrated the file since it was opened. It costs one
    /// read of the first page as long as the schema does not change.
    fn check_schema(&self, conn: &Connection, patience: &Patience) -> Result<()> {
        let counter: i64 = conn
            .prepare_cached("PRAGMA schema_version")?
            .query_row([], |row| row.get(0))?;
        if self.schema_seen.load(Ordering::Relaxed) != counter {
            self.schema.check(&self.place.given, conn, patience)?;
            self.schema_seen.store(counter, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Cuts back a log that a long reader made grow, once that reader is gone: by itself SQLite does so only at the
    /// write after the next one, and a store that is seldom written would keep the size. Nobody is waited for.
    fn cut_log(&self, conn: &Connection) {
        if self.journal != Journal::Wal || self.place.size("-wal") <= pragmas::LOG_LIMIT {
            return;
        }
        // What was written is safe already. If somebody is in the way, the next write tries again.
        let _ = conn.busy_timeout(Duration::ZERO);
        let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        let _ = conn.busy_timeout(self.options.busy_timeout);
    }

    fn writing(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    /// In a forked child nothing is closed: closing would fold in and delete the log that the parent still uses.
    fn drop(&mut self) {
        if self.ticket.is_foreign() {
            self.closing.forget();
            self.readers.leak();
            if let Some(writers) = &self.writers {
                writers.leak();
            }
        }
    }
}

/// Marks the thread that writes, for as long as it does.
struct Turn<'i>(&'i Inner);

impl<'i> Turn<'i> {
    fn take(inner: &'i Inner) -> Self {
        *inner.writing() = Some(thread::current().id());
        Self(inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.writing() = None;
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.path())
            .field("journal", &self.journal())
            .field("readers", &self.inner.readers)
            .field("writers", &self.inner.writers)
            .finish_non_exhaustive()
    }
}
