//! Lineage: where a session comes from, and what was forked from it.

use std::collections::HashSet;

use rusqlite::Connection;

use super::session::Session;
use crate::error::Result;
use crate::model::{Kin, Lineage};
use crate::tables::messages;
use crate::tables::sessions::{self, SessionRow};
use crate::transcript::derived::derive;

impl Session {
    /// Its origins, the direct one first, and the sessions forked from it. Deleted ones are named
    /// as such. No session is ever its own ancestor.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if it was deleted.
    pub fn lineage(&self) -> Result<Lineage> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let ancestors = ancestors(db, &row)?;
            let depth = ancestors.len();
            let kin = |(row, at): (&SessionRow, usize)| kin(db, row, at);
            Ok(Lineage {
                forked_at: forked_at(db, &row)?,
                children: sessions::forks_of(db, row.id)?
                    .iter()
                    .map(|row| kin((row, depth + 1)))
                    .collect::<Result<_>>()?,
                ancestors: ancestors
                    .iter()
                    .zip((0..depth).rev())
                    .map(kin)
                    .collect::<Result<_>>()?,
            })
        })
    }

    /// The whole family: the session that all of it was forked from, and all forks, each behind its
    /// origin.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if it was deleted.
    pub fn family(&self) -> Result<Vec<Kin>> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let first = ancestors(db, &row)?.pop().unwrap_or(row);
            let mut family = Vec::new();
            let mut seen = HashSet::new();
            let mut open = vec![(first, 0)];
            while let Some((row, depth)) = open.pop() {
                if !seen.insert(row.id) {
                    continue;
                }
                family.push(kin(db, &row, depth)?);
                let forks = sessions::forks_of(db, row.id)?;
                open.extend(forks.into_iter().rev().map(|fork| (fork, depth + 1)));
            }
            Ok(family)
        })
    }
}

/// The origins of a session, the direct one first.
pub(crate) fn ancestors(db: &Connection, row: &SessionRow) -> Result<Vec<SessionRow>> {
    let mut found: Vec<SessionRow> = Vec::new();
    let mut seen = HashSet::from([row.id]);
    let mut next = row.forked_from;
    while let Some(id) = next.filter(|id| seen.insert(*id)) {
        let Some(row) = sessions::find_any(db, id)? else {
            break;
        };
        next = row.forked_from;
        found.push(row);
    }
    Ok(found)
}

fn kin(db: &Connection, row: &SessionRow, depth: usize) -> Result<Kin> {
    Ok(Kin {
        key: row.key.clone(),
        summary: row.tally.listing.summary().map(String::from),
        forked_at: forked_at(db, row)?,
        is_deleted: row.is_deleted,
        is_inferred: row.is_inferred_fork,
        depth,
    })
}

/// The message that a fork begins behind, by its uuid in the direct origin.
fn forked_at(db: &Connection, row: &SessionRow) -> Result<Option<String>> {
    let (Some(origin), Some(at)) = (row.forked_from, row.forked_at) else {
        return Ok(None);
    };
    let (Some(origin), Some(place)) =
        (sessions::find_any(db, origin)?, messages::place_of(db, at)?)
    else {
        return Ok(None);
    };
    // Whether the origin made it or inherited it is told by the row: of a deleted fork nothing says
    // any more what it began with.
    Ok(match &origin.fork_prefix {
        Some(prefix) if place.session != origin.id => Some(derive(prefix, at)),
        _ => place.uuid,
    })
}
