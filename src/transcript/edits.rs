//! What the client's editing tools did to a file, as far as a transcript tells.
//!
//! In the main transcript a result holds the file as it was (`toolUseResult.originalFile`). In a
//! sub-agent's it does not: there the content is followed from what the agent read and wrote, since
//! the client lets it edit only what it has read. What cannot be followed is said to be unknown and
//! never guessed; whoever goes back to it compares with what is on disk.

use std::borrow::Cow;
use std::collections::HashMap;

use super::json::{Object, array, string};

/// The tools that edit the file which their input names.
pub(crate) const EDITORS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// The tool that shows a file.
pub(crate) const READER: &str = "Read";

/// A file of so many lines, or with so long a line, is shown in part.
const SHOWN: usize = 2000;

/// How the client answers when it has shown the same before.
const UNCHANGED: &str = "File unchanged";

/// What a file was before an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Was {
    Absent,
    Content(String),
    Unknown,
}

/// What an edit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) before: Was,
    /// What it left, if that is known.
    pub(crate) after: Option<String>,
}

impl Edit {
    /// Reads it from the entry that holds a tool's result, if that tells.
    pub(crate) fn told(entry: &str) -> Option<Self> {
        let result = Object::parse(entry)?.object("toolUseResult")?;
        let (before, after) = ["originalFile", "original_file"]
            .iter()
            .find_map(|name| Some((*name, result.get(name)?)))
            .map(|(_, value)| (string(value), result_after(&result)))?;
        let creates = result.string("type").as_deref() == Some("create");
        let after = match (after, &before) {
            // The user changed the proposal: what was written is not what the tool was given.
            _ if result.is_true("userModified") => None,
            (Some(after), _) => Some(after),
            (None, Some(before)) => change(before, &result),
            (None, None) => None,
        };
        let before = match before {
            Some(before) => Was::Content(before.into_owned()),
            None if creates => Was::Absent,
            None => Was::Unknown,
        };
        Some(Self { before, after })
    }
}

/// The whole content that a result says was left.
fn result_after(result: &Object<'_>) -> Option<String> {
    let whole = ["content", "updated_file"].into_iter();
    whole
        .filter_map(|name| result.string(name))
        .next()
        .map(String::from)
}

/// Applies what an input, or a result, says was replaced.
fn change(content: &str, edit: &Object<'_>) -> Option<String> {
    if let Some(edits) = edit.get("edits") {
        let mut content = content.to_owned();
        for edit in array(edits)? {
            content = change(&content, &Object::parse(edit)?)?;
        }
        return Some(content);
    }
    let either = |names: [&str; 2]| names.into_iter().find_map(|name| edit.string(name));
    let old = either(["old_string", "oldString"])?;
    let new = either(["new_string", "newString"])?;
    let all = edit.is_true("replace_all") || edit.is_true("replaceAll");
    replace(content, &old, &new, all)
}

/// Replaces text as the client does: with a text that is taken out goes the end of its line.
fn replace(content: &str, old: &str, new: &str, all: bool) -> Option<String> {
    if old.is_empty() {
        return content.is_empty().then(|| new.to_owned());
    }
    let with_end = format!("{old}\n");
    let old = if new.is_empty() && !old.ends_with('\n') && content.contains(&with_end) {
        &with_end
    } else {
        old
    };
    match content.contains(old) {
        true if all => Some(content.replace(old, new)),
        true => Some(content.replacen(old, new, 1)),
        false => None,
    }
}

/// The files that an agent has seen whole, by the path it names them by.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<String, String>);

impl Seen {
    /// Follows a call that succeeded. `result` is what the tool answered.
    pub(crate) fn follow(&mut self, tool: &str, input: &str, result: &str) -> Option<Edit> {
        let input = Object::parse(input)?;
        let mut names = ["file_path", "notebook_path"].into_iter();
        let path = names.find_map(|name| input.string(name))?.into_owned();
        if tool == READER {
            let is_part = |name: &&str| input.get(name).is_some_and(|value| value != "null");
            let whole = !["offset", "limit", "pages"].iter().any(is_part);
            match shown(result).filter(|_| whole) {
                Some(content) => self.0.insert(path, content),
                None if result.starts_with(UNCHANGED) => None,
                // It may have been changed since it was shown whole.
                None => self.0.remove(&path),
            };
            return None;
        }
        if !EDITORS.contains(&tool) {
            return None;
        }
        let creates = result.starts_with("File created");
        let before = match self.0.get(&path) {
            _ if creates => Was::Absent,
            Some(content) => Was::Content(content.clone()),
            None => Was::Unknown,
        };
        let after = match (tool, &before) {
            ("Write", _) => input.string("content").map(String::from),
            ("NotebookEdit", _) | (_, Was::Unknown) => None,
            (_, Was::Absent) => change("", &input),
            (_, Was::Content(content)) => change(content, &input),
        };
        match &after {
            Some(after) => self.0.insert(path, after.clone()),
            None => self.0.remove(&path),
        };
        Some(Edit { before, after })
    }
}

/// What a tool answered to a call, from the entry that holds its result.
pub(crate) fn answer(entry: &str, tool_use_id: &str) -> Option<String> {
    let message = Object::parse(entry)?.object("message")?;
    let blocks = array(message.get("content")?)?;
    let mut results = blocks.into_iter().filter_map(Object::parse);
    let result =
        results.find(|block| block.string("tool_use_id").as_deref() == Some(tool_use_id))?;
    let content = result.get("content")?;
    if let Some(text) = string(content) {
        return Some(text.into_owned());
    }
    let parts = array(content)?.into_iter().filter_map(Object::parse);
    let texts: Vec<Cow<'_, str>> = parts.filter_map(|part| part.string("text")).collect();
    Some(texts.concat())
}

/// The content of a file that was shown with its lines numbered; `None` unless it is all of it.
fn shown(text: &str) -> Option<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let numbered = line.trim_start().split_once(['\t', '→']);
        let number = numbered.and_then(|(number, _)| number.parse::<usize>().ok());
        match (number, numbered) {
            (Some(number), Some((_, rest))) if number == lines.len() + 1 => lines.push(rest),
            // Behind the file the client may say more.
            _ if line.is_empty() || line.starts_with("<system-reminder>") => break,
            _ => return None,
        }
    }
    let is_cut = lines.len() >= SHOWN || lines.iter().any(|line| line.len() >= SHOWN);
    (!lines.is_empty() && !is_cut).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(before: Was, after: Option<&str>) -> Edit {
        Edit {
            before,
            after: after.map(str::to_owned),
        }
    }

    fn content(text: &str) -> Was {
        Was::Content(text.to_owned())
    }

    #[test]
    fn a_result_tells_what_was_there_and_what_was_left() {
        for (result, told) in [
            (
                r#"{"type":"create","content":"x\n","originalFile":null}"#,
                edit(Was::Absent, Some("x\n")),
            ),
            (
                r#"{"type":"update","content":"y","originalFile":"x"}"#,
                edit(content("x"), Some("y")),
            ),
            (
                r#"{"type":"update","content":"y","originalFile":null}"#,
                edit(Was::Unknown, Some("y")),
            ),
            (
                r#"{"oldString":"a","newString":"b","originalFile":"a a","replaceAll":false}"#,
                edit(content("a a"), Some("b a")),
            ),
            (
                r#"{"oldString":"a","newString":"b","originalFile":"a a","replaceAll":true}"#,
                edit(content("a a"), Some("b b")),
            ),
            (
                r#"{"edits":[{"old_string":"a","new_string":"b"},{"old_string":"b","new_string":"c"}],"originalFile":"a"}"#,
                edit(content("a"), Some("c")),
            ),
            (
                r#"{"oldString":"b","newString":"","originalFile":"a\nb\nc\n"}"#,
                edit(content("a\nb\nc\n"), Some("a\nc\n")),
            ),
            (
                r#"{"oldString":"a","newString":"b","originalFile":"a","userModified":true}"#,
                edit(content("a"), None),
            ),
        ] {
            let entry = format!(r#"{{"type":"user","toolUseResult":{result}}}"#);
            assert_eq!(Edit::told(&entry), Some(told), "{result}");
        }
        for silent in [r#""Error: no""#, "{}", "null"] {
            let entry = format!(r#"{{"type":"user","toolUseResult":{silent}}}"#);
            assert_eq!(Edit::told(&entry), None, "{silent}");
        }
    }

    #[test]
    fn an_agents_edits_follow_from_what_it_read() {
        let mut seen = Seen::default();
        let path = r#""file_path":"/w/a""#;
        let mut follow = |tool: &str, input: &str, result: &str| {
            seen.follow(tool, &format!("{{{path}{input}}}"), result)
        };
        let swap = r#","old_string":"two","new_string":"2""#;
        let unread = follow("Edit", swap, "updated");
        assert_eq!(unread, Some(edit(Was::Unknown, None)));
        assert_eq!(follow("Read", r#","limit":1"#, "1\tone"), None);
        assert_eq!(follow("Edit", swap, ""), Some(edit(Was::Unknown, None)));
        assert_eq!(follow("Read", "", "1\tone\n2\ttwo\n3\t"), None);
        let first = follow("Edit", swap, "updated");
        assert_eq!(first, Some(edit(content("one\ntwo\n"), Some("one\n2\n"))));
        let write = follow("Write", r#","content":"new""#, "updated");
        assert_eq!(write, Some(edit(content("one\n2\n"), Some("new"))));
        let made = seen.follow(
            "Write",
            r#"{"file_path":"/w/b","content":"b"}"#,
            "File created successfully at: /w/b",
        );
        assert_eq!(made, Some(edit(Was::Absent, Some("b"))));
        let read = |seen: &mut Seen, result| seen.follow("Read", r#"{"file_path":"/w/b"}"#, result);
        let again = r#"{"file_path":"/w/b","old_string":"b","new_string":"c"}"#;
        read(&mut seen, "File unchanged since last read.");
        let known = seen.follow("Edit", again, "updated");
        assert_eq!(known, Some(edit(content("b"), Some("c"))));
        read(&mut seen, "5\tnot from its beginning");
        let unknown = seen.follow("Edit", again, "updated");
        assert_eq!(unknown, Some(edit(Was::Unknown, None)));
    }

    #[test]
    fn only_a_file_shown_whole_is_taken_for_its_content() {
        let old = "     1→one\n     2→\ttwo\n\n<system-reminder>\nWhenever you read";
        assert_eq!(shown(old).as_deref(), Some("one\n\ttwo"));
        assert_eq!(shown("1\t").as_deref(), Some(""));
        for part in ["2\ttwo", "one\n", "", "1\tone\n3\tthree", "File unchanged"] {
            assert_eq!(shown(part), None, "{part}");
        }
        let long: Vec<String> = (1..=SHOWN).map(|number| format!("{number}\tx")).collect();
        assert_eq!(shown(&long.join("\n")), None);
    }

    #[test]
    fn an_answer_is_found_by_its_call() {
        let entry = r#"{"message":{"content":[{"type":"tool_result","tool_use_id":"a","content":"x"},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"y"},{"type":"text","text":"z"}]}]}}"#;
        assert_eq!(answer(entry, "a").as_deref(), Some("x"));
        assert_eq!(answer(entry, "b").as_deref(), Some("yz"));
        assert_eq!(answer(entry, "c"), None);
    }
}
