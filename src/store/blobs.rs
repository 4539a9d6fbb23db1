//! Contents: each kept once, compressed, a large one in parts.
//!
//! Where a part ends is decided by the bytes around its end alone. So an edit changes the part it falls
//! into, and perhaps the next, and all others are kept already. A part that is large itself is kept in
//! parts too: the list of what a content is made of stays short, and most of it is kept already as well.

use std::path::Path;

use fastcdc::v2020::FastCDC;
use rusqlite::Connection;
use zstd::bulk::Compressor;

use super::unpacking::decode;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::tables::blob_parts;
use crate::tables::blobs::{self, BlobRow};

/// How hard contents are compressed: zstd's default.
const LEVEL: i32 = 3;

/// Up to this length a content is one row. No part of the least average is longer.
const WHOLE: usize = 16 << 10;

/// Into how many parts a content is cut, about, and how long they are on average: at least, and at most.
///
/// Measured with edits of one line of code: each costs 3 KiB of a file of 20 KiB, 4.4 KiB of one of
/// 100 KiB (4.4 % of a copy) and 9 KiB of one of 10 MiB (0.1 %). Twice the least average made it 7.3 %
/// of 100 KiB; half of it saved nothing there and made more rows.
const WAYS: usize = 64;
const LEAST: usize = 4 << 10;
const MOST: usize = fastcdc::v2020::AVERAGE_MAX;

/// How deep parts of parts lie at most; deeper ones are no work of ours.
const DEEPEST: u32 = 16;

/// Keeps a content, and answers its blob. What is there already is not stored again.
pub(crate) fn keep(tx: &Tx<'_>, bytes: &[u8]) -> Result<i64> {
    let hash = blake3::hash(bytes).as_bytes().to_vec();
    if let Some(id) = blobs::find(tx, &hash)? {
        return Ok(id);
    }
    let mut packing = Compressor::new(LEVEL).map_err(|error| Error::Storage(Box::new(error)))?;
    keep_new(tx, &mut packing, hash, bytes)
}

fn keep_new(tx: &Tx<'_>, packing: &mut Compressor<'_>, hash: Vec<u8>, bytes: &[u8]) -> Result<i64> {
    let mut row = BlobRow {
        hash,
        bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
        encoding: "plain".to_owned(),
        content: Vec::new(),
    };
    if bytes.len() <= WHOLE {
        // What cannot be made shorter stays as it is.
        match packing.compress(bytes) {
            Ok(packed) if packed.len() < bytes.len() => {
                row.encoding = "zstd".to_owned();
                row.content = packed;
            }
            _ => row.content = bytes.to_vec(),
        }
        return Ok(blobs::insert(tx, &row)?);
    }
    let blob = blobs::insert(tx, &row)?;
    for (position, part) in (0..).zip(cut(bytes)) {
        let hash = blake3::hash(part).as_bytes().to_vec();
        let part = match blobs::find(tx, &hash)? {
            Some(part) => part,
            None => keep_new(tx, packing, hash, part)?,
        };
        blob_parts::insert(tx, blob, position, part)?;
    }
    Ok(blob)
}

/// Cuts a content that is too long for one row. Every part is shorter than the whole.
fn cut(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Powers of two: a content that grows is cut at the same places for long.
    let average = (bytes.len() / WAYS).next_power_of_two().clamp(LEAST, MOST);
    FastCDC::new(bytes, average / 4, average, average * 4)
        .map(|part| &bytes[part.offset..part.offset + part.length])
}

/// The content of a blob, checked against its hash.
///
/// # Errors
/// [`Error::Damaged`] if it is not what was stored.
pub(crate) fn read(db: &Connection, store: &Path, id: i64) -> Result<Vec<u8>> {
    content(db, id)?.map_err(|why| Error::Damaged {
        path: store.to_owned(),
        why: format!("the content kept as blob {id} {why}"),
    })
}

/// The content of a blob; if it is not what was stored, why.
pub(super) fn content(db: &Connection, id: i64) -> Result<Result<Vec<u8>, &'static str>> {
    let Some(blob) = blobs::get(db, id)? else {
        return Ok(Err("is missing"));
    };
    if !blob.content.is_empty() || blob.bytes == 0 {
        return Ok(unpack(&blob.hash, &blob.encoding, &blob.content));
    }
    let mut bytes = Vec::new();
    let read = append_parts(db, id, 0, blob.bytes, &mut bytes)?;
    Ok(read.and_then(|()| checked(&blob.hash, bytes)))
}

/// Appends what the parts of a blob hold. The parts are not checked: the whole will be.
fn append_parts(
    db: &Connection,
    id: i64,
    depth: u32,
    most: i64,
    bytes: &mut Vec<u8>,
) -> Result<Result<(), &'static str>> {
    for part in blob_parts::list(db, id)? {
        let Some(blob) = blobs::get(db, part)? else {
            return Ok(Err("lacks a part"));
        };
        let read = if blob.content.is_empty() && blob.bytes > 0 {
            // Parts that lead in a circle would have no end.
            if depth == DEEPEST {
                return Ok(Err("has parts that have no end"));
            }
            append_parts(db, part, depth + 1, most, bytes)?
        } else {
            decode(&blob.encoding, &blob.content).map(|part| bytes.extend(part))
        };
        if let Err(why) = read {
            return Ok(Err(why));
        }
        if i64::try_from(bytes.len()).unwrap_or(i64::MAX) > most {
            return Ok(Err("is longer than it was"));
        }
    }
    Ok(Ok(()))
}

/// The content of a blob that is one row, checked against its hash; if it is not what was stored, why.
pub(super) fn unpack(hash: &[u8], encoding: &str, content: &[u8]) -> Result<Vec<u8>, &'static str> {
    checked(hash, decode(encoding, content)?)
}

fn checked(hash: &[u8], bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    if blake3::hash(&bytes).as_bytes()[..] != hash[..] {
        return Err("does not match its hash");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::db::{Durability, OpenOptions};
    use crate::store::Store;

    struct Desk {
        _folder: tempfile::TempDir,
        store: Store,
    }

    fn desk() -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::new().durability(Durability::Normal);
        let store = Store::open_with(folder.path().join("store.db"), &options).unwrap();
        Desk {
            _folder: folder,
            store,
        }
    }

    impl Desk {
        fn keep(&self, bytes: &[u8]) -> i64 {
            self.store.db().write(|tx| keep(tx, bytes)).unwrap()
        }

        fn read(&self, id: i64) -> Result<Vec<u8>> {
            self.store.db().read(|db| read(db, self.store.path(), id))
        }

        fn drop(&self, id: i64) {
            let dropped = |tx: &Tx<'_>| Ok(blobs::delete_if_unused(tx, id)?);
            self.store.db().write(dropped).unwrap();
        }

        fn count(&self, sql: &str) -> i64 {
            let count = |db: &Connection| Ok(db.query_row(sql, [], |row| row.get(0))?);
            self.store.db().read(count).unwrap()
        }

        fn rows(&self) -> (i64, i64) {
            let parts = self.count("SELECT count(*) FROM blob_parts");
            (self.count("SELECT count(*) FROM blobs"), parts)
        }

        fn change(&self, sql: &str) {
            let change = |tx: &Tx<'_>| Ok(tx.execute_batch(sql)?);
            self.store.db().write(change).unwrap();
        }

        /// How much of the file is in use.
        fn size(&self) -> usize {
            let pages = self.count("SELECT page_count FROM pragma_page_count");
            let free = self.count("SELECT freelist_count FROM pragma_freelist_count");
            usize::try_from(pages - free).unwrap() * 8192
        }
    }

    /// A source of numbers that are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn throw(&mut self, below: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 1).unwrap() % below
        }
    }

    /// A text as long as asked for, of lines that look like code.
    fn text(length: usize, dice: &mut Dice) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < length {
            let (name, value) = (dice.throw(400), dice.throw(1 << 20));
            let line = match dice.throw(4) {
                0 => format!("    let order_{name} = find(store, {value})?;\n"),
                1 => format!("    if order_{name}.is_open() {{ close(order_{name}, {value}); }}\n"),
                2 => format!("    // The order {value} was noted by desk {name}.\n"),
                _ => format!("fn desk_{name}_{value}(store: &Store) -> Result<Order> {{\n"),
            };
            text.extend_from_slice(line.as_bytes());
        }
        text.truncate(length);
        text
    }

    fn edit(text: &mut Vec<u8>, dice: &mut Dice) {
        let at = dice.throw(text.len() - 100);
        let line = format!("    let edited = {};\n", dice.throw(1 << 30));
        text.splice(at..at + dice.throw(60), line.bytes());
    }

    /// What `times` edits of a file of this length add to the store, a version each.
    fn growth(length: usize, times: usize) -> usize {
        let (desk, mut dice) = (desk(), Dice(88_172_645_463_325_252));
        let mut text = text(length, &mut dice);
        desk.keep(&text);
        let first = desk.size();
        let versions = |tx: &Tx<'_>| {
            for _ in 0..times {
                edit(&mut text, &mut dice);
                keep(tx, &text)?;
            }
            Ok(())
        };
        desk.store.db().write(versions).unwrap();
        let newest = desk.keep(&text);
        assert!(desk.read(newest).unwrap() == text);
        desk.size() - first
    }

    #[test]
    fn many_edits_of_a_file_cost_little() {
        for (length, times, percent) in [
            (20 << 10, 200, 20),
            (100 << 10, 200, 8),
            (1 << 20, 30, 2),
            (10 << 20, 5, 1),
        ] {
            let grown = growth(length, times);
            let copies = length * times;
            assert!(
                grown * 100 <= copies * percent,
                "{times} edits of {length} bytes cost {grown} bytes"
            );
        }
    }

    #[test]
    fn a_small_content_is_one_row() {
        let (desk, mut dice) = (desk(), Dice(7));
        for length in [0, 1, 10 << 10, WHOLE] {
            let bytes = text(length, &mut dice);
            let id = desk.keep(&bytes);
            assert_eq!(desk.keep(&bytes), id);
            assert_eq!(desk.read(id).unwrap(), bytes);
        }
        assert_eq!(desk.rows(), (4, 0));
        desk.keep(&text(WHOLE + 1, &mut dice));
        assert!(desk.rows().1 > 1);
    }

    #[test]
    fn what_no_version_needs_any_more_goes_with_the_last_that_did() {
        let (desk, mut dice) = (desk(), Dice(11));
        let mut bytes = text(300 << 10, &mut dice);
        let first = desk.keep(&bytes);
        let (one, _) = desk.rows();
        let old = bytes.clone();
        edit(&mut bytes, &mut dice);
        let second = desk.keep(&bytes);
        let (both, _) = desk.rows();
        assert!(both < one + 10, "{one} rows, then {both}");
        desk.drop(first);
        assert_eq!(desk.read(second).unwrap(), bytes);
        assert!(desk.read(first).is_err());
        assert_ne!(desk.rows().0, both);
        let again = desk.keep(&old);
        assert_eq!(desk.read(again).unwrap(), old);
        desk.drop(again);
        desk.drop(second);
        assert_eq!(desk.rows(), (0, 0));
        desk.drop(second);
    }

    #[test]
    fn a_part_that_is_a_content_of_its_own_stays() {
        let (desk, mut dice) = (desk(), Dice(13));
        let bytes = text(100 << 10, &mut dice);
        let own = desk.keep(cut(&bytes).next().unwrap());
        let whole = desk.keep(&bytes);
        let part = desk.count("SELECT part FROM blob_parts WHERE position = 0");
        assert_eq!(part, own);
        desk.drop(own);
        assert_eq!(desk.read(whole).unwrap(), bytes);
    }

    #[test]
    fn a_content_that_is_not_what_was_stored_is_never_given_out() {
        for (damage, says) in [
            (
                "UPDATE blobs SET content = x'00', encoding = 'plain' WHERE id = (SELECT max(part) FROM blob_parts)",
                "hash",
            ),
            (
                "UPDATE blobs SET content = x'00' WHERE id = (SELECT max(part) FROM blob_parts)",
                "unpacked",
            ),
            ("DELETE FROM blob_parts WHERE position = 3", "hash"),
            (
                "PRAGMA defer_foreign_keys = 1; UPDATE blob_parts SET part = blob WHERE position = 0",
                "end",
            ),
            (
                "INSERT INTO blob_parts (blob, position, part) SELECT blob, 999, part FROM blob_parts WHERE position = 3",
                "longer",
            ),
            (
                "UPDATE blobs SET hash = zeroblob(32) WHERE id = (SELECT min(blob) FROM blob_parts)",
                "hash",
            ),
        ] {
            let desk = desk();
            let id = desk.keep(&text(100 << 10, &mut Dice(17)));
            desk.change(damage);
            match desk.read(id) {
                Err(Error::Damaged { path, why }) => {
                    assert_eq!(path, desk.store.path());
                    assert!(why.contains(says), "{damage}: {why}");
                }
                other => panic!("{damage}: {:?}", other.map(|bytes| bytes.len())),
            }
        }
        let gone = desk().read(7).unwrap_err();
        assert!(matches!(gone, Error::Damaged { why, .. } if why.contains("is missing")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn what_is_kept_is_read_again(
            seed in 1u64..,
            length in 0usize..400_000,
            zeros in 0usize..100_000,
            plain in any::<bool>(),
        ) {
            let mut dice = Dice(seed);
            let mut bytes = text(length, &mut dice);
            if !plain {
                // What cannot be compressed, and what has no place to be cut at.
                bytes.iter_mut().for_each(|byte| *byte = dice.throw(256).to_le_bytes()[0]);
            }
            bytes.extend(vec![0; zeros]);
            let parts: usize = cut(&bytes).map(<[u8]>::len).sum();
            prop_assert_eq!(parts, bytes.len());
            let desk = desk();
            let id = desk.keep(&bytes);
            prop_assert_eq!(desk.keep(&bytes), id);
            prop_assert!(desk.read(id).unwrap() == bytes);
            desk.drop(id);
            prop_assert_eq!(desk.rows(), (0, 0));
        }
    }
}
