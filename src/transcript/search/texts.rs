//! The texts of an entry: what the user said, what the model said, what went into its tools and came
//! out of them, and titles. Not what the model thought, and not what the harness wrote.

use std::borrow::Cow;

use crate::transcript::dialect::{Said, What};
use crate::transcript::json::{Object, array, string};

/// Where a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Field {
    User,
    Assistant,
    Input,
    Output,
    Title,
}

/// A text of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    pub(crate) field: Field,
    /// The tool-use id, for what went into a tool or came out.
    pub(crate) call: Option<Cow<'a, str>>,
    /// The tool, for what went into it.
    pub(crate) tool: Option<Cow<'a, str>>,
    pub(crate) text: Cow<'a, str>,
    /// The paths that a tool's input names.
    pub(crate) paths: Vec<Cow<'a, str>>,
}

/// The texts of an entry, in order.
pub(crate) fn texts<'a>(kind: &str, entry: &'a str) -> Vec<Text<'a>> {
    let Some(object) = Object::parse(entry) else {
        return Vec::new();
    };
    let plain = |field, text| Text {
        field,
        call: None,
        tool: None,
        text,
        paths: Vec::new(),
    };
    let named = |name: &str| {
        let text = object.string(name).filter(|text| !text.trim().is_empty());
        text.map(|text| plain(Field::Title, text))
            .into_iter()
            .collect()
    };
    match kind {
        "user" if object.is_true("isMeta") => Vec::new(),
        "user" | "assistant" => match object.get("message").and_then(Object::parse) {
            Some(message) => said(kind, &message),
            None => Vec::new(),
        },
        "attachment" => queued(&object)
            .into_iter()
            .map(|text| plain(Field::User, text))
            .collect(),
        "custom-title" => named("customTitle"),
        "ai-title" => named("aiTitle"),
        "summary" => named("summary"),
        _ => Vec::new(),
    }
}

fn said<'a>(kind: &str, message: &Object<'a>) -> Vec<Text<'a>> {
    let field = if kind == "user" {
        Field::User
    } else {
        Field::Assistant
    };
    let said = Said::read(message);
    let plain = |text| Text {
        field,
        call: None,
        tool: None,
        text,
        paths: Vec::new(),
    };
    if said.parts().is_empty() {
        return said.texts().into_iter().map(plain).collect();
    }
    let mut found = Vec::new();
    for part in said.parts() {
        match &part.what {
            What::Text(text) => found.push(plain(text.clone())),
            What::Call { id, name, input } => {
                let (text, paths) = input_text(name, input);
                found.push(Text {
                    field: Field::Input,
                    call: Some(id.clone()),
                    tool: Some(name.clone()),
                    text: Cow::Owned(text),
                    paths,
                });
            }
            What::Result { call, .. } => {
                let content = Object::parse(part.raw).and_then(|block| block.get("content"));
                if let Some(text) = content.and_then(output_text) {
                    found.push(Text {
                        field: Field::Output,
                        call: Some(call.clone()),
                        tool: None,
                        text,
                        paths: Vec::new(),
                    });
                }
            }
            What::Other => {}
        }
    }
    found
}

/// A prompt that was taken in while a turn ran.
fn queued<'a>(entry: &Object<'a>) -> Vec<Cow<'a, str>> {
    let Some(attachment) = entry.object("attachment") else {
        return Vec::new();
    };
    if attachment.string("type").as_deref() != Some("queued_command") {
        return Vec::new();
    }
    let Some(prompt) = attachment.get("prompt") else {
        return Vec::new();
    };
    block_texts(prompt)
}

/// A string, or the texts of an array of blocks.
fn block_texts(content: &str) -> Vec<Cow<'_, str>> {
    if let Some(text) = string(content) {
        return vec![text];
    }
    let blocks = array(content).unwrap_or_default();
    blocks
        .into_iter()
        .filter_map(|block| {
            let block = Object::parse(block)?;
            block.get("text").and_then(string)
        })
        .collect()
}

fn output_text(content: &str) -> Option<Cow<'_, str>> {
    let mut texts = block_texts(content);
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(Cow::Owned(texts.join("\n"))),
    }
}

/// The text of a tool's input: the tool's name, and all values in it, a line each; and the paths
/// among them. Keys are no text: every call of a tool has the same.
fn input_text<'a>(name: &str, input: &'a str) -> (String, Vec<Cow<'a, str>>) {
    let mut text = name.to_owned();
    each_value(input, |value| {
        text.push('\n');
        text.push_str(&value);
    });
    (text, paths(input))
}

/// The paths that a tool's input names: strings under keys that speak of a path or a file.
pub(crate) fn paths(input: &str) -> Vec<Cow<'_, str>> {
    let Some(object) = Object::parse(input) else {
        return Vec::new();
    };
    let speaks = |key: &str| {
        let key = key.to_ascii_lowercase();
        let ends = ["path", "paths", "file", "files", "directory", "dir"];
        ends.iter().any(|end| key.ends_with(end))
    };
    let mut found = Vec::new();
    for (key, value) in object.fields() {
        if !speaks(key) {
            continue;
        }
        match string(value) {
            Some(path) => found.push(path),
            None => found.extend(
                array(value)
                    .unwrap_or_default()
                    .into_iter()
                    .filter_map(string),
            ),
        }
    }
    found
}

/// Whether a path is the one that is asked for, ends so, or begins so, in whole names. What is asked
/// for from the root on is no end, and what is not is the beginning only of a path that is not either.
pub(crate) fn names_path(path: &str, asked: &str) -> bool {
    fn names(path: &str) -> Vec<&str> {
        let names = path.split(['/', '\\']);
        names.filter(|name| !matches!(*name, "" | ".")).collect()
    }
    let (there, wanted) = (names(path), names(asked));
    match (path.starts_with('/'), asked.starts_with('/')) {
        (true, true) => there.starts_with(&wanted),
        (false, true) => false,
        (true, false) => there.ends_with(&wanted),
        (false, false) => there.ends_with(&wanted) || there.starts_with(&wanted),
    }
}

/// Calls `each` with every string and number in a JSON value, keys left out. Goes over the text once
/// and does not recurse, however deeply the value is nested.
fn each_value<'a>(json: &'a str, mut each: impl FnMut(Cow<'a, str>)) {
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begun = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                let rest = json.get(at..).unwrap_or_default();
                let is_key = rest.trim_start().starts_with(':');
                if !is_key && let Some(text) = json.get(begun..at).and_then(string) {
                    each(text);
                }
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| {
                    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
                };
                while at < bytes.len() && is_part(&bytes[at]) {
                    at += 1;
                }
                each(Cow::Borrowed(&json[begun..at]));
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: &str, entry: &str) -> Vec<(Field, String)> {
        let texts = texts(kind, entry);
        let shown = texts
            .into_iter()
            .map(|text| (text.field, text.text.into_owned()));
        shown.collect()
    }

    #[test]
    fn texts_are_told_by_who_said_them() {
        let entry = r#"{"type":"assistant","message":{"role":"assistant","content":[
            {"type":"thinking","thinking":"secret"},{"type":"text","text":"I write \"it\"."},
            {"type":"tool_use","id":"t","name":"Edit","input":{"file_path":"/srv/a.rs","n":-1.5e3,"deep":[{"k":["x\ny"]}],"ok":true}}]}}"#;
        assert_eq!(
            shown("assistant", entry),
            [
                (Field::Assistant, "I write \"it\".".to_owned()),
                (Field::Input, "Edit\n/srv/a.rs\n-1.5e3\nx\ny".to_owned()),
            ]
        );
        assert_eq!(texts("assistant", entry)[1].paths, ["/srv/a.rs"]);
        let result = r#"{"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"text","text":"b"}]}]}}"#;
        assert_eq!(shown("user", result), [(Field::Output, "a\nb".to_owned())]);
        let queued = r#"{"attachment":{"type":"queued_command","prompt":"and this"}}"#;
        assert_eq!(
            shown("attachment", queued),
            [(Field::User, "and this".to_owned())]
        );
        assert_eq!(
            shown("custom-title", r#"{"customTitle":"order desk"}"#),
            [(Field::Title, "order desk".to_owned())]
        );
    }

    #[test]
    fn what_the_harness_wrote_is_no_text() {
        let meta = r#"{"isMeta":true,"message":{"role":"user","content":"Caveat"}}"#;
        assert!(shown("user", meta).is_empty());
        assert!(shown("system", r#"{"content":"x"}"#).is_empty());
        assert!(shown("user", "not json").is_empty());
    }

    #[test]
    fn a_path_is_named_by_whole_names_at_its_beginning_or_end() {
        for (path, asked) in [
            ("/srv/app/src/lib.rs", "lib.rs"),
            ("/srv/app/src/lib.rs", "src/lib.rs"),
            ("/srv/app/src/lib.rs", "./src//lib.rs"),
            ("/srv/app/src/lib.rs", "/srv/app"),
            ("/srv/app/src/lib.rs", "/srv/app/"),
            ("/srv/app/src/lib.rs", "/srv/app/src/lib.rs"),
            ("src/lib.rs", "src"),
            ("C:\\app\\lib.rs", "C:\\app"),
            ("C:\\app\\lib.rs", "app/lib.rs"),
        ] {
            assert!(names_path(path, asked), "{path} {asked}");
        }
        for (path, asked) in [
            ("/d/a b.txt", "b.txt"),
            ("/d/x.txt", "txt"),
            ("/d/notes.txt.bak", "notes.txt"),
            ("/srv/app/src/lib.rs", "app/src"),
            ("/srv/app/src/lib.rs", "srv/app"),
            ("/srv/app/src/lib.rs", "/app"),
            ("/srv/app/src/lib.rs", "/srv/ap"),
            ("/srv/app/src/lib.rs", "Lib.rs"),
        ] {
            assert!(!names_path(path, asked), "{path} {asked}");
        }
    }

    #[test]
    fn a_value_nested_without_end_is_read() {
        let deep = format!("{}\"x\"{}", "[".repeat(100_000), "]".repeat(100_000));
        let mut found = Vec::new();
        each_value(&deep, |value| found.push(value.into_owned()));
        each_value(r#"{"a":"\ud800"}"#, |value| found.push(value.into_owned()));
        each_value("\"half", |value| found.push(value.into_owned()));
        assert_eq!(found, ["x", "\u{fffd}"]);
    }
}
