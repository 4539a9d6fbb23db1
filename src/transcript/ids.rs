//! Maps by row id.
//!
//! A conversation looks up each message several times. Row ids are numbers of our own making, so
//! they need no hash that withstands chosen keys, which would take a tenth of the whole reading.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by row id.
pub(crate) type IdMap<V> = HashMap<i64, V, BuildHasherDefault<IdHasher>>;

/// Spreads one number over all bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_i64(&mut self, id: i64) {
        let spread = id.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_i64(self.0.cast_signed() ^ i64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
