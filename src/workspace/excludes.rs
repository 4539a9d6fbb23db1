//! Paths whose contents are not to be kept: secrets.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// A set of globs.
#[derive(Clone, Debug)]
pub(crate) struct Excludes(GlobSet);

impl Excludes {
    /// Reads globs. One without a slash matches the name of a file or of a folder above it, as in
    /// a `.gitignore`; any other the whole path.
    pub(crate) fn new(globs: &[String]) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            let anywhere = match glob.contains('/') {
                true => glob.clone(),
                false => format!("**/{glob}"),
            };
            for glob in [anywhere.clone(), format!("{anywhere}/**")] {
                set.add(GlobBuilder::new(&glob).literal_separator(true).build()?);
            }
        }
        Ok(Self(set.build()?))
    }

    /// Whether a path is excluded.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.0.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_anywhere_and_paths_as_a_whole() {
        let globs = [".env", "*.pem", "/srv/*/secret", "**/private/**"];
        let set = Excludes::new(&globs.map(String::from)).unwrap();
        for path in [
            "/a/.env",
            "/x.pem",
            "/srv/a/secret",
            "/srv/a/secret/b",
            "/h/private/k",
            "/a/.env/x",
        ] {
            assert!(set.matches(Path::new(path)), "{path}");
        }
        for path in ["/a/.envrc", "/x.pem.txt", "/srv/a/b/secret", "/private"] {
            assert!(!set.matches(Path::new(path)), "{path}");
        }
        assert!(!Excludes::new(&[]).unwrap().matches(Path::new("/a")));
        assert!(Excludes::new(&["a[".to_owned()]).is_err());
    }
}
