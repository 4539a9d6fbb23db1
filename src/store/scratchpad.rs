//! The scratchpad: a session's key/value notes, outside the history, so that they survive trimming
//! and compaction. They keep their history: a fork sees its source's as of the cut, a branch those
//! of the message it was taken up from, and each goes on alone.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::history::History;
use super::resume::message_of;
use super::session::Session;
use super::write::SessionTx;
use crate::error::{Error, Result};
use crate::tables::scratchpad::{self as notes, NoteRow};
use crate::tables::{messages, transcripts};

/// How the keys begin that the library keeps its own notes under.
pub(super) const RESERVED: &str = "turnkeep:";

/// The scratchpad of a session. Keys that begin with `turnkeep:` are the library's own: they can be
/// read, are not listed, and an app cannot set them.
#[derive(Clone, Debug)]
pub struct Scratchpad {
    session: Session,
}

/// A value that a key had.
#[derive(Clone, Debug, PartialEq)]
pub struct NoteVersion {
    /// The value; `None` if the key was deleted.
    pub value: Option<Value>,
    /// When it was set, in epoch milliseconds.
    pub set_ms: i64,
    /// The session's head at that time, by uuid.
    pub message: Option<String>,
}

impl Session {
    /// Its scratchpad.
    pub fn scratchpad(&self) -> Scratchpad {
        Scratchpad {
            session: self.clone(),
        }
    }
}

impl Scratchpad {
    /// The value of a key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn get(&self, key: &str) -> Result<Option<Value>> {
        self.read(None, |db, newest| value(notes::find(db, newest, key)?))
    }

    /// The value of a key, as a type of the app's own.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the value is not of this type.
    pub fn get_as<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let found = self.get(key)?.map(serde_json::from_value).transpose();
        found.map_err(|error| Error::invalid(format!("scratchpad key `{key}`"), error.to_string()))
    }

    /// The value that a key had when a message was stored.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session.
    pub fn get_at(&self, message: &str, key: &str) -> Result<Option<Value>> {
        self.read(Some(message), |db, newest| {
            value(notes::find(db, newest, key)?)
        })
    }

    /// All keys with their values.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn list(&self) -> Result<BTreeMap<String, Value>> {
        Ok(self.read(None, all)?.of_the_app)
    }

    /// The library's own notes.
    pub(super) fn reserved(&self) -> Result<BTreeMap<String, Value>> {
        Ok(self.read(None, all)?.reserved)
    }

    /// All keys with the values they had when a message was stored.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the message is none of this session.
    pub fn list_at(&self, message: &str) -> Result<BTreeMap<String, Value>> {
        Ok(self.read(Some(message), all)?.of_the_app)
    }

    /// The values that a key had, newest first, on the way that led to the present one.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn history(&self, key: &str) -> Result<Vec<NoteVersion>> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            let history = History::of(db, &row, "")?;
            let Some(newest) = notes::newest(db, row.id)? else {
                return Ok(Vec::new());
            };
            let rows = notes::chain(db, newest)?
                .into_iter()
                .filter(|note| note.key == key);
            rows.map(|note| {
                let place = match note.message {
                    Some(message) => messages::place_of(db, message)?,
                    None => None,
                };
                Ok(NoteVersion {
                    message: place.and_then(|place| history.shown_uuid(&place)),
                    set_ms: note.set_ms,
                    value: value(Some(note))?,
                })
            })
            .collect()
        })
    }

    /// Sets a key to any value that can be JSON.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or reserved key, or a value that cannot be JSON.
    pub fn set(&self, key: &str, value: impl Serialize) -> Result<()> {
        may_set(key)?;
        self.set_reserved(key, value)
    }

    /// Sets a key, also one of the library's own.
    pub(super) fn set_reserved(&self, key: &str, value: impl Serialize) -> Result<()> {
        self.session.write(|tx| tx.set(key, value))
    }

    /// Deletes a key; one that is not there is no error.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn delete(&self, key: &str) -> Result<()> {
        self.session.write(|tx| tx.unset(key))
    }

    /// Sets a key (`None` deletes it) only if its value is `expected` (`None`: it has none).
    ///
    /// # Errors
    /// [`Error::Conflict`] naming the present value; nothing is stored then.
    pub fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&Value>,
        new: Option<&Value>,
    ) -> Result<()> {
        self.session.write(|tx| {
            let present = tx.noted(key)?;
            if present.as_ref() != expected {
                let present =
                    present.map_or_else(|| "not there".to_owned(), |value| value.to_string());
                return Err(Error::Conflict(format!(
                    "scratchpad key `{key}` is {present}; nothing was stored"
                )));
            }
            match new {
                Some(new) => tx.set(key, new),
                None => tx.unset(key),
            }
        })
    }

    /// The notes as a short text, to remind a model of them after its history was trimmed: one line
    /// a key, values cut to fit `max_chars` in all.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn summary(&self, max_chars: usize) -> Result<String> {
        let notes = self.list()?;
        if notes.is_empty() {
            return Ok(String::new());
        }
        let each = (max_chars / notes.len()).max(16);
        let lines = notes.iter().map(|(key, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), String::from);
            let line = format!(
                "{key}: {}",
                text.split_whitespace().collect::<Vec<_>>().join(" ")
            );
            match line.char_indices().nth(each) {
                Some(_) => line.chars().take(each - 1).chain(['…']).collect(),
                None => line,
            }
        });
        Ok(lines.collect::<Vec<String>>().join("\n"))
    }

    /// Reads from the newest note, now or as of a message.
    fn read<T: Default>(
        &self,
        at: Option<&str>,
        read: impl FnOnce(&Connection, i64) -> Result<T>,
    ) -> Result<T> {
        self.session.store().db().read(|db| {
            let row = self.session.row(db)?;
            let newest = match at {
                Some(uuid) => {
                    let history = History::of(db, &row, "")?;
                    notes::as_of(db, message_of(db, &history, self.session.key(), uuid)?.id)?
                }
                None => notes::newest(db, row.id)?,
            };
            newest.map_or_else(|| Ok(T::default()), |newest| read(db, newest))
        })
    }
}

impl SessionTx<'_, '_> {
    /// Sets a key of the scratchpad.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or reserved key, or a value that cannot be JSON.
    pub fn set(&self, key: &str, value: impl Serialize) -> Result<()> {
        may_set(key)?;
        self.set_reserved(key, value)
    }

    /// Sets a key, also one of the library's own.
    pub(super) fn set_reserved(&self, key: &str, value: impl Serialize) -> Result<()> {
        let value = serde_json::to_string(&value).map_err(|error| {
            Error::invalid(format!("scratchpad key `{key}`"), error.to_string())
        })?;
        self.note_down(key, Some(&value))
    }

    /// Deletes a key of the scratchpad.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted in this transaction.
    pub fn unset(&self, key: &str) -> Result<()> {
        may_set(key)?;
        let newest = notes::newest(self.tx(), self.row()?.id)?;
        let there = match newest {
            Some(newest) => {
                notes::find(self.tx(), newest, key)?.is_some_and(|note| note.value.is_some())
            }
            None => false,
        };
        if there {
            self.note_down(key, None)
        } else {
            Ok(())
        }
    }

    /// The value of a key now.
    pub(super) fn noted(&self, key: &str) -> Result<Option<Value>> {
        match notes::newest(self.tx(), self.row()?.id)? {
            Some(newest) => value(notes::find(self.tx(), newest, key)?),
            None => Ok(None),
        }
    }

    fn note_down(&self, key: &str, value: Option<&str>) -> Result<()> {
        if key.is_empty() {
            return Err(Error::invalid("scratchpad key", "it is empty"));
        }
        let (tx, id) = (self.tx(), self.row()?.id);
        let head = transcripts::head(tx, id, "")?;
        let note = notes::insert(tx, id, notes::newest(tx, id)?, key, value, head)?;
        Ok(notes::set_newest(tx, id, Some(note))?)
    }
}

fn may_set(key: &str) -> Result<()> {
    if key.starts_with(RESERVED) {
        return Err(Error::invalid(
            format!("scratchpad key `{key}`"),
            format!("keys that begin with `{RESERVED}` are the library's own; take another"),
        ));
    }
    Ok(())
}

fn value(note: Option<NoteRow>) -> Result<Option<Value>> {
    let text = note.and_then(|note| note.value);
    let value = text.map(|text| serde_json::from_str(&text)).transpose();
    value.map_err(|error| Error::Storage(Box::new(error)))
}

/// The notes of a session by their keys.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) of_the_app: BTreeMap<String, Value>,
    /// The library's own.
    pub(super) reserved: BTreeMap<String, Value>,
}

/// The notes of a session now.
pub(super) fn now(db: &Connection, session: i64) -> Result<Notes> {
    notes::newest(db, session)?.map_or_else(|| Ok(Notes::default()), |newest| all(db, newest))
}

fn all(db: &Connection, newest: i64) -> Result<Notes> {
    let mut latest: BTreeMap<String, Option<Value>> = BTreeMap::new();
    for note in notes::chain(db, newest)? {
        if !latest.contains_key(&note.key) {
            latest.insert(note.key.clone(), value(Some(note))?);
        }
    }
    let there = latest
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let (reserved, of_the_app) = there.partition(|(key, _)| key.starts_with(RESERVED));
    Ok(Notes {
        of_the_app,
        reserved,
    })
}
