//! Turnkeep keeps an AI agent's sessions in one SQLite file, so that an app can resume and
//! fork them, and knows what was in flight. A crash at any instant loses nothing that was
//! acknowledged.
//!
//! ```
//! use turnkeep::{NewMessage, NewSession, Store};
//! # fn main() -> turnkeep::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("turnkeep.db");
//! let store = Store::open(&path)?;
//! let desk = store.sessions().create(NewSession::in_project("shop").cwd("/srv/shop").titled("order desk"))?;
//!
//! // A prompt begins a turn. When `append` returns, it is stored durably.
//! let prompt = desk.messages().append(NewMessage::user("Note order A17 in orders.txt"))?;
//!
//! // The model answers with a call: it is pending from this moment on.
//! desk.messages().append(NewMessage::assistant(serde_json::json!([
//!     {"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"file_path": "orders.txt"}}
//! ])))?;
//!
//! // The result and the answer are stored together, or not at all.
//! desk.write(|tx| {
//!     tx.append(NewMessage::tool_result("toolu_1", "Wrote orders.txt."))?;
//!     tx.append(NewMessage::assistant("Order A17 is noted."))
//! })?;
//!
//! // What a model is to be sent to go on: roles alternate, every call is answered.
//! let context = desk.context("")?;
//! assert_eq!(context.messages.len(), 4);
//!
//! // Another process finds the session by its key, its title or an id's beginning.
//! let found = store.sessions().resolve("order desk", &Default::default())?;
//! assert_eq!(found.conversation("")?.entries[0].uuid, prompt.uuid);
//! # Ok(())
//! # }
//! ```
//!
//! The store is one file and this handle; there is no server and no runtime. Any number of
//! processes may use one store at once. The file is meant to be read with plain SQL too:
//! `docs/SCHEMA.md` describes it.

#![warn(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod db;
mod error;
mod exchange;
mod model;
mod store;
mod tables;
mod transcript;
mod workspace;

pub use db::{Durability, Journal, OpenOptions};
pub use error::{Error, ErrorKind, Result};
pub use exchange::{
    agent_trace, claude_code, export_checkpoint, export_jsonl, export_markdown, import_checkpoint,
    is_entry,
};
pub use model::{
    AppendOptions, Appended, Blame, BlameLine, CallRef, Captured, Change, ChangeCursor,
    ChangeFilter, ChangePage, ChangeSource, CheckedOut, Cursor, DiffHunk, DiffKind, DiffLine,
    DiffOptions, Effect, FileAction, FileDiff, FileOptions, FileOutcome, FileReport, FileState,
    ForkOptions, Kin, Lease, LineOrigin, Lineage, NewEntry, NewMessage, NewSession, News,
    NewsCursor, NotCovered, NotKept, Operation, PriceTable, PromptRef, Restore, RestorePoint,
    RewindOptions, RewindReport, Role, SearchCursor, SearchHit, SearchIndex, SearchPage,
    SearchQuery, SearchRole, SessionFilter, SessionInfo, SessionKey, SessionPage, Settle, Settled,
    Snippet, SqlValue, StateInfo, StateKind, ToolCall, ToolRef, ToolState, TouchedFile,
    TouchingSession, TranscriptKey, UsageBy, UsageQuery, UsageReport, UsageRow, Used, WatchOptions,
    Watched,
};
pub use store::{
    Audit, Branch, Comparison, Context, ContextMessage, Conversation, ConversationEntry, EntryPart,
    Files, Finding, ForkedFile, Line, ListEntry, Message, Messages, NoteVersion, Phase, PhaseError,
    PhaseRun, PhaseState, ResumeOptions, Resumed, RewindPlan, Salvaged, Scene, Scope, Scratchpad,
    SdkSummary, Session, SessionStore, SessionTx, Sessions, Store, SummaryUpdate, TakeOptions,
    Task, Tokens, Tools, Verified, Watch, WindowOptions,
};

/// The README's examples run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
