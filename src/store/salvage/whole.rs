//! Telling whether a row can be what was stored: SQLite itself keeps no checksums.

use rusqlite::types::Value;

use crate::store::blobs::unpack;
use crate::store::checkpoints::is_reach;
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

/// The text of a value that is one.
pub(super) fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// Whether a message's record is one, and says of itself what the columns say.
pub(super) fn is_whole_message<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    let Some(entry) = text(value("entry")) else {
        return true;
    };
    if let Some(Value::Blob(raw)) = value("raw")
        && !String::from_utf8_lossy(raw).contains(entry)
    {
        return false;
    }
    let Some(reading) = Reading::of_entry(entry) else {
        return is_json(entry);
    };
    let (uuid, parent) = (text(value("uuid")), text(value("parent_uuid")));
    // A row that repeats a uuid has none.
    (uuid.is_none() || uuid == reading.uuid.as_deref())
        && parent == reading.parent_uuid.as_deref()
        && text(value("kind")) == Some(reading.kind.as_str())
}

/// Whether a mark's listing is one.
pub(super) fn is_whole_mark<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    text(value("listing")).is_some_and(|listing| serde_json::from_str::<Tally>(listing).is_ok())
}

/// Whether a note's value is one.
pub(super) fn is_whole_note<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    text(value("value")).is_none_or(is_json)
}

/// Whether it is known what a watch is to leave out.
pub(super) fn is_whole_watch<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    text(value("options")).is_none_or(is_reach)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Whether a blob unpacks to what its hash is of. Of one that is made of parts only the whole can tell, later.
pub(super) fn is_whole_blob<'v>(value: impl Fn(&str) -> Option<&'v Value>) -> bool {
    let (Some(Value::Blob(hash)), Some(encoding), Some(Value::Blob(content))) =
        (value("hash"), text(value("encoding")), value("content"))
    else {
        return false;
    };
    let has_parts = content.is_empty() && value("bytes") != Some(&Value::Integer(0));
    has_parts || unpack(hash, encoding, content).is_ok()
}
