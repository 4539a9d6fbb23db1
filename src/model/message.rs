//! Messages an app writes itself, through the typed door.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user, or a tool result.
    User,
    /// The model.
    Assistant,
}

/// A message to append: who speaks and what. The store adds the rest: uuid, parent (the head),
/// time, session and directory.
///
/// Content is what the Anthropic Messages API takes: a string, or an array of blocks. The order of
/// keys is kept. Where every byte counts (signed thinking, numbers), give the provider's own text
/// to [`NewMessage::response_json`].
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub(crate) role: Role,
    /// The message object as JSON text.
    pub(crate) message: String,
    pub(crate) uuid: Option<String>,
    pub(crate) is_meta: bool,
}

impl NewMessage {
    /// What the user says. It begins a turn; its uuid is the turn's restore point.
    pub fn user(content: impl Into<Value>) -> Self {
        Self::new(Role::User, content.into())
    }

    /// What the model says. Calls in it are pending from the moment it is stored.
    pub fn assistant(content: impl Into<Value>) -> Self {
        Self::new(Role::Assistant, content.into())
    }

    /// A whole response of the Messages API: `id`, `model`, `content`, `usage`, `stop_reason` and
    /// whatever else it has are kept.
    pub fn response(response: &Value) -> Self {
        Self {
            role: Role::Assistant,
            message: response.to_string(),
            uuid: None,
            is_meta: false,
        }
    }

    /// A whole response, as the JSON text in which the provider sent it: kept byte for byte. It
    /// must be one JSON object on one line, or the append refuses it.
    pub fn response_json(response: impl Into<String>) -> Self {
        Self {
            role: Role::Assistant,
            message: response.into(),
            uuid: None,
            is_meta: false,
        }
    }

    /// The result of a call. It can only be stored if its call is.
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl Into<Value>) -> Self {
        Self::result(&tool_use_id.into(), &content.into(), false)
    }

    /// The result of a call that failed.
    pub fn tool_error(tool_use_id: impl Into<String>, content: impl Into<Value>) -> Self {
        Self::result(&tool_use_id.into(), &content.into(), true)
    }

    /// Gives it a uuid. Appending the same one again stores nothing.
    pub fn uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Marks it as written by the harness: the model sees it, a reader does not, no turn begins.
    pub fn meta(mut self) -> Self {
        self.is_meta = true;
        self
    }

    fn new(role: Role, content: Value) -> Self {
        Self::of_json(role, &content.to_string())
    }

    /// A message whose content is this JSON text, kept byte for byte.
    pub(crate) fn of_json(role: Role, content: &str) -> Self {
        Self {
            role,
            message: format!(r#"{{"role":{},"content":{content}}}"#, json!(role)),
            uuid: None,
            is_meta: false,
        }
    }

    fn result(tool_use_id: &str, content: &Value, is_error: bool) -> Self {
        let mut block =
            json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": content});
        if is_error {
            block["is_error"] = Value::Bool(true);
        }
        Self::new(Role::User, Value::Array(vec![block]))
    }

    /// The entry as it is stored: the client's envelope around the message, as JSON text.
    pub(crate) fn entry(&self, around: &Envelope<'_>) -> String {
        let mut before =
            json!({"parentUuid": around.parent_uuid, "isSidechain": around.is_sidechain});
        if self.is_meta {
            before["isMeta"] = Value::Bool(true);
        }
        before["type"] = json!(self.role);
        let mut after = json!({"uuid": around.uuid, "timestamp": around.timestamp});
        for (name, value) in [("cwd", around.cwd), ("gitBranch", around.git_branch)] {
            if let Some(value) = value {
                after[name] = json!(value);
            }
        }
        after["sessionId"] = json!(around.session_id);
        let message = self.message_with_id(around.uuid);
        let (before, after) = (before.to_string(), after.to_string());
        let (before, after) = (before.trim_end_matches('}'), after.trim_start_matches('{'));
        format!(r#"{before},"message":{message},{after}"#)
    }

    /// The message; what the model says gets a response id if it has none: by it a late result
    /// finds its call.
    fn message_with_id(&self, uuid: &str) -> String {
        let has_id =
            serde_json::from_str::<Named>(&self.message).is_ok_and(|named| named.id.is_some());
        match self.message.trim_start().strip_prefix('{') {
            Some(rest) if self.role == Role::Assistant && !has_id => {
                format!(r#"{{"id":"msg_{}",{rest}"#, uuid.replace('-', ""))
            }
            _ => self.message.clone(),
        }
    }
}

/// What is asked of a message before it is stored.
#[derive(Deserialize)]
struct Named {
    id: Option<IgnoredAny>,
}

/// What the store adds around a message.
pub(crate) struct Envelope<'a> {
    pub(crate) uuid: &'a str,
    pub(crate) parent_uuid: Option<&'a str>,
    pub(crate) session_id: &'a str,
    pub(crate) timestamp: &'a str,
    pub(crate) cwd: Option<&'a str>,
    pub(crate) git_branch: Option<&'a str>,
    pub(crate) is_sidechain: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_kept_byte_for_byte() {
        let response = r#"{"id":"m","role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"t","name":"X","input":{"b": 1.0, "a":1e400}}]}"#;
        let around = Envelope {
            uuid: "u",
            parent_uuid: None,
            session_id: "s",
            timestamp: "2026-01-01T00:00:00.000Z",
            cwd: Some("/a"),
            git_branch: None,
            is_sidechain: false,
        };
        let entry = NewMessage::response_json(response).entry(&around);
        assert!(entry.contains(response));
        assert!(entry.starts_with(
            r#"{"parentUuid":null,"isSidechain":false,"type":"assistant","message":{"#
        ));
    }
}
