//! What the client keeps beside a transcript: a sub-agent's `.meta.json`, large outputs,
//! checkpoint backups.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::db::Tx;
use crate::error::Result;
use crate::store::{Feed, FileContent, Origin, keep_file};
use crate::tables::sessions::SessionRow;
use crate::tables::{import_sources, messages};
use crate::transcript::reading::Reading;

/// The largest file that is kept: SQLite takes no value over 1,000,000,000 bytes.
const MAX_FILE: u64 = 990_000_000;

/// Reads a sub-agent's `.meta.json` as the `agent_metadata` entry that the SDK makes of it.
pub(super) fn read_meta(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    entry_of_meta(&text).ok_or_else(|| "is not a JSON object; it was not kept".to_owned())
}

/// The fields of the file, then the type, so that it wins over a stray one.
fn entry_of_meta(text: &str) -> Option<String> {
    let text = text.trim();
    Reading::of_entry(text).or_else(|| {
        // Written over several lines: printed anew on one.
        Reading::of_entry(&serde_json::from_str::<Value>(text).ok()?.to_string())
    })?;
    let one_line = if text.contains('\n') {
        serde_json::from_str::<Value>(text).ok()?.to_string()
    } else {
        text.to_owned()
    };
    let fields = one_line.trim_end().strip_suffix('}')?;
    let comma = if fields.trim_end().ends_with('{') {
        ""
    } else {
        ","
    };
    Some(format!(r#"{fields}{comma}"type":"agent_metadata"}}"#))
}

/// The `.meta.json` that an `agent_metadata` entry stands for.
pub(super) fn meta_of_entry(entry: &str) -> Option<String> {
    for end in [
        r#","type":"agent_metadata"}"#,
        r#""type":"agent_metadata"}"#,
    ] {
        if let Some(fields) = entry.strip_suffix(end) {
            return Some(format!("{fields}}}"));
        }
    }
    let mut value = serde_json::from_str::<Value>(entry).ok()?;
    value.as_object_mut()?.remove("type");
    Some(value.to_string())
}

/// Stores an `agent_metadata` entry, unless the newest one says the same. `true` if it was stored.
pub(super) fn keep_meta(
    tx: &Tx<'_>,
    session: SessionRow,
    subpath: &str,
    entry: &str,
) -> Result<bool> {
    let id = session.id;
    if messages::last_of_kind(tx, id, subpath, "agent_metadata")?.as_deref() == Some(entry) {
        return Ok(false);
    }
    let Some(reading) = Reading::of_entry(entry) else {
        return Ok(false);
    };
    let mut feed = Feed::open(tx, session, subpath, Origin::Append)?;
    let before = feed.transcript.next_seq;
    feed.push(&reading)?;
    let (_, transcript) = feed.finish()?;
    import_sources::stay_in_sync(tx, id, subpath, before, transcript.next_seq)?;
    Ok(true)
}

/// Keeps a file with a session.
pub(super) fn keep(tx: &Tx<'_>, session: i64, file: &FileContent) -> Result<bool> {
    keep_file(tx, session, file)
}

/// Reads a file that is to be kept.
pub(super) fn read_content(name: &str, path: &Path) -> Result<FileContent, String> {
    let cannot = |error: std::io::Error| format!("cannot be read: {error}");
    let metadata = fs::symlink_metadata(path).map_err(cannot)?;
    if metadata.len() > MAX_FILE {
        return Err(format!("is larger than {MAX_FILE} bytes; it was not kept"));
    }
    let modified = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(FileContent {
        path: name.to_owned(),
        bytes: fs::read(path).map_err(cannot)?,
        mode: mode(&metadata),
        modified_ms: modified.and_then(|time| i64::try_from(time.as_millis()).ok()),
    })
}

#[cfg(unix)]
fn mode(metadata: &fs::Metadata) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777
}

#[cfg(not(unix))]
fn mode(_: &fs::Metadata) -> u32 {
    0o600
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecar_comes_back_as_it_was() {
        for text in [
            r#"{"agentType":"general-purpose","spawnDepth":1.0}"#,
            "{}",
            r#"{"type":"stray","a":1}"#,
        ] {
            let entry = entry_of_meta(text).unwrap();
            assert!(entry.ends_with(r#""type":"agent_metadata"}"#));
            assert_eq!(meta_of_entry(&entry).unwrap(), text);
        }
        assert_eq!(
            entry_of_meta("{\n \"a\": 1\n}").unwrap(),
            r#"{"a":1,"type":"agent_metadata"}"#
        );
        assert_eq!(entry_of_meta("[1]"), None);
        assert_eq!(
            meta_of_entry(r#"{"type":"agent_metadata","a":1}"#).unwrap(),
            r#"{"a":1}"#
        );
    }
}
