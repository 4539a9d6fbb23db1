//! The audit: changes of files as they are told, and how they are chosen.

use std::path::{Path, PathBuf};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::key::SessionKey;
use crate::error::{Error, Result};

/// What made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeSource {
    /// A tool call that named the path.
    Tool,
    /// A command that was watched.
    Watch,
    /// A rewind.
    Rewind,
    /// An undo of a rewind, or of another undo.
    Undo,
    /// A file taken over from another session.
    Take,
    /// A checkout.
    Checkout,
    /// An import of what another program recorded.
    Import,
}

impl ChangeSource {
    /// The word in the tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Watch => "watch",
            Self::Rewind => "rewind",
            Self::Undo => "undo",
            Self::Take => "take",
            Self::Checkout => "checkout",
            Self::Import => "import",
        }
    }

    pub(crate) fn from_word(word: &str) -> Self {
        [
            Self::Watch,
            Self::Rewind,
            Self::Undo,
            Self::Take,
            Self::Checkout,
            Self::Import,
        ]
        .into_iter()
        .find(|source| source.as_str() == word)
        .unwrap_or(Self::Tool)
    }

    /// Whether it brings back what was there before, and writes nothing of its own.
    pub(crate) fn restores(self) -> bool {
        matches!(
            self,
            Self::Rewind | Self::Undo | Self::Take | Self::Checkout
        )
    }
}

/// The kind of thing that lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// Nothing.
    Absent,
    /// A file.
    File,
    /// A symbolic link.
    Symlink,
    /// A folder.
    Directory,
    /// Something whose content is not kept.
    NotKept,
}

impl StateKind {
    /// The word in the tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::File => "file",
            Self::Symlink => "symlink",
            Self::Directory => "directory",
            Self::NotKept => "not_kept",
        }
    }
}

/// What lay at a path, without its content: [`Files::at`](crate::Files::at) reads that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateInfo {
    /// What it was.
    pub kind: StateKind,
    /// The BLAKE3 hash of a file's content, in hex.
    pub hash: Option<String>,
    /// The length of a file's content.
    pub bytes: Option<u64>,
    /// The permission bits of a file, if they were recorded.
    pub mode: Option<u32>,
    /// Where a link leads.
    #[serde(serialize_with = "text_of_path")]
    pub target: Option<PathBuf>,
    /// Why the content is not kept.
    pub reason: Option<String>,
}

fn text_of_path<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref()
        .map(|path| path.to_string_lossy())
        .serialize(to)
}

/// Whether what a change did is still so, as far as the store knows.
///
/// It is measured by the state of the path that was recorded last, by any session:
///
/// * A change that added lines is in effect while all of them stand there, and in part while some do.
/// * One that only removed lines is in effect while none of them is back, and in part while not all
///   are.
/// * One that removed the file is in effect while nothing is there.
/// * Anything else (a mode, a link, an empty file, what is not text) is in effect while it is so.
///
/// What the user did since, and nobody recorded, is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Effect {
    /// All of it is so.
    InEffect,
    /// Some of it is so, and some was overwritten or taken back.
    InPart,
    /// None of it is left: later changes replaced it.
    Overwritten,
    /// None of it is left: a rewind, or an undo, took it back.
    Rewound,
    /// None of it is left: somebody changed the file outside of any session.
    Outside,
    /// It changed nothing.
    Nothing,
    /// What it left, or what came of that, was not recorded or is not kept.
    Unknown,
}

impl Effect {
    /// The word in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InEffect => "in_effect",
            Self::InPart => "in_part",
            Self::Overwritten => "overwritten",
            Self::Rewound => "rewound",
            Self::Outside => "outside",
            Self::Nothing => "nothing",
            Self::Unknown => "unknown",
        }
    }
}

/// The prompt whose turn a change belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PromptRef {
    /// Its uuid in the session that the change is told of.
    pub uuid: String,
    /// What it says, up to 2,000 characters; `None` if it is no text.
    pub text: Option<String>,
}

/// The tool call that made a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallRef {
    /// The tool-use id.
    pub id: String,
    /// The tool, once the call is stored.
    pub tool: Option<String>,
}

/// What one tool call, or one rewind, did to one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Its number: they rise in the order in which changes were recorded.
    pub id: i64,
    /// The path, absolute.
    #[serde(flatten, serialize_with = "path_fields")]
    pub path: PathBuf,
    /// The session that made it.
    #[serde(flatten, serialize_with = "key_fields")]
    pub session: SessionKey,
    /// Whether the session that was asked for inherited it: that one is a fork of [`Change::session`].
    pub is_inherited: bool,
    /// Whether the session that made it was deleted: a fork of it still shows the change.
    pub is_deleted: bool,
    /// What made it.
    pub source: ChangeSource,
    /// The rewind, undo or take that made it.
    pub operation: Option<i64>,
    /// The prompt whose turn it belongs to; a sub-agent's change belongs to the turn that launched
    /// the sub-agent. An imported change without a prompt and a call is nobody's in the session.
    pub prompt: Option<PromptRef>,
    /// The call that made it.
    pub call: Option<CallRef>,
    /// The sub-agent that made it; `None` for the main one.
    pub agent: Option<String>,
    /// What was there.
    pub before: StateInfo,
    /// What it left; `None` if that was not recorded yet.
    pub after: Option<StateInfo>,
    /// Whether what it left was seen later, and not told by the tool.
    pub is_late: bool,
    /// How many lines it added; `None` where the contents are not text, or not kept.
    pub insertions: Option<usize>,
    /// How many lines it removed.
    pub deletions: Option<usize>,
    /// Whether it is still so.
    pub effect: Effect,
    /// The later change that took the last of it away. If several did in turn, the last of them; but
    /// behind the path's newest 64 changes one of them, and none behind its newest 2,000.
    pub ended_by: Option<i64>,
    /// When it was recorded, in epoch milliseconds; of an imported one when it was made.
    pub at_ms: i64,
    /// When what it left was recorded.
    pub after_ms: Option<i64>,
}

/// A path as text, and in base64 as bytes where the text is not all of it.
pub(crate) fn path_fields<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    use base64::Engine;
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry("path", &path.to_string_lossy())?;
    if path.to_str().is_none() {
        let bytes = path.as_os_str().as_encoded_bytes();
        let bytes = base64::engine::general_purpose::STANDARD.encode(bytes);
        fields.serialize_entry("path_bytes", &bytes)?;
    }
    fields.end()
}

pub(crate) fn key_fields<S: Serializer>(key: &SessionKey, to: S) -> Result<S::Ok, S::Error> {
    let mut fields = to.serialize_map(Some(2))?;
    fields.serialize_entry("project_key", &key.project_key)?;
    fields.serialize_entry("session_id", &key.session_id)?;
    fields.end()
}

/// Which changes to tell. The default is all of them.
#[derive(Clone, Debug, Default)]
pub struct ChangeFilter {
    pub(crate) path: Option<PathBuf>,
    pub(crate) session: Option<SessionKey>,
    pub(crate) turn: Option<String>,
    pub(crate) tool: Option<String>,
    /// The inner one is `None` for the main agent.
    pub(crate) agent: Option<Option<String>>,
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
    pub(crate) brief: bool,
}

impl ChangeFilter {
    /// No filter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only of this file, or of the files below this folder. A relative path is seen from the
    /// session's cwd if a session is named, else from the process's current folder.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Only those that this session shows: its own, and those it inherits, each of them once and
    /// under the session that made it.
    pub fn session(mut self, key: &SessionKey) -> Self {
        self.session = Some(key.clone());
        self
    }

    /// Only those of the turn that the message with this uuid belongs to.
    pub fn turn(mut self, uuid: impl Into<String>) -> Self {
        self.turn = Some(uuid.into());
        self
    }

    /// Only those of calls of this tool.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Only those of this sub-agent.
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(Some(agent.into()));
        self
    }

    /// Only those of the main agent.
    pub fn main_agent(mut self) -> Self {
        self.agent = Some(None);
        self
    }

    /// Only those made at this time (epoch ms) or later.
    pub fn since_ms(mut self, time: i64) -> Self {
        self.since_ms = Some(time);
        self
    }

    /// Only those made before this time (epoch ms).
    pub fn until_ms(mut self, time: i64) -> Self {
        self.until_ms = Some(time);
        self
    }

    /// Reads no contents: lines are not counted, and the effect is told as unknown.
    pub fn brief(mut self) -> Self {
        self.brief = true;
        self
    }

    pub(crate) fn is_of_the_time(&self, time_ms: i64) -> bool {
        self.since_ms.is_none_or(|since| time_ms >= since)
            && self.until_ms.is_none_or(|until| time_ms < until)
    }
}

/// One page of changes, newest first: by when they were made, which of imported ones is not when they
/// were stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<Change>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<ChangeCursor>,
}

/// A place in a list of changes: a time in epoch milliseconds, and an id. It stays right while more are
/// recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor(pub(crate) i64, pub(crate) i64);

impl std::fmt::Display for ChangeCursor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}", self.0, self.1)
    }
}

impl std::str::FromStr for ChangeCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (time, id) = text.split_once('.')?;
            Some(Self(time.parse().ok()?, id.parse().ok()?))
        };
        parse().ok_or_else(|| {
            let why = format!("`{text}` is none; take it from the page before");
            Error::invalid("cursor", why)
        })
    }
}

/// What a turn did to one file, all its changes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TouchedFile {
    /// The path, absolute.
    #[serde(flatten, serialize_with = "path_fields")]
    pub path: PathBuf,
    /// How many changes.
    pub changes: usize,
    /// What was there before the first.
    pub before: StateInfo,
    /// What the last one left, if that was recorded.
    pub after: Option<StateInfo>,
    /// How many lines came, from the first to the last; `None` where the contents are not text.
    pub insertions: Option<usize>,
    /// How many went.
    pub deletions: Option<usize>,
}

/// A session that changed a file, or some below a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TouchingSession {
    /// The session.
    #[serde(flatten, serialize_with = "key_fields")]
    pub session: SessionKey,
    /// Whether it was deleted: a fork of it still shows the changes.
    pub is_deleted: bool,
    /// How many changes it made there.
    pub changes: u64,
    /// When the first was recorded, in epoch milliseconds.
    pub first_ms: i64,
    /// When the last was.
    pub last_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_cursors_are_read_back() {
        for source in [ChangeSource::Tool, ChangeSource::Take, ChangeSource::Undo] {
            assert_eq!(ChangeSource::from_word(source.as_str()), source);
        }
        let cursor = ChangeCursor(-5, 17);
        assert_eq!(cursor.to_string().parse::<ChangeCursor>().unwrap(), cursor);
        for text in ["x", "17", "1.", "1.2.3"] {
            assert!(text.parse::<ChangeCursor>().is_err(), "{text}");
        }
    }
}
