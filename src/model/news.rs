//! Following a store: everything new since the last look.

use serde::{Serialize, Serializer};

use super::audit::{Change, key_fields};
use super::key::SessionKey;
use super::rewind::Operation;
use crate::error::{Error, Result};

/// A place behind everything that was told. Cheap to keep as text.
///
/// It names the newest change, entry and operation, and the newest 1,000 of those changes that were told
/// before what they left was recorded: they are told again once it is. It goes with the filter that it was made with:
/// what that one passed over, another one does not find behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewsCursor {
    pub(crate) change: i64,
    pub(crate) message: i64,
    pub(crate) operation: i64,
    pub(crate) open: Vec<i64>,
}

impl NewsCursor {
    /// Before everything in the store.
    pub fn start() -> Self {
        Self::default()
    }
}

impl std::fmt::Display for NewsCursor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            change,
            message,
            operation,
            ..
        } = self;
        write!(out, "c{change}-m{message}-p{operation}")?;
        for (at, id) in self.open.iter().enumerate() {
            write!(out, "{}{id}", if at == 0 { "-o" } else { "." })?;
        }
        Ok(())
    }
}

impl std::str::FromStr for NewsCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (change, rest) = text.strip_prefix('c')?.split_once("-m")?;
            let (message, rest) = rest.split_once("-p")?;
            let (operation, open) = rest.split_once("-o").unwrap_or((rest, ""));
            let open = open.split('.').filter(|id| !id.is_empty());
            Some(Self {
                change: change.parse().ok()?,
                message: message.parse().ok()?,
                operation: operation.parse().ok()?,
                open: open.map(|id| id.parse().ok()).collect::<Option<_>>()?,
            })
        };
        parse().ok_or_else(|| {
            let why = format!("`{text}` is none; take it from an earlier look");
            Error::invalid("cursor", why)
        })
    }
}

fn as_text<S: Serializer>(cursor: &NewsCursor, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(cursor)
}

/// An entry that was stored: a message, or what else belongs to a transcript, such as a title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewEntry {
    /// The session it was stored in.
    #[serde(flatten, serialize_with = "key_fields")]
    pub session: SessionKey,
    /// The sub-agent's transcript it stands in; empty for the main one.
    pub subpath: String,
    /// Its number within the transcript.
    pub seq: i64,
    /// Its uuid; `None` for what is no message.
    pub uuid: Option<String>,
    /// The record's type.
    pub kind: String,
    /// Whose word it is.
    pub role: Option<String>,
    /// When it was written by its own word, in epoch milliseconds.
    pub timestamp_ms: Option<i64>,
    /// When it was stored.
    pub stored_ms: i64,
    /// The record as JSON text, as it was stored.
    pub entry: String,
}

/// Something that was done to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewOperation {
    /// The session.
    #[serde(flatten, serialize_with = "key_fields")]
    pub session: SessionKey,
    /// What was done. A rewind is told once, with how it stood then.
    #[serde(flatten)]
    pub operation: Operation,
}

/// Everything new since the last look, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct News {
    /// New changes of files, and those told before of which it is known now what they left.
    pub changes: Vec<Change>,
    /// New entries; `None` if the filter is one that entries cannot meet (a path, a turn, a tool, an
    /// agent).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<NewEntry>>,
    /// What was done to sessions: made, forked, rewound, renamed, deleted …; `None` as with
    /// [`News::entries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<NewOperation>>,
    /// Where the next look goes on.
    #[serde(serialize_with = "as_text")]
    pub cursor: NewsCursor,
    /// Whether there was more than was asked for: look again at once.
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for open in [vec![], vec![3], vec![3, 9]] {
            let cursor = NewsCursor {
                change: 12,
                message: 345,
                operation: 6,
                open,
            };
            assert_eq!(cursor.to_string().parse::<NewsCursor>().unwrap(), cursor);
        }
        for text in ["", "c1", "12", "c1-m", "c1-m2", "c1-m2-p3-ox", "2026-01-31"] {
            assert!(text.parse::<NewsCursor>().is_err(), "{text}");
        }
    }
}
