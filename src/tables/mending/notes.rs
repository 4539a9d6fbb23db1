//! Bringing the chains of the scratchpad into agreement: a note follows an older one that is there.

use rusqlite::{Connection, Result, params};

use crate::db::Tx;

/// Lets what names a note that is gone name the one before it, as far as a message says which that was: messages the
/// one of their parent, notes the one of their message. Returns how many notes follow another one now.
pub(crate) fn mend_chains(tx: &Tx<'_>) -> Result<usize> {
    for message in without_note(tx)? {
        tx.prepare_cached(
            "UPDATE messages SET scratch =
                 (SELECT p.scratch FROM messages p WHERE p.id = messages.parent AND p.id < messages.id)
             WHERE id = ?1",
        )?
        .execute([message])?;
    }
    tx.execute(
        "UPDATE scratchpad SET previous =
             (SELECT m.scratch FROM messages m WHERE m.id = scratchpad.message AND m.scratch < scratchpad.id)
         WHERE previous >= id OR previous NOT IN (SELECT id FROM scratchpad)",
        [],
    )
}

/// The messages whose note is gone, oldest first.
fn without_note(db: &Connection) -> Result<Vec<i64>> {
    db.prepare(
        "SELECT id FROM messages
         WHERE scratch IS NOT NULL AND scratch NOT IN (SELECT id FROM scratchpad) ORDER BY id",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// The sessions whose newest note is gone.
pub(crate) fn without_newest(db: &Connection) -> Result<Vec<i64>> {
    db.prepare(
        "SELECT id FROM sessions WHERE scratch IS NOT NULL AND scratch NOT IN (SELECT id FROM scratchpad)",
    )?
    .query_map([], |row| row.get(0))?
    .collect()
}

/// Makes the newest note of a session anew: the last that was set at its head, else the one as of its head.
pub(crate) fn find_newest(tx: &Tx<'_>, session: i64) -> Result<()> {
    tx.prepare_cached(
        "UPDATE sessions SET scratch = (
             SELECT coalesce(
                 (SELECT max(n.id) FROM scratchpad n WHERE n.session = t.session AND n.message IS t.head),
                 (SELECT m.scratch FROM messages m WHERE m.id = t.head))
             FROM transcripts t WHERE t.session = sessions.id AND t.subpath = '')
         WHERE id = ?1",
    )?
    .execute(params![session])?;
    Ok(())
}
