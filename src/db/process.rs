//! Refusing what a fork of the process would break.
//!
//! SQLite's locks belong to a process, and its bookkeeping of them is copied by fork(2) while the locks are not. A
//! child that goes on with its parent's connections, or opens a file that its parent had open, believes in locks it
//! does not hold, and damages the file.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::place::Identity;
use crate::error::{Error, Result};

/// The files that are open now, with the process that opened each. A forked child inherits its parent's list.
static OPEN: Mutex<Vec<(u32, Identity)>> = Mutex::new(Vec::new());

/// The right of one process to one open file.
#[derive(Debug)]
pub(super) struct Ticket {
    process: u32,
    file: Identity,
}

impl Ticket {
    /// Registers a file as open in this process.
    ///
    /// # Errors
    /// [`Error::ForkedProcess`] if the file was open in the process that this one was forked from.
    pub fn take(file: Identity) -> Result<Self> {
        let process = process::id();
        let mut open = register();
        if open
            .iter()
            .any(|&(owner, theirs)| theirs == file && owner != process)
        {
            return Err(Error::ForkedProcess);
        }
        open.push((process, file));
        Ok(Self { process, file })
    }

    /// The file.
    pub fn file(&self) -> Identity {
        self.file
    }

    /// Whether this is another process than the one that took the ticket.
    pub fn is_foreign(&self) -> bool {
        self.process != process::id()
    }

    /// # Errors
    /// [`Error::ForkedProcess`] in any process but the one that took the ticket.
    pub fn check(&self) -> Result<()> {
        if self.is_foreign() {
            Err(Error::ForkedProcess)
        } else {
            Ok(())
        }
    }

    /// A ticket that looks as if another process had taken it.
    #[cfg(test)]
    pub fn forge(&mut self) {
        register().push((self.process ^ 1, self.file));
        self.process ^= 1;
    }
}

/// Whether this process has the file open. Opening it beside that connection, by other means than SQLite's, and
/// closing it again would drop the connection's locks.
pub(super) fn has_open(file: Identity) -> bool {
    register().contains(&(process::id(), file))
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_foreign() {
            return;
        }
        let mut open = register();
        if let Some(at) = open
            .iter()
            .position(|&entry| entry == (self.process, self.file))
        {
            open.swap_remove(at);
        }
    }
}

fn register() -> MutexGuard<'static, Vec<(u32, Identity)>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_the_parent_had_open_is_refused() {
        // What stays registered here must never be a store of another test.
        let identity = Identity::of(std::path::Path::new("/")).unwrap();
        let mut ticket = Ticket::take(identity).unwrap();
        assert!(ticket.check().is_ok());
        drop(Ticket::take(identity).unwrap());

        ticket.forge();
        assert!(matches!(ticket.check(), Err(Error::ForkedProcess)));
        assert!(matches!(Ticket::take(identity), Err(Error::ForkedProcess)));
    }
}
