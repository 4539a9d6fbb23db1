//! Appending to a session.

use super::Session;
use super::write::read_entries;
use crate::error::Result;
use crate::model::{AppendOptions, Appended, NewMessage};

/// The messages of a session.
#[derive(Clone, Debug)]
pub struct Messages {
    session: Session,
}

/// A message that was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its uuid: of a prompt, the name of its restore point.
    pub uuid: String,
    /// Whether it was stored now; `false` if a message with this uuid was there.
    pub stored: bool,
}

impl Messages {
    pub(super) fn new(session: Session) -> Self {
        Self { session }
    }

    /// Appends a message to the main transcript, hanging from its head. When this returns it is
    /// stored durably.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a tool result whose call is not stored;
    /// [`Error::NotFound`](crate::Error::NotFound) if the session was deleted.
    pub fn append(&self, message: NewMessage) -> Result<Message> {
        self.session.write(|tx| tx.append(message))
    }

    /// Appends a message as `options` say.
    ///
    /// # Errors
    /// As [`Messages::append`]; [`Error::Conflict`](crate::Error::Conflict) if the head is not the
    /// one expected.
    pub fn append_with(&self, message: NewMessage, options: &AppendOptions) -> Result<Message> {
        self.session.write(|tx| tx.append_with(message, options))
    }

    /// Appends entries given as JSON text, one record each, in one transaction: the raw door,
    /// which stores anything that is a JSON object.
    ///
    /// An entry whose uuid is known is not stored again: with the same value it counts as a
    /// duplicate, with another one as differing, and the first one is kept.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) naming the first one that is not a JSON object on
    /// one line; [`Error::Conflict`](crate::Error::Conflict) if the head is not the one expected;
    /// nothing is stored then. [`Error::NotFound`](crate::Error::NotFound) if the session was
    /// deleted.
    pub fn append_entries<I>(&self, entries: I, options: &AppendOptions) -> Result<Appended>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        // Read before the transaction: the store's other writers need not wait for it.
        let readings = read_entries(entries)?;
        self.session
            .write(|tx| tx.feed(tx.row()?, &readings, options))
    }
}
