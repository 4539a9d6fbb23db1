//! Differences between two states of files.

use std::path::PathBuf;

use serde::Serialize;

use super::audit::{StateInfo, path_fields};

/// Which states to compare, and of which files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) only: Vec<PathBuf>,
}

impl DiffOptions {
    /// From one moment to another. A moment is a restore point (the state just before that prompt or
    /// call), `@opN` and `@opN+` (the states before and after operation N), or `@now` (what lies on
    /// the disk).
    pub fn between(from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            to: to.into(),
            only: Vec::new(),
        }
    }

    /// From a moment to what lies on the disk now.
    pub fn since(from: impl Into<String>) -> Self {
        Self::between(from, "@now")
    }

    /// Only this file, or the files below this folder. May be given more than once.
    pub fn only(mut self, path: impl Into<PathBuf>) -> Self {
        self.only.push(path.into());
        self
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffKind {
    /// Nothing was there.
    Added,
    /// Nothing is there.
    Deleted,
    /// Its content, mode or kind is another one.
    Modified,
}

/// How one file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDiff {
    /// The path, absolute.
    #[serde(flatten, serialize_with = "path_fields")]
    pub path: PathBuf,
    /// What became of it.
    pub kind: DiffKind,
    /// What was there.
    pub from: StateInfo,
    /// What is there.
    pub to: StateInfo,
    /// How many lines come; `None` where the contents are not text: hashes and sizes tell.
    pub insertions: Option<usize>,
    /// How many lines go.
    pub deletions: Option<usize>,
    /// The places where the texts differ, with three lines around each.
    pub hunks: Vec<DiffHunk>,
    /// The same as a unified diff in git's form, with names from the session's cwd, which `git apply`
    /// and `patch -p1` (GNU, 2.7 or later) take: also of an empty file that comes or goes, and of a
    /// mode alone. `None` where it could not be applied: what is no text, is a link or a folder, or
    /// whose lines that differ are not UTF-8.
    pub unified: Option<String>,
}

/// A place where two texts differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffHunk {
    /// The first line of the old text, counted from 1, and how many lines of it.
    pub old: (usize, usize),
    /// The first line of the new text, and how many.
    pub new: (usize, usize),
    /// The lines; where some were replaced, the old ones first.
    pub lines: Vec<DiffLine>,
}

/// One line of a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiffLine {
    /// Its number in the old text; `None` if it comes.
    pub old: Option<usize>,
    /// Its number in the new text; `None` if it goes.
    pub new: Option<usize>,
    /// What it says, without its end; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// Of a line that replaces a similar one, or is replaced by one: the words that differ, as
    /// ranges of bytes in `text`.
    pub words: Vec<(usize, usize)>,
    /// Whether it has no line feed at its end.
    pub is_unended: bool,
}
