//! Making, finding and listing sessions.

use uuid::Uuid;

use super::write::SessionTx;
use super::{Session, Store};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::{Cursor, NewSession, SessionFilter, SessionKey, SessionPage};
use crate::tables::sessions::SessionRow;
use crate::tables::{operations, sessions};

/// The sessions of a store.
#[derive(Clone, Debug)]
pub struct Sessions {
    store: Store,
}

impl Sessions {
    pub(super) fn new(store: Store) -> Self {
        Self { store }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Makes a session.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is one with this key; [`Error::Invalid`] for an empty name.
    pub fn create(&self, new: NewSession) -> Result<Session> {
        self.create_with(&new, |_| Ok(()))
    }

    /// Makes a session and fills it, in one transaction: if that cannot be done, none is made.
    pub(crate) fn create_with(
        &self,
        new: &NewSession,
        fill: impl FnOnce(&SessionTx<'_, '_>) -> Result<()>,
    ) -> Result<Session> {
        let key = key_of(new)?;
        let row = self.store.db().write(|tx| {
            if sessions::find(tx, &key)?.is_some() {
                return Err(Error::Conflict(format!("session `{key}` exists already")));
            }
            let row = create(&self.store, tx, &key, new)?;
            fill(&SessionTx::new(&self.store, tx, row.id, key.clone()))?;
            Ok(row)
        })?;
        Ok(Session::new(self.store.clone(), &row))
    }

    /// The session with this key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none. A missing session is never silently a new one.
    pub fn get(&self, key: &SessionKey) -> Result<Session> {
        self.find(key)?
            .ok_or_else(|| Error::no_session(key.to_string()))
    }

    /// The session with this key, if there is one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn find(&self, key: &SessionKey) -> Result<Option<Session>> {
        let row = self.store.db().read(|db| Ok(sessions::find(db, key)?))?;
        Ok(row.map(|row| Session::new(self.store.clone(), &row)))
    }

    /// The session with this key, made as described if there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`] if no id is given or a name is empty.
    pub fn get_or_create(&self, new: NewSession) -> Result<Session> {
        if new.session_id.is_none() {
            return Err(Error::invalid(
                "session id",
                "get_or_create needs one; use create for a new id",
            ));
        }
        let key = key_of(&new)?;
        if let Some(session) = self.find(&key)? {
            return Ok(session);
        }
        let row = self
            .store
            .db()
            .write(|tx| match sessions::find(tx, &key)? {
                Some(row) => Ok(row),
                None => create(&self.store, tx, &key, &new),
            })?;
        Ok(Session::new(self.store.clone(), &row))
    }

    /// A page of at most `limit` sessions, newest first, behind `after`.
    ///
    /// Costs what the page costs, however many sessions there are, and reads no transcript.
    ///
    /// # Errors
    /// Those of the database.
    pub fn list(
        &self,
        filter: &SessionFilter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<SessionPage> {
        let (sessions, next) = self
            .store
            .db()
            .read(|db| Ok(sessions::list(db, filter, after, limit.max(1))?))?;
        Ok(SessionPage { sessions, next })
    }
}

fn key_of(new: &NewSession) -> Result<SessionKey> {
    let id = new
        .session_id
        .clone()
        .unwrap_or_else(|| Uuid::new_v4().to_string());
    SessionKey::new(new.project_key.clone(), id)
}

/// Makes a session's row, with its title and tag as entries.
pub(super) fn create(
    store: &Store,
    tx: &Tx<'_>,
    key: &SessionKey,
    new: &NewSession,
) -> Result<SessionRow> {
    let mut row = sessions::insert(tx, key, new.cwd.as_deref(), new.git_branch.as_deref())?;
    if let Some(metadata) = &new.metadata {
        row.metadata = Some(metadata.to_string());
        sessions::update(tx, &row)?;
    }
    operations::insert(tx, row.id, "create", None, None)?;
    let session = SessionTx::new(store, tx, row.id, key.clone());
    if let Some(title) = new
        .title
        .as_deref()
        .filter(|title| !title.trim().is_empty())
    {
        session.set_title(title)?;
    }
    if let Some(tag) = new.tag.as_deref().filter(|tag| !tag.trim().is_empty()) {
        session.set_tag(Some(tag))?;
    }
    session.row()
}
