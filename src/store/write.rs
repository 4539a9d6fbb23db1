//! Writes to one session, within one transaction.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Store;
use super::feed::{Fed, Feed, Origin, head_uuid};
use super::head::{leave, take_notes_up};
use super::history::History;
use super::lease;
use super::ledger::find_call;
use super::messages::Message;
use super::resume::message_of;
use super::session::deleted;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::message::Envelope;
use crate::model::{AppendOptions, Appended, NewMessage, SessionKey};
use crate::tables::sessions::SessionRow;
use crate::tables::{operations, sessions, transcripts};
use crate::transcript::reading::Reading;

/// A session within a transaction: see [`Session::write`](crate::Session::write).
pub struct SessionTx<'t, 'c> {
    store: &'t Store,
    tx: &'t Tx<'c>,
    id: i64,
    key: SessionKey,
}

impl<'t, 'c> SessionTx<'t, 'c> {
    pub(crate) fn new(store: &'t Store, tx: &'t Tx<'c>, id: i64, key: SessionKey) -> Self {
        Self { store, tx, id, key }
    }

    pub(crate) fn tx(&self) -> &'t Tx<'c> {
        self.tx
    }

    pub(super) fn store(&self) -> &'t Store {
        self.store
    }

    pub(crate) fn key(&self) -> &SessionKey {
        &self.key
    }

    pub(crate) fn row(&self) -> Result<SessionRow> {
        sessions::find_row(self.tx, self.id)?.ok_or_else(|| deleted(&self.key))
    }

    /// Appends a message to the main transcript, hanging from its head.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a tool result whose call is not stored.
    pub fn append(&self, message: NewMessage) -> Result<Message> {
        self.append_with(message, &AppendOptions::new())
    }

    /// Appends a message as `options` say.
    ///
    /// # Errors
    /// As [`SessionTx::append`]; [`Error::Conflict`] if the head is not the one expected.
    pub fn append_with(&self, message: NewMessage, options: &AppendOptions) -> Result<Message> {
        if Reading::of_entry(&message.message).is_none() {
            let why = "its message is not one JSON object on one line, or nested too deeply";
            return Err(Error::invalid("message", why));
        }
        let mut row = self.row()?;
        if message.uuid.as_deref() == Some("") {
            return Err(Error::invalid(
                "uuid",
                "it is empty; leave it out for a new one",
            ));
        }
        let uuid = message
            .uuid
            .clone()
            .unwrap_or_else(|| Uuid::new_v4().to_string());
        let history = History::of(self.tx, &row, &options.subpath)?;
        let head = transcripts::head(self.tx, self.id, &options.subpath)?;
        let parent = match &options.hang_from {
            Some(uuid) => Some(message_of(self.tx, &history, &self.key, uuid)?.id),
            None => head,
        };
        let parent_uuid = head_uuid(self.tx, &history, parent)?;
        let entry = message.entry(&Envelope {
            uuid: &uuid,
            parent_uuid: parent_uuid.as_deref(),
            session_id: &self.key.session_id,
            timestamp: &iso_time(self.tx.now_ms()),
            cwd: row.tally.listing.cwd.as_deref(),
            git_branch: row.tally.listing.git_branch.as_deref(),
            is_sidechain: !options.subpath.is_empty(),
        });
        let reading = Reading::of_entry(&entry)
            .ok_or_else(|| Error::invalid("message", "its content is nested too deeply"))?;
        for answer in &reading.results {
            if find_call(self.tx, &history, self.id, &answer.call)?.is_none() {
                let why = format!(
                    "no call `{}` is stored; append the message that makes the call first, or in the same write",
                    answer.call
                );
                return Err(Error::invalid("tool result", why));
            }
        }
        if message.uuid.is_some() && history.find(self.tx, &uuid)?.is_some() {
            return Ok(Message {
                uuid,
                stored: false,
            });
        }
        if let Some(from) = parent.filter(|_| parent != head && options.subpath.is_empty()) {
            // The notes go with the message it hangs from.
            row.scratch = take_notes_up(self.tx, row.id, Some(from))?;
        }
        self.feed(row, &[reading], options)?;
        if parent != head && options.subpath.is_empty() {
            self.go_on_from(&history, &uuid, head)?;
        }
        Ok(Message { uuid, stored: true })
    }

    /// Makes a message that was hung elsewhere the head: also one of a turn that was left behind,
    /// since it was put there on purpose.
    fn go_on_from(&self, history: &History, uuid: &str, before: Option<i64>) -> Result<()> {
        let (Some(mut transcript), Some(place)) = (
            transcripts::find(self.tx, self.id, "")?,
            history.find(self.tx, uuid)?,
        ) else {
            return Ok(());
        };
        let head = Some(place.id);
        leave(self.tx, history, self.id, before, head)?;
        let was_moved = transcript.head == head;
        transcript.head = head;
        transcript.turn = place.turn;
        transcripts::save(self.tx, &transcript)?;
        if !was_moved {
            self.tell_head(history, head)?;
        }
        Ok(())
    }

    /// Appends entries given as JSON text, one record each, as they are: the raw door, which stores
    /// anything. Entries whose uuid is known are not stored again.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first one that is not a JSON object on one line;
    /// [`Error::Conflict`] if the head is not the one expected. Nothing is stored then.
    pub fn append_entries<I>(&self, entries: I, options: &AppendOptions) -> Result<Appended>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let readings = read_entries(entries)?;
        self.feed(self.row()?, &readings, options)
    }

    pub(crate) fn feed(
        &self,
        row: SessionRow,
        readings: &[Reading],
        options: &AppendOptions,
    ) -> Result<Appended> {
        lease::check(self.tx, row.id, options.lease, self.tx.now_ms())?;
        let mut feed = Feed::open(self.tx, row, &options.subpath, Origin::Append)?;
        if let Some(expected) = &options.expect_head {
            let present = feed.head_uuid()?;
            if present != *expected {
                return Err(head_moved(expected.as_deref(), present.as_deref()));
            }
        }
        let mut appended = Appended::default();
        for reading in readings {
            match feed.push(reading)? {
                Fed::Stored => appended.stored += 1,
                Fed::Duplicate(_) => appended.duplicates += 1,
                Fed::Differing => appended.differing += 1,
            }
        }
        appended.head = feed.head_uuid()?;
        if !readings.is_empty() {
            feed.finish()?;
        }
        Ok(appended)
    }

    /// Gives the session a title.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank one.
    pub fn set_title(&self, title: &str) -> Result<()> {
        let title = not_blank("title", title)?;
        let entry =
            json!({"type": "custom-title", "customTitle": title, "sessionId": self.key.session_id});
        self.note("rename", &entry)
    }

    /// Gives the session a tag, or takes it away.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank one.
    pub fn set_tag(&self, tag: Option<&str>) -> Result<()> {
        let tag = tag.map_or(Ok(""), |tag| not_blank("tag", tag))?;
        self.note(
            "tag",
            &json!({"type": "tag", "tag": tag, "sessionId": self.key.session_id}),
        )
    }

    /// Keeps free JSON of the app's own with the session.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted in this transaction.
    pub fn set_metadata(&self, metadata: &Value) -> Result<()> {
        let mut row = self.row()?;
        row.metadata = Some(metadata.to_string());
        sessions::update(self.tx, &row)?;
        operations::insert(self.tx, self.id, "metadata", None, None)?;
        Ok(())
    }

    /// Appends an entry of our own and logs the operation.
    fn note(&self, kind: &str, entry: &Value) -> Result<()> {
        self.append_entries([entry.to_string()], &AppendOptions::new())?;
        operations::insert(self.tx, self.id, kind, None, Some(&entry.to_string()))?;
        Ok(())
    }
}

/// Reads entries given as JSON text.
pub(crate) fn read_entries<I>(entries: I) -> Result<Vec<Reading>>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let read = |(number, entry): (usize, I::Item)| {
        Reading::of_entry(entry.as_ref()).ok_or_else(|| {
            Error::invalid(
                format!("entry {number}"),
                "it is not one JSON object on one line; nothing was stored",
            )
        })
    };
    (1..).zip(entries).map(read).collect()
}

fn head_moved(expected: Option<&str>, present: Option<&str>) -> Error {
    let name =
        |head: Option<&str>| head.map_or_else(|| "none".to_owned(), |uuid| format!("`{uuid}`"));
    Error::Conflict(format!(
        "the head is {}, not {}; nothing was stored",
        name(present),
        name(expected)
    ))
}

fn not_blank<'a>(what: &str, text: &'a str) -> Result<&'a str> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid(what, "it is blank"));
    }
    Ok(text)
}

/// A time as the client writes one.
pub(super) fn iso_time(epoch_ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(epoch_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
