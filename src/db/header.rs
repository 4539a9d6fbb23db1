//! The first hundred bytes of a store, which are known but for a few numbers.

use super::APPLICATION_ID;
use super::pages::{HEADER, PAGE};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Where the numbers stand.
const VERSIONS: usize = 18;
const CHANGES: usize = 24;
const PAGES: usize = 28;
const FREELIST: usize = 32;
const SCHEMA_COOKIE: usize = 40;
const CACHE: usize = 48;
const USER_VERSION: usize = 60;
const APPLICATION: usize = 68;
const VALID_FOR: usize = 92;
const WRITTEN_BY: usize = 96;

/// A header as it was found.
#[derive(Clone, Debug)]
pub(super) struct Header([u8; HEADER]);

/// What a header says of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// A store.
    Store,
    /// A store, by its mark; other parts of the header are not as they must be.
    DamagedStore,
    /// An SQLite file with another mark.
    AnotherApplication,
    /// Nothing that SQLite would read.
    Nothing,
}

impl Header {
    pub fn new(bytes: [u8; HEADER]) -> Self {
        Self(bytes)
    }

    /// The header of every store, with a write-ahead log or not, of this many pages, none of them unused.
    pub fn fresh(pages: u32) -> Self {
        let mut bytes = [0; HEADER];
        bytes[..16].copy_from_slice(MAGIC);
        // Page size, the two versions, the fractions, the schema's format, UTF-8.
        bytes[16..18].copy_from_slice(&(PAGE as u16).to_be_bytes());
        bytes[VERSIONS..VERSIONS + 2].copy_from_slice(&[1, 1]);
        bytes[21..24].copy_from_slice(&[64, 32, 32]);
        bytes[47] = 4;
        bytes[59] = 1;
        let mut header = Self(bytes);
        header.set(APPLICATION, APPLICATION_ID.cast_unsigned());
        header.set(SCHEMA_COOKIE, 1);
        header.set(CHANGES, 1);
        header.settle(pages);
        header
    }

    pub fn says(&self) -> Says {
        let magic = self.0.starts_with(MAGIC);
        let ours = self.get(APPLICATION) == APPLICATION_ID.cast_unsigned();
        match (magic, ours) {
            (true, true) if self.constants() == Self::fresh(0).constants() => Says::Store,
            (true, true) => Says::DamagedStore,
            (true, false) => Says::AnotherApplication,
            (false, _) => Says::Nothing,
        }
    }

    /// The page on which the list of unused pages begins.
    pub fn freelist(&self) -> u32 {
        self.get(FREELIST)
    }

    /// How many pages the file had when it was written last, if that is noted.
    pub fn pages(&self) -> Option<u32> {
        (self.get(CHANGES) == self.get(VALID_FOR)).then(|| self.get(PAGES))
    }

    /// Whether the file is used with a write-ahead log.
    pub fn has_log(&self) -> bool {
        self.0[VERSIONS..VERSIONS + 2] == [2, 2]
    }

    /// Makes it say that the file has no log and this many pages.
    pub fn settle(&mut self, pages: u32) {
        self.0[VERSIONS..VERSIONS + 2].copy_from_slice(&[1, 1]);
        self.set(PAGES, pages);
        self.set(VALID_FOR, self.get(CHANGES));
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The header without the numbers that differ from store to store.
    fn constants(&self) -> [u8; HEADER] {
        let mut bytes = self.0;
        for number in [
            CHANGES,
            PAGES,
            FREELIST,
            FREELIST + 4,
            SCHEMA_COOKIE,
            CACHE,
            USER_VERSION,
            VALID_FOR,
            WRITTEN_BY,
        ] {
            bytes[number..number + 4].fill(0);
        }
        if bytes[VERSIONS..VERSIONS + 2] == [2, 2] {
            bytes[VERSIONS..VERSIONS + 2].fill(1);
        }
        bytes
    }

    fn get(&self, at: usize) -> u32 {
        let mut four = [0; 4];
        four.copy_from_slice(&self.0[at..at + 4]);
        u32::from_be_bytes(four)
    }

    fn set(&mut self, at: usize, number: u32) {
        self.0[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Database, OpenOptions};

    fn stored() -> Header {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        drop(Database::open(&path, &OpenOptions::new()).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        Header::new(bytes[..HEADER].try_into().unwrap())
    }

    #[test]
    fn a_fresh_header_is_the_one_of_a_new_store() {
        let stored = stored();
        assert_eq!(stored.says(), Says::Store);
        assert_eq!(stored.constants(), Header::fresh(0).constants());
    }

    #[test]
    fn a_header_tells_what_it_is_of() {
        let mut other = stored();
        other.set(APPLICATION, 0);
        assert_eq!(other.says(), Says::AnotherApplication);
        let mut broken = stored();
        broken.0[16] ^= 1;
        assert_eq!(broken.says(), Says::DamagedStore);
        broken.0[0] ^= 1;
        assert_eq!(broken.says(), Says::Nothing);
    }
}
