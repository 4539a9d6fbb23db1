//! What can go wrong, told by kind, by the thing it happened to and by the next step.
//!
//! Rooms below use narrow errors of their own; the store widens them once, here. No type of a
//! dependency is part of this face: what lies underneath is reached through `source()`.

use std::path::PathBuf;
use std::time::Duration;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. The text names the thing; [`Error::hint`] names the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The named thing is not there (or was deleted).
    #[error("no {what} `{id}`")]
    NotFound {
        /// The kind of thing: `session`, `message`, `store` …
        what: &'static str,
        /// The name as the caller wrote it.
        id: String,
    },
    /// An argument or an input that cannot be taken. Nothing was stored.
    #[error("{what}: {why}")]
    Invalid {
        /// The argument, as the caller knows it.
        what: String,
        /// Why it was refused.
        why: String,
    },
    /// What the caller expected is no longer so. Nothing was stored.
    #[error("{0}")]
    Conflict(String),
    /// File checkpoints are off: in the session, or in the handle that was to rewind.
    #[error("File rewinding is not enabled")]
    NotEnabled,
    /// There is no restore point of this name in the session.
    #[error("No file checkpoint found for this message: `{point}`")]
    NoCheckpoint {
        /// The name as the caller wrote it.
        point: String,
    },
    /// Another writer held the store for the whole time allowed. Nothing was stored.
    #[error("{} is busy: waited {:.1} s for another writer", path.display(), waited.as_secs_f64())]
    Busy {
        /// The store.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// A newer release wrote this store.
    #[error("{} has schema version {found}, this release knows up to {known}", path.display())]
    NewerSchema {
        /// The store.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// The file is a store but cannot be read as one. It was not changed.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// The file is something else. It was not changed.
    #[error("{} is not a Turnkeep store: {why}", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A write through a store, or to a file, that can only be read. Nothing was stored.
    #[error("{} can only be read", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The disk is full, a quota is used up, or the store's file may not grow any longer. Nothing was
    /// stored.
    #[error("no space left for {}", path.display())]
    Full {
        /// The store.
        path: PathBuf,
    },
    /// A rewind, an undo or a take was begun and the store could not record how it ended. Its files
    /// hold what they were to become, all of them or some; the conversation did not move. The next
    /// rewind, undo or take of the session finishes it, or whoever opens the store next. The kind is
    /// that of the cause.
    #[error(
        "{kind} {operation} was applied but could not be recorded: {source}; it is finished by the next rewind or undo, or when the store is opened again"
    )]
    Unrecorded {
        /// What it is: `rewind`, `undo` or `take`.
        kind: String,
        /// Its number among the operations of the store.
        operation: i64,
        /// Why it could not be recorded.
        source: Box<Error>,
    },
    /// The file under the store's name is no longer the one that was opened. Nothing was stored.
    #[error("{} was moved, deleted or replaced while it was open", path.display())]
    Gone {
        /// The store.
        path: PathBuf,
    },
    /// A handle was used in a process that was forked after it was opened.
    #[error("this store was opened before the process forked")]
    ForkedProcess,
    /// The system refused a file operation.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done, as a verb: `reading`, `creating` …
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The database refused for a reason not told apart above.
    #[error("the database refused: {0}")]
    Storage(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The stable part of an [`Error`]: one exit code of the program each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The named thing is not there.
    NotFound,
    /// A wrong argument or input.
    Invalid,
    /// What the caller expected is no longer so.
    Conflict,
    /// Another writer held the store too long.
    Busy,
    /// A newer release wrote the store.
    NewerSchema,
    /// The store is damaged.
    Damaged,
    /// The file is not a store.
    NotAStore,
    /// The store can only be read.
    ReadOnly,
    /// The disk is full.
    Full,
    /// The store's file was moved, deleted or replaced.
    Gone,
    /// The handle belongs to another process.
    ForkedProcess,
    /// A file operation failed.
    Io,
    /// Any other refusal of the database.
    Storage,
}

impl ErrorKind {
    /// The kind in one word, as the program prints it under `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Invalid => "invalid",
            Self::Conflict => "conflict",
            Self::Busy => "busy",
            Self::NewerSchema => "newer_schema",
            Self::Damaged => "damaged",
            Self::NotAStore => "not_a_store",
            Self::ReadOnly => "read_only",
            Self::Full => "full",
            Self::Gone => "gone",
            Self::ForkedProcess => "forked_process",
            Self::Io => "io",
            Self::Storage => "storage",
        }
    }
}

impl Error {
    /// The kind of this error, stable across releases.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::NoCheckpoint { .. } => ErrorKind::NotFound,
            Self::Invalid { .. } | Self::NotEnabled => ErrorKind::Invalid,
            Self::Conflict(_) => ErrorKind::Conflict,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::NewerSchema { .. } => ErrorKind::NewerSchema,
            Self::Damaged { .. } => ErrorKind::Damaged,
            Self::NotAStore { .. } => ErrorKind::NotAStore,
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::Full { .. } => ErrorKind::Full,
            Self::Unrecorded { source, .. } => source.kind(),
            Self::Gone { .. } => ErrorKind::Gone,
            Self::ForkedProcess => ErrorKind::ForkedProcess,
            Self::Io { .. } => ErrorKind::Io,
            Self::Storage(_) => ErrorKind::Storage,
        }
    }

    /// What the caller can do next, where there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotFound {
                what: "session", ..
            } => Some("`turnkeep ls` lists the sessions of a store"),
            Self::NotFound {
                what: "recorded change of the file",
                ..
            } => Some("`turnkeep changes` lists the files of which a change is recorded"),
            Self::NotFound { what: "turn", .. } => Some(
                "a turn is named by the uuid of any of its messages; `turnkeep show ID --json` has them, and a fork's own are known with `--session`",
            ),
            Self::NotFound {
                what: "rewind to undo in session" | "rewind or undo with the number",
                ..
            } => Some("`turnkeep operations ID` lists what was done to a session"),
            Self::NotFound { what: "store", .. } => Some(
                "`turnkeep import` and `append --create` make one; `--store FILE` or TURNKEEP_STORE names another",
            ),
            Self::NotEnabled => Some(
                "nothing was kept of what this session's tools changed; `turnkeep checkpoints ID on` keeps it from now on",
            ),
            Self::NoCheckpoint { .. } => {
                Some("`turnkeep points ID` lists the restore points of a session")
            }
            Self::Conflict(_) => Some("look at what is there now and decide again"),
            Self::Busy { .. } => Some("try again, or allow a longer wait"),
            Self::NewerSchema { .. } => Some("open it with the newer release; it was not changed"),
            Self::Damaged { .. } => Some(
                "keep a copy of the file and its -wal; `turnkeep salvage NEW_FILE` saves what can be read into a new store",
            ),
            Self::NotAStore { .. } => Some("name another file; this one was not changed"),
            Self::ReadOnly { .. } => Some("make the file and its folder writable, or open a copy"),
            Self::Full { .. } => {
                Some("free some space and try again; what was stored before stays")
            }
            Self::Unrecorded { source, .. } => match source.kind() {
                ErrorKind::Full => Some("free some space, then plan again: that finishes it"),
                _ => source.hint(),
            },
            Self::Gone { .. } => Some("put the file back, or open the store anew"),
            Self::ForkedProcess => Some("open the store in the process that uses it"),
            _ => None,
        }
    }

    pub(crate) fn invalid(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid {
            what: what.into(),
            why: why.into(),
        }
    }

    pub(crate) fn no_session(id: impl Into<String>) -> Self {
        Self::NotFound {
            what: "session",
            id: id.into(),
        }
    }

    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
        source: std::io::Error,
    ) -> Self {
        Self::Io {
            doing,
            path: path.into(),
            source,
        }
    }
}
