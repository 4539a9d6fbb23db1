//! What an entry says, part by part, for those who show it to people.

use crate::transcript::dialect::{Content, Said, What};
use crate::transcript::json::{Object, array, string};

/// A part of what an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryPart {
    /// Text.
    Text(String),
    /// What the model thought.
    Thinking(String),
    /// A tool call; `input` is JSON text.
    Call {
        /// The tool-use id.
        id: String,
        /// The tool.
        name: String,
        /// Its input, as it was stored.
        input: String,
    },
    /// A tool result.
    Result {
        /// The tool-use id of the call it answers.
        call: String,
        /// Its text.
        text: String,
        /// Whether the call failed.
        is_error: bool,
    },
    /// Anything else: the name of its type.
    Other(String),
}

impl EntryPart {
    /// Reads the parts of an entry given as JSON text. Lone surrogates are shown as U+FFFD.
    pub fn read(entry: &str) -> Vec<Self> {
        let Some(entry) = Object::parse(entry) else {
            return Vec::new();
        };
        if let Some(message) = entry.object("message") {
            let said = Said::read(&message);
            return match &said.content {
                Content::Parts(parts) => parts
                    .iter()
                    .map(|part| Self::of(part.raw, &part.what))
                    .collect(),
                _ => said
                    .texts()
                    .into_iter()
                    .map(|text| Self::Text(text.into_owned()))
                    .collect(),
            };
        }
        let attachment = entry
            .object("attachment")
            .and_then(|attachment| attachment.string("type"));
        let content = entry
            .string("content")
            .map(|text| Self::Text(text.into_owned()));
        let named = attachment
            .or_else(|| entry.string("subtype"))
            .or_else(|| entry.string("type"));
        content
            .or_else(|| named.map(|name| Self::Other(name.into_owned())))
            .into_iter()
            .collect()
    }

    fn of(raw: &str, what: &What<'_>) -> Self {
        let block = Object::parse(raw).unwrap_or_default();
        match what {
            What::Text(text) => Self::Text(text.to_string()),
            What::Call { id, name, input } => Self::Call {
                id: id.to_string(),
                name: name.to_string(),
                input: (*input).to_owned(),
            },
            What::Result { call, is_error } => Self::Result {
                call: call.to_string(),
                text: block.get("content").map(result_text).unwrap_or_default(),
                is_error: *is_error,
            },
            What::Other => match (block.string("type").as_deref(), block.string("thinking")) {
                (Some("thinking"), Some(thought)) => Self::Thinking(thought.into_owned()),
                (kind, _) => Self::Other(kind.unwrap_or("unknown").to_owned()),
            },
        }
    }
}

/// The text of a result: a string, or the texts of its blocks.
fn result_text(content: &str) -> String {
    if let Some(text) = string(content) {
        return text.into_owned();
    }
    let blocks = array(content).unwrap_or_default();
    let texts = blocks.iter().filter_map(|block| {
        let block = Object::parse(block)?;
        let kind = block.string("type")?;
        Some(
            block
                .string("text")
                .map_or_else(|| format!("[{kind}]"), String::from),
        )
    });
    texts.collect::<Vec<_>>().join("\n")
}
