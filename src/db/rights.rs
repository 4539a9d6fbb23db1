//! Who may read a store: its owner, and nobody else.
//!
//! SQLite gives its side files the mode of the database file, so a private file has private side files whatever the
//! umask is.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::place::{Place, io_error};
use crate::error::Result;

/// Suffixes of everything that lies beside a store.
pub(super) const SIDE_FILES: [&str; 4] = ["-wal", "-shm", "-journal", ".lock"];

/// Makes an empty file that only its owner may use, under a name that was free.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let file = private(OpenOptions::new().write(true).create_new(true), path)?;
    allow_owner(path, 0o600)?;
    Ok(file)
}

/// Opens a file that only its owner may use, and makes it if it is missing.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    match create_private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).write(true).open(path)
        }
        outcome => outcome,
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600).open(path)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// Gives the owner the rights that an odd umask took away. Others never had any.
#[cfg(unix)]
fn allow_owner(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn allow_owner(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Makes a folder and those above it that are missing, each for its owner alone, and each safe from a loss of power.
///
/// # Errors
/// [`crate::Error::Io`], naming the folder.
pub(super) fn create_folder(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|at| !at.exists()).collect();
    for at in missing.into_iter().rev() {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        match builder.create(at).and_then(|()| allow_owner(at, 0o700)) {
            Ok(()) => at.parent().map_or(Ok(()), sync_folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("making the folder", at, error)),
        }
    }
    Ok(())
}

/// Waits until the names in a folder are on the disk.
///
/// # Errors
/// [`crate::Error::Io`]. A folder that may be written but not read cannot be waited for; that is let pass.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder).and_then(|open| open.sync_all()) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
            ) =>
        {
            Err(io_error("syncing the folder", folder, error))
        }
        _ => Ok(()),
    }
}

/// Takes others' rights away from a store and its side files, where they are ours, and answers a note for each file
/// that was, or still is, open to others. With `look_only` nothing is changed.
#[cfg(unix)]
pub(super) fn tighten(place: &Place, look_only: bool) -> Vec<String> {
    let sides = SIDE_FILES.iter().map(|suffix| place.beside(suffix));
    let files: Vec<PathBuf> = std::iter::once(place.file.clone()).chain(sides).collect();
    files
        .iter()
        .filter_map(|file| tighten_one(file, look_only))
        .collect()
}

#[cfg(unix)]
fn tighten_one(file: &Path, look_only: bool) -> Option<String> {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let there = fs::symlink_metadata(file)
        .ok()
        .filter(fs::Metadata::is_file)?;
    let mode = there.mode() & 0o777;
    if mode & 0o077 == 0 {
        return None;
    }
    let name = file.display();
    if look_only {
        return Some(format!(
            "`{name}` can be used by other users (mode {mode:03o})"
        ));
    }
    let owner = there.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Some(format!(
            "`{name}` can be used by other users (mode {mode:03o}) and belongs to user {owner}, who alone should change that"
        ));
    }
    Some(
        match fs::set_permissions(file, Permissions::from_mode(mode & 0o600)) {
            Ok(()) => format!(
                "`{name}` could be used by other users (mode {mode:03o}); it is now private"
            ),
            Err(error) => format!(
                "`{name}` can be used by other users (mode {mode:03o}) and stays so: {error}"
            ),
        },
    )
}

/// Elsewhere the folder's own rules decide.
#[cfg(not(unix))]
pub(super) fn tighten(_place: &Place, _look_only: bool) -> Vec<String> {
    Vec::new()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn place_with_mode(folder: &Path, mode: u32) -> Place {
        let file = folder.join("store.db");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        Place {
            given: file.clone(),
            file,
        }
    }

    #[test]
    fn every_missing_folder_is_made_private() {
        let folder = tempfile::tempdir().unwrap();
        create_folder(&folder.path().join("a/b")).unwrap();
        create_folder(&folder.path().join("a/b")).unwrap();
        assert_eq!(mode(&folder.path().join("a")), 0o700);
        assert_eq!(mode(&folder.path().join("a/b")), 0o700);
    }

    #[test]
    fn a_wide_file_of_ours_is_tightened_and_noted() {
        let folder = tempfile::tempdir().unwrap();
        let place = place_with_mode(folder.path(), 0o664);
        fs::write(place.beside("-wal"), "x").unwrap();
        fs::set_permissions(place.beside("-wal"), Permissions::from_mode(0o644)).unwrap();
        let notes = tighten(&place, false);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("664") && notes[0].contains("store.db"));
        assert_eq!(mode(&place.file), 0o600);
        assert_eq!(mode(&place.beside("-wal")), 0o600);
        assert!(tighten(&place, false).is_empty());
    }

    #[test]
    fn a_look_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = place_with_mode(folder.path(), 0o644);
        assert_eq!(tighten(&place, true).len(), 1);
        assert_eq!(mode(&place.file), 0o644);
    }

    #[test]
    fn a_foreign_file_is_only_noted() {
        let folder = tempfile::tempdir().unwrap();
        let place = place_with_mode(folder.path(), 0o644);
        // Only root can give a file away; elsewhere there is nothing to test.
        if std::os::unix::fs::chown(&place.file, Some(65534), None).is_err() {
            return;
        }
        let notes = tighten(&place, false);
        assert!(notes.len() == 1 && notes[0].contains("65534"), "{notes:?}");
        assert_eq!(mode(&place.file), 0o644);
    }
}
