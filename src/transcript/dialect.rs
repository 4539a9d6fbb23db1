//! The shape an app's messages have, recognised in one place.
//!
//! Everything above sees a message only as [`Said`]: who spoke, in which response, and the parts:
//! text, calls, results, and whatever else there is, each with its own JSON text. Anthropic
//! Messages is the first dialect; anything unknown is kept and passed through as it is.

use std::borrow::Cow;

use super::json::{Object, array, string};

/// Tokens of one provider response, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: Option<i64>,
    pub(crate) output: Option<i64>,
    pub(crate) cache_read: Option<i64>,
    pub(crate) cache_write: Option<i64>,
}

/// A message, in the words every dialect shares.
#[derive(Debug, Default)]
pub(crate) struct Said<'a> {
    pub(crate) role: Option<Cow<'a, str>>,
    /// The provider's id of the response this message is (a part of).
    pub(crate) response: Option<Cow<'a, str>>,
    pub(crate) model: Option<Cow<'a, str>>,
    pub(crate) usage: Usage,
    pub(crate) content: Content<'a>,
}

/// What a message holds.
#[derive(Debug, Default)]
pub(crate) enum Content<'a> {
    /// Nothing that can be read.
    #[default]
    None,
    /// A plain string, as JSON text.
    Plain(&'a str),
    /// Parts, in order.
    Parts(Vec<Part<'a>>),
}

/// One part of a message. `raw` is its JSON text, never printed anew.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) raw: &'a str,
    pub(crate) what: What<'a>,
}

/// What a part is.
#[derive(Debug)]
pub(crate) enum What<'a> {
    Text(Cow<'a, str>),
    Call {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: &'a str,
    },
    Result {
        call: Cow<'a, str>,
        is_error: bool,
    },
    Other,
}

impl<'a> Said<'a> {
    /// Reads the `message` field of an entry.
    pub(crate) fn read(message: &Object<'a>) -> Self {
        let named = |name| message.string(name).filter(|text| !text.is_empty());
        Self {
            role: named("role"),
            response: named("id"),
            model: named("model"),
            usage: usage(message),
            content: message
                .get("content")
                .map(Content::read)
                .unwrap_or_default(),
        }
    }

    /// The texts of the message, in order.
    pub(crate) fn texts(&self) -> Vec<Cow<'a, str>> {
        match &self.content {
            Content::None => Vec::new(),
            Content::Plain(raw) => string(raw).into_iter().collect(),
            Content::Parts(parts) => parts
                .iter()
                .filter_map(|part| match &part.what {
                    What::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
        }
    }

    /// The parts, if the message has any; a plain string has none.
    pub(crate) fn parts(&self) -> &[Part<'a>] {
        match &self.content {
            Content::Parts(parts) => parts,
            _ => &[],
        }
    }

    /// Whether the message carries a tool result.
    pub(crate) fn has_result(&self) -> bool {
        self.parts()
            .iter()
            .any(|part| matches!(part.what, What::Result { .. }))
    }
}

impl<'a> Content<'a> {
    pub(crate) fn read(raw: &'a str) -> Self {
        if string(raw).is_some() {
            return Self::Plain(raw);
        }
        array(raw).map_or(Self::None, |items| {
            Self::Parts(items.into_iter().map(Part::read).collect())
        })
    }
}

impl<'a> Part<'a> {
    pub(crate) fn read(raw: &'a str) -> Self {
        let what = Object::parse(raw)
            .and_then(|block| What::read(&block))
            .unwrap_or(What::Other);
        Self { raw, what }
    }
}

impl<'a> What<'a> {
    fn read(block: &Object<'a>) -> Option<Self> {
        Some(match &*block.string("type")? {
            "text" => Self::Text(block.string("text")?),
            "tool_use" => Self::Call {
                id: block.string("id")?,
                name: block.string("name").unwrap_or_default(),
                input: block.get("input").unwrap_or("{}"),
            },
            "tool_result" => Self::Result {
                call: block.string("tool_use_id")?,
                is_error: block.is_true("is_error"),
            },
            _ => return None,
        })
    }
}

fn usage(message: &Object<'_>) -> Usage {
    let Some(counts) = message.object("usage") else {
        return Usage::default();
    };
    Usage {
        input: counts.integer("input_tokens"),
        output: counts.integer("output_tokens"),
        cache_read: counts.integer("cache_read_input_tokens"),
        cache_write: counts.integer("cache_creation_input_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_without_being_printed_anew() {
        let text = r#"{"role":"assistant","id":"m","model":"x","usage":{"output_tokens":5},"content":[
            {"type":"thinking","thinking":"","signature":"s"},
            {"type":"tool_use","id":"t","name":"Bash","input":{"n":1.0,"n":1e400}}]}"#;
        let said = Said::read(&Object::parse(text).unwrap());
        assert_eq!(said.usage.output, Some(5));
        let Content::Parts(parts) = &said.content else {
            panic!("parts")
        };
        assert!(matches!(parts[0].what, What::Other));
        let What::Call { input, .. } = &parts[1].what else {
            panic!("a call")
        };
        assert_eq!(*input, r#"{"n":1.0,"n":1e400}"#);
    }
}
