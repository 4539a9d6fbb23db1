//! Folders: which are there, which are empty, and where they really are.

use std::io;
use std::path::{Path, PathBuf};

use super::path::is_within;

/// Where a folder is, without links; `None` if what lies there is no folder.
///
/// # Errors
/// If nothing lies there, or it may not be looked at.
pub(crate) fn real_folder(path: &Path) -> io::Result<Option<PathBuf>> {
    let real = path.canonicalize()?;
    Ok(real.is_dir().then_some(real))
}

/// Whether an empty folder lies at `path`.
///
/// # Errors
/// If nothing lies there, or it may not be looked into.
pub(crate) fn is_empty_folder(path: &Path) -> io::Result<bool> {
    let is_folder = path.symlink_metadata()?.is_dir();
    Ok(is_folder && path.read_dir()?.next().is_none())
}

/// How many of the folders that a path lies in are not there, innermost first.
pub(crate) fn missing_folders(path: &Path) -> u32 {
    let mut missing = 0;
    for folder in path.ancestors().skip(1) {
        if folder.symlink_metadata().is_ok() {
            break;
        }
        missing += 1;
    }
    missing
}

/// The file that a link leads to, if it lies below one of the roots. What lies elsewhere is not
/// looked at.
pub(crate) fn linked_file(link: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let target = link.canonicalize().ok()?;
    let is_inside = roots.iter().any(|root| is_within(root, &target));
    (is_inside && target.is_file()).then_some(target)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_are_told_from_files_and_links() {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        fs::create_dir_all(at("full/empty")).unwrap();
        fs::write(at("file"), "x").unwrap();
        symlink("full", at("link")).unwrap();
        assert_eq!(real_folder(&at("link")).unwrap(), Some(at("full")));
        assert_eq!(real_folder(&at("file")).unwrap(), None);
        assert!(real_folder(&at("none")).is_err());
        assert!(is_empty_folder(&at("full/empty")).unwrap());
        assert!(!is_empty_folder(&at("full")).unwrap());
        assert!(!is_empty_folder(&at("link")).unwrap());
        assert!(!is_empty_folder(&at("file")).unwrap());
        assert!(is_empty_folder(&at("none")).is_err());
        assert_eq!(missing_folders(&at("full/a")), 0);
        assert_eq!(missing_folders(&at("full/b/c/a")), 2);
    }

    #[test]
    fn a_link_is_followed_within_the_roots_alone() {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        fs::create_dir(at("root")).unwrap();
        fs::write(at("root/a"), "x").unwrap();
        fs::write(at("outside"), "x").unwrap();
        let roots = [at("root")];
        for (target, found) in [("a", Some(at("root/a"))), ("../outside", None), (".", None)] {
            let link = at("root/link");
            symlink(target, &link).unwrap();
            assert_eq!(linked_file(&link, &roots), found, "{target}");
            fs::remove_file(link).unwrap();
        }
    }
}
