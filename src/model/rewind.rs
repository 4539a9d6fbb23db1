//! Rewinds: what is asked, what would be done to each file, and what came of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::files::{path, paths};

/// What a rewind takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Restore {
    /// The files, and not the conversation.
    Files,
    /// The conversation, and not the files.
    Conversation,
    /// Both; the conversation moves only if all files did.
    Both,
}

impl Restore {
    /// The word in the tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Conversation => "conversation",
            Self::Both => "both",
        }
    }

    pub(crate) fn files(self) -> bool {
        self != Self::Conversation
    }

    pub(crate) fn conversation(self) -> bool {
        self != Self::Files
    }
}

/// Where to rewind to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindOptions {
    pub(crate) point: String,
    pub(crate) restore: Restore,
    pub(crate) only: Vec<PathBuf>,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) force: bool,
    pub(crate) while_pending: bool,
    pub(crate) accept_part: bool,
    pub(crate) by: Option<String>,
}

impl RewindOptions {
    /// To a restore point: a prompt's uuid, a tool-use id, a label, `@last`, `@last~2`, `@start`,
    /// or the beginning of an id that no other has. Files and conversation, unless told otherwise.
    pub fn to(point: impl Into<String>) -> Self {
        Self {
            point: point.into(),
            restore: Restore::Both,
            only: Vec::new(),
            roots: Vec::new(),
            force: false,
            while_pending: false,
            accept_part: false,
            by: None,
        }
    }

    /// What to take back.
    pub fn restore(mut self, restore: Restore) -> Self {
        self.restore = restore;
        self
    }

    /// Only this file, or the files below this folder. May be given more than once.
    pub fn only(mut self, path: impl Into<PathBuf>) -> Self {
        self.only.push(path.into());
        self
    }

    /// Allows files below this folder to be changed, beside those below the session's own roots.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.roots.push(folder.into());
        self
    }

    /// Puts back also what was changed by others since; what is overwritten is kept first.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Goes on although a tool call of the session has no result yet.
    pub fn while_pending(mut self, anyway: bool) -> Self {
        self.while_pending = anyway;
        self
    }

    /// With both, lets the conversation move although some files are left as they are.
    pub fn accept_part(mut self, accept: bool) -> Self {
        self.accept_part = accept;
        self
    }

    /// Who asked, for the log.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(who.into());
        self
    }
}

/// What a rewind does to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileAction {
    /// It gets the content, mode or target that it had.
    Restore,
    /// It was not there, and goes.
    Delete,
    /// It is gone, and comes back.
    Recreate,
    /// It is as it was.
    Unchanged,
    /// Somebody else changed it since: it is left alone.
    Conflict,
    /// What it was is not kept.
    NotCovered,
    /// It cannot be put back safely.
    Refused,
}

impl FileAction {
    /// The word in the tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Restore => "restore",
            Self::Delete => "delete",
            Self::Recreate => "recreate",
            Self::Unchanged => "unchanged",
            Self::Conflict => "conflict",
            Self::NotCovered => "not_covered",
            Self::Refused => "refused",
        }
    }

    /// Whether a file is touched.
    pub(crate) fn touches(self) -> bool {
        matches!(self, Self::Restore | Self::Delete | Self::Recreate)
    }

    /// Whether a file that should be put back is not.
    pub(crate) fn leaves(self) -> bool {
        matches!(self, Self::Conflict | Self::NotCovered | Self::Refused)
    }

    pub(crate) fn from_word(word: &str) -> Self {
        [
            Self::Restore,
            Self::Delete,
            Self::Recreate,
            Self::Unchanged,
            Self::Conflict,
            Self::NotCovered,
        ]
        .into_iter()
        .find(|action| action.as_str() == word)
        .unwrap_or(Self::Refused)
    }
}

/// What came of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOutcome {
    /// Nothing yet.
    Planned,
    /// It is as it should be.
    Done,
    /// It was left as it was.
    Left,
    /// It was tried, and failed.
    Failed,
}

impl FileOutcome {
    /// The word in the tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Done => "done",
            Self::Left => "left",
            Self::Failed => "failed",
        }
    }
}

/// One file of a plan or of a rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The path, absolute. Where it is not UTF-8, its JSON has the bytes too, in base64, as
    /// `path_bytes`.
    #[serde(flatten, serialize_with = "path")]
    pub path: PathBuf,
    /// What is to be done to it.
    pub action: FileAction,
    /// What came of that.
    pub outcome: FileOutcome,
    /// Why it is left alone, or what is special.
    pub reason: Option<String>,
    /// How many lines come back.
    pub insertions: usize,
    /// How many lines go.
    pub deletions: usize,
}

/// Something that a rewind cannot take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotCovered {
    /// The tool, or the folder that was scanned in part.
    pub what: String,
    /// How many of its calls, or of its files.
    pub count: usize,
    /// Why.
    pub reason: String,
}

/// What a rewind would do, or did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RewindReport {
    /// The operation, by which it is undone; `None` for a plan.
    pub operation: Option<i64>,
    /// What was asked for.
    pub restore: Restore,
    /// The files.
    pub files: Vec<FileReport>,
    /// Those left alone because somebody else changed them.
    #[serde(serialize_with = "paths")]
    pub conflicts: Vec<PathBuf>,
    /// What else happened since the point and is not taken back.
    pub not_covered: Vec<NotCovered>,
    /// The head, by uuid: as it would be, or is.
    pub head: Option<String>,
    /// Whether the conversation moved; of a plan, whether it would.
    pub conversation_moved: bool,
    /// What the prompt said that left the conversation, for editing it.
    pub removed_prompt: Option<String>,
    /// Phases of tasks, as `task/phase`, whose recorded changes were taken back.
    pub stale_phases: Vec<String>,
}

impl RewindReport {
    /// Whether anything that should be put back was not.
    pub fn is_partial(&self) -> bool {
        self.files.iter().any(|file| {
            file.action.leaves() || matches!(file.outcome, FileOutcome::Left | FileOutcome::Failed)
        })
    }

    /// Whether any file was changed.
    pub fn touched_files(&self) -> bool {
        self.files
            .iter()
            .any(|file| file.outcome == FileOutcome::Done && file.action.touches())
    }
}

/// A restore point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestorePoint {
    /// Its name: a prompt's uuid, or a tool-use id.
    pub id: String,
    /// The tool, if it is a call that is stored.
    pub tool: Option<String>,
    /// The beginning of what the prompt says.
    pub text: Option<String>,
    /// Names given to it.
    pub labels: Vec<String>,
    /// When it was written, in epoch milliseconds.
    pub timestamp_ms: Option<i64>,
    /// The files that were changed since, each once: what rewinding to it would look at.
    #[serde(serialize_with = "paths")]
    pub changed: Vec<PathBuf>,
}

/// A rewind or an undo, as the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Its number, unique in the store.
    pub id: i64,
    /// `create`, `fork`, `rewind`, `undo`, `settle` …
    pub kind: String,
    /// When, in epoch milliseconds.
    pub at_ms: i64,
    /// By whom, if that was told.
    pub by: Option<String>,
    /// More about it, as JSON text.
    pub detail: Option<String>,
    /// Of a rewind or an undo: `done`, `part`, `put_back`, or `unfinished`.
    pub status: Option<String>,
    /// The undo that took it back, if one did.
    pub undone_by: Option<i64>,
}
