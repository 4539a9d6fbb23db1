//! THE PUBLIC HANDLES. One public method is one transaction.

mod audit;
mod blobs;
mod branches;
mod checkpoints;
mod compact;
mod context;
mod conversation;
mod copies;
mod delete;
mod feed;
mod files;
mod fork;
mod head;
mod history;
mod kinship;
mod lease;
mod ledger;
mod listing;
mod messages;
mod parts;
mod phases;
mod resolve;
mod resume;
mod salvage;
mod scene;
mod scratchpad;
mod search;
mod session;
mod session_store;
mod sessions;
mod sql;
mod tasks;
mod tools;
mod transcript;
mod unpacking;
mod usage;
mod verify;
mod way;
mod window;
mod write;

use std::path::Path;
use std::sync::Arc;

pub use audit::Audit;
pub use branches::Branch;
pub use checkpoints::{Comparison, Files, ForkedFile, RewindPlan, TakeOptions, Watch};
pub use context::{Context, ContextMessage};
pub use conversation::{Conversation, ConversationEntry};
pub use messages::{Message, Messages};
pub use parts::EntryPart;
pub use phases::{Phase, PhaseError, PhaseRun, PhaseState};
pub use resolve::Scope;
pub use resume::{ResumeOptions, Resumed};
pub use salvage::Salvaged;
pub use scene::{Scene, Tokens};
pub use scratchpad::{NoteVersion, Scratchpad};
pub use session::Session;
pub use session_store::{ListEntry, SdkSummary, SessionStore, SummaryUpdate};
pub use sessions::Sessions;
pub use tasks::Task;
pub use tools::Tools;
pub use transcript::Line;
pub use verify::{Finding, Verified};
pub use window::WindowOptions;
pub use write::SessionTx;

pub(crate) use blobs::{keep as keep_content, read as read_content};
pub(crate) use checkpoints::{AtPrompt, Bound, at_prompts, is_harmless, launched_by, resolve_path};
pub(crate) use feed::{Fed, Feed, Origin};
pub(crate) use files::{FileContent, keep_file, read_file};
pub(crate) use history::History;
pub(crate) use kinship::ancestors;
pub(crate) use transcript::AsFile;

use crate::db::{Database, Journal, OpenOptions};
use crate::error::Result;
use crate::model::FileOptions;
use crate::workspace::present::{FileId, file_id};

/// One SQLite file that holds sessions, and the handle on it.
///
/// Cheap to clone, and safe to share between threads. Any number of processes may have the same
/// store open. A handle is not to be used in a process forked after it was opened.
#[derive(Clone, Debug)]
pub struct Store {
    db: Database,
    files: Arc<FileOptions>,
    notes: Arc<[String]>,
    /// Whether it may finish rewinds that were cut short.
    recovers: bool,
}

impl Store {
    /// Opens the store at `path`, and makes it if there is none.
    ///
    /// # Errors
    /// Tells apart a file that is damaged, something else, written by a newer release, or out of
    /// reach; none of them is ever changed or overwritten.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &OpenOptions::new())
    }

    /// Opens the store at `path` as `options` say.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let db = Database::open(path.as_ref(), options)?;
        let mut store = Self {
            notes: db.notes().into(),
            files: Arc::default(),
            recovers: options.recover && !db.is_read_only(),
            db,
        };
        let recovered = store.recover_rewinds()?;
        if !recovered.is_empty() {
            store.notes = store.notes.iter().cloned().chain(recovered).collect();
        }
        Ok(store)
    }

    /// The same store, with other limits for what is kept of files.
    pub fn with_files(mut self, options: FileOptions) -> Self {
        self.files = Arc::new(options);
        self
    }

    /// The sessions in it.
    pub fn sessions(&self) -> Sessions {
        Sessions::new(self.clone())
    }

    /// The store as the Claude Agent SDK knows one.
    pub fn session_store(&self) -> SessionStore {
        SessionStore::new(self.clone())
    }

    /// The file it lies in.
    pub fn path(&self) -> &Path {
        self.db.path()
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.db.is_read_only()
    }

    /// The journal it runs on.
    pub fn journal(&self) -> Journal {
        self.db.journal()
    }

    /// What opening it had to do, or warns of: rights that were tightened, a network file system,
    /// a rewind that was cut short.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The limits for what is kept of files.
    pub(crate) fn file_options(&self) -> &FileOptions {
        &self.files
    }

    /// The store's own files, which no tool call is ever taken to have changed.
    pub(crate) fn own_files(&self) -> Vec<FileId> {
        let paths = self.db.own_paths();
        paths.iter().filter_map(|path| file_id(path)).collect()
    }

    pub(crate) fn db(&self) -> &Database {
        &self.db
    }
}
