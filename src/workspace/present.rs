//! What lies at a path now. A link is told and not followed, and nothing that could wait is opened.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, MetadataExt as _, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

use super::faults;
use super::path::is_absence;

/// How often a file is read again that changed meanwhile. Then the last reading is taken as it is.
const TRIES: u32 = 8;

/// What lies at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Present {
    /// Nothing, also where one of its folders is missing or is a file.
    Absent,
    /// A regular file and its content.
    File {
        bytes: Vec<u8>,
        /// Its permissions, and the three bits above them.
        mode: u32,
        /// How many names it has.
        links: u64,
    },
    /// A regular file that was not read, as it is longer than was asked for.
    TooLarge { len: u64 },
    /// A symbolic link, and what stands in it.
    Symlink { target: PathBuf },
    /// A folder.
    Directory,
    /// Something that is no file, in words: "a FIFO".
    Other(&'static str),
    /// Something that may not be looked at, or could not be.
    Unreadable(io::ErrorKind),
}

/// What makes a file the same under two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Which file lies at `path`, without opening it and without following a last link.
#[cfg(unix)]
pub(crate) fn file_id(path: &Path) -> Option<FileId> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some(FileId {
        device: std::os::unix::fs::MetadataExt::dev(&metadata),
        inode: std::os::unix::fs::MetadataExt::ino(&metadata),
    })
}

#[cfg(not(unix))]
pub(crate) fn file_id(_: &Path) -> Option<FileId> {
    None
}

/// Looks at a path. A file of up to `max_bytes` is read; one that is written to meanwhile is read
/// again, a few times.
pub(crate) fn look(path: &Path, max_bytes: u64) -> Present {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Present::Directory;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    match Dir::open_ambient_dir(folder, ambient_authority()) {
        Ok(folder) => look_in(&folder, Path::new(name), max_bytes),
        Err(error) => unseen(&error),
    }
}

/// Looks at a name in an open folder.
pub(super) fn look_in(folder: &Dir, name: &Path, max_bytes: u64) -> Present {
    let mut last = Present::Unreadable(io::ErrorKind::ResourceBusy);
    for _ in 0..TRIES {
        match glance(folder, name, max_bytes) {
            Ok(Glance::Sure(present)) => return present,
            Ok(Glance::Unsure(Some(present))) => last = present,
            Ok(Glance::Unsure(None)) => {}
            Err(error) => return unseen(&error),
        }
    }
    last
}

/// What one look gave, and whether nothing changed during it.
enum Glance {
    Sure(Present),
    Unsure(Option<Present>),
}

fn glance(folder: &Dir, name: &Path, max_bytes: u64) -> io::Result<Glance> {
    let metadata = folder.symlink_metadata(name)?;
    let kind = metadata.file_type();
    let present = if kind.is_symlink() {
        match folder.read_link_contents(name) {
            Ok(target) => Present::Symlink { target },
            Err(error) if is_other_now(&error) => return Ok(Glance::Unsure(None)),
            Err(error) => return Err(error),
        }
    } else if kind.is_dir() {
        Present::Directory
    } else if kind.is_file() {
        return read(folder, name, &metadata, max_bytes);
    } else {
        Present::Other(in_words(kind))
    };
    Ok(Glance::Sure(present))
}

fn read(folder: &Dir, name: &Path, seen: &Metadata, max_bytes: u64) -> io::Result<Glance> {
    if seen.len() > max_bytes {
        return Ok(Glance::Sure(Present::TooLarge { len: seen.len() }));
    }
    let mut file = match open(folder, name) {
        Ok(file) => file,
        Err(error) if is_other_now(&error) => return Ok(Glance::Unsure(None)),
        Err(error) => return Err(error),
    };
    let before = file.metadata()?;
    if !before.is_file() {
        return Ok(Glance::Unsure(None));
    }
    let room = usize::try_from(before.len().min(max_bytes)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(room + 1);
    (&mut file)
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    faults::has_read();
    let after = file.metadata()?;
    if bytes.len() as u64 > max_bytes {
        return Ok(Glance::Sure(Present::TooLarge { len: after.len() }));
    }
    let settled = state(&before) == state(&after) && bytes.len() as u64 == after.len();
    let present = Present::File {
        bytes,
        mode: mode(&after),
        links: after.nlink(),
    };
    Ok(if settled {
        Glance::Sure(present)
    } else {
        Glance::Unsure(Some(present))
    })
}

/// Opens what should be a regular file. Should it be something else by now, this neither follows it nor waits.
fn open(folder: &Dir, name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    folder.open_with(name, &options)
}

fn unseen(error: &io::Error) -> Present {
    if is_absence(error) {
        Present::Absent
    } else {
        Present::Unreadable(error.kind())
    }
}

/// Whether an error can come of a name that was a file, or a link, a moment ago.
fn is_other_now(error: &io::Error) -> bool {
    #[cfg(unix)]
    if [
        rustix::io::Errno::LOOP,
        rustix::io::Errno::NXIO,
        rustix::io::Errno::INVAL,
    ]
    .iter()
    .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    {
        return true;
    }
    is_absence(error)
}

/// What changes when a file is written to.
fn state(metadata: &Metadata) -> (u64, Option<cap_std::time::SystemTime>, (i64, i64)) {
    #[cfg(unix)]
    let changed = {
        use cap_std::fs::MetadataExt;
        (
            MetadataExt::ctime(metadata),
            MetadataExt::ctime_nsec(metadata),
        )
    };
    #[cfg(not(unix))]
    let changed = (0, 0);
    (metadata.len(), metadata.modified().ok(), changed)
}

#[cfg(unix)]
pub(super) fn mode(metadata: &Metadata) -> u32 {
    cap_std::fs::MetadataExt::mode(metadata) & 0o7777
}

/// Systems without modes have one bit of them.
#[cfg(not(unix))]
pub(super) fn mode(metadata: &Metadata) -> u32 {
    if metadata.permissions().readonly() {
        0o444
    } else {
        0o644
    }
}

#[cfg(unix)]
fn in_words(kind: cap_std::fs::FileType) -> &'static str {
    use cap_std::fs::FileTypeExt;
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

#[cfg(not(unix))]
fn in_words(_: cap_std::fs::FileType) -> &'static str {
    "no regular file"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::workspace::parts;

    const MUCH: u64 = 1 << 20;

    #[test]
    fn files_are_read_byte_for_byte_with_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let all: Vec<u8> = (0..=255).collect();
        for (content, right) in [(&b""[..], 0o600), (b"a\r\nb", 0o4755), (&all, 0o444)] {
            drop(fs::remove_file(&path));
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(right)).unwrap();
            match look(&path, MUCH) {
                Present::File { bytes, mode, links } => {
                    assert_eq!((&bytes[..], mode, links), (content, right, 1));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn two_names_of_one_file_have_one_id() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "x").unwrap();
        fs::hard_link(&a, &b).unwrap();
        assert!(file_id(&a).is_some() && file_id(&a) == file_id(&b));
        let looked = look(&a, MUCH);
        assert!(matches!(looked, Present::File { links: 2, .. }));
    }

    #[test]
    fn what_is_no_file_is_told_and_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "0123456789").unwrap();
        symlink("../no/such", at("link")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("fifo"))
            .status();
        assert!(made.unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(look(&at("none"), MUCH), Present::Absent);
        assert_eq!(look(&at("none/below"), MUCH), Present::Absent);
        assert_eq!(look(&at("file/below"), MUCH), Present::Absent);
        assert_eq!(look(&at("file/below/more"), MUCH), Present::Absent);
        let target = PathBuf::from("../no/such");
        assert_eq!(look(&at("link"), MUCH), Present::Symlink { target });
        assert_eq!(look(&at("dir"), MUCH), Present::Directory);
        assert_eq!(look(Path::new("/"), MUCH), Present::Directory);
        assert_eq!(look(&at("fifo"), MUCH), Present::Other("a FIFO"));
        assert_eq!(look(&at("socket"), MUCH), Present::Other("a socket"));
        let null = look(Path::new("/dev/null"), MUCH);
        assert_eq!(null, Present::Other("a device"));
        assert!(matches!(look(&at("file"), 10), Present::File { .. }));
        assert_eq!(look(&at("file"), 9), Present::TooLarge { len: 10 });
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_read_again() {
        let _alone = fail::FailScenario::setup();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        let (own, reads) = (std::thread::current().id(), AtomicU32::new(0));
        let written = path.clone();
        fail::cfg_callback("turnkeep::read", move || {
            if std::thread::current().id() == own {
                match reads.fetch_add(1, Ordering::Relaxed) {
                    0 => fs::write(&written, "new and longer").unwrap(),
                    1 => fs::write(&written, "newest").unwrap(),
                    _ => {}
                }
            }
        })
        .unwrap();
        match look(&path, MUCH) {
            Present::File { bytes, .. } => assert_eq!(bytes, b"newest"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_that_may_not_be_read_is_told_apart_from_none() {
        let folder = tempfile::tempdir().unwrap();
        parts::run_unprivileged(folder.path(), "workspace::present::tests::part_unreadable");
    }

    #[test]
    #[ignore = "a part of another test"]
    fn part_unreadable() {
        let Some(folder) = parts::folder() else {
            return;
        };
        let path = folder.join("secret");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let denied = Present::Unreadable(io::ErrorKind::PermissionDenied);
        assert_eq!(look(&path, MUCH), denied);
        // A folder that may be entered and not listed hides nothing that is named.
        let dark = folder.join("dark");
        fs::create_dir(&dark).unwrap();
        fs::write(dark.join("a"), "x").unwrap();
        fs::set_permissions(&dark, fs::Permissions::from_mode(0o100)).unwrap();
        let seen = look(&dark.join("a"), MUCH);
        assert!(matches!(seen, Present::File { .. }), "{seen:?}");
        fs::set_permissions(&dark, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(look(&dark.join("a"), MUCH), denied);
        fs::set_permissions(&dark, fs::Permissions::from_mode(0o700)).unwrap();
    }
}
