//! Files: what a capture keeps of them.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A tool call as a capture names it. It may come before the call is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRef {
    pub(crate) id: String,
    pub(crate) agent: Option<String>,
    pub(crate) prompt_id: Option<String>,
}

impl ToolRef {
    /// The call with this tool-use id.
    pub fn new(tool_use_id: impl Into<String>) -> Self {
        Self {
            id: tool_use_id.into(),
            agent: None,
            prompt_id: None,
        }
    }

    /// Made by this sub-agent: its changes belong to the turn that launched it.
    pub fn by_agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = Some(agent.into());
        self
    }

    /// Made in the turn with this id, as hooks and entries name it (`prompt_id`, `promptId`): for
    /// captures that come before the prompt is stored.
    pub fn in_prompt(mut self, prompt_id: impl Into<String>) -> Self {
        self.prompt_id = Some(prompt_id.into());
        self
    }
}

impl From<&str> for ToolRef {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for ToolRef {
    fn from(id: String) -> Self {
        Self::new(id)
    }
}

/// What a capture kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Captured {
    /// The paths whose state is stored now, absolute.
    #[serde(serialize_with = "paths")]
    pub kept: Vec<PathBuf>,
    /// The paths whose content is not kept, and why: an edit of them cannot be taken back.
    pub not_kept: Vec<NotKept>,
    /// What the user should know: that another session changes files below the same folder.
    pub warnings: Vec<String>,
}

/// A path whose content is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotKept {
    /// The path, absolute. Where it is not UTF-8, its JSON has the bytes too, in base64, as
    /// `path_bytes`.
    #[serde(flatten, serialize_with = "path")]
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// Limits and exceptions of what is kept of files.
#[derive(Clone, Debug)]
pub struct FileOptions {
    pub(crate) enabled: bool,
    pub(crate) max_file_bytes: u64,
    pub(crate) max_store_bytes: u64,
    pub(crate) exclude: Vec<String>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            max_file_bytes: 100 << 20,
            max_store_bytes: 20 << 30,
            exclude: Vec::new(),
        }
    }
}

impl FileOptions {
    /// Checkpoints are on; files up to 100 MiB are kept, until the store has 20 GiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns checkpoints on or off for this handle on the store.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Larger files are not kept.
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    /// Once the store's file is larger, no more contents are kept.
    pub fn max_store_bytes(mut self, bytes: u64) -> Self {
        self.max_store_bytes = bytes;
        self
    }

    /// Contents of paths that match this glob (`**/.env`, `*.pem`) are not kept: secrets.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }
}

/// A path as text, and as bytes where the text is not all of it.
pub(crate) fn path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let bytes = match path.to_str() {
        Some(_) => None,
        None => Some(BASE64.encode(path.as_os_str().as_encoded_bytes())),
    };
    let mut fields = to.serialize_map(None)?;
    fields.serialize_entry("path", &path.to_string_lossy())?;
    if let Some(bytes) = bytes {
        fields.serialize_entry("path_bytes", &bytes)?;
    }
    fields.end()
}

pub(crate) fn paths<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// What lay at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Its bytes.
        content: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: PathBuf,
    },
    /// A folder.
    Directory,
    /// Something whose content is not kept.
    NotKept {
        /// Why.
        reason: String,
    },
}

/// What a checkout wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckedOut {
    /// The files written.
    #[serde(serialize_with = "paths")]
    pub written: Vec<PathBuf>,
    /// Those left out, and why.
    pub not_written: Vec<NotKept>,
}

/// How a command is watched.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) exclude: Vec<String>,
    pub(crate) max_files: usize,
    pub(crate) max_bytes: u64,
    pub(crate) max_file_bytes: u64,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            exclude: Vec::new(),
            max_files: 100_000,
            max_bytes: 256 << 20,
            max_file_bytes: 4 << 20,
        }
    }
}

impl WatchOptions {
    /// In the session's roots: up to 100,000 files, of those that are not kept yet up to 256 MiB,
    /// and none over 4 MiB.
    pub fn new() -> Self {
        Self::default()
    }

    /// In this folder, not in the session's roots. May be given more than once.
    pub fn root(mut self, folder: impl Into<PathBuf>) -> Self {
        self.roots.push(folder.into());
        self
    }

    /// Without paths that match this glob.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    /// How many files, links and folders are covered.
    pub fn max_files(mut self, files: usize) -> Self {
        self.max_files = files;
        self
    }

    /// How many bytes are read and kept ahead that are not kept yet.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How large one file may be.
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }
}

/// What a watched command did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// The files that it created, changed, moved or deleted; a moved one under both names.
    #[serde(serialize_with = "paths")]
    pub changed: Vec<PathBuf>,
    /// What lay outside the bounds, or was being changed by another call.
    pub not_covered: Vec<super::NotCovered>,
    /// What others did meanwhile: files that they changed, which are recorded as theirs and not as this
    /// call's, and commands of theirs that were watched in the same folder, whose doings cannot be told
    /// from this one's.
    pub warnings: Vec<String>,
}
