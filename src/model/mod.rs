//! WHAT THINGS ARE: plain values and pure rules. No SQL, no I/O; the clock comes in as an argument.

mod append;
pub(crate) mod audit;
mod blame;
mod diff;
pub(crate) mod files;
mod fork;
mod key;
mod lease;
pub(crate) mod message;
mod news;
mod rewind;
pub(crate) mod search;
mod session;
mod sql;
mod tool;
mod usage;

pub use append::{AppendOptions, Appended};
pub use audit::{
    CallRef, Change, ChangeCursor, ChangeFilter, ChangePage, ChangeSource, Effect, PromptRef,
    StateInfo, StateKind, TouchedFile, TouchingSession,
};
pub use blame::{Blame, BlameLine, LineOrigin};
pub use diff::{DiffHunk, DiffKind, DiffLine, DiffOptions, FileDiff};
pub use files::{
    Captured, CheckedOut, FileOptions, FileState, NotKept, ToolRef, WatchOptions, Watched,
};
pub use fork::{ForkOptions, Kin, Lineage};
pub use key::{SessionKey, TranscriptKey};
pub use lease::Lease;
pub use message::{NewMessage, Role};
pub use news::{NewEntry, NewOperation, News, NewsCursor};
pub use rewind::{
    FileAction, FileOutcome, FileReport, NotCovered, Operation, Restore, RestorePoint,
    RewindOptions, RewindReport,
};
pub use search::{
    SearchCursor, SearchHit, SearchIndex, SearchPage, SearchQuery, SearchRole, Snippet,
};
pub use session::{Cursor, NewSession, SessionFilter, SessionInfo, SessionPage};
pub use sql::SqlValue;
pub use tool::{Settle, Settled, ToolCall, ToolState};
pub use usage::{PriceTable, UsageBy, UsageQuery, UsageReport, UsageRow, Used};
