//! Search: what is looked for, and what is found.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use super::key::SessionKey;
use crate::error::Error;

/// What to look for.
///
/// The text is what a person types: all of its words must stand in a message, in any order. Quotes
/// make a phrase, a star at the end of a word stands for the rest of it, and nothing else means
/// anything. Case and accents make no difference; `snake_case`, `foo::bar` and paths are words in a
/// row, and so are the humps of `camelCase`. Any part of Chinese, Japanese, Korean or Thai text is
/// found.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    pub(crate) text: String,
    pub(crate) project_key: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) session: Option<SessionKey>,
    pub(crate) roles: Vec<SearchRole>,
    pub(crate) tool: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) since_ms: Option<i64>,
    pub(crate) until_ms: Option<i64>,
    pub(crate) is_active: bool,
    pub(crate) is_ranked: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<SearchCursor>,
}

impl SearchQuery {
    /// Looks for this text, everywhere, newest first, 20 a page.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Only in this project.
    pub fn project(mut self, project_key: impl Into<String>) -> Self {
        self.project_key = Some(project_key.into());
        self
    }

    /// Only in sessions that began in this directory.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Only in this session; of a fork also in what it inherits.
    pub fn session(mut self, key: SessionKey) -> Self {
        self.session = Some(key);
        self
    }

    /// Only what this one said; called again, what that one said as well.
    pub fn role(mut self, role: SearchRole) -> Self {
        self.roles.push(role);
        self
    }

    /// Only what went into this tool or came out of it.
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Only tool calls that name this path, one that ends so (`lib.rs`, `src/lib.rs`) or one that
    /// begins so (`/srv/app`), and what came out of them. In whole names, and case matters.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Only what was said at this time (epoch ms) or later.
    pub fn since_ms(mut self, time: i64) -> Self {
        self.since_ms = Some(time);
        self
    }

    /// Only what was said before this time (epoch ms).
    pub fn until_ms(mut self, time: i64) -> Self {
        self.until_ms = Some(time);
        self
    }

    /// Only what is in a conversation as it stands now, back through compactions: not on branches
    /// that were left.
    pub fn active(mut self) -> Self {
        self.is_active = true;
        self
    }

    /// The best ones first, of the 10,000 that were stored last. Of beginnings of up to three letters
    /// with which words of one in sixteen messages or more begin, those among the last 4,000 messages.
    pub fn ranked(mut self) -> Self {
        self.is_ranked = true;
        self
    }

    /// At most so many a page.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Goes on where the page before ended.
    pub fn after(mut self, cursor: SearchCursor) -> Self {
        self.after = Some(cursor);
        self
    }
}

/// Whose words are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SearchRole {
    /// What the user said.
    User,
    /// What the model said.
    Assistant,
    /// What went into tools: their names and all values of their inputs.
    ToolInput,
    /// What came out of them.
    ToolOutput,
    /// Titles of sessions.
    Title,
}

impl SearchRole {
    /// The word for it, as the program takes and prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::ToolInput => "input",
            Self::ToolOutput => "output",
            Self::Title => "title",
        }
    }
}

/// A page of what was found.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchPage {
    /// The messages.
    pub hits: Vec<SearchHit>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<SearchCursor>,
    /// How many messages are not indexed yet, at most: they were not looked at.
    pub unindexed: u64,
}

/// A message in which all that was looked for stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session it is shown in.
    pub session: SessionKey,
    /// The line that names this session.
    pub summary: Option<String>,
    /// The sub-agent's transcript it stands in; empty: the main one.
    pub subpath: String,
    /// The uuid it is shown with; of a title usually none.
    pub uuid: Option<String>,
    /// The prompt whose turn it belongs to.
    pub turn: Option<String>,
    /// Whose words the snippet shows.
    pub role: SearchRole,
    /// The tool they went into or came out of.
    pub tool: Option<String>,
    /// When it was said: by its own word, else when it was stored; epoch ms.
    pub said_ms: i64,
    /// The piece of its text around the first place.
    pub snippet: Snippet,
    /// Other sessions that show the same message: forks, and copies that a client made. At most 20.
    pub also_in: Vec<SessionKey>,
    /// How well it answers, if that was asked for: the lower the better.
    pub score: Option<f64>,
}

/// A piece of text, on one line, and where in it stands what was looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text.
    pub text: String,
    /// The places, in bytes of it.
    pub marks: Vec<Range<usize>>,
}

/// How far the search index has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchIndex {
    /// How many messages were indexed by this call.
    pub indexed: u64,
    /// How many are not indexed yet, at most.
    pub unindexed: u64,
}

/// A place in what was found. It stays right while others append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    pub(crate) at: At,
}

/// What a cursor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Newest first: behind the message said then, with this id.
    Said { said_ms: i64, id: i64 },
    /// Ranked: among the messages up to this id, behind so many.
    Best { last: i64, shown: usize },
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            At::Said { said_ms, id } => write!(out, "{said_ms}-{id}"),
            At::Best { last, shown } => write!(out, "best-{last}-{shown}"),
        }
    }
}

impl FromStr for SearchCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (before, last) = text.rsplit_once('-')?;
            Some(match before.strip_prefix("best-") {
                Some(pinned) => At::Best {
                    last: pinned.parse().ok()?,
                    shown: last.parse().ok()?,
                },
                None => At::Said {
                    said_ms: before.parse().ok()?,
                    id: last.parse().ok()?,
                },
            })
        };
        let none = || {
            let why = format!("`{text}` is none; take it from the page before");
            Error::invalid("cursor", why)
        };
        Ok(Self {
            at: read().ok_or_else(none)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        for at in [
            At::Said { said_ms: 17, id: 4 },
            At::Said { said_ms: -5, id: 4 },
            At::Best { last: 9, shown: 40 },
        ] {
            let cursor = SearchCursor { at };
            assert_eq!(cursor.to_string().parse::<SearchCursor>().unwrap(), cursor);
        }
        assert!("x".parse::<SearchCursor>().is_err());
    }
}
