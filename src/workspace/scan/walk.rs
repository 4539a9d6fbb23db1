//! Walking a root with a few threads, one folder at a time.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Content, Entry, Excludes, FileId, Scanned, Stamp, Uncovered, What, sort};
use crate::workspace::ignored::Rules;
use crate::workspace::path::is_absence;

/// More threads wait for the file system more than they help.
const MOST_THREADS: usize = 4;

/// What is walked.
pub(super) struct Walk<'a> {
    pub(super) root: &'a Path,
    pub(super) excludes: &'a Excludes,
    pub(super) most: usize,
    pub(super) store_files: &'a [FileId],
}

/// A folder that is to be read.
struct Folder {
    /// Below the root.
    path: PathBuf,
    /// Those of the folder around it.
    rules: Rules,
}

/// The folders that are to be read, and how many are being read.
struct Open {
    folders: Vec<Folder>,
    busy: usize,
}

/// What one thread came to.
#[derive(Default)]
struct Found {
    entries: Vec<(PathBuf, Entry)>,
    hidden: Vec<PathBuf>,
    uncovered: Uncovered,
}

struct Shared {
    open: Mutex<Open>,
    changed: Condvar,
    entries: AtomicUsize,
    hidden: AtomicUsize,
}

impl Walk<'_> {
    /// Walks all of it and puts what is there into `scanned`.
    pub(super) fn run(&self, scanned: &mut Scanned) -> io::Result<()> {
        // Told as an error, unlike a folder below it.
        drop(fs::read_dir(self.root)?);
        let first = Folder {
            path: PathBuf::new(),
            rules: Rules::around(self.root),
        };
        let shared = Shared {
            open: Mutex::new(Open {
                folders: vec![first],
                busy: 0,
            }),
            changed: Condvar::new(),
            entries: AtomicUsize::new(0),
            hidden: AtomicUsize::new(0),
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let parts: Vec<Found> = thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(MOST_THREADS))
                .map(|_| scope.spawn(|| self.work(&shared)))
                .collect();
            let own = self.work(&shared);
            let others = others.into_iter().map(|other| match other.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            std::iter::once(own).chain(others).collect()
        });
        for part in parts {
            scanned.entries.extend(part.entries);
            scanned.hidden.extend(part.hidden);
            scanned.uncovered.add(part.uncovered);
        }
        sort(&mut scanned.entries, |(path, _)| path);
        sort(&mut scanned.hidden, |path| path);
        Ok(())
    }

    /// Reads folders until there are none left.
    fn work(&self, shared: &Shared) -> Found {
        let mut found = Found::default();
        let mut open = shared.lock();
        loop {
            if let Some(folder) = open.folders.pop() {
                open.busy += 1;
                drop(open);
                let below = self.read(shared, &folder, &mut found);
                open = shared.lock();
                open.folders.extend(below);
                open.busy -= 1;
                shared.changed.notify_all();
            } else if open.busy == 0 {
                return found;
            } else {
                open = shared
                    .changed
                    .wait(open)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Notes what lies in a folder, and answers the folders in it that are covered.
    fn read(&self, shared: &Shared, folder: &Folder, found: &mut Found) -> Vec<Folder> {
        let at = self.root.join(&folder.path);
        let mut entries = match self.list(&at) {
            Ok(entries) => entries,
            Err(error) if is_absence(&error) => return Vec::new(),
            Err(_) => {
                found.uncovered.unreadable += 1;
                found.hidden.push(folder.path.clone());
                return Vec::new();
            }
        };
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let has = |name: &str| entries.iter().any(|(at, _)| at == name);
        let (is_repository, has_list) = (has(".git"), has(".gitignore"));
        let rules = if is_repository || has_list {
            folder.rules.within(&at, is_repository, has_list)
        } else {
            folder.rules.clone()
        };
        let mut below = Vec::new();
        for (name, entry) in entries {
            if name == ".git" {
                continue;
            }
            if shared.is_enough(self.most) {
                found.uncovered.has_more = true;
                return below;
            }
            let path = folder.path.join(&name);
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let uncovered = &mut found.uncovered;
            let why = if self.excludes.names(&path) {
                &mut uncovered.excluded
            } else if rules.leave_out(&at.join(&name), is_folder) {
                &mut uncovered.ignored
            } else {
                match entry
                    .metadata()
                    .and_then(|metadata| self.entry(&path, &metadata))
                {
                    Ok(Seen::Entry(entry)) => {
                        if entry.what == What::Folder {
                            below.push(Folder {
                                path: path.clone(),
                                rules: rules.clone(),
                            });
                        }
                        found.entries.push((path, entry));
                        shared.entries.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    Ok(Seen::Own) => &mut uncovered.own,
                    Ok(Seen::Other) => &mut uncovered.other,
                    Err(error) if is_absence(&error) => continue,
                    Err(_) => &mut uncovered.unreadable,
                }
            };
            *why += 1;
            found.hidden.push(path);
            shared.hidden.fetch_add(1, Ordering::Relaxed);
        }
        below
    }

    /// The names in a folder; of very many only more than are covered.
    fn list(&self, at: &Path) -> io::Result<Vec<(OsString, fs::DirEntry)>> {
        fs::read_dir(at)?
            .take(self.most.saturating_mul(2).saturating_add(1))
            .map(|entry| entry.map(|entry| (entry.file_name(), entry)))
            .collect()
    }

    /// Whether a path below the root is a folder, and so are all that it lies in.
    pub(super) fn is_folder(&self, path: &Path) -> bool {
        let mut folders = path.ancestors().filter(|at| !at.as_os_str().is_empty());
        folders.all(|at| {
            let metadata = self.root.join(at).symlink_metadata();
            metadata.is_ok_and(|metadata| metadata.is_dir())
        })
    }

    /// What lies at a path below the root, if it is something that is covered.
    pub(super) fn entry_at(&self, path: &Path) -> io::Result<Option<Entry>> {
        let metadata = match self.root.join(path).symlink_metadata() {
            Err(error) if is_absence(&error) => return Ok(None),
            metadata => metadata?,
        };
        match self.entry(path, &metadata)? {
            Seen::Entry(entry) => Ok(Some(entry)),
            Seen::Own | Seen::Other => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn entry(&self, path: &Path, metadata: &Metadata) -> io::Result<Seen> {
        let stamp = stamp(metadata);
        let what = if metadata.is_dir() {
            What::Folder
        } else if metadata.is_symlink() {
            What::Symlink {
                target: fs::read_link(self.root.join(path))?,
            }
        } else if !metadata.is_file() {
            return Ok(Seen::Other);
        } else if self.store_files.contains(&stamp.id) {
            return Ok(Seen::Own);
        } else {
            What::File(Content::Unread)
        };
        Ok(Seen::Entry(Entry { stamp, what }))
    }
}

enum Seen {
    Entry(Entry),
    Own,
    Other,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_enough(&self, most: usize) -> bool {
        self.entries.load(Ordering::Relaxed) >= most || self.hidden.load(Ordering::Relaxed) >= most
    }
}

impl Uncovered {
    fn add(&mut self, other: Self) {
        self.ignored += other.ignored;
        self.excluded += other.excluded;
        self.too_large += other.too_large;
        self.too_much += other.too_much;
        self.unreadable += other.unreadable;
        self.other += other.other;
        self.own += other.own;
        self.has_more |= other.has_more;
    }
}

#[cfg(unix)]
fn stamp(metadata: &Metadata) -> Stamp {
    use std::os::unix::fs::MetadataExt;
    let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
    Stamp {
        len: metadata.len(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        mode: metadata.mode() & 0o7777,
        id: FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        },
        links: metadata.nlink(),
    }
}

/// Elsewhere a file has no number, and no time of a change that nobody can set.
#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> Stamp {
    let modified_ns = metadata.modified().map_or(0, super::nanoseconds);
    Stamp {
        len: metadata.len(),
        modified_ns,
        changed_ns: modified_ns,
        mode: if metadata.permissions().readonly() {
            0o444
        } else {
            0o644
        },
        id: FileId {
            device: 0,
            inode: 0,
        },
        links: 1,
    }
}
