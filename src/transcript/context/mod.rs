//! The context: a conversation made valid, as a model is to be sent it.
//!
//! A view. What is stored never changes, and what is shown is made of slices of it, so that signed
//! blocks, numbers and the order of keys stay as they were. The rules:
//!
//! * the entries of one response become one message, its blocks in the order they were stored;
//! * messages of one role that follow each other become one, so that roles alternate;
//! * each result stands directly behind its call, first in one user message; a call without one
//!   gets an error result that says so; a result without a call is left out and reported;
//! * the user begins: an answer that nothing precedes gets a line that says so;
//! * only the model calls: a call in a user message is left out;
//! * lines that only report an API failure, and empty texts, are left out;
//! * a prompt that was taken in while a turn ran (a `queued_command` attachment) is a user message.

mod write;

use std::collections::{HashMap, HashSet};

use self::write::Writer;
use super::dialect::{Content, Part, Said, What};
use super::json::{Object, quote, replace_lone_surrogates};

/// What stands in for a result that was never recorded.
pub(crate) const INTERRUPTED: &str = "This call was interrupted before a result was recorded. Its outcome is unknown: \
     it may have taken effect. Check before relying on it or running it again.";

/// What the user is made to say where a conversation begins with an answer: a model takes none that
/// does.
pub(crate) const NO_BEGINNING: &str = "What was said before this answer is not available.";

/// One entry of the conversation, by id and text, in conversation order.
pub(crate) struct Spoken<'a> {
    pub(crate) id: i64,
    pub(crate) entry: &'a str,
}

/// A message for the model; `content` is JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelMessage {
    pub(crate) role: &'static str,
    pub(crate) content: String,
}

/// A context and what had to be done to make it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) messages: Vec<ModelMessage>,
    /// Calls that had no result, in order.
    pub(crate) open_calls: Vec<String>,
    /// Results that had no call, or whose call had been answered, by call id.
    pub(crate) orphan_results: Vec<String>,
    /// Lines left out because they only report an API failure.
    pub(crate) api_errors: usize,
}

/// What becomes of calls at the end of a conversation that have no result yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenEnd {
    /// They are answered as interrupted: a model can be sent the context.
    Answered,
    /// They are left open: the context is a save point, and the app knows of them.
    Left,
}

/// Makes the context of a conversation.
pub(crate) fn make(conversation: &[Spoken<'_>], end: OpenEnd) -> Made {
    let mut made = Made::default();
    let spoken = speeches(conversation, &mut made);
    let joined = join_responses(spoken);
    let (turns, mut answers) = take_results(joined, &mut made);
    write(&turns, &mut answers, end, &mut made);
    made
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// A message of one role; a plain string stays one as long as nothing joins it.
struct Speech<'a> {
    id: i64,
    role: Role,
    response: Option<String>,
    pieces: Vec<Piece<'a>>,
}

enum Piece<'a> {
    Plain(&'a str),
    Part(Part<'a>),
}

fn speeches<'a>(conversation: &[Spoken<'a>], made: &mut Made) -> Vec<Speech<'a>> {
    let mut speeches = Vec::with_capacity(conversation.len());
    for spoken in conversation {
        let Some(entry) = Object::parse(spoken.entry) else {
            continue;
        };
        if entry.is_true("isApiErrorMessage") {
            made.api_errors += 1;
            continue;
        }
        let (role, response, content) = match entry.string("type").as_deref() {
            Some("assistant") => {
                let said = entry.object("message").map(|message| Said::read(&message));
                let said = said.unwrap_or_default();
                (
                    Role::Assistant,
                    said.response.map(String::from),
                    said.content,
                )
            }
            Some("user") => {
                let said = entry.object("message").map(|message| Said::read(&message));
                (Role::User, None, said.unwrap_or_default().content)
            }
            Some("attachment") => (Role::User, None, queued_prompt(&entry)),
            _ => continue,
        };
        let pieces: Vec<Piece<'a>> = match content {
            Content::None => continue,
            Content::Plain(raw) => vec![Piece::Plain(raw)],
            Content::Parts(parts) => parts.into_iter().map(Piece::Part).collect(),
        };
        let pieces: Vec<Piece<'a>> = pieces
            .into_iter()
            .filter(|piece| {
                says_something(piece) && (role == Role::Assistant || !calls_tool(piece))
            })
            .collect();
        if !pieces.is_empty() {
            speeches.push(Speech {
                id: spoken.id,
                role,
                response,
                pieces,
            });
        }
    }
    speeches
}

fn queued_prompt<'a>(entry: &Object<'a>) -> Content<'a> {
    let Some(attachment) = entry.object("attachment") else {
        return Content::None;
    };
    if attachment.string("type").as_deref() != Some("queued_command") {
        return Content::None;
    }
    let Some(prompt) = attachment.get("prompt") else {
        return Content::None;
    };
    Content::read(prompt)
}

fn says_something(piece: &Piece<'_>) -> bool {
    match piece {
        Piece::Plain(raw) => raw.trim() != "\"\"",
        Piece::Part(Part {
            what: What::Text(text),
            ..
        }) => !text.is_empty(),
        Piece::Part(_) => true,
    }
}

/// Whether a piece is a call, which only the model makes.
fn calls_tool(piece: &Piece<'_>) -> bool {
    matches!(
        piece,
        Piece::Part(Part {
            what: What::Call { .. },
            ..
        })
    )
}

/// Joins the entries of one response where its first entry stands, in the order they were stored.
fn join_responses(speeches: Vec<Speech<'_>>) -> Vec<Speech<'_>> {
    let mut joined: Vec<Speech<'_>> = Vec::with_capacity(speeches.len());
    let mut place: HashMap<String, usize> = HashMap::new();
    let mut parts: HashMap<usize, Vec<(i64, Vec<Piece<'_>>)>> = HashMap::new();
    for mut speech in speeches {
        let Some(response) = speech.response.clone() else {
            joined.push(speech);
            continue;
        };
        let at = *place.entry(response).or_insert(joined.len());
        parts
            .entry(at)
            .or_default()
            .push((speech.id, std::mem::take(&mut speech.pieces)));
        if at == joined.len() {
            joined.push(speech);
        }
    }
    for (at, mut entries) in parts {
        entries.sort_by_key(|(id, _)| *id);
        joined[at].pieces = entries.into_iter().flat_map(|(_, pieces)| pieces).collect();
    }
    joined
}

/// Takes the results out of the user messages, so that each can be put behind its call: by the
/// place of the message that calls and the id of the call.
fn take_results<'a>(
    speeches: Vec<Speech<'a>>,
    made: &mut Made,
) -> (Vec<Speech<'a>>, HashMap<(usize, String), &'a str>) {
    let mut callers: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, speech) in speeches.iter().enumerate() {
        for call in calls(speech) {
            callers.entry(call.to_owned()).or_default().push(at);
        }
    }
    let mut answers = HashMap::new();
    let mut turns = Vec::with_capacity(speeches.len());
    for (at, mut speech) in speeches.into_iter().enumerate() {
        let mut kept = Vec::with_capacity(speech.pieces.len());
        for piece in speech.pieces {
            let Piece::Part(Part {
                raw,
                what: What::Result { call, .. },
            }) = &piece
            else {
                kept.push(piece);
                continue;
            };
            // A gateway may use an id again: a result answers the newest call before it.
            let caller = callers
                .get(&**call)
                .and_then(|at_calls| at_calls.iter().rev().find(|caller| **caller < at));
            let home = caller.map(|caller| (*caller, call.to_string()));
            match home {
                Some(home) if !answers.contains_key(&home) => {
                    answers.insert(home, *raw);
                }
                _ => made.orphan_results.push(call.to_string()),
            }
        }
        speech.pieces = kept;
        turns.push(speech);
    }
    (turns, answers)
}

fn calls<'s>(speech: &'s Speech<'_>) -> impl Iterator<Item = &'s str> {
    speech.pieces.iter().filter_map(|piece| match piece {
        Piece::Part(Part {
            what: What::Call { id, .. },
            ..
        }) => Some(&**id),
        _ => None,
    })
}

/// Writes the messages: same roles joined, results behind their calls.
fn write<'a>(
    turns: &[Speech<'a>],
    answers: &mut HashMap<(usize, String), &'a str>,
    end: OpenEnd,
    made: &mut Made,
) {
    let last = turns.iter().rposition(|speech| !speech.pieces.is_empty());
    let left_open = last.filter(|_| end == OpenEnd::Left);
    let mut writer = Writer::default();
    for (at, speech) in turns.iter().enumerate() {
        if speech.role == Role::Assistant || !speech.pieces.is_empty() {
            writer.speak(speech.role, &speech.pieces);
        }
        let mut answered = HashSet::new();
        for call in calls(speech).filter(|call| answered.insert(*call)) {
            match answers.remove(&(at, call.to_owned())) {
                Some(raw) => writer.answer(replace_lone_surrogates(raw).into_owned()),
                None => {
                    made.open_calls.push(call.to_owned());
                    if left_open != Some(at) {
                        writer.answer(interrupted(call));
                    }
                }
            }
        }
    }
    writer.flush();
    made.messages = writer.messages;
}

/// Whether a message's content, as JSON text, holds a tool result.
pub(crate) fn has_result(content: &str) -> bool {
    let Content::Parts(parts) = Content::read(content) else {
        return false;
    };
    parts
        .iter()
        .any(|part| matches!(part.what, What::Result { .. }))
}

fn interrupted(call: &str) -> String {
    format!(
        r#"{{"type":"tool_result","tool_use_id":{},"content":{},"is_error":true}}"#,
        quote(call),
        quote(INTERRUPTED)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(entries: &[&str]) -> Made {
        let spoken: Vec<Spoken<'_>> = entries
            .iter()
            .zip(1..)
            .map(|(entry, id)| Spoken { id, entry })
            .collect();
        make(&spoken, OpenEnd::Answered)
    }

    fn shown(made: &Made) -> Vec<String> {
        made.messages
            .iter()
            .map(|message| format!("{} {}", message.role, message.content))
            .collect()
    }

    const PROMPT: &str = r#"{"type":"user","message":{"role":"user","content":"go"}}"#;
    const CALLS_A: &str = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"a","name":"X","input":{"n": 1.0}}]}}"#;
    const CALLS_B: &str = r#"{"type":"assistant","message":{"id":"m","content":[{"type":"tool_use","id":"b","name":"X","input":{}}]}}"#;
    const RESULT_A: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":"A"}]}}"#;
    const RESULT_B: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"b","content":"B"}]}}"#;

    #[test]
    fn blocks_of_one_response_are_joined_and_results_follow_their_calls() {
        let whole = made(&[PROMPT, CALLS_A, RESULT_A, CALLS_B, RESULT_B, PROMPT]);
        assert_eq!(
            shown(&whole),
            [
                r#"user "go""#,
                r#"assistant [{"type":"tool_use","id":"a","name":"X","input":{"n": 1.0}},{"type":"tool_use","id":"b","name":"X","input":{}}]"#,
                r#"user [{"type":"tool_result","tool_use_id":"a","content":"A"},{"type":"tool_result","tool_use_id":"b","content":"B"},{"type":"text","text":"go"}]"#,
            ]
        );
        assert!(whole.open_calls.is_empty() && whole.orphan_results.is_empty());
    }

    #[test]
    fn an_open_call_is_answered_once_and_an_orphan_result_is_left_out() {
        let open = made(&[PROMPT, CALLS_A, PROMPT, RESULT_B]);
        assert_eq!(open.open_calls, ["a"]);
        assert_eq!(open.orphan_results, ["b"]);
        assert_eq!(open.messages.len(), 3);
        assert!(
            open.messages[2]
                .content
                .starts_with(r#"[{"type":"tool_result","tool_use_id":"a""#)
        );
        assert!(
            open.messages[2]
                .content
                .ends_with(r#"{"type":"text","text":"go"}]"#)
        );
    }

    #[test]
    fn a_late_result_moves_up_and_a_second_one_is_left_out() {
        let late = made(&[PROMPT, CALLS_A, PROMPT, RESULT_A, RESULT_A]);
        assert_eq!(late.orphan_results, ["a"]);
        assert!(
            late.messages[2]
                .content
                .starts_with(r#"[{"type":"tool_result","tool_use_id":"a","content":"A"}"#)
        );
    }

    #[test]
    fn the_user_begins_and_only_the_model_calls() {
        let user_calls = CALLS_A.replace("assistant", "user");
        let begins = made(&[&user_calls, CALLS_B, RESULT_B]);
        assert_eq!(begins.messages[0].content, quote(NO_BEGINNING));
        assert_eq!(begins.messages.len(), 3);
        assert!(begins.open_calls.is_empty());
    }

    #[test]
    fn an_id_used_again_is_answered_by_the_result_behind_it() {
        let other = CALLS_A.replace(r#""m""#, r#""n""#);
        let again = made(&[PROMPT, CALLS_A, RESULT_A, PROMPT, &other]);
        assert_eq!(again.open_calls, ["a"]);
        assert_eq!(again.messages.len(), 5);
    }
}
