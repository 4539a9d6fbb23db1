//! A bounded look at a whole root, around a command that names no path.
//!
//! One scan before the command says what there is, and which contents are not kept yet; they must be kept
//! before the command runs. One after it says what became of that. Sizes, times and inode numbers tell
//! what is certainly the same; where they leave a doubt, contents are compared by their hash.
//!
//! What a scan does not cover it counts: left out by git's rules or by a pattern, too large, too much,
//! not readable, no file. `.git` is never entered, not even that of a repository within.

pub(crate) mod changes;
#[cfg(test)]
mod coverage;
mod packed;
#[cfg(test)]
mod tests;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::excludes::Excludes;
use super::present::{FileId, Present, look};

/// How far a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanLimits {
    /// How many files, links and folders are covered.
    pub(crate) files: usize,
    /// How much is to be read because it is not kept yet.
    pub(crate) bytes: u64,
    /// How long one file may be.
    pub(crate) file_bytes: u64,
}

/// What a root held, by paths below it.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    root: PathBuf,
    taken_ns: i64,
    /// By path, in the order of its bytes.
    entries: Vec<(PathBuf, Entry)>,
    /// What is there and not covered, in the same order. A folder stands for all that is in it.
    hidden: Vec<PathBuf>,
    uncovered: Uncovered,
}

/// Something that a scan covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) stamp: Stamp,
    pub(crate) what: What,
}

/// What the file system says of a file without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) len: u64,
    /// Nanoseconds since the epoch.
    pub(crate) modified_ns: i64,
    /// When anything of it was changed; nobody can set this.
    pub(crate) changed_ns: i64,
    pub(crate) mode: u32,
    pub(crate) id: FileId,
    pub(crate) links: u64,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File(Content),
    Symlink { target: PathBuf },
    Folder,
}

/// What is known of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is kept, under this BLAKE3 hash.
    Kept([u8; 32]),
    /// It is to be read and kept, and noted with [`Scanned::note_kept`].
    Unread,
    /// It is longer than one file may be.
    TooLarge,
    /// All that may be read is spent on others.
    TooMuch,
}

/// What a scan does not cover, by number. Folders count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uncovered {
    /// Left out by git's rules.
    pub(crate) ignored: u64,
    /// Named by a pattern.
    pub(crate) excluded: u64,
    /// Longer than one file may be.
    pub(crate) too_large: u64,
    /// Not read, as that would have been too much.
    pub(crate) too_much: u64,
    /// Not allowed to be looked at.
    pub(crate) unreadable: u64,
    /// FIFOs, sockets, devices.
    pub(crate) other: u64,
    /// The store's own files.
    pub(crate) own: u64,
    /// There was more than may be covered, and nobody knows how much.
    pub(crate) has_more: bool,
}

/// Looks at all that lies below a root.
///
/// With `cache`, an earlier scan of the same root, what is certainly the same since keeps what was known of
/// its content, and what was covered then and is still there is covered now, whatever the rules and limits
/// say. `store_files` are left out.
///
/// # Errors
/// If the root cannot be read. What cannot be read below it is counted.
pub(crate) fn scan(
    root: &Path,
    excludes: &Excludes,
    limits: ScanLimits,
    cache: Option<&Scanned>,
    store_files: &[FileId],
) -> io::Result<Scanned> {
    let mut scanned = Scanned {
        root: root.to_owned(),
        taken_ns: nanoseconds(SystemTime::now()),
        entries: Vec::new(),
        hidden: Vec::new(),
        uncovered: Uncovered::default(),
    };
    let walk = walk::Walk {
        root,
        excludes,
        most: limits.files,
        store_files,
    };
    walk.run(&mut scanned)?;
    if let Some(cache) = cache {
        scanned.cover_again(cache, &walk);
    }
    scanned.recall(cache, limits);
    Ok(scanned)
}

impl Scanned {
    /// What a root holds that is not there.
    pub(crate) fn nothing(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            taken_ns: nanoseconds(SystemTime::now()),
            entries: Vec::new(),
            hidden: Vec::new(),
            uncovered: Uncovered::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// All that is covered, in the order of the paths' bytes.
    pub(crate) fn entries(&self) -> &[(PathBuf, Entry)] {
        &self.entries
    }

    /// What is not covered.
    pub(crate) fn uncovered(&self) -> Uncovered {
        self.uncovered
    }

    /// The files whose content is to be kept before the command runs.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &Path> {
        let unread = |entry: &Entry| entry.what == What::File(Content::Unread);
        let entries = self.entries.iter().filter(move |(_, entry)| unread(entry));
        entries.map(|(path, _)| path.as_path())
    }

    /// Notes that a file's content is kept now.
    pub(crate) fn note_kept(&mut self, path: &Path, hash: [u8; 32]) {
        if let Some(at) = self.place(path)
            && let What::File(content) = &mut self.entries[at].1.what
        {
            *content = Content::Kept(hash);
        }
    }

    /// What is known of a path.
    #[cfg(test)]
    pub(crate) fn get(&self, path: &Path) -> Option<&Entry> {
        self.place(path).map(|at| &self.entries[at].1)
    }

    fn place(&self, path: &Path) -> Option<usize> {
        self.entries
            .binary_search_by(|(at, _)| bytes(at).cmp(bytes(path)))
            .ok()
    }

    /// Whether a path is, or lies in, something that is there and not covered.
    fn hides(&self, path: &Path) -> bool {
        let is_hidden = |path: &Path| {
            let found = self
                .hidden
                .binary_search_by(|at| bytes(at).cmp(bytes(path)));
            found.is_ok()
        };
        path.ancestors().any(is_hidden)
    }

    /// Covers what an earlier scan covered and this one did not come to.
    fn cover_again(&mut self, cache: &Scanned, walk: &walk::Walk<'_>) {
        let mut again = Vec::new();
        let mut folder = (Path::new(""), true);
        for (path, _) in &cache.entries {
            if self.place(path).is_some() || walk.excludes.matches(path) {
                continue;
            }
            // Through a link in place of a folder other files would be seen.
            let parent = path.parent().unwrap_or(Path::new(""));
            if folder.0 != parent {
                folder = (parent, walk.is_folder(parent));
            }
            match walk.entry_at(path) {
                Ok(Some(entry)) if folder.1 => again.push((path.clone(), entry)),
                Ok(_) => {}
                Err(_) => self.hidden.push(path.clone()),
            }
        }
        self.entries.append(&mut again);
        sort(&mut self.entries, |(path, _)| path);
        sort(&mut self.hidden, |path| path);
    }

    /// Takes over from an earlier scan what is known of contents, and counts what may not be read.
    fn recall(&mut self, cache: Option<&Scanned>, limits: ScanLimits) {
        let mut earlier = cache.map_or(&[][..], Scanned::entries);
        let mut left = limits.bytes;
        for (path, entry) in &mut self.entries {
            let What::File(content) = &mut entry.what else {
                continue;
            };
            // Both are in the order of their paths.
            while earlier
                .first()
                .is_some_and(|(at, _)| bytes(at) < bytes(path))
            {
                earlier = &earlier[1..];
            }
            let known = earlier.first().filter(|(at, _)| at == path);
            if let (Some((_, before)), Some(cache)) = (known, cache)
                && let What::File(Content::Kept(hash)) = before.what
            {
                let (was, is) = (before.stamp, entry.stamp);
                let is_sure = was == is && was.is_settled(cache.taken_ns);
                let most = limits.file_bytes;
                if is_sure || was.len == is.len && holds(&self.root.join(&*path), hash, most) {
                    *content = Content::Kept(hash);
                    continue;
                }
            }
            if entry.stamp.len > limits.file_bytes {
                *content = Content::TooLarge;
                self.uncovered.too_large += 1;
            } else if entry.stamp.len > left {
                *content = Content::TooMuch;
                self.uncovered.too_much += 1;
            } else {
                left -= entry.stamp.len;
            }
        }
    }
}

/// Whether a file has this content; if it is too long to be looked at, it has not.
fn holds(path: &Path, hash: [u8; 32], most: u64) -> bool {
    matches!(
        look(path, most),
        Present::File { bytes, .. } if *blake3::hash(&bytes).as_bytes() == hash
    )
}

impl Stamp {
    /// Whether a file that had this stamp at a time cannot have been changed after it and have it still. The
    /// clocks of file systems tick: two changes within one tick look like one.
    fn is_settled(&self, at_ns: i64) -> bool {
        const TICK_NS: i64 = 100_000_000;
        const COARSE_TICK_NS: i64 = 2_100_000_000;
        let is_coarse = self.changed_ns % 1_000_000_000 == 0;
        let tick = if is_coarse { COARSE_TICK_NS } else { TICK_NS };
        self.changed_ns.saturating_add(tick) <= at_ns
    }
}

/// Sorts by the bytes of paths: far quicker than by their components.
fn sort<T>(list: &mut [T], path: impl Fn(&T) -> &PathBuf) {
    list.sort_by(|a, b| bytes(path(a)).cmp(bytes(path(b))));
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
        })
}
