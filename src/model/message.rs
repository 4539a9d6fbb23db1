//! Messages an app writes itself, through the typed door.

use serde::Serialize;
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
/// Content is what the Anthropic Messages API takes: a string, or an array of blocks.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub(crate) role: Role,
    pub(crate) content: Value,
    pub(crate) uuid: Option<String>,
    pub(crate) response: Option<Value>,
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

    /// A whole response as the Messages API returned it: `id`, `model`, `content`, `usage`,
    /// `stop_reason` and whatever else it has are kept.
    pub fn response(response: Value) -> Self {
        let content = response.get("content").cloned().unwrap_or(Value::Null);
        Self {
            response: Some(response),
            ..Self::new(Role::Assistant, content)
        }
    }

    /// The result of a call. It can only be stored if its call is.
    pub fn tool_result(tool_use_id: impl Into<String>, content: impl Into<Value>) -> Self {
        Self::result(tool_use_id.into(), content.into(), false)
    }

    /// The result of a call that failed.
    pub fn tool_error(tool_use_id: impl Into<String>, content: impl Into<Value>) -> Self {
        Self::result(tool_use_id.into(), content.into(), true)
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
        Self {
            role,
            content,
            uuid: None,
            response: None,
            is_meta: false,
        }
    }

    fn result(tool_use_id: String, content: Value, is_error: bool) -> Self {
        let mut block =
            json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": content});
        if is_error {
            block["is_error"] = Value::Bool(true);
        }
        Self::new(Role::User, Value::Array(vec![block]))
    }

    /// The entry as it is stored: the client's envelope around the message, as JSON text.
    pub(crate) fn entry(&self, around: &Envelope<'_>) -> String {
        let mut message = match &self.response {
            Some(Value::Object(response)) => Value::Object(response.clone()),
            _ => json!({}),
        };
        message["role"] = json!(self.role);
        message["content"] = self.content.clone();
        let mut entry = json!({
            "parentUuid": around.parent_uuid,
            "isSidechain": around.is_sidechain,
            "type": self.role,
            "message": message,
            "uuid": around.uuid,
            "timestamp": around.timestamp,
            "sessionId": around.session_id,
        });
        let optional = [("cwd", around.cwd), ("gitBranch", around.git_branch)];
        for (name, value) in optional
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
        {
            entry[name] = json!(value);
        }
        if self.is_meta {
            entry["isMeta"] = json!(true);
        }
        entry.to_string()
    }
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
