//! Tool calls: what was asked, how it ended, and how an open one is settled.

use serde::Serialize;
use serde_json::Value;

/// How a tool call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolState {
    /// It has no result. After a crash nobody knows whether it took effect.
    Pending,
    /// It succeeded.
    Ok,
    /// It failed.
    Error,
    /// It was not allowed to run.
    Rejected,
    /// It was stopped, or settled as interrupted.
    Interrupted,
    /// The client gave it up: its process ended before the result was recorded.
    Unknown,
}

impl ToolState {
    /// The state in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Rejected => "rejected",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn from_word(word: &str) -> Self {
        [
            Self::Ok,
            Self::Error,
            Self::Rejected,
            Self::Interrupted,
            Self::Unknown,
        ]
        .into_iter()
        .find(|state| state.as_str() == word)
        .unwrap_or(Self::Unknown)
    }
}

/// A tool call, with all that an app needs to decide on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolCall {
    /// Its tool-use id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input as the model asked, as JSON text.
    pub input: String,
    /// Its input as it was really run, where that was noted.
    pub ran_input: Option<String>,
    /// The sub-agent that made it.
    pub agent: Option<String>,
    /// The transcript it stands in; empty for the main one.
    pub subpath: String,
    /// The prompt whose turn it belongs to, by uuid.
    pub turn: Option<String>,
    /// The message that made it, by uuid.
    pub message: String,
    /// When it was stored, in epoch milliseconds: before the tool started.
    pub started_ms: i64,
    /// How it stands.
    pub state: ToolState,
    /// The message that answers it, by uuid.
    pub result: Option<String>,
    /// How often it was tried: 1 unless it was run again.
    pub attempt: u32,
    /// The same for every attempt of this call in this session, and for no other call: give it to
    /// whoever must not do the same thing twice.
    pub idempotency_key: String,
}

/// How an open call is settled.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Settle {
    /// Its result was found out. Content as the Messages API takes it.
    Result(Value),
    /// It failed, and this is what it said.
    Failed(Value),
    /// It was not allowed to run, for this reason.
    Rejected(String),
    /// It is given up: the model is told that its outcome is unknown.
    Interrupted,
    /// It is run again by the app: it stays pending, with a higher attempt number.
    Rerun,
}

/// What settling did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The call as it stands now.
    pub call: ToolCall,
    /// Whether anything was stored; `false` if the call had a result already, which is kept.
    pub stored: bool,
}
