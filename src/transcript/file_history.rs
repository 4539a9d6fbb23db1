//! The client's records of its file checkpoints: `file-history-snapshot` and `file-history-delta`.
//!
//! A snapshot says how each tracked file was at a prompt; a delta adds a file that was first edited
//! later in that turn. Older clients write the snapshot again instead (`isSnapshotUpdate`). The line
//! that carries a record lags behind: a record belongs to the prompt that it names.

use super::json::Object;

/// The types of the entries that hold such records.
pub(crate) const SNAPSHOT: &str = "file-history-snapshot";
pub(crate) const DELTA: &str = "file-history-delta";

/// What an entry says of tracked files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The uuid of the prompt that it belongs to.
    pub(crate) prompt: String,
    /// Whether it adds to a snapshot.
    pub(crate) is_delta: bool,
    /// Whether its files may have been added while the turn ran, at their first edit.
    pub(crate) is_late: bool,
    pub(crate) files: Vec<Tracked>,
}

/// A tracked file, as the client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Relative to the session's folder, or absolute.
    pub(crate) path: String,
    /// The folder that it lay in, without links.
    pub(crate) real_folder: Option<String>,
    pub(crate) backup: Backup,
}

/// Where the content of a tracked file was kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Backup {
    /// The file did not exist.
    Absent,
    /// The name of the backup, as recorded.
    Named(String),
    /// The record does not say.
    Untold,
}

impl Record {
    /// Reads an entry; `None` if it is no such record, or names no prompt.
    pub(crate) fn read(entry: &str) -> Option<Self> {
        let entry = Object::parse(entry)?;
        let outer = || entry.string("messageId");
        let (prompt, is_delta, is_late, files) = match &*entry.string("type")? {
            SNAPSHOT => {
                let snapshot = entry.object("snapshot")?;
                let files = snapshot.object("trackedFileBackups").unwrap_or_default();
                let files = files
                    .fields()
                    .filter_map(|(path, backup)| Some(tracked(path, &Object::parse(backup)?)));
                let files = files.collect();
                // The entry itself may name the message whose edit made it be written again.
                (
                    snapshot.string("messageId").or_else(outer)?,
                    false,
                    entry.is_true("isSnapshotUpdate"),
                    files,
                )
            }
            DELTA => {
                let path = entry.string("trackingPath")?;
                let files = vec![tracked(&path, &entry.object("backup")?)];
                let prompt = entry.string("snapshotMessageId").or_else(outer)?;
                (prompt, true, true, files)
            }
            _ => return None,
        };
        Some(Self {
            prompt: prompt.into_owned(),
            is_delta,
            is_late,
            files,
        })
    }
}

fn tracked(path: &str, backup: &Object<'_>) -> Tracked {
    let name = backup.string("backupFileName");
    Tracked {
        path: path.to_owned(),
        real_folder: backup.string("realParentDir").map(String::from),
        backup: match (name, backup.get("backupFileName")) {
            (Some(name), _) => Backup::Named(name.into_owned()),
            (None, Some("null")) => Backup::Absent,
            _ => Backup::Untold,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(entry: &str) -> (String, bool, Vec<(String, Backup)>) {
        let record = Record::read(entry).unwrap();
        let files = record.files.into_iter();
        (
            record.prompt,
            record.is_delta,
            files.map(|file| (file.path, file.backup)).collect(),
        )
    }

    #[test]
    fn a_record_belongs_to_the_prompt_it_names() {
        let snapshot = r#"{"type":"file-history-snapshot","messageId":"answer","isSnapshotUpdate":true,"snapshot":{"messageId":"prompt","trackedFileBackups":{"a":{"backupFileName":"x@v1"},"b":{"backupFileName":null},"c":{"version":1},"d":7}}}"#;
        let (prompt, is_delta, files) = names(snapshot);
        assert_eq!((prompt.as_str(), is_delta), ("prompt", false));
        let told = [
            ("a", Backup::Named("x@v1".to_owned())),
            ("b", Backup::Absent),
            ("c", Backup::Untold),
        ];
        assert_eq!(files, told.map(|(path, backup)| (path.to_owned(), backup)));
        for (delta, names_it) in [
            (
                r#""snapshotMessageId":"prompt","messageId":"answer""#,
                "prompt",
            ),
            (r#""messageId":"prompt""#, "prompt"),
        ] {
            let delta = format!(
                r#"{{"type":"file-history-delta",{delta},"trackingPath":"a","backup":{{"backupFileName":null}}}}"#
            );
            let (prompt, is_delta, files) = names(&delta);
            assert_eq!((prompt.as_str(), is_delta), (names_it, true));
            assert_eq!(files, [("a".to_owned(), Backup::Absent)]);
        }
    }

    #[test]
    fn other_entries_are_no_records() {
        for entry in [
            r#"{"type":"user","messageId":"p","snapshot":{}}"#,
            r#"{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":{}}}"#,
            r#"{"type":"file-history-delta","messageId":"p","trackingPath":"a"}"#,
            r#"{"type":"file-history-snapshot","messageId":"p","snapshot":null}"#,
        ] {
            assert_eq!(Record::read(entry), None, "{entry}");
        }
    }
}
