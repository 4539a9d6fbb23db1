//! Finding a session by what a person calls it.

use super::{Session, Sessions};
use crate::error::{Error, Result};
use crate::model::SessionFilter;
use crate::tables::sessions::{self, SessionRow};

/// How many candidates are looked at.
const MOST: usize = 1000;

/// Where to look for a session.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Only in this project.
    pub project_key: Option<String>,
    /// Only among those that began in this directory.
    pub cwd: Option<String>,
}

impl Scope {
    fn holds(&self, row: &SessionRow) -> bool {
        let matches = |wanted: &Option<String>, value: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == value)
        };
        matches(&self.project_key, Some(&row.key.project_key))
            && matches(&self.cwd, row.tally.listing.cwd.as_deref())
    }

    fn filter(&self) -> SessionFilter {
        SessionFilter {
            project_key: self.project_key.clone(),
            cwd: self.cwd.clone(),
            ..SessionFilter::default()
        }
    }
}

impl Sessions {
    /// Finds a session by its id, a unique prefix of it, `KEY/ID`, its exact title, or `@last` (the
    /// newest one), in this order.
    ///
    /// # Errors
    /// [`Error::Invalid`] listing the candidates if the name fits several; [`Error::NotFound`] if it
    /// fits none.
    pub fn resolve(&self, name: &str, scope: &Scope) -> Result<Session> {
        if name.is_empty() {
            return Err(Error::invalid(
                "session",
                "the name is empty; give an id, a title or @last",
            ));
        }
        if name == "@last" {
            let newest = self.list(&scope.filter(), None, 1)?.sessions;
            let newest = newest.first().ok_or_else(|| Error::no_session("@last"))?;
            return self.get(&newest.key());
        }
        let row = self.store().db().read(|db| {
            let in_scope = |rows: Vec<SessionRow>| -> Vec<SessionRow> {
                rows.into_iter().filter(|row| scope.holds(row)).collect()
            };
            let found = in_scope(sessions::with_id_prefix(db, name, MOST)?);
            let exact: Vec<_> = found
                .iter()
                .filter(|row| row.key.session_id == name)
                .cloned()
                .collect();
            for rows in [
                exact,
                qualified(db, name)?,
                found,
                in_scope(sessions::with_title(db, name)?),
            ] {
                if let Some(row) = only(name, rows)? {
                    return Ok(row);
                }
            }
            Err(Error::no_session(name))
        })?;
        Ok(Session::new(self.store().clone(), &row))
    }

    /// Whether any session has this project key.
    ///
    /// # Errors
    /// Those of the database.
    pub fn has_project(&self, project_key: &str) -> Result<bool> {
        self.store()
            .db()
            .read(|db| Ok(sessions::project_exists(db, project_key)?))
    }
}

/// The session named `KEY/ID`. Both may hold slashes, so every one is tried.
fn qualified(db: &rusqlite::Connection, name: &str) -> Result<Vec<SessionRow>> {
    let mut rows = Vec::new();
    for (at, _) in name.match_indices('/') {
        let key = crate::model::SessionKey {
            project_key: name[..at].to_owned(),
            session_id: name[at + 1..].to_owned(),
        };
        rows.extend(sessions::find(db, &key)?);
    }
    Ok(rows)
}

fn only(name: &str, mut rows: Vec<SessionRow>) -> Result<Option<SessionRow>> {
    if rows.len() > 1 {
        let shown: Vec<String> = rows.iter().take(8).map(|row| row.key.to_string()).collect();
        let more = if rows.len() > shown.len() {
            ", …"
        } else {
            ""
        };
        let why = format!(
            "`{name}` fits {}{} sessions: {}{more}",
            rows.len(),
            if rows.len() == MOST { " or more" } else { "" },
            shown.join(", ")
        );
        return Err(Error::invalid("session", why));
    }
    Ok(rows.pop())
}
