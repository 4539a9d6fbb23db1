//! Names of sessions and transcripts.

use std::fmt;

use crate::error::{Error, Result};

/// Names a session: the project key that groups it, and its id.
///
/// Both are any non-empty strings, compared as bytes, and neither is ever used as a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The string that groups sessions. For imported ones the client's folder name.
    pub project_key: String,
    /// The id of the session within its project.
    pub session_id: String,
}

impl SessionKey {
    /// Makes a key.
    ///
    /// # Errors
    /// [`Error::Invalid`] if either part is empty.
    pub fn new(project_key: impl Into<String>, session_id: impl Into<String>) -> Result<Self> {
        let key = Self {
            project_key: project_key.into(),
            session_id: session_id.into(),
        };
        key.check()?;
        Ok(key)
    }

    /// The key of one of the session's transcripts; an empty subpath is the main one.
    pub fn transcript(&self, subpath: impl Into<String>) -> TranscriptKey {
        TranscriptKey {
            session: self.clone(),
            subpath: subpath.into(),
        }
    }

    /// Refuses empty parts: the fields are public, so a key may come from anywhere.
    pub(crate) fn check(&self) -> Result<()> {
        for (what, value) in [
            ("project key", &self.project_key),
            ("session id", &self.session_id),
        ] {
            if value.is_empty() {
                return Err(Error::invalid(
                    what,
                    "it is empty; give any non-empty string",
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.project_key, self.session_id)
    }
}

/// Names a transcript: a session's main one (`subpath` is empty) or a sub-agent's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TranscriptKey {
    /// The session.
    pub session: SessionKey,
    /// The sub-agent's transcript within it, for example `subagents/agent-1`; empty for the main one.
    pub subpath: String,
}

impl TranscriptKey {
    /// The key of a session's main transcript.
    ///
    /// # Errors
    /// [`Error::Invalid`] if either part is empty.
    pub fn main(project_key: impl Into<String>, session_id: impl Into<String>) -> Result<Self> {
        Ok(SessionKey::new(project_key, session_id)?.transcript(""))
    }
}
