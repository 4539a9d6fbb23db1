//! How far a watch reaches: what it leaves out, and its limits.
//!
//! It is stored when the watch begins. Should its process die, another one finishes it, perhaps with
//! other options: what was excluded then must not be kept by that one either.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::{FileOptions, WatchOptions};
use crate::workspace::excludes::Excludes;
use crate::workspace::scan::ScanLimits;

/// The options of a watch, and those of the store's handle that bear on it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reach {
    exclude: Vec<String>,
    max_files: usize,
    max_bytes: u64,
    max_file_bytes: u64,
}

impl Reach {
    pub(super) fn of(options: &WatchOptions, files: &FileOptions) -> Self {
        let reach = Self {
            exclude: options.exclude.clone(),
            max_files: options.max_files,
            max_bytes: options.max_bytes,
            max_file_bytes: options.max_file_bytes,
        };
        reach.within(files)
    }

    /// As it was stored in the store at `path`, and no further than this handle on it allows. An
    /// earlier release stored none: that is the default.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not what was stored.
    pub(super) fn read(stored: Option<&str>, files: &FileOptions, path: &Path) -> Result<Self> {
        let Some(text) = stored else {
            return Ok(Self::of(&WatchOptions::new(), files));
        };
        let reach: Self = serde_json::from_str(text).map_err(|error| Error::Damaged {
            path: path.to_owned(),
            why: format!("the options of a watch cannot be read: {error}"),
        })?;
        Ok(reach.within(files))
    }

    fn within(mut self, files: &FileOptions) -> Self {
        for glob in &files.exclude {
            if !self.exclude.contains(glob) {
                self.exclude.push(glob.clone());
            }
        }
        self.max_file_bytes = self.max_file_bytes.min(files.max_file_bytes);
        self
    }

    /// As it is stored.
    pub(super) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// # Errors
    /// [`Error::Invalid`] for what is no pattern.
    pub(super) fn excludes(&self) -> Result<Excludes> {
        Excludes::new(&self.exclude)
    }

    pub(super) fn limits(&self) -> ScanLimits {
        ScanLimits {
            files: self.max_files,
            bytes: self.max_bytes,
            file_bytes: self.max_file_bytes,
        }
    }
}

/// Whether a text says how far a watch reaches.
pub(in crate::store) fn is_reach(text: &str) -> bool {
    serde_json::from_str::<Reach>(text).is_ok()
}
