//! Leases: insisting on one writer.

use std::time::Duration;

use super::session::Session;
use crate::error::{Error, Result};
use crate::model::Lease;
use crate::tables::leases::{self, LeaseRow};

impl Session {
    /// Takes the lease of this session for a time: until it ends, whoever appends without it is
    /// refused. Its holder may take it again at any time; anybody else once it has ended. Each
    /// taking gives a higher number, and who holds a lower one is refused from then on.
    ///
    /// # Errors
    /// [`Error::Conflict`] naming the holder if it is held by another; [`Error::Invalid`] for a
    /// blank holder.
    pub fn lease(&self, holder: &str, time: Duration) -> Result<Lease> {
        if holder.trim().is_empty() {
            return Err(Error::invalid("holder", "it is blank"));
        }
        self.store().db().write(|tx| {
            let row = self.row(tx)?;
            let before = leases::find(tx, row.id)?;
            if let Some(held) = before
                .as_ref()
                .filter(|held| held.expires_ms > tx.now_ms() && held.holder != holder)
            {
                return Err(held_by_another(held));
            }
            let time = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let lease = LeaseRow {
                holder: holder.to_owned(),
                token: before.map_or(1, |before| before.token + 1),
                expires_ms: tx.now_ms().saturating_add(time),
            };
            leases::save(tx, row.id, &lease)?;
            Ok(Lease {
                holder: lease.holder,
                token: lease.token,
                expires_ms: lease.expires_ms,
            })
        })
    }

    /// Gives a lease back. One that was taken over is left alone.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn release(&self, lease: &Lease) -> Result<()> {
        self.store().db().write(|tx| {
            let row = self.row(tx)?;
            if let Some(held) = leases::find(tx, row.id)?.filter(|held| held.token == lease.token) {
                leases::save(
                    tx,
                    row.id,
                    &LeaseRow {
                        expires_ms: tx.now_ms(),
                        ..held
                    },
                )?;
            }
            Ok(())
        })
    }
}

/// Refuses a writer that another one's lease keeps out.
pub(super) fn check(
    db: &rusqlite::Connection,
    session: i64,
    token: Option<i64>,
    now_ms: i64,
) -> Result<()> {
    let Some(held) = leases::find(db, session)? else {
        return Ok(());
    };
    match token {
        Some(token) if token == held.token => Ok(()),
        Some(token) => Err(Error::Conflict(format!(
            "lease {token} was taken over by `{}` (lease {}); nothing was stored",
            held.holder, held.token
        ))),
        None if held.expires_ms > now_ms => Err(held_by_another(&held)),
        None => Ok(()),
    }
}

fn held_by_another(held: &LeaseRow) -> Error {
    let until = chrono::DateTime::from_timestamp_millis(held.expires_ms).unwrap_or_default();
    Error::Conflict(format!(
        "the session is leased to `{}` until {}; nothing was stored",
        held.holder,
        until.to_rfc3339_opts(chrono::SecondsFormat::Secs, true)
    ))
}
