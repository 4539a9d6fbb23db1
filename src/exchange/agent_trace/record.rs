//! A Trace Record, as it is written.

use serde::Serialize;

use super::options::Vcs;

/// The version of the form that is written.
pub(super) const VERSION: &str = "0.1.0";

/// Who wrote each line of some files: an Agent Trace record. [`serde`] writes it as the form says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceRecord {
    /// The version of the form.
    pub version: &'static str,
    /// A random UUID: no two records share one.
    pub id: String,
    /// When it was made: RFC 3339, in UTC, to the millisecond.
    pub timestamp: String,
    /// The revision that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcs: Option<Vcs>,
    /// What made the record.
    pub tool: TraceTool,
    /// The files that have lines, by their paths.
    pub files: Vec<TracedFile>,
    /// What the form has no place for.
    pub metadata: TraceMetadata,
}

/// What made a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceTool {
    /// Its name.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// A file, and who wrote its lines. Every line is in exactly one range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TracedFile {
    /// Its path below the root, with forward slashes.
    pub path: String,
    /// Who wrote in it, in the order of the first line of each.
    pub conversations: Vec<TracedConversation>,
}

/// What one agent wrote in one turn, with one model; or lines of which no agent's call is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TracedConversation {
    /// The session; `None` where no call is known to have written the lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who wrote the lines.
    pub contributor: Contributor,
    /// The lines, from the first to the last.
    pub ranges: Vec<LineRange>,
    /// The prompt, the sub-agent and the calls; or why nobody is named.
    pub related: Vec<Related>,
}

/// Who wrote lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub struct Contributor {
    /// What kind of writer.
    #[serde(rename = "type")]
    pub kind: ContributorKind,
    /// The model, as `provider/model`, where the message that made the call names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// What kind of writer. Nobody is ever said to be human: that is not seen by a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContributorKind {
    /// A call of an agent, or a command that it ran.
    Ai,
    /// It is not known: it was there before, or came from outside of recorded calls.
    Unknown,
}

/// Neighbouring lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LineRange {
    /// The first line, counted from 1.
    pub start_line: usize,
    /// The last line.
    pub end_line: usize,
    /// `blake3:` and the hash, in hex, of these lines' bytes with their ends.
    pub content_hash: String,
}

/// Something that belongs to a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Related {
    /// `prompt`, `agent`, `tool_call` or `origin`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its address.
    pub url: String,
}

/// What the form has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceMetadata {
    /// What Turnkeep says of the record.
    pub turnkeep: TraceNotes,
}

/// What Turnkeep says of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceNotes {
    /// Whether the files are as they were recorded last; else they are as they lay on the disk.
    pub recorded: bool,
    /// Files that were asked for and are not in the record.
    pub left_out: Vec<LeftOut>,
}

/// A file that is not in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its path below the root; what is not UTF-8 in it is replaced.
    pub path: String,
    /// What kind of reason.
    pub kind: LeftOutKind,
    /// The reason in words.
    pub reason: String,
}

/// Why a file is not in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LeftOutKind {
    /// It was named, and there is nothing.
    Gone,
    /// It is no text, so it has no lines.
    NotText,
    /// It is no file: a link, a folder, a device.
    NoFile,
    /// It is longer than what is compared line by line.
    TooLarge,
    /// Its content is not kept.
    NotKept,
    /// It could not be read.
    NotReadable,
    /// Its name is not UTF-8, which the form cannot hold.
    Name,
    /// It is one of the store's own files.
    Own,
}

impl LeftOutKind {
    /// Whether there may be lines that the record does not tell of.
    pub fn hides_lines(self) -> bool {
        !matches!(self, Self::Gone | Self::NotText | Self::NoFile | Self::Own)
    }
}
