//! Where a store lies, and whether it still lies there.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The path of a store, in two forms.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// As the caller wrote it, made absolute, so that a change of directory does not matter.
    pub given: PathBuf,
    /// With links resolved: SQLite puts its side files beside this one.
    pub file: PathBuf,
}

/// What lies under a path.
pub(super) enum Found {
    /// Nothing, and something can be made there.
    Nothing,
    /// A file that has bytes.
    File(Place),
}

impl Place {
    /// Makes `path` absolute.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty path.
    pub fn absolute(path: &Path) -> Result<PathBuf> {
        std::path::absolute(path).map_err(|error| Error::Invalid {
            what: format!("the store path `{}`", path.display()),
            why: error.to_string(),
        })
    }

    /// Looks at what lies under an absolute path, without opening it: to close a second descriptor of a database
    /// file drops this process's POSIX locks on it.
    ///
    /// # Errors
    /// [`Error::NotAStore`] for a folder, a device, or a link that leads nowhere; [`Error::Damaged`] for an empty
    /// file, as a store appears under its name whole; [`Error::Io`] when the path cannot be looked at.
    pub fn find(given: &Path) -> Result<Found> {
        let foreign = |why: &str| Error::NotAStore {
            path: given.to_owned(),
            why: why.to_owned(),
        };
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        // A name without a file may be a broken link, or one that got its file just now; a second look tells.
        let look = fs::metadata(given).or_else(|error| match fs::symlink_metadata(given) {
            Ok(_) if missing(&error) => fs::metadata(given),
            _ => Err(error),
        });
        let there = match look {
            Ok(there) => there,
            Err(error) if missing(&error) => {
                return match fs::symlink_metadata(given) {
                    Ok(link) if link.is_symlink() => {
                        Err(foreign("it is a symbolic link whose target does not exist"))
                    }
                    _ => Ok(Found::Nothing),
                };
            }
            Err(error) => return Err(io_error("looking at", given, error)),
        };
        if there.is_dir() {
            return Err(foreign("it is a folder"));
        }
        if !there.is_file() {
            return Err(foreign("it is not a regular file"));
        }
        if there.len() == 0 {
            return Err(Error::Damaged {
                path: given.to_owned(),
                why: "the file is empty".to_owned(),
            });
        }
        let file = fs::canonicalize(given).map_err(|error| io_error("resolving", given, error))?;
        Ok(Found::File(Self {
            given: given.to_owned(),
            file,
        }))
    }

    /// The file beside the store whose name is the store's with `suffix` added.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(self.file.as_os_str());
        name.push(suffix);
        name.into()
    }

    /// The file as a URI that tells SQLite to take it as unchangeable.
    pub fn frozen_uri(&self) -> String {
        let mut uri = String::from("file:");
        for &byte in self.file.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'_' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    uri.push(char::from(byte));
                }
                _ => uri.push_str(&format!("%{byte:02X}")),
            }
        }
        uri + "?immutable=1"
    }

    /// The file that the given path names now, if it names one.
    pub fn identity(&self) -> Option<Identity> {
        Identity::of(&self.given)
    }

    /// Whether a file beside the store has bytes in it.
    pub fn has_content(&self, suffix: &str) -> bool {
        self.size(suffix) > 0
    }

    /// How many bytes a file beside the store has; none if it is not there.
    pub fn size(&self, suffix: &str) -> u64 {
        fs::metadata(self.beside(suffix)).map_or(0, |side| side.len())
    }
}

/// Tells one file from another, whatever their names.
///
/// The number of a deleted file can be given to a new one, but not while the old one is open: a database keeps a
/// connection for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    pub fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let there = fs::metadata(path).ok()?;
        Some(Self {
            device: there.dev(),
            inode: there.ino(),
        })
    }

    /// Elsewhere an open file cannot be replaced, so that it exists is enough.
    #[cfg(not(unix))]
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|_| Self {
            device: 0,
            inode: 0,
        })
    }
}

/// Names the path in an error of the operating system.
pub(super) fn io_error(doing: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_keeps_every_byte_of_the_path() {
        let file = PathBuf::from("/a b/ü?#%.db");
        let place = Place {
            given: file.clone(),
            file,
        };
        assert_eq!(
            place.frozen_uri(),
            "file:/a%20b/%C3%BC%3F%23%25.db?immutable=1"
        );
    }

    #[test]
    fn an_empty_path_is_refused() {
        assert!(matches!(
            Place::absolute(Path::new("")),
            Err(Error::Invalid { .. })
        ));
    }

    #[test]
    fn what_cannot_be_a_store_is_told_apart_without_opening_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("empty"), "").unwrap();
        assert!(matches!(Place::find(&at("nothing")), Ok(Found::Nothing)));
        assert!(matches!(
            Place::find(&at("folder")),
            Err(Error::NotAStore { .. })
        ));
        assert!(matches!(
            Place::find(&at("empty")),
            Err(Error::Damaged { .. })
        ));
        assert!(matches!(
            Place::find(&at("empty/below")),
            Err(Error::Io { .. })
        ));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_broken_ones_named() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink(at("nowhere"), at("broken")).unwrap();
        assert!(matches!(
            Place::find(&at("broken")),
            Err(Error::NotAStore { .. })
        ));
        assert!(matches!(
            Place::find(Path::new("/dev/null")),
            Err(Error::NotAStore { .. })
        ));

        fs::write(at("real"), "x").unwrap();
        symlink(at("real"), at("link")).unwrap();
        let Ok(Found::File(place)) = Place::find(&at("link")) else {
            panic!("not found")
        };
        assert_eq!(place.file, fs::canonicalize(at("real")).unwrap());
        assert_eq!(place.identity(), Identity::of(&at("real")));
    }
}
