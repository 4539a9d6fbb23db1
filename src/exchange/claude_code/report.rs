//! What an import tells its caller.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// How many sessions the source holds.
    pub sessions: u64,
    /// How many entries were found in it.
    pub entries: u64,
    /// How many of them were stored now.
    pub new_entries: u64,
    /// How many lines are not simply one record. Their bytes are kept.
    pub malformed_lines: u64,
    /// How many entries were stored before.
    pub duplicate_entries: u64,
    /// How many entries have the uuid of another entry that says something else. They are kept as
    /// lines of the file, without a place in the conversation.
    pub differing_entries: u64,
    /// How many messages name a parent that is not there or belongs to a sub-agent. They are
    /// bridged when read; what is stored stays as it is.
    pub repaired_links: u64,
    /// How many entries belong to another session than their file, and went there.
    pub foreign_entries: u64,
    /// How many file backups of the client's checkpoints were found.
    pub file_backups: u64,
    /// How many file changes were made now of the client's checkpoints, and of what its tools
    /// answered where there are none.
    pub file_changes: u64,
    /// What is to be known of a session before rewinding its files. It is said when the session has
    /// news.
    pub notes: Vec<Note>,
    /// What was wrong, and where.
    pub problems: Vec<Problem>,
    /// Whether anything was left out: there are problems, or the import was stopped.
    pub partial: bool,
}

/// Something that was wrong with the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1; `None` if it concerns the whole file.
    pub line: Option<u64>,
    /// What is wrong, and what became of it.
    pub what: String,
}

/// Something that is to be known of a session; nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// The session's project key.
    pub project_key: String,
    /// Its id.
    pub session_id: String,
    /// What is to be known.
    pub what: String,
}

impl ImportReport {
    pub(super) fn problem(&mut self, file: &Path, line: Option<u64>, what: impl Into<String>) {
        self.problems.push(Problem {
            file: file.to_owned(),
            line,
            what: what.into(),
        });
    }
}

/// How far an import is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a Path,
    /// How many files are done, of how many.
    pub files: (u64, u64),
    /// How many bytes are done, of how many.
    pub bytes: (u64, u64),
}
