//! The store as the Claude Agent SDK knows one: its `SessionStore` and all of its contracts.

use serde_json::Value;

use super::Store;
use super::history::History;
use super::sessions::create;
use super::write::{SessionTx, read_entries};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::{AppendOptions, Appended, NewSession, SessionKey, TranscriptKey};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::transcripts;

/// The SDK's `SessionStore` operations on a [`Store`].
///
/// Keys are `(project_key, session_id, subpath)`; an empty subpath is the main transcript.
#[derive(Clone, Debug)]
pub struct SessionStore {
    store: Store,
}

/// A session as `list_sessions` answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The session's id.
    pub session_id: String,
    /// When its main transcript was last appended to, in epoch milliseconds of this machine's clock.
    pub mtime: i64,
}

/// The SDK's own summary of a session: kept as it came, never interpreted.
#[derive(Clone, Debug, PartialEq)]
pub struct SdkSummary {
    /// The session's id.
    pub session_id: String,
    /// The same time as in `list_sessions`.
    pub mtime: i64,
    /// The SDK's data.
    pub data: Value,
    /// How often it was set: give it back with the next one.
    pub version: i64,
}

/// A new summary, folded from the one with version `from_version` (0 if there was none).
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryUpdate {
    /// The SDK's data.
    pub data: Value,
    /// The version it was folded from.
    pub from_version: i64,
}

impl SessionStore {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Appends entries, given as JSON text, one record each. Makes the session if there is none
    /// with this key; a deleted one is never revived: a new one takes its key. Idempotent by uuid.
    /// No entries: nothing happens.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the first entry that is not a JSON object on one line; nothing is
    /// stored then.
    pub fn append<I>(&self, key: &TranscriptKey, entries: I) -> Result<Appended>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        self.append_with_summary(key, entries, None)
    }

    /// Appends entries and, in the same transaction, replaces the SDK's summary of the session.
    ///
    /// # Errors
    /// As [`SessionStore::append`]; [`Error::Conflict`] if the summary was set since: fold again
    /// from the present one. Nothing is stored then. [`Error::Invalid`] for a summary with a
    /// sub-agent's key.
    pub fn append_with_summary<I>(
        &self,
        key: &TranscriptKey,
        entries: I,
        summary: Option<SummaryUpdate>,
    ) -> Result<Appended>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        key.session.check()?;
        if summary.is_some() && !key.subpath.is_empty() {
            return Err(Error::invalid(
                "summary",
                "sub-agents' transcripts have none",
            ));
        }
        let readings = read_entries(entries)?;
        if readings.is_empty() && summary.is_none() {
            return Ok(Appended::default());
        }
        self.store.db().write(|tx| {
            let mut row = get_or_create(&self.store, tx, &key.session)?;
            if let Some(summary) = &summary {
                set_summary(&mut row, summary)?;
                sessions::update(tx, &row)?;
            }
            let session = SessionTx::new(&self.store, tx, row.id, key.session.clone());
            session.feed(
                row,
                &readings,
                &AppendOptions::new().to_subpath(key.subpath.clone()),
            )
        })
    }

    /// All entries of a transcript, as JSON text, in order; `None` if it was never written.
    ///
    /// # Errors
    /// Those of the database.
    pub fn load(&self, key: &TranscriptKey) -> Result<Option<Vec<String>>> {
        self.store.db().read(|db| {
            let Some(row) = sessions::find(db, &key.session)? else {
                return Ok(None);
            };
            if transcripts::find(db, row.id, &key.subpath)?.is_none() {
                return Ok(None);
            }
            let history = History::of(db, &row, &key.subpath)?;
            Ok(Some(history.entries(db)?))
        })
    }

    /// The sessions of a project that have a main transcript, newest first.
    ///
    /// # Errors
    /// Those of the database.
    pub fn list_sessions(&self, project_key: &str) -> Result<Vec<ListEntry>> {
        let rows = self
            .store
            .db()
            .read(|db| Ok(sessions::appended(db, project_key)?))?;
        Ok(rows
            .into_iter()
            .map(|row| ListEntry {
                session_id: row.session_id,
                mtime: row.appended_ms,
            })
            .collect())
    }

    /// The SDK's summaries of a project's sessions, of those that have one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn list_session_summaries(&self, project_key: &str) -> Result<Vec<SdkSummary>> {
        let rows = self
            .store
            .db()
            .read(|db| Ok(sessions::appended(db, project_key)?))?;
        let summaries = rows.into_iter().filter_map(|row| {
            let data = serde_json::from_str(row.sdk_summary.as_deref()?).ok()?;
            Some(SdkSummary {
                session_id: row.session_id,
                mtime: row.appended_ms,
                data,
                version: row.sdk_summary_version,
            })
        });
        Ok(summaries.collect())
    }

    /// Deletes a session with all its transcripts, or one sub-agent's transcript. What is not
    /// there is no error.
    ///
    /// # Errors
    /// Those of the database.
    pub fn delete(&self, key: &TranscriptKey) -> Result<()> {
        let delete = |tx: &Tx<'_>| {
            let Some(row) = sessions::find(tx, &key.session)? else {
                return Ok(());
            };
            let session = SessionTx::new(&self.store, tx, row.id, key.session.clone());
            if key.subpath.is_empty() {
                session.delete()
            } else {
                session.delete_subpath(&key.subpath)
            }
        };
        self.store.mending(|| self.store.db().write(delete))
    }

    /// The subpaths of a session's sub-agents, sorted.
    ///
    /// # Errors
    /// Those of the database.
    pub fn list_subkeys(&self, key: &SessionKey) -> Result<Vec<String>> {
        self.store.db().read(|db| match sessions::find(db, key)? {
            Some(row) => Ok(transcripts::subpaths(db, row.id)?),
            None => Ok(Vec::new()),
        })
    }
}

fn get_or_create(store: &Store, tx: &Tx<'_>, key: &SessionKey) -> Result<SessionRow> {
    match sessions::find(tx, key)? {
        Some(row) => Ok(row),
        None => create(store, tx, key, &NewSession::default()),
    }
}

fn set_summary(row: &mut SessionRow, summary: &SummaryUpdate) -> Result<()> {
    if row.sdk_summary_version != summary.from_version {
        return Err(Error::Conflict(format!(
            "the summary of `{}` has version {}, not {}; nothing was stored",
            row.key, row.sdk_summary_version, summary.from_version
        )));
    }
    row.sdk_summary = Some(summary.data.to_string());
    row.sdk_summary_version += 1;
    Ok(())
}
