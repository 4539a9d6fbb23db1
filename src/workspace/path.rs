//! One name for one place: absolute, without `.` and `..`, folders free of links.
//!
//! Names are bytes. Nothing here decodes, folds or normalises them.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The place that `path` names, seen from the folder `base`.
///
/// `..` goes by the letters, as the tools of agents resolve it. Then links in the folders that exist
/// are resolved, so that one file has one name; the last component is never followed, and neither it
/// nor its folders need exist.
///
/// # Errors
/// If `base` is not absolute, if a path is empty or holds a NUL, or if a folder may not be looked into.
pub(crate) fn absolute(base: &Path, path: &Path) -> io::Result<PathBuf> {
    if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a path is neither empty nor holds a NUL",
        ));
    }
    let joined = base.join(path);
    if !joined.is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the folder from which paths are seen must be absolute",
        ));
    }
    let plain = without_dots(&joined);
    let (Some(folder), Some(name)) = (plain.parent(), plain.file_name()) else {
        return Ok(plain);
    };
    Ok(resolved(folder)?.join(name))
}

/// Whether `path` is `root` or lies below it. Both are as [`absolute`] makes them.
pub(crate) fn is_within(root: &Path, path: &Path) -> bool {
    let climbs = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    path.starts_with(root) && !climbs(path) && !climbs(root)
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // Above the root there is nothing: `/..` is `/`.
            Component::ParentDir => {
                plain.pop();
            }
            _ => plain.push(part),
        }
    }
    plain
}

/// Resolves the links in the longest part of a folder's path that exists.
fn resolved(folder: &Path) -> io::Result<PathBuf> {
    let mut there = folder;
    let mut missing: Vec<OsString> = Vec::new();
    loop {
        match there.canonicalize() {
            Ok(mut found) => {
                found.extend(missing.iter().rev());
                return Ok(found);
            }
            // A file in place of a folder holds nothing, as a folder that is not there.
            Err(error) if is_absence(&error) => {}
            Err(error) => return Err(error),
        }
        match (there.parent(), there.file_name()) {
            (Some(above), Some(name)) => {
                missing.push(name.to_owned());
                there = above;
            }
            _ => return Ok(folder.to_owned()),
        }
    }
}

/// Whether an error says that there is nothing at a path.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    #[test]
    fn dots_go_by_the_letters() {
        let (_kept, base) = folder();
        for (path, right) in [
            ("a.txt", "a.txt"),
            ("./a.txt", "a.txt"),
            ("sub/../a.txt", "a.txt"),
            ("no/such/folder/a.txt", "no/such/folder/a.txt"),
            ("no/../../a/./b//c/", "../a/b/c"),
        ] {
            let right = without_dots(&base.join(right));
            assert_eq!(absolute(&base, Path::new(path)).unwrap(), right, "{path}");
        }
        let top = absolute(&base, Path::new("/../../x")).unwrap();
        assert_eq!(top, Path::new("/x"));
        assert_eq!(absolute(&base, Path::new("/")).unwrap(), Path::new("/"));
    }

    #[test]
    fn what_names_nothing_is_refused() {
        let (_kept, base) = folder();
        for path in ["", "a\0b"] {
            assert!(absolute(&base, Path::new(path)).is_err(), "{path:?}");
        }
        assert!(absolute(Path::new("sub"), Path::new("a.txt")).is_err());
        assert!(absolute(Path::new("sub"), Path::new("/a.txt")).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_among_folders_are_resolved_and_the_last_component_is_not() {
        use std::os::unix::fs::symlink;
        let (_kept, base) = folder();
        std::fs::create_dir_all(base.join("real/sub")).unwrap();
        symlink("real", base.join("link")).unwrap();
        symlink("a.txt", base.join("real/last")).unwrap();
        symlink("/nowhere/at/all", base.join("dangling")).unwrap();
        symlink("round", base.join("round")).unwrap();
        std::fs::write(base.join("file"), "x").unwrap();
        for (path, right) in [
            ("link/sub/new/a.txt", "real/sub/new/a.txt"),
            ("link/last", "real/last"),
            ("link", "link"),
            ("link/", "link"),
            ("dangling/x", "dangling/x"),
            ("file/below/x", "file/below/x"),
        ] {
            let found = absolute(&base, Path::new(path)).unwrap();
            assert_eq!(found, base.join(right), "{path}");
        }
        assert!(absolute(&base, Path::new("round/x")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn names_stay_bytes() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let (_kept, base) = folder();
        for name in [&b"caf\xe9.txt"[..], b"a\nb", "e\u{301}".as_bytes(), b" "] {
            let name = OsStr::from_bytes(name);
            std::fs::create_dir_all(base.join(name)).unwrap();
            let path = Path::new(name).join(name);
            assert_eq!(absolute(&base, &path).unwrap(), base.join(&path));
        }
    }

    #[test]
    fn within_is_told_by_components() {
        for (root, path, within) in [
            ("/a/b", "/a/b/c", true),
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/bc", false),
            ("/a/b", "/a", false),
            ("/a/b", "/a/b/../c", false),
            ("/", "/a", true),
        ] {
            let found = is_within(Path::new(root), Path::new(path));
            assert_eq!(found, within, "{path} in {root}");
        }
    }

    proptest! {
        #[test]
        fn a_place_is_its_own_name(parts in proptest::collection::vec("[ab.]{1,3}|\\.\\.", 1..8)) {
            let (_kept, base) = folder();
            std::fs::create_dir_all(base.join("a/b")).unwrap();
            #[cfg(unix)]
            std::os::unix::fs::symlink("a/b", base.join("b")).unwrap();
            let place = absolute(&base, Path::new(&parts.join("/"))).unwrap();
            prop_assert_eq!(absolute(&base, &place).unwrap(), place.clone());
            prop_assert_eq!(absolute(Path::new("/"), &place).unwrap(), place);
        }
    }
}
