//! What one segment of a transcript says: every fact the tables keep, read once.
//!
//! A [`Reading`] owns what it found, so that one thread can read while another stores.

use std::borrow::Cow;

use super::dialect::{Said, Usage, What};
use super::json::Object;
use super::line::{Ending, Fault, Segment, kept_bytes, segments};
use super::listing::Facts;
use super::prompt::{Opens, opens};

/// A segment and what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The record as JSON text.
    pub(crate) entry: Option<String>,
    /// The bytes, where they differ from `entry`.
    pub(crate) raw: Option<Vec<u8>>,
    pub(crate) ending: Ending,
    pub(crate) fault: Option<Fault>,
    /// The record's type, or `malformed`, `partial`, `blank`.
    pub(crate) kind: String,
    /// A system entry's subtype, an attachment's type, or `compact_summary`.
    pub(crate) subtype: Option<String>,
    pub(crate) uuid: Option<String>,
    pub(crate) parent_uuid: Option<String>,
    /// The session the entry names, if it names one.
    pub(crate) session_id: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) is_sidechain: bool,
    /// Written by the harness or a team mate, not by the user or the model.
    pub(crate) is_meta: bool,
    pub(crate) agent: Option<String>,
    pub(crate) response: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) timestamp_ms: Option<i64>,
    pub(crate) calls: Vec<Call>,
    pub(crate) results: Vec<Answer>,
    pub(crate) opens: Option<Opens>,
    /// The id of the turn, as the client's hooks name it too.
    pub(crate) prompt_id: Option<String>,
    /// The session that a client's fork names as its origin in what it copied.
    pub(crate) copied_from: Option<String>,
    /// The client's own move of the head: to this uuid, or (`Some(None)`) before the first message.
    pub(crate) moves_head_to: Option<Option<String>>,
    pub(crate) facts: Facts,
}

/// A tool call in an entry; its input is a slice of the entry, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input_at: usize,
    pub(crate) input_bytes: usize,
}

/// A tool result in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) call: String,
    pub(crate) outcome: Outcome,
}

/// How a call ended, as its result says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Error,
    /// It was not allowed to run.
    Rejected,
    /// It was stopped, or given up as interrupted.
    Interrupted,
    /// The process ended before its result was recorded.
    Unknown,
}

impl Outcome {
    /// The word in the tables, and in an entry of our own.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Rejected => "rejected",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
        }
    }

    /// The outcome that a word names.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [
            Self::Ok,
            Self::Error,
            Self::Rejected,
            Self::Interrupted,
            Self::Unknown,
        ]
        .into_iter()
        .find(|outcome| outcome.as_str() == word)
    }

    /// Reads it from a result: our own word for it, the client's marks, else whether it is an error.
    fn read(entry: &Object<'_>, raw: &str, is_error: bool) -> Self {
        if let Some(outcome) = entry
            .string("toolOutcome")
            .and_then(|word| Self::from_word(&word))
        {
            return outcome;
        }
        match () {
            () if !is_error => Self::Ok,
            () if raw.contains(CLIENT_LOST) => Self::Unknown,
            () if raw.contains(CLIENT_STOPPED) => Self::Interrupted,
            () if entry.get("toolDenialKind").is_some() => Self::Rejected,
            () => Self::Error,
        }
    }
}

/// How the client says that a call's result was lost with its process, and that a call was stopped.
const CLIENT_LOST: &str = "[Tool call interrupted: the session ended";
const CLIENT_STOPPED: &str = "stopped while running";

impl Reading {
    /// Reads one line of a file, without its line feed.
    pub(crate) fn of_line(line: &[u8], ending: Ending) -> Vec<Self> {
        segments(line, ending).into_iter().map(Self::of).collect()
    }

    /// Reads one record given as JSON text; `None` if the text is not one.
    pub(crate) fn of_entry(text: &str) -> Option<Self> {
        let mut readings = Self::of_line(text.as_bytes(), Ending::Lf);
        let reading = readings.pop()?;
        let alone = readings.is_empty() && reading.fault.is_none() && !text.contains('\n');
        (alone && reading.entry.is_some()).then_some(Self {
            raw: None,
            ..reading
        })
    }

    fn of(segment: Segment<'_>) -> Self {
        let read = |entry| match &segment.object {
            Some(object) => facts(entry, object),
            None => Object::parse(entry).map_or_else(Self::default, |object| facts(entry, &object)),
        };
        let mut reading = segment.entry.as_deref().map(read).unwrap_or_else(|| Self {
            kind: match segment.fault {
                Some(Fault::Torn) => "partial",
                Some(_) => "malformed",
                None => "blank",
            }
            .to_owned(),
            ..Self::default()
        });
        let same = segment
            .entry
            .as_deref()
            .is_some_and(|entry| entry.as_bytes() == segment.bytes);
        reading.raw = (!same).then(|| segment.bytes.to_vec());
        reading.entry = segment.entry.map(Into::into);
        reading.ending = segment.ending;
        reading.fault = segment.fault;
        reading
    }

    /// The bytes of the segment as they were in its file.
    pub(crate) fn bytes(&self) -> &[u8] {
        kept_bytes(self.raw.as_deref(), self.entry.as_deref())
    }

    /// Whether the entry has a place in the conversation of its transcript: a message with a uuid,
    /// and in the main transcript not a sub-agent's.
    pub(crate) fn is_main_line(&self, subpath: &str) -> bool {
        self.uuid.is_some()
            && matches!(
                self.kind.as_str(),
                "user" | "assistant" | "system" | "attachment"
            )
            && (!self.is_sidechain || !subpath.is_empty())
    }

    /// Whether the entry moves the head to itself wherever it hangs: what the user or the model
    /// said. Other messages move it only if they hang from it.
    pub(crate) fn takes_the_head(&self) -> bool {
        matches!(self.kind.as_str(), "user" | "assistant") && !self.is_meta
    }

    /// Whether the entry begins a turn, if it has a place in the main line.
    pub(crate) fn opens_turn(&self) -> bool {
        self.opens.is_some_and(|opens| opens != Opens::Nothing)
    }
}

/// Reads the facts of a record: its text and its fields.
fn facts(text: &str, entry: &Object<'_>) -> Reading {
    let named = |name: &str| {
        entry
            .string(name)
            .filter(|value| !value.is_empty())
            .map(String::from)
    };
    let kind = entry.string("type").map(String::from).unwrap_or_default();
    let message = entry.object("message");
    let said = message.as_ref().map(Said::read).unwrap_or_default();
    let is_meta = entry.is_true("isMeta") || named("teamName").is_some();
    let is_summary = entry.is_true("isCompactSummary");
    let (calls, results) = blocks(text, entry, &said);
    let opens = (kind == "user" && !is_meta && !is_summary).then(|| opens(&said, notified(entry)));
    Reading {
        subtype: subtype(&kind, entry, is_summary),
        uuid: named("uuid"),
        parent_uuid: named("parentUuid"),
        session_id: named("sessionId"),
        is_sidechain: entry.is_true("isSidechain"),
        is_meta,
        agent: named("agentId"),
        timestamp_ms: entry.string("timestamp").and_then(|time| epoch_ms(&time)),
        facts: Facts::read(&kind, entry, &said),
        role: said.role.map(String::from),
        response: said.response.map(String::from),
        model: said.model.map(String::from),
        usage: said.usage,
        calls,
        results,
        opens,
        prompt_id: opens.and_then(|_| entry.string("promptId").map(String::from)),
        copied_from: copied_from(entry),
        moves_head_to: moved_head(&kind, entry),
        kind,
        ..Reading::default()
    }
}

fn subtype(kind: &str, entry: &Object<'_>, is_summary: bool) -> Option<String> {
    match kind {
        "system" => entry.string("subtype").map(String::from),
        "attachment" => entry.object("attachment")?.string("type").map(String::from),
        "user" if is_summary => Some("compact_summary".to_owned()),
        _ => None,
    }
}

/// The origin that a copied entry names: `forkedFrom` in the SDK's forks, `requestSessionId` in the
/// client's own.
fn copied_from(entry: &Object<'_>) -> Option<String> {
    let origin = entry
        .object("forkedFrom")
        .and_then(|origin| origin.string("sessionId"));
    let named = origin.or_else(|| entry.string("requestSessionId"))?;
    (entry.string("sessionId").as_ref() != Some(&named)).then(|| named.into_owned())
}

/// The message of its origin that an entry was copied from, where the copy says so.
pub(crate) fn copied_message(entry: &str) -> Option<String> {
    let entry = Object::parse(entry)?;
    let origin = entry.object("forkedFrom")?;
    origin.string("messageUuid").map(Cow::into_owned)
}

/// A `last-prompt` entry that the client wrote because the user moved the head.
fn moved_head(kind: &str, entry: &Object<'_>) -> Option<Option<String>> {
    let moved = kind == "last-prompt" && entry.is_true("explicit");
    moved.then(|| {
        entry
            .string("leafUuid")
            .filter(|leaf| !leaf.is_empty())
            .map(String::from)
    })
}

fn notified(entry: &Object<'_>) -> bool {
    entry
        .object("origin")
        .and_then(|origin| origin.string("kind"))
        .as_deref()
        == Some("task-notification")
}

fn blocks(text: &str, entry: &Object<'_>, said: &Said<'_>) -> (Vec<Call>, Vec<Answer>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for part in said.parts() {
        match &part.what {
            What::Call { id, name, input } => calls.push(Call {
                id: id.to_string(),
                name: name.to_string(),
                // The input is a slice of `text`; of a default (no input) the length is 0.
                input_at: (input.as_ptr() as usize).saturating_sub(text.as_ptr() as usize),
                input_bytes: if part.raw.contains(input) {
                    input.len()
                } else {
                    0
                },
            }),
            What::Result { call, is_error } => {
                results.push(Answer {
                    call: call.to_string(),
                    outcome: Outcome::read(entry, part.raw, *is_error),
                });
            }
            What::Text(_) | What::Other => {}
        }
    }
    (calls, results)
}

/// Reads an ISO 8601 time as epoch milliseconds.
pub(crate) fn epoch_ms(time: &str) -> Option<i64> {
    chrono::DateTime::parse_from_rfc3339(time)
        .ok()
        .map(|time| time.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_its_input_by_place() {
        let text = r#"{"type":"assistant","uuid":"u","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"a": 1.0}}]}}"#;
        let reading = Reading::of_entry(text).unwrap();
        let call = &reading.calls[0];
        assert_eq!(
            &text[call.input_at..call.input_at + call.input_bytes],
            r#"{"a": 1.0}"#
        );
        assert_eq!(reading.bytes(), text.as_bytes());
        assert_eq!(reading.raw, None);
        assert!(reading.is_main_line(""));
    }

    #[test]
    fn an_entry_is_one_record_on_one_line() {
        assert!(Reading::of_entry("{\"type\":\"x\"}").is_some());
        assert!(Reading::of_entry("{\"type\":\n\"x\"}").is_none());
        assert!(Reading::of_entry("[1]").is_none());
        assert!(Reading::of_entry("{\"a\":1} {\"a\":1}").is_none());
    }

    #[test]
    fn a_torn_line_is_partial_only_at_the_end() {
        assert_eq!(
            Reading::of_line(b"{\"type\"", Ending::Eof)[0].kind,
            "partial"
        );
        assert_eq!(
            Reading::of_line(b"{\"type\"", Ending::Lf)[0].kind,
            "malformed"
        );
        assert_eq!(Reading::of_line(b"", Ending::Lf)[0].kind, "blank");
    }
}
