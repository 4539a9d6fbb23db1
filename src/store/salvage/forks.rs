//! What forks begin with: kept where it can be so, found again where it is lost, and what no fork shows is cleared.

use super::MOST_ID;
use crate::db::Tx;
use crate::error::Result;
use crate::store::delete::clear;
use crate::tables::lineage::{self, LineageRow};
use crate::tables::mending::forks::{self as sql, Beginless};
use crate::tables::mending::{deleted_sessions, session_name};
use crate::tables::messages;
use crate::tables::sessions;
use crate::transcript::derived::{new_prefix, row_of};

/// How long the beginning of a derived uuid is.
const PREFIX: usize = "xxxxxxxx-xxxx-8xxx".len();

/// Lets no two forks show what they inherit under the same uuids.
pub(super) fn settle_prefixes(tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<()> {
    for id in sql::repeated_prefixes(tx)? {
        sql::forget_prefix(tx, id)?;
        let session = session_name(tx, id)?;
        lost.push(format!(
            "sessions: session {session} had the uuids of another fork; what it inherits is shown under others"
        ));
    }
    Ok(())
}

/// Brings the beginnings of forks into agreement, and clears deleted sessions of what came back with the pages.
pub(super) fn mend_forks(tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<()> {
    for id in sql::remove_impossible(tx, MOST_ID)? {
        let session = session_name(tx, id)?;
        lost.push(format!(
            "lineage: what is noted of the beginning of session {session} cannot be so"
        ));
    }
    for id in sql::without_prefix(tx)? {
        give_prefix(tx, id)?;
    }
    let mut all_known = true;
    for fork in sql::without_beginning(tx)? {
        let session = session_name(tx, fork.session)?;
        let found = find_beginning(tx, &fork)?;
        if let Some(row) = found {
            lineage::insert(tx, fork.session, row)?;
            lost.push(format!(
                "lineage: the beginning of session {session} was found again from where it was forked"
            ));
        } else {
            all_known = false;
            if !fork.is_deleted {
                lost.push(format!(
                    "lineage: what session {session} inherited as a fork is lost; its own entries are kept"
                ));
            }
        }
    }
    if all_known {
        for id in deleted_sessions(tx)? {
            clear(tx, id)?;
        }
    }
    Ok(())
}

/// Makes a session a fork again that lost its row: under the uuids that its own entries name.
fn give_prefix(tx: &Tx<'_>, session: i64) -> Result<()> {
    let Some(cut) = lineage::find(tx, session)? else {
        return Ok(());
    };
    let named = sql::named_inherited(tx, session)?.and_then(|(row, uuid)| {
        let prefix = uuid.get(..PREFIX)?;
        (row_of(prefix, &uuid) == Some(row)).then(|| prefix.to_owned())
    });
    let prefix = named.unwrap_or_else(new_prefix);
    let origin = match sessions::find_any(tx, session)? {
        Some(row) if row.forked_from.is_some() => (row.forked_from, row.forked_at),
        _ => (
            Some(cut.base),
            messages::last_on_line(tx, (cut.base, ""), (0, cut.last_seq))?,
        ),
    };
    if let (Some(from), at) = origin {
        sessions::set_origin(tx, session, (from, at), Some(&prefix))?;
    }
    Ok(())
}

/// What a fork begins with, from the message that it was cut at and its own first row: its title, which every fork
/// begins with.
fn find_beginning(tx: &Tx<'_>, fork: &Beginless) -> Result<Option<LineageRow>> {
    let Some((first, seq, _)) =
        sql::first_own(tx, fork.session)?.filter(|(_, _, kind)| kind == "custom-title")
    else {
        return Ok(None);
    };
    let last_seq = seq - 1;
    let at = match fork.forked_at {
        Some(at) => messages::place_of(tx, at)?,
        None => None,
    };
    let base = at
        .filter(|place| place.seq == last_seq)
        .map(|place| place.session)
        .or(fork.forked_from);
    match base {
        Some(base) if base < fork.session => Ok(sql::cut(tx, base, last_seq, first)?),
        _ => Ok(None),
    }
}
