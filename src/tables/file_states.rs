//! What lies at a path, as five columns of a row; and paths, as two.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Result, Row};

/// The mode of a new file, where none was recorded.
pub(crate) const NEW_FILE: u32 = 0o644;

/// What lies, lay or is to lie at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateRow {
    Absent,
    File {
        blob: i64,
        /// `None` where nobody recorded it: a transcript tells contents without modes.
        mode: Option<u32>,
    },
    Symlink {
        target: Vec<u8>,
    },
    Directory,
    /// Something whose content is not kept, and why.
    NotKept {
        why: String,
    },
}

impl StateRow {
    /// The word in the tables.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::File { .. } => "file",
            Self::Symlink { .. } => "symlink",
            Self::Directory => "directory",
            Self::NotKept { .. } => "not_kept",
        }
    }

    /// Whether the same is known to lie there: of what is not kept nobody knows. A mode that is not
    /// known may be any.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NotKept { .. }, _) => false,
            (
                Self::File { blob, mode },
                Self::File {
                    blob: there,
                    mode: its,
                },
            ) => blob == there && (mode.is_none() || its.is_none() || mode == its),
            _ => self == other,
        }
    }

    /// The same state with the mode that a file is to have where it was not recorded: that of the
    /// file which lies there, so that it is not changed needlessly, else that of a new file.
    pub(crate) fn with_mode_of(self, there: &Self) -> Self {
        match (self, there) {
            (
                Self::File { blob, mode: None },
                Self::File {
                    mode: Some(mode), ..
                },
            ) => Self::File {
                blob,
                mode: Some(*mode),
            },
            (Self::File { blob, mode: None }, _) => Self::File {
                blob,
                mode: Some(NEW_FILE),
            },
            (state, _) => state,
        }
    }

    pub(crate) fn blob(&self) -> Option<i64> {
        match self {
            Self::File { blob, .. } => Some(*blob),
            _ => None,
        }
    }

    /// The columns state, blob, mode, target and why.
    pub(crate) fn columns(&self) -> [Value; 5] {
        let mut columns = [
            Value::Text(self.word().to_owned()),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ];
        match self {
            Self::File { blob, mode } => {
                columns[1] = Value::Integer(*blob);
                columns[2] = mode.map_or(Value::Null, |mode| Value::Integer(i64::from(mode)));
            }
            Self::Symlink { target } => columns[3] = Value::Blob(target.clone()),
            Self::NotKept { why } => columns[4] = Value::Text(why.clone()),
            Self::Absent | Self::Directory => {}
        }
        columns
    }

    /// Reads the five columns from `at` on; `None` if there is no state.
    pub(crate) fn read(row: &Row<'_>, at: usize) -> Result<Option<Self>> {
        let Some(word) = row.get::<_, Option<String>>(at)? else {
            return Ok(None);
        };
        Ok(Some(match word.as_str() {
            "absent" => Self::Absent,
            "file" => match row.get(at + 1)? {
                Some(blob) => Self::File {
                    blob,
                    mode: row.get(at + 2)?,
                },
                None => not_kept("backup missing"),
            },
            "symlink" => Self::Symlink {
                target: row.get::<_, Option<Vec<u8>>>(at + 3)?.unwrap_or_default(),
            },
            "directory" => Self::Directory,
            _ => Self::NotKept {
                why: row.get::<_, Option<String>>(at + 4)?.unwrap_or_default(),
            },
        }))
    }
}

fn not_kept(why: &str) -> StateRow {
    StateRow::NotKept {
        why: why.to_owned(),
    }
}

/// A path as stored: its text, and its bytes where they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PathRow {
    pub(crate) text: String,
    pub(crate) raw: Option<Vec<u8>>,
}

impl PathRow {
    pub(crate) fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self {
                text: text.to_owned(),
                raw: None,
            },
            None => Self {
                text: path.to_string_lossy().into_owned(),
                raw: Some(os_bytes(path.as_os_str())),
            },
        }
    }

    /// Reads the two columns from `at` on.
    pub(crate) fn read(row: &Row<'_>, at: usize) -> Result<Self> {
        Ok(Self {
            text: row.get(at)?,
            raw: row.get(at + 1)?,
        })
    }

    pub(crate) fn path(&self) -> PathBuf {
        match &self.raw {
            Some(raw) => path_of(raw),
            None => PathBuf::from(&self.text),
        }
    }
}

/// The bytes of a system string.
#[cfg(unix)]
pub(crate) fn os_bytes(text: &OsStr) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec()
}

#[cfg(not(unix))]
pub(crate) fn os_bytes(text: &OsStr) -> Vec<u8> {
    text.to_string_lossy().into_owned().into_bytes()
}

/// The path with these bytes.
#[cfg(unix)]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    let text: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
    PathBuf::from(text)
}

#[cfg(not(unix))]
pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
