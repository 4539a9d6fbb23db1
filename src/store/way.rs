//! The whole way to a message: its conversation, and back through compactions those before it.

use std::collections::HashSet;

use rusqlite::Connection;

use super::conversation::{preserved, whole};
use super::history::History;
use crate::error::Result;
use crate::tables::messages::{self, Light, LightKind};
use crate::transcript::chain::{MainLine, walk};
use crate::transcript::compaction::Boundary;

/// Calls `each` with the place in the main line of each message on the way to `head`, the newest
/// conversation first, and none twice.
pub(super) fn way_to(
    db: &Connection,
    history: &History,
    (rows, line): (&[Light], &MainLine),
    head: Option<i64>,
    mut each: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    let mut seen: HashSet<i64> = HashSet::new();
    let mut next = head;
    while let Some(at) = next.take() {
        let chain = walk(line, at, |boundary| preserved(db, history, boundary))?;
        for place in whole(db, history, line, &chain)? {
            if seen.insert(rows[place].id) {
                each(place)?;
            }
        }
        let first = chain.places.first().map(|place| &rows[*place]);
        next = match first.filter(|first| first.kind == LightKind::Boundary) {
            Some(boundary) => before(db, history, boundary.id)?.filter(|id| !seen.contains(id)),
            None => None,
        };
    }
    Ok(())
}

/// The message that a compacted history ended with.
fn before(db: &Connection, history: &History, boundary: i64) -> Result<Option<i64>> {
    let (Some(place), Some(entry)) = (
        messages::place_of(db, boundary)?,
        messages::entry(db, boundary)?,
    ) else {
        return Ok(None);
    };
    let (Some(part), Some(uuid)) = (
        history.part_of(&place),
        Boundary::read(&entry).logical_parent,
    ) else {
        return Ok(None);
    };
    history.find_in(db, part, &uuid)
}
