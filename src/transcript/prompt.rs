//! Which user entries are prompts, and which text names a session in a list.
//!
//! The rules for the first prompt of a listing are those of the Claude Agent SDK
//! (`fold_session_summary`), so that a listing here equals one there.

use super::dialect::Said;

/// How the text of a harness-written user entry begins.
const NOT_A_PROMPT: [&str; 7] = [
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "[Request interrupted by user",
];

/// How a text begins that no listing shows as the first prompt.
const NOT_A_TITLE: [&str; 4] = [
    "<local-command-stdout>",
    "<session-start-hook>",
    "<tick>",
    "<goal>",
];

/// The longest first prompt a listing shows, in characters.
const FIRST_PROMPT_CHARS: usize = 200;

/// What a main-line user entry begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// A turn: a person's prompt, and so a restore point.
    Prompt,
    /// A turn, but no prompt: a finished background task was announced.
    Notification,
    /// Nothing: it belongs to the turn that runs.
    Nothing,
}

/// Tells whether a user message opens a turn. `notified` says that the entry's origin is a task
/// notification; meta entries and compaction summaries never come here.
pub(crate) fn opens(said: &Said<'_>, notified: bool) -> Opens {
    if said.has_result() {
        return Opens::Nothing;
    }
    let texts = said.texts();
    let first = texts
        .iter()
        .map(|text| text.trim_start())
        .find(|text| !text.is_empty());
    match first {
        Some(text) if notified || text.starts_with("<task-notification>") => Opens::Notification,
        Some(text) if NOT_A_PROMPT.iter().any(|start| text.starts_with(start)) => Opens::Nothing,
        None if said.parts().is_empty() => Opens::Nothing,
        _ => Opens::Prompt,
    }
}

/// What a user message offers as the session's first prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FirstPrompt {
    /// A real one.
    Real(String),
    /// The name of a slash command, used while there is no real one.
    Command(String),
}

/// The first text of a message that a listing may show.
pub(crate) fn first_prompts(said: &Said<'_>) -> Vec<FirstPrompt> {
    let mut found = Vec::new();
    if said.has_result() {
        return found;
    }
    for text in said.texts() {
        let line = text.replace('\n', " ");
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(name) = command_name(line) {
            found.push(FirstPrompt::Command(name.to_owned()));
        } else if !is_no_title(line) {
            found.push(FirstPrompt::Real(shortened(line)));
            break;
        }
    }
    found
}

fn command_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<command-name>")?;
    rest.split_once("</command-name>").map(|(name, _)| name)
}

fn is_no_title(line: &str) -> bool {
    let wrapped = |open: &str, close: &str| line.starts_with(open) && line.ends_with(close);
    NOT_A_TITLE.iter().any(|start| line.starts_with(start))
        || (line.starts_with("[Request interrupted by user") && line.contains(']'))
        || wrapped("<ide_opened_file>", "</ide_opened_file>")
        || wrapped("<ide_selection>", "</ide_selection>")
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(FIRST_PROMPT_CHARS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Object;
    use super::*;

    fn user(content: &str) -> String {
        format!(r#"{{"role":"user","content":{content}}}"#)
    }

    #[test]
    fn prompts_are_told_from_harness_text() {
        for (content, expected) in [
            (r#""fix it""#, Opens::Prompt),
            (r#"[{"type":"image","source":{}}]"#, Opens::Prompt),
            (r#""<command-name>/compact</command-name>""#, Opens::Nothing),
            (
                r#"[{"type":"text","text":"[Request interrupted by user for tool use]"}]"#,
                Opens::Nothing,
            ),
            (
                r#"[{"type":"tool_result","tool_use_id":"t","content":"x"}]"#,
                Opens::Nothing,
            ),
            (r#""<task-notification>\n<id>a</id>""#, Opens::Notification),
        ] {
            let text = user(content);
            let said = Said::read(&Object::parse(&text).unwrap());
            assert_eq!(opens(&said, false), expected, "{content}");
        }
    }

    #[test]
    fn a_long_first_prompt_is_cut_at_a_character() {
        let text = user(&format!("\"{}\"", "é".repeat(300)));
        let said = Said::read(&Object::parse(&text).unwrap());
        let [FirstPrompt::Real(shown)] = &first_prompts(&said)[..] else {
            panic!("one")
        };
        assert_eq!(shown.chars().count(), 201);
    }
}
