//! Following the edits of a file from a state that a checkpoint tells: what each found is what lay
//! there, byte for byte, so the edits are known one by one.

use std::collections::HashMap;

use rusqlite::Connection;

use super::edited::{Contents, Edited};
use crate::error::Result;
use crate::tables::audit::blob_facts;
use crate::tables::file_changes::ChangeRow;
use crate::tables::file_states::StateRow;
use crate::transcript::edits::Was;

/// What tells one content from another.
pub(super) type Hash = [u8; 32];

/// A state that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lies {
    Absent,
    File(Hash),
}

impl Lies {
    /// A state as it can be compared; `None` if it is neither absence nor a content.
    pub(super) fn of(db: &Connection, state: &StateRow) -> Result<Option<Self>> {
        Ok(match state {
            StateRow::Absent => Some(Self::Absent),
            StateRow::File { blob, .. } => {
                let facts = blob_facts(db, *blob)?;
                let hash = facts.and_then(|(hash, _)| Hash::try_from(hash).ok());
                hash.map(Self::File)
            }
            _ => None,
        })
    }

    fn text(text: &str) -> Self {
        Self::File(*blake3::hash(text.as_bytes()).as_bytes())
    }
}

/// What edits were found to have done, as far as they follow one from another.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// What each of the first edits left.
    pub(super) left: Vec<Hash>,
}

/// Follows edits, in the order of time, from the state before them; `from` is the message of the
/// checkpoint that tells it. What is stored already was told once and is not read again.
pub(super) fn follow(
    db: &Connection,
    (from, before): (i64, &StateRow),
    edits: &[Edited],
    contents: &mut Contents<'_>,
    stored: &HashMap<i64, &ChangeRow>,
) -> Result<Followed> {
    let mut followed = Followed::default();
    let Some(mut lies) = Lies::of(db, before)? else {
        return Ok(followed);
    };
    for edit in edits {
        // A sub-agent that an earlier turn launched is not gone back over with this one.
        let is_here = edit.place.turn.is_some() && edit.place.message.is_some_and(|at| at >= from);
        if !is_here {
            break;
        }
        let did = match stored.get(&edit.call) {
            Some(row) => {
                let after = match &row.after {
                    Some(after) => Lies::of(db, after)?,
                    None => None,
                };
                Lies::of(db, &row.before)?.zip(after)
            }
            None => contents.of(edit)?.and_then(|told| {
                let before = match &told.before {
                    Was::Absent => Lies::Absent,
                    Was::Content(text) => Lies::text(text),
                    Was::Unknown => return None,
                };
                Some((before, Lies::text(&told.after?)))
            }),
        };
        match did {
            Some((found, Lies::File(left))) if found == lies => {
                followed.left.push(left);
                lies = Lies::File(left);
            }
            _ => break,
        }
    }
    Ok(followed)
}
