//! The form of an Agent Trace record, RFC 0.1.0, checked by hand: nothing is in a record that the
//! form does not know, and what it knows is as it asks.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use turnkeep::agent_trace::TraceRecord;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    version: String,
    id: String,
    timestamp: String,
    pub vcs: Option<Vcs>,
    tool: Tool,
    pub files: Vec<File>,
    pub metadata: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vcs {
    pub r#type: String,
    pub revision: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tool {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub path: String,
    pub conversations: Vec<Conversation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    pub url: Option<String>,
    pub contributor: Contributor,
    pub ranges: Vec<Range>,
    pub related: Vec<Related>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contributor {
    pub r#type: String,
    pub model_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub start_line: usize,
    pub end_line: usize,
    pub content_hash: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Related {
    pub r#type: String,
    pub url: String,
}

impl Record {
    /// Reads a record as another tool does, and checks it.
    pub fn of(record: &TraceRecord) -> Self {
        Self::read(&serde_json::to_string(record).unwrap())
    }

    pub fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap();
        let mut known = value.clone();
        known.as_object_mut().unwrap().remove("metadata");
        assert!(!holds_null(&known), "the form knows no null: {text}");
        let record: Self = serde_json::from_value(value).unwrap();
        record.check();
        record
    }

    fn check(&self) {
        let numbers: Vec<&str> = self.version.split('.').collect();
        assert_eq!(numbers.len(), 3, "{}", self.version);
        assert!(numbers.iter().all(|number| number.parse::<u32>().is_ok()));
        let id = uuid::Uuid::parse_str(&self.id).unwrap();
        assert_eq!(id.get_version_num(), 4);
        assert_eq!(self.id, id.hyphenated().to_string());
        chrono::DateTime::parse_from_rfc3339(&self.timestamp).unwrap();
        assert!(self.timestamp.ends_with('Z'), "{}", self.timestamp);
        assert!(!self.tool.name.is_empty() && !self.tool.version.is_empty());
        if let Some(vcs) = &self.vcs {
            assert!(["git", "jj", "hg", "svn"].contains(&vcs.r#type.as_str()));
        }
        let mut last = None;
        for file in &self.files {
            assert!(last.is_none_or(|last: &Path| last < Path::new(&file.path)));
            last = Some(Path::new(&file.path));
            file.check();
        }
    }
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.values().any(holds_null),
        _ => false,
    }
}

impl File {
    fn check(&self) {
        let parts = self.path.split('/');
        assert!(parts.clone().all(|part| !["", ".", ".."].contains(&part)));
        assert!(!self.conversations.is_empty(), "{}", self.path);
        for conversation in &self.conversations {
            assert!(!conversation.ranges.is_empty());
            let who = conversation.contributor.r#type.as_str();
            // The form knows `human` and `mixed` too; a store never saw either.
            assert!(["ai", "unknown"].contains(&who), "{who}");
            assert_eq!(conversation.url.is_some(), who == "ai");
            if let Some(model) = &conversation.contributor.model_id {
                assert!(model.chars().count() <= 250 && who == "ai");
            }
            let links = conversation.related.iter().map(|related| &related.url);
            for url in links.chain(&conversation.url) {
                assert!(is_uri(url), "{url}");
            }
            for range in &conversation.ranges {
                assert!(1 <= range.start_line && range.start_line <= range.end_line);
                let hash = range.content_hash.strip_prefix("blake3:").unwrap();
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
            }
        }
        self.writers();
    }

    /// The conversation of each line: every line is in one range, and a range is as long as can be.
    pub fn writers(&self) -> Vec<&Conversation> {
        let mut ranges: Vec<(&Range, usize)> = Vec::new();
        for (number, conversation) in self.conversations.iter().enumerate() {
            ranges.extend(conversation.ranges.iter().map(|range| (range, number)));
            assert!(
                conversation
                    .ranges
                    .is_sorted_by_key(|range| range.start_line)
            );
        }
        let firsts = self
            .conversations
            .iter()
            .map(|told| told.ranges[0].start_line);
        assert!(firsts.is_sorted());
        ranges.sort_by_key(|(range, _)| range.start_line);
        let mut writers = Vec::new();
        let mut before = None;
        for (range, number) in ranges {
            assert_eq!(range.start_line, writers.len() + 1, "{}", self.path);
            assert_ne!(before, Some(number), "{}", self.path);
            before = Some(number);
            writers.resize(range.end_line, &self.conversations[number]);
        }
        writers
    }

    /// Each range has the hash of its lines.
    pub fn assert_holds(&self, content: &[u8]) {
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(self.writers().len(), lines.len(), "{}", self.path);
        for range in self.conversations.iter().flat_map(|told| &told.ranges) {
            let bytes = lines[range.start_line - 1..range.end_line].concat();
            let hash = format!("blake3:{}", blake3::hash(&bytes).to_hex());
            assert_eq!(range.content_hash, hash, "{}", self.path);
        }
    }
}

impl Conversation {
    /// What is related to it of a kind.
    pub fn related(&self, kind: &str) -> Vec<&str> {
        let of_kind = self.related.iter().filter(|related| related.r#type == kind);
        of_kind.map(|related| related.url.as_str()).collect()
    }
}

/// A scheme, a colon, and a path of letters that need no encoding, or are encoded: a URI by RFC 3986,
/// and a URL with an opaque path by the WHATWG's standard.
fn is_uri(text: &str) -> bool {
    let Some(path) = text.strip_prefix("turnkeep:") else {
        return false;
    };
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let mut is_digit = || rest.next().is_some_and(|byte| byte.is_ascii_hexdigit());
        let is_encoded = byte == b'%' && is_digit() && is_digit();
        if !is_plain && !is_encoded {
            return false;
        }
    }
    path.split('/').all(|part| !part.is_empty())
}
