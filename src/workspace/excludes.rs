//! What is never kept, by patterns: secrets, mostly.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Error, Result};

/// Patterns of files and folders that are never kept.
///
/// A pattern names something at any depth; with a `/` in front, only directly below the root. What lies
/// in a folder that is named is not kept either. `*` and `?` stop at a `/`, `**` does not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excludes {
    named: GlobSet,
    /// What lies in something that is named.
    within: GlobSet,
}

impl Excludes {
    /// # Errors
    /// [`Error::Invalid`] for what is no pattern.
    pub(crate) fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self> {
        let mut sets = [GlobSetBuilder::new(), GlobSetBuilder::new()];
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let invalid = |why: String| Error::invalid(format!("exclude pattern `{pattern}`"), why);
            let plain = pattern.strip_suffix('/').unwrap_or(pattern);
            let anywhere = match plain.strip_prefix('/') {
                Some(below_the_root) => below_the_root.to_owned(),
                None => format!("**/{plain}"),
            };
            if plain.trim_start_matches('/').is_empty() {
                return Err(invalid("it names nothing".into()));
            }
            let within = format!("{anywhere}/**");
            for (set, glob) in sets.iter_mut().zip([anywhere, within]) {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .build()
                    .map_err(|error| invalid(error.kind().to_string()))?;
                set.add(glob);
            }
        }
        let [named, within] = sets.map(|set| {
            set.build()
                .map_err(|error| Error::invalid("exclude patterns", error.to_string()))
        });
        Ok(Self {
            named: named?,
            within: within?,
        })
    }

    /// Whether a path is named, or lies in something that is. It is one below the root; any other is seen from
    /// where it begins.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.names(path) || self.within.is_match(path)
    }

    /// Whether a path itself is named: for those who never enter what is.
    pub(super) fn names(&self, path: &Path) -> bool {
        self.named.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_names_files_and_folders_at_any_depth_or_below_the_root() {
        let excludes =
            Excludes::new([".env", "*.pem", "secrets/", "conf/*.key", "/top", "a[bc]"]).unwrap();
        for path in [
            ".env",
            "deep/er/.env",
            "/abs/olute/.env",
            "x.pem",
            "secrets",
            "sub/secrets/a/b.txt",
            "sub/conf/x.key",
            "top",
            "top/a",
            "ab",
            "\n.pem",
        ] {
            assert!(excludes.matches(Path::new(path)), "{path}");
        }
        for path in [
            ".envrc",
            "my.env",
            "x.pem.txt",
            "secrets.txt",
            "conf/sub/x.key",
            "sub/top",
            "ad",
            "",
        ] {
            assert!(!excludes.matches(Path::new(path)), "{path}");
        }
        assert!(!Excludes::default().matches(Path::new("a")));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_text_are_matched_too() {
        use std::os::unix::ffi::OsStrExt;
        let excludes = Excludes::new(["*.pem"]).unwrap();
        let path = std::ffi::OsStr::from_bytes(b"caf\xe9.pem");
        assert!(excludes.matches(Path::new(path)));
    }

    #[test]
    fn what_is_no_pattern_is_told_with_its_words() {
        for pattern in ["a[", "{a", "", "/", "//"] {
            let error = Excludes::new([pattern]).unwrap_err().to_string();
            assert!(error.contains(&format!("`{pattern}`")), "{error}");
        }
    }
}
