//! How one file is opened and locked.
//!
//! This floor knows no noun. It turns a path into a [`Database`]: it makes the file, migrates it, sets every
//! connection up, keeps a small pool of them, and lends one for the length of a closure. What the rows mean is
//! decided above.
//!
//! Promises:
//! - A store appears under its name whole and private, or not at all (`create`).
//! - A file that is not a store, or a damaged one, is named in the error and left as it is (`existing`).
//! - What is left of a damaged one is read from a private copy, and only ever put into a new store (`salvage`).
//! - A write that returned is on the disk, in the file that bears the name; one that did not left nothing (`database`).
//! - No read snapshot outlives the call that took it, so the write-ahead log can always be reset.
//!
//! Locks, from the outside in: `<db>.lock` while a migration runs; this process's one writing connection;
//! SQLite's own write lock.

mod copy;
mod create;
mod database;
mod existing;
mod faults;
mod header;
mod journal;
mod lock;
mod log;
mod options;
mod pages;
mod patience;
mod place;
mod pool;
mod pragmas;
mod process;
mod rights;
mod salvage;
mod schema;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trials;
mod tx;

pub(crate) use database::Database;
pub use journal::Journal;
pub(crate) use lock::Lock;
pub use options::{Durability, OpenOptions};
pub(crate) use salvage::{Remains, salvage};
pub(crate) use tx::Tx;

/// Marks a file as a store: "TKEP", in SQLite's header. `file(1)` and every open read it.
pub(crate) const APPLICATION_ID: i32 = 0x544b_4550;
