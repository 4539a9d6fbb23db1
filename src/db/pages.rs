//! Reading rows off the pages of a file, without the trees that lead to them.
//!
//! Where a damaged page cuts off a part of a table, the rows themselves still lie on the leaves. They are found by
//! looking at every page that is in use, and each cell is read with its own bounds checked: whatever does not fit is
//! passed over. What table a row belongs to is decided above, by its columns.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rusqlite::types::Value;

/// Page size of every store. Transcripts are long rows: 8 KiB pages waste less and read faster than 4 KiB ones.
pub(super) const PAGE: usize = 8192;

/// Length of the file's header, on the first page.
pub(super) const HEADER: usize = 100;

const TABLE_LEAF: u8 = 0x0d;
const INDEX_LEAF: u8 = 0x0a;
const INDEX_INTERIOR: u8 = 0x02;

/// The pages of a file, and newer copies of some of them in a log.
pub(crate) struct Pages {
    file: File,
    count: u32,
    free: HashSet<u32>,
    log: Option<File>,
    newer: BTreeMap<u32, u64>,
}

impl Pages {
    /// The pages of `file`. `freelist` is the page on which the list of unused ones begins, or 0.
    pub(super) fn new(
        file: File,
        count: u32,
        freelist: u32,
        log: Option<File>,
        newer: BTreeMap<u32, u64>,
    ) -> Self {
        let mut pages = Self {
            file,
            count,
            free: HashSet::new(),
            log,
            newer,
        };
        pages.free = pages.unused(freelist);
        pages
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether a log holds pages that are not part of the file.
    pub(crate) fn has_newer(&self) -> bool {
        !self.newer.is_empty()
    }

    /// Calls `each` with every row found on a leaf that is in use and not refused by `wanted`: its id (`None` in a
    /// table without row ids, or in an index) and its columns. Copies of a page in a log come first, as they are newer.
    ///
    /// # Errors
    /// Those of `each`. A page that cannot be read has no rows.
    pub(crate) fn rows<E>(
        &self,
        wanted: impl Fn(Option<i64>) -> bool,
        mut each: impl FnMut(Option<i64>, Vec<Value>) -> Result<(), E>,
    ) -> Result<(), E> {
        for &number in self.newer.keys() {
            if let Ok(page) = self.page(number, true) {
                self.rows_on(&page, number, true, &wanted, &mut each)?;
            }
        }
        for number in 1..=self.count {
            if self.free.contains(&number) {
                continue;
            }
            if let Ok(page) = self.page(number, false) {
                self.rows_on(&page, number, false, &wanted, &mut each)?;
            }
        }
        Ok(())
    }

    fn page(&self, number: u32, from_log: bool) -> io::Result<Vec<u8>> {
        let mut page = vec![0; PAGE];
        let (mut file, at) = match (&self.log, self.newer.get(&number)) {
            (Some(log), Some(&at)) if from_log => (log, at),
            _ if number == 0 || number > self.count => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            _ => (&self.file, u64::from(number - 1) * PAGE as u64),
        };
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut page)?;
        Ok(page)
    }

    /// The pages that the file's list of unused ones names: what they still hold was deleted.
    fn unused(&self, freelist: u32) -> HashSet<u32> {
        let mut free = HashSet::new();
        let mut trunk = freelist;
        while trunk != 0 && free.insert(trunk) {
            let Ok(page) = self.page(trunk, false) else {
                break;
            };
            let leaves = (number_at(&page, 4) as usize).min(PAGE / 4 - 2);
            free.extend((0..leaves).map(|leaf| number_at(&page, 8 + 4 * leaf)));
            trunk = number_at(&page, 0);
        }
        free
    }

    fn rows_on<E>(
        &self,
        page: &[u8],
        number: u32,
        from_log: bool,
        wanted: &impl Fn(Option<i64>) -> bool,
        each: &mut impl FnMut(Option<i64>, Vec<Value>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = if number == 1 { HEADER } else { 0 };
        let kind = page[start];
        let pointers = match kind {
            TABLE_LEAF | INDEX_LEAF => start + 8,
            INDEX_INTERIOR => start + 12,
            _ => return Ok(()),
        };
        let cells = usize::from(u16::from_be_bytes([page[start + 3], page[start + 4]]));
        for cell in 0..cells {
            let at = pointers + 2 * cell;
            let Some(&[high, low]) = page.get(at..at + 2) else {
                break;
            };
            let at = usize::from(u16::from_be_bytes([high, low]));
            let Some((id, payload)) = Cell::read(page, at, kind) else {
                continue;
            };
            if !wanted(id) {
                continue;
            }
            let record = self.payload(page, &payload, from_log);
            if let Some(columns) = record.as_deref().and_then(columns) {
                each(id, columns)?;
            }
        }
        Ok(())
    }

    /// The payload of a cell, from its page and those it overflows to.
    fn payload(&self, page: &[u8], cell: &Cell, from_log: bool) -> Option<Vec<u8>> {
        let all = u64::from(self.count) + self.newer.len() as u64;
        if cell.bytes as u64 > all * PAGE as u64 {
            return None;
        }
        let mut payload = page.get(cell.at..cell.at + cell.local)?.to_vec();
        if cell.local == cell.bytes {
            return Some(payload);
        }
        let mut next = number_at(page.get(cell.at + cell.local..)?, 0);
        while payload.len() < cell.bytes {
            let page = self.page(next, from_log).ok()?;
            let take = (cell.bytes - payload.len()).min(PAGE - 4);
            payload.extend_from_slice(&page[4..4 + take]);
            next = number_at(&page, 0);
        }
        Some(payload)
    }
}

/// Where the payload of a cell begins, how long it is, and how much of it is on the page.
struct Cell {
    at: usize,
    bytes: usize,
    local: usize,
}

impl Cell {
    /// Reads the head of the cell at `at`.
    fn read(page: &[u8], at: usize, kind: u8) -> Option<(Option<i64>, Self)> {
        let at = if kind == INDEX_INTERIOR { at + 4 } else { at };
        let (bytes, at) = varint(page, at)?;
        let bytes = usize::try_from(bytes)
            .ok()
            .filter(|bytes| *bytes < 1 << 30)?;
        let (id, at) = if kind == TABLE_LEAF {
            let (id, at) = varint(page, at)?;
            (Some(id), at)
        } else {
            (None, at)
        };
        let local = local(bytes, kind);
        Some((id, Self { at, bytes, local }))
    }
}

/// How many bytes of a payload stay on the page, by SQLite's rule.
fn local(bytes: usize, kind: u8) -> usize {
    let most = if kind == TABLE_LEAF {
        PAGE - 35
    } else {
        (PAGE - 12) * 64 / 255 - 23
    };
    if bytes <= most {
        return bytes;
    }
    let least = (PAGE - 12) * 32 / 255 - 23;
    let fitting = least + (bytes - least) % (PAGE - 4);
    if fitting <= most { fitting } else { least }
}

/// The columns of a record; `None` unless it reads to its last byte.
fn columns(record: &[u8]) -> Option<Vec<Value>> {
    let (head, mut at) = varint(record, 0)?;
    let head = usize::try_from(head)
        .ok()
        .filter(|head| *head <= record.len())?;
    let mut body = head;
    let mut columns = Vec::new();
    while at < head {
        let (kind, next) = varint(record, at)?;
        at = next;
        let bytes = usize::try_from(match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            12.. => (kind - 12) / 2,
            _ => return None,
        })
        .ok()?;
        let value = record.get(body..body.checked_add(bytes)?)?;
        body += bytes;
        columns.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => Value::Integer(integer(value)),
            7 => Value::Real(f64::from_be_bytes(value.try_into().ok()?)),
            text if text % 2 == 1 => Value::Text(String::from_utf8(value.to_vec()).ok()?),
            _ => Value::Blob(value.to_vec()),
        });
    }
    (at == head && body == record.len()).then_some(columns)
}

fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
    bytes
        .iter()
        .fold(if negative { -1 } else { 0 }, |number, byte| {
            (number << 8) | i64::from(*byte)
        })
}

/// A number of up to nine bytes, and where it ends.
fn varint(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut number: u64 = 0;
    for place in 0..9 {
        let byte = *bytes.get(at.checked_add(place)?)?;
        if place == 8 {
            number = (number << 8) | u64::from(byte);
            return Some((number.cast_signed(), at + 9));
        }
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number.cast_signed(), at + place + 1));
        }
    }
    None
}

fn number_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|four| four.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::path::Path;

    use rusqlite::Connection;

    use super::*;

    fn pages(path: &Path) -> Pages {
        let file = File::open(path).unwrap();
        let count = u32::try_from(file.metadata().unwrap().len() / PAGE as u64).unwrap();
        let mut header = [0; HEADER];
        (&file).read_exact(&mut header).unwrap();
        Pages::new(file, count, number_at(&header, 32), None, BTreeMap::new())
    }

    fn rows(pages: &Pages, columns: usize) -> BTreeMap<Option<i64>, Vec<Value>> {
        let mut found = BTreeMap::new();
        let outcome: Result<(), Infallible> = pages.rows(
            |_| true,
            |id, values| {
                if values.len() == columns {
                    found.insert(id, values);
                }
                Ok(())
            },
        );
        outcome.unwrap();
        found
    }

    #[test]
    fn every_row_is_read_as_sqlite_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "PRAGMA page_size = 8192;
             CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c);
             CREATE TABLE k (a TEXT, b INTEGER, c, d, e, PRIMARY KEY (a, b)) WITHOUT ROWID;
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO t SELECT i * i * i - 7, i * i * i * i * i - 99, hex(randomblob(i * 97 % 40000)), i / 3.0 FROM n;
             WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
             INSERT INTO k SELECT 'k' || i, i, hex(randomblob(i * 17 % 3000)), NULL, x'00' FROM n;",
        )
        .unwrap();
        let found = rows(&pages(&path), 4);
        let mut statement = conn.prepare("SELECT id, a, b, c FROM t").unwrap();
        let mut expected = statement.query([]).unwrap();
        let mut count = 0;
        while let Some(row) = expected.next().unwrap() {
            let id: i64 = row.get(0).unwrap();
            let value = |column| row.get::<_, Value>(column).unwrap();
            let found = &found[&Some(id)];
            assert_eq!(found[0], Value::Null);
            assert_eq!((&found[1], &found[2]), (&value(1), &value(2)));
            // SQLite stores a real without a fraction as an integer.
            if !matches!(found[3], Value::Integer(_)) {
                assert_eq!(found[3], value(3));
            }
            count += 1;
        }
        assert_eq!(count, 401);

        let mut keyed = 0;
        let outcome: Result<(), Infallible> = pages(&path).rows(
            |id| id.is_none(),
            |_, values| {
                keyed += usize::from(values.len() == 5);
                Ok(())
            },
        );
        outcome.unwrap();
        assert_eq!(keyed, 401);
    }

    #[test]
    fn what_was_deleted_is_not_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "PRAGMA page_size = 8192; CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c);
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
             INSERT INTO t SELECT i, 0, hex(randomblob(3000)), 0 FROM n;
             DELETE FROM t WHERE id > 100;",
        )
        .unwrap();
        assert_eq!(rows(&pages(&path), 4).len(), 100);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut seed: u64 = 7;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        for _ in 0..300 {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut page: Vec<u8> = (0..PAGE).map(|_| random()).collect();
            page[0] = [TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR][usize::from(random()) % 3];
            std::fs::write(file.path(), [vec![0; PAGE], page].concat()).unwrap();
            let _ = rows(&pages(file.path()), 1);
        }
    }
}
