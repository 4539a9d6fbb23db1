//! Finishing a rewind: one transaction says what came of each file, and moves the conversation.

use serde_json::json;

use super::apply::Applied;
use crate::db::Tx;
use crate::error::Result;
use crate::model::{FileAction, FileOutcome, SessionKey};
use crate::store::Store;
use crate::store::branches::move_head_to;
use crate::store::feed::head_uuid;
use crate::store::history::History;
use crate::store::write::SessionTx;
use crate::tables::file_changes::{self, Bound, NewChange};
use crate::tables::rewinds::{self, RewindRow};
use crate::tables::sessions::SessionRow;
use crate::tables::{operations, scratchpad, sessions, transcripts};

/// How a rewind ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) status: &'static str,
    pub(super) conversation_moved: bool,
    pub(super) head: Option<String>,
}

/// Ends a rewind whose files were applied.
pub(super) fn finish(
    store: &Store,
    rewind: &RewindRow,
    applied: &[Applied],
    is_recovery: bool,
) -> Result<Ended> {
    store.db().write(|tx| {
        for applied in applied {
            let change = match applied.outcome {
                FileOutcome::Done if !applied.file.before.is(&applied.file.after) => {
                    Some(note_change(tx, rewind, applied)?)
                }
                _ => None,
            };
            rewinds::finish_file(
                tx,
                rewind.operation,
                applied.file.position,
                applied.outcome.as_str(),
                applied.reason.as_deref(),
                change,
            )?;
        }
        let files = rewinds::files(tx, rewind.operation)?;
        let is_left = files.iter().any(|file| {
            FileAction::from_word(&file.action).leaves()
                || file.outcome != FileOutcome::Done.as_str()
        });
        let any_done = applied
            .iter()
            .any(|applied| applied.outcome == FileOutcome::Done);
        let session = sessions::find_row(tx, rewind.session)?;
        let moved = match &session {
            Some(session) if !is_left || rewind.accepts_part => {
                move_conversation(store, tx, session, rewind)?
            }
            _ => false,
        };
        let wants_move = rewind.restores != "files" && rewind.head_after != rewind.head_before;
        let status = match (is_left || (wants_move && !moved), any_done || moved) {
            (false, _) => "done",
            (true, true) => "part",
            (true, false) => "put_back",
        };
        let (head, scratch) = match &session {
            Some(session) => (
                transcripts::head(tx, session.id, "")?,
                scratchpad::newest(tx, session.id)?,
            ),
            None => (None, None),
        };
        if wants_move && !moved {
            rewinds::stay(tx, rewind.operation, head, scratch)?;
        }
        rewinds::finish(tx, rewind.operation, status, head, scratch)?;
        if is_recovery {
            let detail = json!({"operation": rewind.operation, "status": status}).to_string();
            operations::insert(tx, rewind.session, "recover", None, Some(&detail))?;
        }
        let shown = match &session {
            Some(session) => head_uuid(tx, &History::of(tx, session, "")?, head)?,
            None => None,
        };
        Ok(Ended {
            status,
            conversation_moved: moved,
            head: shown,
        })
    })
}

/// Moves the conversation, unless something was said while the files were changed.
fn move_conversation(
    store: &Store,
    tx: &Tx<'_>,
    session: &SessionRow,
    rewind: &RewindRow,
) -> Result<bool> {
    let head = transcripts::head(tx, session.id, "")?;
    if rewind.restores == "files"
        || rewind.head_after == rewind.head_before
        || head != rewind.head_before
    {
        return Ok(false);
    }
    let key: SessionKey = session.key.clone();
    let session_tx = SessionTx::new(store, tx, session.id, key);
    let history = History::of(tx, session, "")?;
    move_head_to(&session_tx, &history, rewind.head_after)?;
    // An undo brings back also what was noted after the last message.
    scratchpad::set_newest(tx, session.id, rewind.scratch_after)?;
    Ok(true)
}

/// A rewind's own change of a file: it can be rewound, and undone, like any other.
fn note_change(tx: &Tx<'_>, rewind: &RewindRow, applied: &Applied) -> Result<i64> {
    let file = &applied.file;
    Ok(file_changes::insert(
        tx,
        &NewChange {
            session: rewind.session,
            source: &rewind.kind,
            operation: Some(rewind.operation),
            tool_use_id: None,
            agent: None,
            prompt_id: None,
            place: Bound {
                call: None,
                turn: None,
                message: rewind.head_before,
            },
            path: &file.path,
            before: &file.before,
            after: Some(&file.after),
            new_folders: file.new_folders,
            told: None,
        },
    )?)
}
