//! Trimming a context: the newest part of it that fits, and never a call without its result.

use super::context::{Context, ContextMessage};
use crate::model::Role;

/// How much of a context is to be kept. Without a limit, all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowOptions {
    messages: Option<usize>,
    tokens: Option<usize>,
}

impl WindowOptions {
    /// All of it.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many messages.
    pub fn max_messages(mut self, messages: usize) -> Self {
        self.messages = Some(messages);
        self
    }

    /// At most about this many tokens, estimated at four bytes of JSON a token.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.tokens = Some(tokens);
        self
    }
}

/// How many bytes of JSON make a token, by rule of thumb.
const BYTES_A_TOKEN: usize = 4;

impl Context {
    /// The newest messages that fit. Every call in them has its result and every result its call,
    /// and they begin with what the user said. Whole turns are kept as long as they fit; of a turn
    /// that alone is larger than the budget, its first message and the newest rounds that fit, at
    /// least one.
    pub fn window(&self, options: WindowOptions) -> Vec<&ContextMessage> {
        let all = &self.messages;
        let fits = |messages: usize, tokens: usize| {
            options.messages.is_none_or(|most| messages <= most)
                && options.tokens.is_none_or(|most| tokens <= most)
        };
        let mut whole = None;
        let mut newest_turn = None;
        let mut tokens = 0;
        for (at, message) in all.iter().enumerate().rev() {
            tokens += tokens_of(message);
            if begins_a_turn(message) {
                newest_turn = newest_turn.or(Some(at));
                if fits(all.len() - at, tokens) {
                    whole = Some(at);
                }
            }
        }
        if let Some(begin) = whole.or(newest_turn.filter(|turn| turn + 1 == all.len())) {
            return all[begin..].iter().collect();
        }
        // A conversation whose every turn was cut off before has no better beginning than its own.
        let Some(first) = newest_turn else {
            return all.iter().collect();
        };
        let mut begin = None;
        let mut tokens = tokens_of(&all[first]);
        for (at, message) in all.iter().enumerate().skip(first + 1).rev() {
            tokens += tokens_of(message);
            if message.role == Role::Assistant
                && (begin.is_none() || fits(all.len() - at + 1, tokens))
            {
                begin = Some(at);
            }
        }
        let rounds = &all[begin.unwrap_or(first + 1)..];
        std::iter::once(&all[first]).chain(rounds).collect()
    }
}

fn tokens_of(message: &ContextMessage) -> usize {
    message.content.get().len().div_ceil(BYTES_A_TOKEN)
}

/// Whether a turn begins here: the user speaks, and answers no call.
fn begins_a_turn(message: &ContextMessage) -> bool {
    message.role == Role::User && !crate::transcript::context::has_result(message.content.get())
}
