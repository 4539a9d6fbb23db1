//! The mode of a file that is there: set on the file itself, whatever its name has become.

use std::ffi::OsStr;
use std::io;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, OpenOptions};

use crate::workspace::faults::changing;

/// Opens what is there, without following it or waiting for it, to change its mode.
pub(super) fn open(folder: &Dir, name: &OsStr) -> io::Result<Opened> {
    if !folder.symlink_metadata(name)?.is_file() {
        return Err(not_a_file());
    }
    let mut denied = None;
    for (read, write) in [(true, false), (false, true)] {
        let mut options = OpenOptions::new();
        options
            .read(read)
            .write(write)
            .follow(FollowSymlinks::No)
            .nonblock(true);
        match folder.open_with(name, &options) {
            Ok(file) => return Ok(Opened::File(file)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                denied = Some(error);
            }
            #[cfg(unix)]
            Err(error) if error.raw_os_error() == Some(LOOP) => return Err(not_a_file()),
            Err(error) => return Err(error),
        }
    }
    #[cfg(target_os = "linux")]
    if let Ok(handle) = rustix::fs::openat(
        folder,
        name,
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) {
        return Ok(Opened::Handle(handle.into()));
    }
    Err(denied.unwrap_or_else(not_a_file))
}

#[cfg(unix)]
const LOOP: i32 = rustix::io::Errno::LOOP.raw_os_error();

/// A file that is open, or as much of one as its owner may have without rights on it.
pub(super) enum Opened {
    File(File),
    #[cfg(target_os = "linux")]
    Handle(std::fs::File),
}

impl Opened {
    pub(super) fn is_file(&self) -> bool {
        match self {
            Self::File(file) => file.metadata().is_ok_and(|found| found.is_file()),
            #[cfg(target_os = "linux")]
            Self::Handle(handle) => handle.metadata().is_ok_and(|found| found.is_file()),
        }
    }

    pub(super) fn set_mode(&self, mode: u32) -> io::Result<()> {
        match self {
            Self::File(file) => set_mode(file, mode),
            // Through its entry in /proc, which leads to this very file.
            #[cfg(target_os = "linux")]
            Self::Handle(handle) => {
                use std::os::fd::AsRawFd;
                use std::os::unix::fs::PermissionsExt;
                let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & 0o7777))
            }
        }
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        match self {
            Self::File(file) => changing("making a file durable", || file.sync_all()),
            #[cfg(target_os = "linux")]
            Self::Handle(_) => Ok(()),
        }
    }
}

#[cfg(unix)]
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    use cap_std::fs::{Permissions, PermissionsExt};
    file.set_permissions(Permissions::from_mode(mode & 0o7777))
}

/// Systems without modes have one bit of them: whether a file may be written.
#[cfg(not(unix))]
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    let mut permissions = file.metadata()?.permissions();
    permissions.set_readonly(mode & 0o200 == 0);
    file.set_permissions(permissions)
}

pub(super) fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}
