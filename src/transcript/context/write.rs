//! Writing the messages of a context: what one role says until the other speaks becomes one.

use super::{ModelMessage, NO_BEGINNING, Piece, Role};
use crate::transcript::dialect::Part;
use crate::transcript::json::{quote, replace_lone_surrogates};

/// The content of a message in the making.
#[derive(Default)]
struct Bucket {
    blocks: Vec<String>,
    /// The content as it was, while it is one plain string.
    plain: Option<String>,
}

impl Bucket {
    fn take_in(&mut self, pieces: &[Piece<'_>]) {
        let alone = self.blocks.is_empty() && pieces.len() == 1;
        self.plain = None;
        for piece in pieces {
            match piece {
                Piece::Plain(raw) => {
                    let shown = replace_lone_surrogates(raw).into_owned();
                    self.blocks
                        .push(format!(r#"{{"type":"text","text":{shown}}}"#));
                    self.plain = alone.then_some(shown);
                }
                Piece::Part(Part { raw, .. }) => {
                    self.blocks.push(replace_lone_surrogates(raw).into_owned());
                }
            }
        }
    }

    /// The content behind `first`, as JSON text; `None` if there is none.
    fn content(&mut self, first: &mut Vec<String>) -> Option<String> {
        let plain = self.plain.take();
        if first.is_empty() && plain.is_some() {
            self.blocks.clear();
            return plain;
        }
        first.append(&mut self.blocks);
        (!first.is_empty()).then(|| format!("[{}]", std::mem::take(first).join(",")))
    }
}

/// Collects what one role says until the other speaks.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) messages: Vec<ModelMessage>,
    assistant: Bucket,
    results: Vec<String>,
    user: Bucket,
}

impl Writer {
    pub(super) fn speak(&mut self, role: Role, pieces: &[Piece<'_>]) {
        match role {
            Role::User => self.user.take_in(pieces),
            Role::Assistant => {
                if !self.user.blocks.is_empty() || !self.results.is_empty() {
                    self.flush();
                }
                self.assistant.take_in(pieces);
            }
        }
    }

    pub(super) fn answer(&mut self, result: String) {
        self.results.push(result);
    }

    pub(super) fn flush(&mut self) {
        if let Some(content) = self.assistant.content(&mut Vec::new()) {
            if self.messages.is_empty() {
                self.messages.push(ModelMessage {
                    role: "user",
                    content: quote(NO_BEGINNING),
                });
            }
            self.messages.push(ModelMessage {
                role: "assistant",
                content,
            });
        }
        if let Some(content) = self.user.content(&mut self.results) {
            self.messages.push(ModelMessage {
                role: "user",
                content,
            });
        }
    }
}
