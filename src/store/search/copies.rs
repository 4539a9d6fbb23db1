//! Where else a message is shown: in forks, which have no row of it, and in the copies that a client
//! made of it.

use std::collections::HashSet;
use std::rc::Rc;

use super::judge::{Judge, Known};
use crate::error::Result;
use crate::model::SessionKey;
use crate::tables::search::{self, Hit};
use crate::tables::{lineage, messages, sessions};
use crate::transcript::reading::copied_message;

/// How many other sessions a hit names.
const MOST: usize = 20;

/// How far an origin is followed.
const DEEPEST: usize = 64;

/// The sessions not deleted that inherit a message, at most `limit`, oldest first.
pub(super) fn forks_showing(
    judge: &mut Judge<'_>,
    hit: &Hit,
    limit: usize,
) -> Result<Vec<Rc<Known>>> {
    let mut found = Vec::new();
    if !hit.subpath.is_empty() {
        return Ok(found);
    }
    let mut open = lineage::showing(judge.db, hit.session, hit.seq, DEEPEST)?;
    open.reverse();
    let mut seen = HashSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) || found.len() == limit || seen.len() > 10 * DEEPEST {
            continue;
        }
        // All of a fork's forks that were cut behind its own beginning show it too.
        let below = lineage::showing(judge.db, id, 0, DEEPEST)?;
        open.extend(below.into_iter().rev());
        found.extend(judge.session(id)?.filter(|known| !known.row.is_deleted));
    }
    Ok(found)
}

/// The messages that a client copied this one from, where it is such a copy: the session and the row.
pub(super) fn originals(judge: &mut Judge<'_>, hit: &Hit) -> Result<Vec<(Rc<Known>, i64)>> {
    let mut found = Vec::new();
    let (Some(mut uuid), true) = (hit.uuid.clone(), hit.subpath.is_empty()) else {
        return Ok(found);
    };
    let (mut session, mut row) = (hit.session, hit.id);
    for _ in 0..DEEPEST {
        let Some(known) = judge
            .session(session)?
            .filter(|known| known.row.is_inferred_fork)
        else {
            break;
        };
        let Some(origin) = known.row.forked_from else {
            break;
        };
        // A client keeps the uuid; the SDK gives a new one and names the old.
        let mut place = messages::find_place(judge.db, origin, "", &uuid)?;
        if place.is_none() {
            let entry = messages::entry(judge.db, row)?;
            if let Some(named) = entry.as_deref().and_then(copied_message) {
                place = messages::find_place(judge.db, origin, "", &named)?;
                uuid = named;
            }
        }
        let (Some(place), Some(of)) = (place, judge.session(origin)?) else {
            found.extend(earlier_copy(judge, (origin, session, row), &uuid)?);
            break;
        };
        (session, row) = (origin, place.id);
        found.push((of, place.id));
    }
    Ok(found)
}

/// Where the original is gone, the first copy of it stands for it.
fn earlier_copy(
    judge: &mut Judge<'_>,
    (origin, session, row): (i64, i64, i64),
    uuid: &str,
) -> Result<Option<(Rc<Known>, i64)>> {
    let mut copies = copies_in(judge, origin, uuid)?;
    copies.retain(|(known, copy)| known.row.id != session && *copy < row && !known.row.is_deleted);
    Ok(copies.into_iter().min_by_key(|(_, copy)| *copy))
}

/// The copies that clients made of a session's message, in sessions recognised as its forks.
fn copies_in(judge: &mut Judge<'_>, of: i64, uuid: &str) -> Result<Vec<(Rc<Known>, i64)>> {
    let mut found = Vec::new();
    for row in sessions::forks_of(judge.db, of)? {
        // A client keeps the uuid.
        if row.is_inferred_fork
            && let Some(place) = messages::find_place(judge.db, row.id, "", uuid)?
        {
            found.extend(judge.session(row.id)?.map(|known| (known, place.id)));
        }
    }
    // The SDK gives a new one, and the index knows the old.
    for id in search::copies_of(judge.db, uuid)? {
        if let Some(copy) = Hit::find(judge.db, id)?
            && let Some(known) = judge.session(copy.session)?
            && known.row.is_inferred_fork
            && known.row.forked_from == Some(of)
        {
            found.push((known, id));
        }
    }
    Ok(found)
}

/// The other sessions that show a message.
pub(super) fn also_in(judge: &mut Judge<'_>, hit: &Hit, shown: i64) -> Result<Vec<SessionKey>> {
    let Some(uuid) = hit.uuid.as_deref().filter(|_| hit.subpath.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut all: Vec<Rc<Known>> = judge.session(hit.session)?.into_iter().collect();
    all.extend(forks_showing(judge, hit, MOST)?);
    all.extend(originals(judge, hit)?.into_iter().map(|(of, _)| of));
    // Copies of it, and copies of those.
    let mut open = vec![(hit.session, uuid.to_owned())];
    let mut seen = HashSet::new();
    while let Some((of, uuid)) = open.pop() {
        if !seen.insert(of) || all.len() > 2 * MOST {
            continue;
        }
        for (copy, id) in copies_in(judge, of, &uuid)? {
            let place = messages::place_of(judge.db, id)?;
            open.extend(place.and_then(|place| Some((copy.row.id, place.uuid?))));
            all.push(copy);
        }
    }
    let mut named = HashSet::from([shown]);
    all.retain(|known| !known.row.is_deleted && named.insert(known.row.id));
    all.truncate(MOST);
    Ok(all.iter().map(|known| known.row.key.clone()).collect())
}
