//! Blame: who wrote each line of a file.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::audit::{Change, StateInfo, StateKind, path_fields};

/// A file, line by line, with where each line comes from.
///
/// As JSON it has `is_text` too ([`Blame::is_text`]), and what is not text has no lines there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// The path, absolute.
    pub path: PathBuf,
    /// What lies there: as it was recorded last, or as it was given.
    pub state: StateInfo,
    /// Its lines; of a content that is not text, the pieces between its line feeds, all of one origin.
    pub lines: Vec<BlameLine>,
    /// Where they come from; lines name theirs by its place in this list.
    pub origins: Vec<LineOrigin>,
}

impl Blame {
    /// Where a line comes from; lines are counted from 1.
    pub fn origin(&self, number: usize) -> Option<&LineOrigin> {
        let line = self.lines.get(number.checked_sub(1)?)?;
        self.origins.get(line.origin)
    }

    /// Whether it is a file of text. One that holds a NUL is none, and neither is what is no file.
    pub fn is_text(&self) -> bool {
        self.state.kind == StateKind::File && !self.holds_nul()
    }

    fn holds_nul(&self) -> bool {
        self.lines.iter().any(|line| line.content.contains(&0))
    }
}

/// [`Blame`], as JSON tells it.
#[derive(Serialize)]
struct Told<'b> {
    #[serde(flatten, serialize_with = "path_fields")]
    path: &'b Path,
    state: &'b StateInfo,
    is_text: bool,
    lines: &'b [BlameLine],
    origins: &'b [LineOrigin],
}

impl Serialize for Blame {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let told = Told {
            path: &self.path,
            state: &self.state,
            is_text: self.is_text(),
            lines: match self.holds_nul() {
                true => &[],
                false => &self.lines,
            },
            origins: &self.origins,
        };
        told.serialize(to)
    }
}

/// One line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlameLine {
    /// Its number, counted from 1.
    pub number: usize,
    /// Its bytes, with its end.
    #[serde(rename = "text", serialize_with = "as_text")]
    pub content: Vec<u8>,
    /// Where it comes from: a place in [`Blame::origins`].
    pub origin: usize,
}

fn as_text<S: Serializer>(content: &[u8], to: S) -> Result<S::Ok, S::Error> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    to.serialize_str(&String::from_utf8_lossy(content))
}

/// Where a line comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LineOrigin {
    /// A recorded change wrote it.
    Change {
        /// The change: its session, prompt and tool call.
        change: Box<Change>,
    },
    /// It was there before the first recorded change.
    BeforeTracking,
    /// Somebody wrote it outside of any session's recorded calls.
    Outside {
        /// The change ahead of which it was found, or an imported one that nobody in the session made;
        /// `None` if it was found now.
        seen_by: Option<i64>,
        /// When that was, in epoch milliseconds.
        seen_ms: Option<i64>,
    },
    /// Nobody knows: it was there after a change that had no backup, or whose content is not kept.
    NotKept {
        /// That change.
        change: Box<Change>,
    },
}
