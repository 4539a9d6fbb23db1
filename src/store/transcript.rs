//! Reading the lines of a transcript.

use base64::Engine;
use rusqlite::Connection;

use super::history::History;
use crate::error::Result;
use crate::tables::messages::Stored;
use crate::tables::sessions::SessionRow;
use crate::transcript::line::{Ending, kept_bytes};

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, rising within the transcript; never used again.
    pub seq: i64,
    /// The record's type; `malformed`, `partial` or `blank` for a line without one.
    pub kind: String,
    /// The record as JSON text, as it was stored.
    pub entry: Option<String>,
    /// The bytes of the line, where they differ from `entry`.
    pub raw: Option<Vec<u8>>,
    pub(crate) ending: Ending,
    pub(crate) from_file: bool,
}

impl Line {
    /// The line as JSON text: the record, or `{"malformed_base64": …}`. `None` for a blank line.
    pub fn to_json(&self) -> Option<String> {
        match (&self.entry, &self.raw) {
            (Some(entry), _) => Some(entry.clone()),
            (None, Some(raw)) if self.kind != "blank" => {
                let bytes = base64::engine::general_purpose::STANDARD.encode(raw);
                Some(serde_json::json!({ "malformed_base64": bytes }).to_string())
            }
            (None, _) => None,
        }
    }

    /// The bytes of the line, without what ends it.
    pub fn bytes(&self) -> &[u8] {
        kept_bytes(self.raw.as_deref(), self.entry.as_deref())
    }
}

/// Puts the lines of a transcript together again to the file they are of.
#[derive(Debug, Default)]
pub(crate) struct AsFile {
    unfinished: bool,
}

impl AsFile {
    /// The bytes of the next line with what ends it; a line behind an unfinished one begins on a
    /// line of its own. `None` for an entry that the client keeps beside the file.
    pub(crate) fn next(&mut self, line: &Line, subpath: &str) -> Option<Vec<u8>> {
        if !subpath.is_empty() && line.kind == "agent_metadata" && !line.from_file {
            return None;
        }
        let mut bytes = Vec::new();
        if std::mem::take(&mut self.unfinished) {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.bytes());
        match line.ending {
            Ending::Lf => bytes.push(b'\n'),
            Ending::Eof => self.unfinished = true,
            Ending::Joined => {}
        }
        Some(bytes)
    }
}

impl From<Stored> for Line {
    fn from(row: Stored) -> Self {
        Self {
            seq: row.seq,
            kind: row.kind,
            entry: row.entry,
            raw: row.raw,
            ending: row.ending,
            from_file: row.from_file,
        }
    }
}

/// The lines of a transcript behind `after_seq`.
pub(super) fn page(
    db: &Connection,
    session: &SessionRow,
    subpath: &str,
    after_seq: i64,
    limit: usize,
) -> Result<Vec<Line>> {
    let rows = History::of(db, session, subpath)?.page(db, after_seq, limit, usize::MAX)?;
    Ok(rows.into_iter().map(Line::from).collect())
}
