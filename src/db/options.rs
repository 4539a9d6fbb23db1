//! What a caller may decide about an open.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Journal;
use super::pragmas::Settings;

/// Tells the time in milliseconds since the epoch.
pub(super) type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// Longest busy timeout; SQLite counts it in 32 bits of milliseconds.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Says what a returned write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// A returned write survives a crash of the process, of the system, and a loss of power.
    #[default]
    Full,
    /// A returned write survives a crash of the process; after a loss of power the newest ones may be missing,
    /// and the file is whole all the same. Faster, as nothing waits for the disk.
    Normal,
}

/// Says how a store is opened.
///
/// ```
/// use std::time::Duration;
/// use turnkeep::{Durability, OpenOptions};
///
/// let options = OpenOptions::new()
///     .durability(Durability::Normal)
///     .busy_timeout(Duration::from_secs(5));
/// ```
#[derive(Clone)]
#[must_use]
pub struct OpenOptions {
    pub(super) create: bool,
    pub(super) read_only: bool,
    pub(crate) recover: bool,
    pub(super) durability: Durability,
    pub(super) busy_timeout: Duration,
    pub(super) journal: Option<Journal>,
    pub(super) clock: Clock,
}

impl OpenOptions {
    /// Starts from the defaults: create if missing, read and write, fully durable, wait up to 30 seconds for others.
    pub fn new() -> Self {
        Self {
            create: true,
            read_only: false,
            recover: true,
            durability: Durability::Full,
            busy_timeout: Duration::from_secs(30),
            journal: None,
            clock: Arc::new(system_clock),
        }
    }

    /// Sets whether a missing store is made. Without it, opening a missing file is an error.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Does not finish what a process that died had begun with files of a work tree: it is only said, in
    /// [`Store::notes`](crate::Store::notes). For those who only want to look.
    pub fn recover(mut self, recover: bool) -> Self {
        self.recover = recover;
        self
    }

    /// Opens for reading alone: nothing is created, migrated, converted or written, and file rights stay as they are.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Sets what a returned write survives.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how long a call waits for other writers before it fails as busy; at most a day.
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout.min(LONGEST_WAIT);
        self
    }

    /// Forces a kind of journal. `None` lets the file system decide: a write-ahead log on a local one, a rollback
    /// journal on a network one.
    ///
    /// A write-ahead log on a network file system damages the store as soon as two machines use it.
    pub fn journal(mut self, journal: Option<Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// Replaces the clock, as tests do. It answers in milliseconds since the epoch and is read once a transaction.
    pub fn clock(mut self, clock: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The part that every connection is set up with.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            durability: self.durability,
            busy_timeout: self.busy_timeout,
        }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenOptions")
            .field("create", &self.create)
            .field("read_only", &self.read_only)
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// Reads the system's clock; a time before the epoch is negative.
fn system_clock() -> i64 {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => millis(since),
        Err(before) => -millis(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_safe_ones() {
        let options = OpenOptions::default();
        assert!(options.create && !options.read_only);
        assert_eq!(options.durability, Durability::Full);
        assert_eq!(options.busy_timeout, Duration::from_secs(30));
        assert!(options.journal.is_none());
        assert!((options.clock)() > 1_700_000_000_000);
    }

    #[test]
    fn an_endless_wait_is_cut_to_what_sqlite_can_count() {
        let options = OpenOptions::new().busy_timeout(Duration::MAX);
        assert_eq!(options.busy_timeout, LONGEST_WAIT);
    }
}
