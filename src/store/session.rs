//! One session's handle.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::context::Context;
use super::conversation::Conversation;
use super::history::{History, Part};
use super::messages::Messages;
use super::transcript::{self, Line};
use super::write::SessionTx;
use super::{Store, context, conversation};
use crate::error::{Error, Result};
use crate::model::{SessionInfo, SessionKey};
use crate::tables::session_files::{self, FileRow};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{messages, transcripts};
use crate::transcript::file_history::{Backup, DELTA, Record, SNAPSHOT};

/// A session: its transcripts and all that belongs to it.
///
/// Cheap to clone, and safe to share between threads. Once the session is deleted every method
/// answers [`Error::NotFound`], also when a new session has taken its key.
#[derive(Clone, Debug)]
pub struct Session {
    store: Store,
    row: i64,
    key: SessionKey,
}

impl Session {
    pub(crate) fn new(store: Store, row: &SessionRow) -> Self {
        Self {
            store,
            row: row.id,
            key: row.key.clone(),
        }
    }

    /// Its key.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.key.session_id
    }

    /// What a list shows of it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted.
    pub fn info(&self) -> Result<SessionInfo> {
        Ok(self.store.db().read(|db| self.row(db))?.info())
    }

    /// Its messages: appending to them.
    pub fn messages(&self) -> Messages {
        Messages::new(self.clone())
    }

    /// Groups writes in one transaction: all of them are stored, or none.
    ///
    /// The store's other writers wait meanwhile, so do no slow work in `work`.
    ///
    /// # Errors
    /// What `work` answers; [`Error::NotFound`] if the session was deleted.
    pub fn write<T>(&self, work: impl FnOnce(&SessionTx<'_, '_>) -> Result<T>) -> Result<T> {
        self.store.db().write(|tx| {
            if !sessions::is_live(tx, self.row)? {
                return Err(deleted(&self.key));
            }
            work(&SessionTx::new(&self.store, tx, self.row, self.key.clone()))
        })
    }

    /// Gives it a title, as an entry of its transcript, as the client does.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank title; [`Error::NotFound`] if it was deleted.
    pub fn rename(&self, title: &str) -> Result<()> {
        self.write(|tx| tx.set_title(title))
    }

    /// Gives it a tag, or takes it away, as an entry of its transcript.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank tag; [`Error::NotFound`] if it was deleted.
    pub fn tag(&self, tag: Option<&str>) -> Result<()> {
        self.write(|tx| tx.set_tag(tag))
    }

    /// Keeps free JSON of the app's own with it, in place of what was kept.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted.
    pub fn set_metadata(&self, metadata: &Value) -> Result<()> {
        self.write(|tx| tx.set_metadata(metadata))
    }

    /// Deletes it: transcripts, sub-agents' transcripts, files. Its key is free again at once.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted before.
    pub fn delete(&self) -> Result<()> {
        self.store().mending(|| self.write(|tx| tx.delete()))
    }

    /// The subpaths of its sub-agents' transcripts.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was deleted.
    pub fn subpaths(&self) -> Result<Vec<String>> {
        self.store.db().read(|db| {
            self.row(db)?;
            Ok(transcripts::subpaths(db, self.row)?)
        })
    }

    /// All lines of a transcript, in the order in which they were stored; `subpath` is empty for
    /// the main one. Holds them all in memory: [`Session::transcript_page`] does not.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session or the transcript is not there.
    pub fn transcript(&self, subpath: &str) -> Result<Vec<Line>> {
        self.transcript_page(subpath, 0, usize::MAX)
    }

    /// At most `limit` lines of a transcript behind the line with number `after_seq` (0 for the
    /// first page). No snapshot is held between pages, so a reader never keeps the log from
    /// being reset.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session or the transcript is not there.
    pub fn transcript_page(
        &self,
        subpath: &str,
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<Line>> {
        self.store.db().read(|db| {
            let row = self.row(db)?;
            self.check_transcript(db, subpath)?;
            transcript::page(db, &row, subpath, after_seq, limit)
        })
    }

    /// The conversation of a transcript: the active chain from its head back, oldest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session or the transcript is not there.
    pub fn conversation(&self, subpath: &str) -> Result<Conversation> {
        self.store.db().read(|db| {
            let row = self.row(db)?;
            self.check_transcript(db, subpath)?;
            conversation::read(db, &row, subpath)
        })
    }

    /// The context of a transcript: its conversation as a model is to be sent it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session or the transcript is not there.
    pub fn context(&self, subpath: &str) -> Result<Context> {
        self.store.db().read(|db| {
            let row = self.row(db)?;
            self.check_transcript(db, subpath)?;
            context::read(db, &row, subpath)
        })
    }

    pub(crate) fn row_id(&self) -> i64 {
        self.row
    }

    /// Whether anything was ever stored in its main transcript.
    pub(crate) fn has_main_transcript(&self) -> Result<bool> {
        self.store.db().read(|db| {
            let row = self.row(db)?;
            Ok(transcripts::find(db, row.id, "")?.is_some())
        })
    }

    /// The files kept with it, and of a fork's inherited messages the large outputs and the backups
    /// that the client's checkpoints name.
    pub(crate) fn kept_files(&self, db: &rusqlite::Connection) -> Result<Vec<FileRow>> {
        let history = History::of(db, &self.row(db)?, "")?;
        let mut files: BTreeMap<String, FileRow> = BTreeMap::new();
        for part in &history.parts {
            let own = session_files::list(db, part.owner)?.into_iter();
            let named = match part.is_inherited {
                true => backups_named(db, part)?,
                false => HashSet::new(),
            };
            let shown = own.filter(|file| {
                let backup = file.path.strip_prefix("file-history/");
                !part.is_inherited
                    || file.path.starts_with("tool-results/")
                    || backup.is_some_and(|name| named.contains(name))
            });
            files.extend(shown.map(|file| (file.path.clone(), file)));
        }
        Ok(files.into_values().collect())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn row(&self, db: &rusqlite::Connection) -> Result<SessionRow> {
        sessions::find_row(db, self.row)?.ok_or_else(|| deleted(&self.key))
    }

    fn check_transcript(&self, db: &rusqlite::Connection, subpath: &str) -> Result<()> {
        if subpath.is_empty() || transcripts::find(db, self.row, subpath)?.is_some() {
            return Ok(());
        }
        Err(Error::NotFound {
            what: "transcript",
            id: format!("{}/{subpath}", self.key),
        })
    }
}

/// The backups that the checkpoint records in a piece of a transcript name.
fn backups_named(db: &rusqlite::Connection, part: &Part) -> Result<HashSet<String>> {
    let mut named = HashSet::new();
    let piece = (part.owner, part.after_seq, part.until_seq);
    messages::each_of_kinds(db, piece, (SNAPSHOT, DELTA), |entry| -> Result<()> {
        let files = Record::read(entry).map(|record| record.files);
        for file in files.into_iter().flatten() {
            if let Backup::Named(name) = file.backup {
                named.insert(name);
            }
        }
        Ok(())
    })?;
    Ok(named)
}

/// The answer to any use of a deleted session.
pub(super) fn deleted(key: &SessionKey) -> Error {
    Error::NotFound {
        what: "session (it was deleted)",
        id: key.to_string(),
    }
}
