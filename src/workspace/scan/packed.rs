//! A scan as bytes, to be kept until the next one.

use std::path::PathBuf;

use super::{Content, Entry, FileId, Scanned, Stamp, Uncovered, What};

/// The first byte: how the rest is laid out.
const LAYOUT: u8 = 1;

/// Quick is better than short: it is written and read around every command.
const LEVEL: i32 = 1;

impl Scanned {
    /// The scan as bytes, without its root.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        put(&mut out, self.taken_ns);
        put(&mut out, i64::from(self.uncovered.has_more));
        put(&mut out, length(self.entries.len()));
        for (path, entry) in &self.entries {
            put_path(&mut out, path);
            let Stamp {
                len,
                modified_ns,
                changed_ns,
                mode,
                id,
                links,
            } = entry.stamp;
            for number in [len, id.device, id.inode, links] {
                put(&mut out, number as i64);
            }
            for number in [modified_ns, changed_ns, i64::from(mode)] {
                put(&mut out, number);
            }
            match &entry.what {
                What::File(Content::Kept(hash)) => {
                    out.push(0);
                    out.extend(hash);
                }
                What::File(Content::Unread) => out.push(1),
                What::File(Content::TooLarge) => out.push(2),
                What::File(Content::TooMuch) => out.push(3),
                What::Symlink { target } => {
                    out.push(4);
                    put_path(&mut out, target);
                }
                What::Folder => out.push(5),
            }
        }
        put(&mut out, length(self.hidden.len()));
        for path in &self.hidden {
            put_path(&mut out, path);
        }
        zstd::bulk::compress(&out, LEVEL).unwrap_or_default()
    }

    /// A scan of a root that was packed; `None` if the bytes are not one of this layout.
    pub(crate) fn unpack(root: PathBuf, packed: &[u8]) -> Option<Self> {
        let bytes = zstd::decode_all(packed).ok()?;
        let mut rest = &bytes[..];
        if *rest.split_off_first()? != LAYOUT {
            return None;
        }
        let taken_ns = take(&mut rest)?;
        let has_more = take(&mut rest)? != 0;
        let mut scanned = Self {
            root,
            taken_ns,
            entries: Vec::new(),
            hidden: Vec::new(),
            uncovered: Uncovered {
                has_more,
                ..Uncovered::default()
            },
        };
        for _ in 0..take(&mut rest)? {
            let path = take_path(&mut rest)?;
            let [len, device, inode, links] = [
                take(&mut rest)? as u64,
                take(&mut rest)? as u64,
                take(&mut rest)? as u64,
                take(&mut rest)? as u64,
            ];
            let stamp = Stamp {
                len,
                id: FileId { device, inode },
                links,
                modified_ns: take(&mut rest)?,
                changed_ns: take(&mut rest)?,
                mode: u32::try_from(take(&mut rest)?).ok()?,
            };
            let what = match rest.split_off_first()? {
                0 => What::File(Content::Kept(rest.split_off(..32)?.try_into().ok()?)),
                1 => What::File(Content::Unread),
                2 => What::File(Content::TooLarge),
                3 => What::File(Content::TooMuch),
                4 => What::Symlink {
                    target: take_path(&mut rest)?,
                },
                5 => What::Folder,
                _ => return None,
            };
            scanned.entries.push((path, Entry { stamp, what }));
        }
        for _ in 0..take(&mut rest)? {
            scanned.hidden.push(take_path(&mut rest)?);
        }
        rest.is_empty().then_some(scanned)
    }
}

fn length(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn put(out: &mut Vec<u8>, number: i64) {
    out.extend(number.to_le_bytes());
}

fn take(rest: &mut &[u8]) -> Option<i64> {
    let bytes = rest.split_off(..8)?;
    Some(i64::from_le_bytes(bytes.try_into().ok()?))
}

fn put_path(out: &mut Vec<u8>, path: &std::path::Path) {
    let bytes = path_bytes(path);
    put(out, length(bytes.len()));
    out.extend(bytes);
}

fn take_path(rest: &mut &[u8]) -> Option<PathBuf> {
    let length = usize::try_from(take(rest)?).ok()?;
    rest.split_off(..length).map(path_of)
}

#[cfg(unix)]
fn path_bytes(path: &std::path::Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

#[cfg(not(unix))]
fn path_bytes(path: &std::path::Path) -> &[u8] {
    path.to_str().unwrap_or_default().as_bytes()
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
    PathBuf::from(name)
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{ScanLimits, scan};
    use super::*;
    use crate::workspace::excludes::Excludes;

    #[test]
    fn a_scan_comes_back_whole_and_half_of_one_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a"), "x").unwrap();
        std::fs::write(folder.path().join("b.pem"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let limits = ScanLimits {
            files: 10,
            bytes: 10,
            file_bytes: 10,
        };
        let excludes = Excludes::new(["*.pem"]).unwrap();
        let mut scanned = scan(folder.path(), &excludes, limits, None, &[]).unwrap();
        scanned.note_kept(std::path::Path::new("sub/a"), [7; 32]);
        let packed = scanned.pack();
        let back = Scanned::unpack(folder.path().to_owned(), &packed).unwrap();
        assert_eq!(back.entries, scanned.entries);
        assert_eq!(back.hidden, scanned.hidden);
        assert_eq!(back.taken_ns, scanned.taken_ns);
        for end in 0..packed.len() {
            assert!(Scanned::unpack(folder.path().to_owned(), &packed[..end]).is_none());
        }
    }
}
