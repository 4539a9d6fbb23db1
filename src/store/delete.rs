//! Deleting a session: hidden at once, and what a fork still shows stays until the last such fork
//! goes.

use serde_json::json;

use super::checkpoints::first_forked;
use super::write::SessionTx;
use crate::db::Tx;
use crate::error::Result;
use crate::tables::{
    blobs, checkpoints_due, file_changes, import_sources, labels, left_turns, lineage,
    listing_marks, messages, operations, phase_claims, rewinds, roots, scratchpad, search,
    session_files, sessions, tool_attempts, tool_calls, tool_results, transcripts, watched_calls,
};

impl SessionTx<'_, '_> {
    /// Deletes the session.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if it was deleted before.
    pub fn delete(&self) -> Result<()> {
        let (tx, id) = (self.tx(), self.row()?.id);
        operations::insert(tx, id, "delete", None, None)?;
        sessions::mark_deleted(tx, id)?;
        clear(tx, id)
    }

    /// Deletes one sub-agent's transcript.
    pub(crate) fn delete_subpath(&self, subpath: &str) -> Result<()> {
        let (tx, id) = (self.tx(), self.row()?.id);
        if transcripts::delete(tx, id, subpath)? == 0 {
            return Ok(());
        }
        search::remove_transcript(tx, id, subpath)?;
        messages::delete(tx, id, subpath)?;
        forget_calls(tx, id)?;
        import_sources::delete(tx, id, Some(subpath))?;
        operations::insert(
            tx,
            id,
            "delete",
            None,
            Some(&json!({"subpath": subpath}).to_string()),
        )?;
        Ok(())
    }
}

/// Removes what belongs to a deleted session, but for what a fork shows.
pub(super) fn clear(tx: &Tx<'_>, id: i64) -> Result<()> {
    for subpath in transcripts::subpaths(tx, id)? {
        search::remove_transcript(tx, id, &subpath)?;
        messages::delete(tx, id, &subpath)?;
        transcripts::delete(tx, id, &subpath)?;
    }
    import_sources::delete(tx, id, None)?;
    checkpoints_due::delete(tx, id)?;
    left_turns::delete_all(tx, id)?;
    tool_attempts::delete_all(tx, id)?;
    phase_claims::delete_all(tx, id)?;
    forget_rewinds(tx, id)?;
    prune(tx, id)
}

/// Removes the rows of a deleted session that no fork shows, and of its deleted origins in turn.
fn prune(tx: &Tx<'_>, session: i64) -> Result<()> {
    let mut next = Some(session);
    while let Some(id) = next.take() {
        if let Some(seq) = lineage::shown_until(tx, id)? {
            search::remove_behind(tx, id, seq)?;
            messages::delete_behind(tx, id, seq)?;
            listing_marks::delete_after(tx, id, seq)?;
            forget_calls(tx, id)?;
            forget_changes(tx, id, Some(seq))?;
            return Ok(());
        }
        search::remove_all(tx, id)?;
        messages::delete_all(tx, id)?;
        listing_marks::delete_after(tx, id, 0)?;
        transcripts::delete_all(tx, id)?;
        forget_calls(tx, id)?;
        forget_files(tx, id)?;
        forget_changes(tx, id, None)?;
        roots::delete_all(tx, id)?;
        labels::delete_all(tx, id)?;
        watched_calls::delete_all(tx, id)?;
        scratchpad::delete_all(tx, id)?;
        if let Some(row) = lineage::find(tx, id)? {
            lineage::delete(tx, id)?;
            let is_deleted = sessions::find_any(tx, row.base)?.is_some_and(|base| base.is_deleted);
            next = Some(row.base).filter(|_| is_deleted);
        }
    }
    Ok(())
}

fn forget_calls(tx: &Tx<'_>, session: i64) -> Result<()> {
    tool_results::delete_orphans(tx, session)?;
    tool_calls::delete_orphans(tx, session)?;
    tool_attempts::delete_orphans(tx, session)?;
    Ok(())
}

fn forget_files(tx: &Tx<'_>, session: i64) -> Result<()> {
    let files = session_files::list(tx, session)?;
    session_files::delete_all(tx, session)?;
    for file in files {
        blobs::delete_if_unused(tx, file.blob)?;
    }
    Ok(())
}

/// Removes what is known of a session's rewinds: a deleted session has none to undo.
fn forget_rewinds(tx: &Tx<'_>, session: i64) -> Result<()> {
    let blobs = rewinds::blobs_of(tx, session)?;
    rewinds::delete_all(tx, session)?;
    for blob in blobs {
        blobs::delete_if_unused(tx, blob)?;
    }
    Ok(())
}

/// Removes a session's file changes, but for those that belong to messages a fork shows.
fn forget_changes(tx: &Tx<'_>, session: i64, shown_until: Option<i64>) -> Result<()> {
    let blobs = file_changes::blobs_of(tx, session)?;
    let mut forked = 0;
    for heir in lineage::showing(tx, session, 0, usize::MAX)? {
        forked = forked.max(first_forked(tx, heir, session)?.unwrap_or(0));
    }
    file_changes::delete_behind(tx, session, shown_until, forked)?;
    watched_calls::forget_scans(tx)?;
    for blob in blobs {
        blobs::delete_if_unused(tx, blob)?;
    }
    Ok(())
}
