//! Where clients' forks came from: such a copy is stored whole, and its origin is told by the name it
//! carries. The name is kept, so that the origin is found whichever of the two is imported first.

use rusqlite::Connection;

use crate::db::Tx;
use crate::error::Result;
use crate::store::{Store, ancestors};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{claims, messages};
use crate::transcript::reading::{Reading, copied_message};

/// How many entries of a session are looked at a time for the name of its origin.
const ENTRIES: i64 = 100;

/// Notes the origin of every copy in the store that is here by now.
///
/// # Errors
/// Those of the database.
pub(super) fn infer_origins(store: &Store) -> Result<()> {
    for session in store.db().read(|db| Ok(claims::unread(db)?))? {
        store.db().write(|tx| read_claim(tx, session))?;
    }
    for (session, name) in store.db().read(|db| Ok(claims::open(db)?))? {
        let is_here = store
            .db()
            .read(|db| Ok(find(db, session, &name)?.is_some()))?;
        if is_here {
            store.db().write(|tx| infer_origin(tx, session, &name))?;
        }
    }
    Ok(())
}

/// Reads which session a copy that an earlier release imported was copied from.
fn read_claim(tx: &Tx<'_>, session: i64) -> Result<()> {
    let mut seq = 0;
    loop {
        let entries = claims::may_claim(tx, session, seq, ENTRIES)?;
        let Some((last, _)) = entries.last() else {
            return Ok(claims::none(tx, session)?);
        };
        seq = *last;
        let readings = entries
            .iter()
            .filter_map(|(_, entry)| Reading::of_entry(entry));
        if let Some(name) = readings.filter_map(|reading| reading.copied_from).next() {
            return Ok(claims::note(tx, session, &name)?);
        }
    }
}

fn infer_origin(tx: &Tx<'_>, session: i64, name: &str) -> Result<()> {
    if let Some((origin, shared)) = find(tx, session, name)? {
        sessions::set_origin(tx, session, (origin, shared), None)?;
    }
    Ok(())
}

/// The session that a copy names, and the last message of it that the copy holds. One of another
/// project is meant only if the copy holds a message of it, and none that was copied from the copy
/// itself. Of a deleted session no message is there any more.
fn find(db: &Connection, session: i64, name: &str) -> Result<Option<(i64, Option<i64>)>> {
    let Some(fork) = sessions::find_row(db, session)? else {
        return Ok(None);
    };
    for id in claims::named(db, &fork.key.project_key, name)? {
        let Some(origin) = sessions::find_any(db, id)? else {
            continue;
        };
        if id == session || Some(id) == fork.forked_from || descends(db, &origin, session)? {
            continue;
        }
        let shared = match messages::last_shared(db, session, id)? {
            Some(shared) => Some(shared),
            None => last_renamed(db, session, id)?,
        };
        if shared.is_some() || origin.key.project_key == fork.key.project_key {
            return Ok(Some((id, shared)));
        }
    }
    Ok(None)
}

fn descends(db: &Connection, row: &SessionRow, from: i64) -> Result<bool> {
    Ok(ancestors(db, row)?.iter().any(|above| above.id == from))
}

/// The last message that a fork with uuids of its own names in its origin.
fn last_renamed(db: &Connection, fork: i64, origin: i64) -> Result<Option<i64>> {
    let copied = messages::last_copied(db, fork)?;
    let named = copied.as_deref().and_then(copied_message);
    let place = match named {
        Some(uuid) => messages::find_place(db, origin, "", &uuid)?,
        None => None,
    };
    Ok(place.map(|place| place.id))
}
