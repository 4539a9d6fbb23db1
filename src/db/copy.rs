//! Copying a store that may be in use, and a disk that may not give all of it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::SystemTime;

use super::pages::PAGE;
use super::patience::Patience;
use super::place::{Place, io_error};
use super::rights::open_private;
use crate::error::{Error, Result};

/// How much is copied at a time.
const BLOCK: usize = 1 << 20;

/// Copies the file, its log and its journal, all of one moment, and answers what could not be read.
pub(super) fn copy_quietly(
    place: &Place,
    copy: &Path,
    log: &Path,
    patience: &mut Patience,
) -> Result<Vec<String>> {
    let mut journal = copy.as_os_str().to_owned();
    journal.push("-journal");
    let parts = [
        (place.file.clone(), copy),
        (place.beside("-wal"), log),
        (place.beside("-journal"), Path::new(&journal)),
    ];
    loop {
        let before = stamps(place);
        let mut lost = Vec::new();
        for (part, to) in &parts {
            if part != &place.file && fs::metadata(part).map_or(0, |there| there.len()) == 0 {
                continue;
            }
            let unreadable = copy_file(part, to)?;
            if unreadable > 0 {
                lost.push(format!(
                    "`{}`: the disk would not give {unreadable} of its pages",
                    part.display()
                ));
            }
        }
        if stamps(place) == before {
            return Ok(lost);
        }
        if !patience.rest() {
            return Err(Error::Busy {
                path: place.given.clone(),
                waited: patience.waited(),
            });
        }
    }
}

/// What changes when others write to the file or its side files.
fn stamps(place: &Place) -> [Option<(u64, SystemTime)>; 3] {
    let stamp = |path: &Path| {
        let there = fs::metadata(path).ok()?;
        Some((there.len(), there.modified().ok()?))
    };
    [
        stamp(&place.file),
        stamp(&place.beside("-wal")),
        stamp(&place.beside("-journal")),
    ]
}

fn copy_file(from: &Path, to: &Path) -> Result<u64> {
    let mut source = File::open(from).map_err(|error| io_error("reading", from, error))?;
    let bytes = source
        .metadata()
        .map_err(|error| io_error("reading", from, error))?
        .len();
    let write = || {
        let target = open_private(to)?;
        target.set_len(0)?;
        Ok(target)
    };
    let failed = |error| io_error("copying to", to, error);
    let mut target = write().map_err(failed)?;
    copy_bytes(&mut source, bytes, &mut target).map_err(failed)
}

/// Copies bytes, and writes zeros for the pages that cannot be read; answers how many those are.
fn copy_bytes(from: &mut (impl Read + Seek), bytes: u64, to: &mut impl Write) -> io::Result<u64> {
    let mut block = vec![0; BLOCK];
    let (mut at, mut unreadable) = (0, 0);
    while at < bytes {
        let length = usize::try_from(bytes - at).map_or(BLOCK, |left| left.min(BLOCK));
        let block = &mut block[..length];
        if !read_at(from, at, block) {
            for (number, page) in (0..).zip(block.chunks_mut(PAGE)) {
                if !read_at(from, at + number * PAGE as u64, page) {
                    page.fill(0);
                    unreadable += 1;
                }
            }
        }
        to.write_all(block)?;
        at += length as u64;
    }
    Ok(unreadable)
}

fn read_at(from: &mut (impl Read + Seek), at: u64, into: &mut [u8]) -> bool {
    from.seek(SeekFrom::Start(at)).is_ok() && from.read_exact(into).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that does not give one of its pages.
    struct Bad {
        bytes: io::Cursor<Vec<u8>>,
        page: u64,
    }

    impl Read for Bad {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let (from, bad) = (self.bytes.position(), self.page * PAGE as u64);
            if from < bad + PAGE as u64 && from + into.len() as u64 > bad {
                return Err(io::Error::other("bad page"));
            }
            self.bytes.read(into)
        }
    }

    impl Seek for Bad {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    #[test]
    fn a_page_that_the_disk_does_not_give_costs_that_page() {
        let bytes: Vec<u8> = (0..PAGE * 200 + 17).map(|at| at as u8 | 1).collect();
        let mut bad = Bad {
            bytes: io::Cursor::new(bytes.clone()),
            page: 150,
        };
        let mut copied = Vec::new();
        assert_eq!(
            copy_bytes(&mut bad, bytes.len() as u64, &mut copied).unwrap(),
            1
        );
        let mut expected = bytes;
        expected[150 * PAGE..151 * PAGE].fill(0);
        assert!(copied == expected);
    }
}
