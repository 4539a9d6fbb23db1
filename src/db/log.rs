//! Folding a write-ahead log into a copy of its file, page by page.
//!
//! SQLite itself stops at the first frame that does not check, and whatever was committed behind it is dropped in
//! silence. Here the same frames are folded in, and those behind a damaged place are named, so that rows can be
//! looked for in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::pages::PAGE;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: u64 = (FRAME_HEADER + PAGE) as u64;

/// First four bytes of a log; the lowest bit is set where checksums are big-endian.
const MAGIC: u32 = 0x377f_0682;

/// What came of a log.
#[derive(Debug, Default)]
pub(super) struct Folded {
    /// Where in the log the newest copies lie of pages that were committed behind a damaged place.
    pub behind: BTreeMap<u32, u64>,
}

/// Writes into `file` all that `log` has committed before its first damaged place.
///
/// # Errors
/// Those of the system. A log that is damaged, or none at all, is no error.
pub(super) fn fold(log: &mut File, file: &mut File) -> io::Result<Folded> {
    let bytes = log.metadata()?.len();
    let mut header = [0; HEADER];
    if bytes < HEADER as u64 + FRAME {
        return Ok(Folded::default());
    }
    log.seek(SeekFrom::Start(0))?;
    log.read_exact(&mut header)?;
    let frames = (bytes - HEADER as u64) / FRAME;
    let found = Scan::run(log, &header, frames)?;
    let mut data = vec![0; PAGE];
    for (&page, &at) in &found.whole {
        log.seek(SeekFrom::Start(at))?;
        log.read_exact(&mut data)?;
        file.seek(SeekFrom::Start(u64::from(page - 1) * PAGE as u64))?;
        file.write_all(&data)?;
    }
    if let Some(pages) = found.pages {
        file.set_len(u64::from(pages) * PAGE as u64)?;
    }
    Ok(Folded {
        behind: found.behind,
    })
}

/// The frames of a log: those that check from the start, and those behind a damaged place.
#[derive(Default)]
struct Scan {
    whole: BTreeMap<u32, u64>,
    pages: Option<u32>,
    behind: BTreeMap<u32, u64>,
}

impl Scan {
    fn run(log: &mut File, header: &[u8; HEADER], frames: u64) -> io::Result<Self> {
        let big_endian = word(header, 0) & 1 == 1;
        let mut sums = checksum(big_endian, (0, 0), &header[..24]);
        let mut whole = word(header, 0) & !1 == MAGIC
            && word(header, 8) as usize == PAGE
            && sums == (word(header, 24), word(header, 28));
        let mut salt = whole.then(|| (word(header, 16), word(header, 20)));
        let mut found = Self::default();
        let mut open = BTreeMap::new();
        let mut frame = vec![0; FRAME_HEADER + PAGE];
        log.seek(SeekFrom::Start(HEADER as u64))?;
        for number in 0..frames {
            log.read_exact(&mut frame)?;
            let (page, pages_then) = (word(&frame, 0), word(&frame, 4));
            let its_salt = (word(&frame, 8), word(&frame, 12));
            // Frames of an earlier round of the log carry another salt. Behind a damaged header the first one tells.
            if *salt.get_or_insert(its_salt) != its_salt || page == 0 {
                whole = false;
                continue;
            }
            let computed = checksum(big_endian, sums, &frame[..8]);
            let computed = checksum(big_endian, computed, &frame[FRAME_HEADER..]);
            sums = (word(&frame, 16), word(&frame, 20));
            let checks = computed == sums;
            if whole && !checks {
                // What was not committed before the damaged place is not folded in.
                whole = false;
            }
            open.insert(page, HEADER as u64 + number * FRAME + FRAME_HEADER as u64);
            if pages_then == 0 {
                continue;
            }
            if whole {
                found.whole.append(&mut open);
                found.pages = Some(pages_then);
            } else {
                found.behind.append(&mut open);
            }
        }
        // A page folded in may lie beyond the end that a later transaction gave the file.
        let pages = found.pages.unwrap_or(0);
        found.whole.retain(|&page, _| page <= pages);
        Ok(found)
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|four| four.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

/// SQLite's checksum of a log, over pairs of words.
fn checksum(big_endian: bool, sums: (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let (mut first, mut second) = sums;
    for pair in bytes.chunks_exact(8) {
        let of = |four: &[u8]| {
            let four = four.try_into().unwrap_or([0; 4]);
            if big_endian {
                u32::from_be_bytes(four)
            } else {
                u32::from_le_bytes(four)
            }
        };
        first = first.wrapping_add(of(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(of(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rusqlite::Connection;
    use rusqlite::config::DbConfig;

    use super::*;

    /// A file with a log of `rows` transactions that were not folded in.
    fn with_log(folder: &Path, rows: i64) -> (std::path::PathBuf, std::path::PathBuf) {
        let path = folder.join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .unwrap();
        conn.execute_batch(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; CREATE TABLE t (x)",
        )
        .unwrap();
        for row in 0..rows {
            conn.execute("INSERT INTO t VALUES (?1)", [row]).unwrap();
        }
        let (db, log) = (folder.join("copy.db"), folder.join("copy.log"));
        fs::copy(&path, &db).unwrap();
        fs::copy(folder.join("a.db-wal"), &log).unwrap();
        (db, log)
    }

    fn folded(db: &Path, log: &Path) -> Folded {
        let open = |path| File::options().read(true).write(true).open(path).unwrap();
        fold(&mut open(log), &mut open(db)).unwrap()
    }

    fn count(db: &Path) -> i64 {
        let conn = Connection::open(db).unwrap();
        conn.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn a_whole_log_is_folded_in_as_sqlite_would() {
        let folder = tempfile::tempdir().unwrap();
        let (db, log) = with_log(folder.path(), 5);
        let outcome = folded(&db, &log);
        assert!(outcome.behind.is_empty());
        assert_eq!(count(&db), 5);
    }

    #[test]
    fn a_transaction_without_its_end_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (db, log) = with_log(folder.path(), 5);
        let bytes = fs::read(&log).unwrap();
        fs::write(&log, &bytes[..bytes.len() - 100]).unwrap();
        let outcome = folded(&db, &log);
        assert!(outcome.behind.is_empty());
        assert_eq!(count(&db), 4);
    }

    #[test]
    fn pages_behind_a_damaged_place_are_named_and_not_folded_in() {
        let folder = tempfile::tempdir().unwrap();
        let (db, log) = with_log(folder.path(), 5);
        let mut bytes = fs::read(&log).unwrap();
        let last = bytes.len() - FRAME as usize;
        bytes[last - 10] ^= 0x40;
        fs::write(&log, &bytes).unwrap();
        let outcome = folded(&db, &log);
        assert_eq!(outcome.behind.keys().copied().collect::<Vec<_>>(), [2]);
        assert_eq!(count(&db), 3);
    }

    #[test]
    fn a_log_with_a_damaged_head_is_named_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (db, log) = with_log(folder.path(), 5);
        let mut bytes = fs::read(&log).unwrap();
        bytes[0] ^= 0xff;
        fs::write(&log, &bytes).unwrap();
        let outcome = folded(&db, &log);
        assert!(outcome.behind.contains_key(&2));
    }
}
