//! Sessions: what makes one, what is shown of one, and how they are chosen.

use serde::Serialize;

use super::key::SessionKey;
use crate::error::{Error, Result};

/// What a new session is made of.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    pub(crate) project_key: String,
    pub(crate) session_id: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) metadata: Option<serde_json::Value>,
}

impl NewSession {
    /// A session in the project with this key. Its id is made up unless given.
    pub fn in_project(project_key: impl Into<String>) -> Self {
        Self {
            project_key: project_key.into(),
            ..Self::default()
        }
    }

    /// The session with this key.
    pub fn with_key(key: SessionKey) -> Self {
        Self::in_project(key.project_key).id(key.session_id)
    }

    /// Gives it an id. Any non-empty string will do.
    pub fn id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// The directory it works in.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Its title, stored as an entry of its transcript. A blank one counts as none.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Its tag, stored as an entry of its transcript.
    pub fn tagged(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// The git branch it began on.
    pub fn git_branch(mut self, branch: impl Into<String>) -> Self {
        self.git_branch = Some(branch.into());
        self
    }

    /// Free JSON of the app's own.
    pub fn metadata(mut self, metadata: serde_json::Value) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// What a list shows of a session. Kept up to date by every append, never computed by reading a
/// transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SessionInfo {
    /// The session's id.
    pub session_id: String,
    /// The project it belongs to.
    pub project_key: String,
    /// The user's title, else one that was made for it.
    pub title: Option<String>,
    /// The line that names it: title, else the newest prompt the client noted, else the first prompt.
    pub summary: Option<String>,
    /// The first prompt, shortened to 200 characters.
    pub first_prompt: Option<String>,
    /// Its tag.
    pub tag: Option<String>,
    /// The directory it began in.
    pub cwd: Option<String>,
    /// The git branch that its newest entry names.
    pub git_branch: Option<String>,
    /// How it was entered: the client's word (`sdk-cli`, `sdk-py` …).
    pub entrypoint: Option<String>,
    /// When it began: the first time an entry names, else when it was made.
    pub created_at_ms: i64,
    /// When its main transcript was last added to: by this machine's clock for appends, by the
    /// entries' own times for what was imported (never in the future).
    pub last_modified_ms: i64,
    /// How many entries the main transcript has.
    pub entries: u64,
    /// How many user and assistant messages the main line has.
    pub messages: u64,
    /// How many turns were begun.
    pub turns: u64,
    /// The session it was forked from, if it was.
    pub forked_from: Option<String>,
    /// The app's own JSON.
    pub metadata: Option<serde_json::Value>,
}

impl SessionInfo {
    /// The session's key.
    pub fn key(&self) -> SessionKey {
        SessionKey {
            project_key: self.project_key.clone(),
            session_id: self.session_id.clone(),
        }
    }
}

/// Which sessions to list. The default is all that a person would want to see: not sub-agents'
/// transcripts, and none that hold bookkeeping alone.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub(crate) project_key: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
    pub(crate) all: bool,
}

impl SessionFilter {
    /// No filter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this project's.
    pub fn project(mut self, project_key: impl Into<String>) -> Self {
        self.project_key = Some(project_key.into());
        self
    }

    /// Only those that began in this directory.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Only those whose title or summary holds this text, in any letter case (ASCII).
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = Some(text.into());
        self
    }

    /// Only those with this tag.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Only those last modified at this time (epoch ms) or later.
    pub fn since_ms(mut self, time: i64) -> Self {
        self.since_ms = Some(time);
        self
    }

    /// Only those last modified before this time (epoch ms).
    pub fn until_ms(mut self, time: i64) -> Self {
        self.until_ms = Some(time);
        self
    }

    /// Those as well that a list leaves out.
    pub fn all(mut self) -> Self {
        self.all = true;
        self
    }
}

/// One page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<Cursor>,
}

/// A place in a list of sessions. It stays right while others append: a page never repeats or
/// skips a session that did not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) last_modified_ms: i64,
    pub(crate) id: i64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.last_modified_ms, self.id)
    }
}

impl std::str::FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .rsplit_once('-')
            .and_then(|(time, id)| Some((time.parse().ok()?, id.parse().ok()?)));
        let (last_modified_ms, id) = parts.ok_or_else(|| {
            Error::invalid(
                "cursor",
                format!("`{text}` is none; take it from the page before"),
            )
        })?;
        Ok(Self {
            last_modified_ms,
            id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for cursor in [
            Cursor {
                last_modified_ms: 17,
                id: 4,
            },
            Cursor {
                last_modified_ms: -1,
                id: 9,
            },
        ] {
            assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        }
        assert!("x".parse::<Cursor>().is_err());
    }
}
