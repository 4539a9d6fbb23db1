//! The few connections of one store, and how they are lent.

use std::fmt;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use r2d2::ManageConnection;
use r2d2_sqlite::SqliteConnectionManager;
use rusqlite::Connection;
use scheduled_thread_pool::ScheduledThreadPool;

use super::patience::Patience;
use crate::error::{Error, Result};

/// Time that opening a connection may take beyond the budget, so that an impatient caller gets a first one at all.
const OPENING: Duration = Duration::from_secs(5);

/// A pool whose connections are opened when first needed and stay open until the store is closed.
#[derive(Clone)]
pub(super) struct Pool {
    lines: r2d2::Pool<Lines>,
}

/// Opens the connections of one pool.
struct Lines {
    manager: SqliteConnectionManager,
    /// A connection that is open already and is lent before any other is opened.
    first: Mutex<Option<Connection>>,
    /// Last, so that it goes after the connection.
    open: Sender<()>,
}

/// A connection, or why there is none.
///
/// r2d2 keeps a failure to itself, tries again ever more slowly and lets the caller wait for all of its time. Handed
/// out as a connection that is broken, the failure reaches the caller at once.
enum Line {
    /// The sender goes after the connection, and tells [`Closing`] so.
    Open(
        Connection,
        #[expect(dead_code, reason = "dropping it is the message")] Sender<()>,
    ),
    Failed(Option<rusqlite::Error>),
}

/// Waits, when dropped, until all connections are closed.
///
/// The thread that opens connections may be the last to let go of a pool. Whoever closes a store and then copies the
/// file must find everything in it.
pub(super) struct Closing {
    end: Mutex<Receiver<()>>,
    open: Option<Sender<()>>,
}

impl Closing {
    pub fn new() -> Self {
        let (open, end) = mpsc::channel();
        Self {
            end: Mutex::new(end),
            open: Some(open),
        }
    }

    /// Gives up waiting, as nothing will be closed.
    pub fn forget(&mut self) {
        self.open = None;
        self.end = Mutex::new(mpsc::channel().1);
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.open = None;
        // Nothing is ever sent: the wait ends when the last sender is gone.
        let end = self.end.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = end.recv_timeout(OPENING);
    }
}

impl Pool {
    /// Prepares a pool of at most `size` connections; `first` is one of them.
    ///
    /// # Errors
    /// [`Error::Storage`] if r2d2 refuses.
    pub fn new(
        manager: SqliteConnectionManager,
        first: Option<Connection>,
        size: u32,
        opener: &Arc<ScheduledThreadPool>,
        closing: &Closing,
    ) -> Result<Self> {
        let open = closing.open.clone().unwrap_or_else(|| mpsc::channel().0);
        let lines = r2d2::Pool::builder()
            .max_size(size)
            .min_idle(Some(0))
            .test_on_check_out(false)
            // Never closed while the store is open: an open connection keeps the file's identity from being reused.
            .idle_timeout(None)
            .max_lifetime(None)
            .thread_pool(Arc::clone(opener))
            .build(Lines { manager, open, first: Mutex::new(first) })
            .map_err(|error| Error::Storage(Box::new(error)))?;
        Ok(Self { lines })
    }

    /// Lends a connection for the length of `work`, after waiting for one within the budget.
    ///
    /// # Errors
    /// What opening a connection met, as [`Error::Storage`]; `None` inside [`Shortage`] when all stayed lent.
    pub fn lend<T>(
        &self,
        patience: &mut Patience,
        work: impl FnOnce(&Connection, &mut Patience) -> Result<T>,
    ) -> Result<T, Shortage> {
        loop {
            let opening = self.lines.state().connections < self.lines.max_size();
            let wait = patience
                .left()
                .max(if opening { OPENING } else { Duration::ZERO });
            let Ok(mut line) = self.lines.get_timeout(wait) else {
                return Err(Shortage::AllLent);
            };
            match &mut *line {
                Line::Open(conn, _) => return work(conn, patience).map_err(Shortage::Failed),
                Line::Failed(error) => match error.take() {
                    Some(error) if super::faults::is_busy(&error) && patience.rest() => {}
                    Some(error) => return Err(Shortage::Failed(error.into())),
                    None => {}
                },
            }
        }
    }

    /// Keeps the connections from ever being closed.
    pub fn leak(&self) {
        std::mem::forget(self.lines.clone());
    }
}

/// Why nothing came of a loan.
pub(super) enum Shortage {
    /// Other threads kept every connection for the whole budget.
    AllLent,
    /// The work, or opening a connection for it, failed.
    Failed(Error),
}

impl ManageConnection for Lines {
    type Connection = Line;
    type Error = rusqlite::Error;

    fn connect(&self) -> Result<Line, rusqlite::Error> {
        let first = self
            .first
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let opened = first.map_or_else(|| self.manager.connect(), Ok);
        Ok(match opened {
            Ok(conn) => Line::Open(conn, self.open.clone()),
            Err(error) => Line::Failed(Some(error)),
        })
    }

    fn is_valid(&self, _line: &mut Line) -> Result<(), rusqlite::Error> {
        Ok(())
    }

    /// A connection still inside a transaction could not be rolled back and is not lent again.
    fn has_broken(&self, line: &mut Line) -> bool {
        !matches!(line, Line::Open(conn, _) if conn.is_autocommit())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lines.state();
        write!(
            f,
            "Pool({} open, {} idle)",
            state.connections, state.idle_connections
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn pool(manager: SqliteConnectionManager, size: u32) -> Pool {
        let opener = Arc::new(ScheduledThreadPool::new(1));
        Pool::new(manager, None, size, &opener, &Closing::new()).unwrap()
    }

    #[test]
    fn a_connection_that_cannot_be_opened_fails_at_once_and_every_time() {
        let pool = pool(SqliteConnectionManager::file("/nowhere/at/all.db"), 1);
        for _ in 0..3 {
            let began = Instant::now();
            let outcome = pool.lend(&mut Patience::new(Duration::from_secs(30)), |_, _| Ok(()));
            assert!(matches!(outcome, Err(Shortage::Failed(Error::Storage(_)))));
            assert!(began.elapsed() < Duration::from_secs(2));
        }
    }

    #[test]
    fn a_connection_left_inside_a_transaction_is_not_lent_again() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(SqliteConnectionManager::file(folder.path().join("x.db")), 1);
        let mut patience = Patience::new(Duration::from_secs(5));
        let begin = pool.lend(&mut patience, |conn, _| Ok(conn.execute_batch("BEGIN")?));
        assert!(begin.is_ok());
        let fresh = pool.lend(&mut patience, |conn, _| Ok(conn.is_autocommit()));
        assert!(matches!(fresh, Ok(true)));
    }

    #[test]
    fn an_impatient_caller_gets_a_first_connection_but_does_not_wait_for_a_lent_one() {
        let folder = tempfile::tempdir().unwrap();
        let pool = pool(SqliteConnectionManager::file(folder.path().join("x.db")), 1);
        let nested = pool.lend(&mut Patience::new(Duration::ZERO), |_, _| {
            Ok(matches!(
                pool.lend(&mut Patience::new(Duration::ZERO), |_, _| Ok(())),
                Err(Shortage::AllLent)
            ))
        });
        assert!(matches!(nested, Ok(true)));
    }
}
