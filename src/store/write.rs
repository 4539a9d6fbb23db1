//! Writes to one session, within one transaction.

use serde_json::{Value, json};
use uuid::Uuid;

use super::feed::{Fed, Feed, Origin};
use super::messages::Message;
use super::session::deleted;
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::message::Envelope;
use crate::model::{AppendOptions, Appended, NewMessage, SessionKey};
use crate::tables::sessions::SessionRow;
use crate::tables::{
    blobs, import_sources, messages, operations, session_files, sessions, tool_calls, tool_results,
    transcripts,
};
use crate::transcript::reading::Reading;

/// A session within a transaction: see [`Session::write`](crate::Session::write).
pub struct SessionTx<'t, 'c> {
    tx: &'t Tx<'c>,
    id: i64,
    key: SessionKey,
}

impl<'t, 'c> SessionTx<'t, 'c> {
    pub(crate) fn new(tx: &'t Tx<'c>, id: i64, key: SessionKey) -> Self {
        Self { tx, id, key }
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
        let row = self.row()?;
        let transcript = transcripts::find(self.tx, self.id, &options.subpath)?;
        let uuid = message
            .uuid
            .clone()
            .unwrap_or_else(|| Uuid::new_v4().to_string());
        let head = transcript.and_then(|transcript| transcript.head_uuid);
        let entry = message.entry(&Envelope {
            uuid: &uuid,
            parent_uuid: head.as_deref(),
            session_id: &self.key.session_id,
            timestamp: &iso_time(self.tx.now_ms()),
            cwd: row.listing.cwd.as_deref(),
            git_branch: row.listing.git_branch.as_deref(),
            is_sidechain: !options.subpath.is_empty(),
        });
        let reading = Reading::of_entry(&entry)
            .ok_or_else(|| Error::invalid("message", "its content is nested too deeply"))?;
        for answer in &reading.results {
            if tool_calls::find_newest(self.tx, self.id, &answer.call)?.is_none() {
                let why = format!(
                    "no call `{}` is stored; append the message that makes the call first, or in the same write",
                    answer.call
                );
                return Err(Error::invalid("tool result", why));
            }
        }
        if message.uuid.is_some()
            && messages::find_id(self.tx, self.id, &options.subpath, &uuid)?.is_some()
        {
            return Ok(Message {
                uuid,
                stored: false,
            });
        }
        self.feed(row, &[reading], options)?;
        Ok(Message { uuid, stored: true })
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
        let mut feed = Feed::open(self.tx, row, &options.subpath, Origin::Append)?;
        if let Some(expected) = &options.expect_head {
            let present = &feed.transcript.head_uuid;
            if present != expected {
                return Err(head_moved(expected.as_deref(), present.as_deref()));
            }
        }
        let mut appended = Appended::default();
        for reading in readings {
            match feed.push(reading)? {
                Fed::Stored => appended.stored += 1,
                Fed::Duplicate(_) => appended.duplicates += 1,
                Fed::Differing(_) => appended.differing += 1,
            }
        }
        if readings.is_empty() {
            appended.head = feed.transcript.head_uuid;
            return Ok(appended);
        }
        let (_, transcript) = feed.finish()?;
        appended.head = transcript.head_uuid;
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

    /// Deletes the session.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted before.
    pub fn delete(&self) -> Result<()> {
        self.row()?;
        operations::insert(self.tx, self.id, "delete", None, None)?;
        messages::delete_all(self.tx, self.id)?;
        transcripts::delete_all(self.tx, self.id)?;
        self.forget_calls()?;
        let files = session_files::list(self.tx, self.id)?;
        session_files::delete_all(self.tx, self.id)?;
        for file in files {
            blobs::delete_if_unused(self.tx, file.blob)?;
        }
        import_sources::delete(self.tx, self.id, None)?;
        sessions::mark_deleted(self.tx, self.id)?;
        Ok(())
    }

    /// Deletes one sub-agent's transcript.
    pub(crate) fn delete_subpath(&self, subpath: &str) -> Result<()> {
        if transcripts::delete(self.tx, self.id, subpath)? == 0 {
            return Ok(());
        }
        messages::delete(self.tx, self.id, subpath)?;
        self.forget_calls()?;
        import_sources::delete(self.tx, self.id, Some(subpath))?;
        let detail = json!({"subpath": subpath}).to_string();
        operations::insert(self.tx, self.id, "delete", None, Some(&detail))?;
        Ok(())
    }

    fn forget_calls(&self) -> Result<()> {
        tool_results::delete_orphans(self.tx, self.id)?;
        tool_calls::delete_orphans(self.tx, self.id)?;
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
fn iso_time(epoch_ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(epoch_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
