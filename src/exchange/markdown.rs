//! A conversation as Markdown, to read or to paste.

use std::io::{self, Write};

use crate::error::{Error, Result};
use crate::store::{EntryPart, Session};

/// Writes a session's conversation as Markdown: what the user and the model said, calls and
/// results in fenced blocks, thinking left out. Returns how many messages were written.
///
/// # Errors
/// [`Error::NotFound`] if the session or the transcript is not there; [`Error::Io`] if `out`
/// refuses.
pub fn export_markdown(session: &Session, subpath: &str, out: &mut dyn Write) -> Result<u64> {
    let refused = |error: io::Error| Error::io("writing the export of", session.id(), error);
    let info = session.info()?;
    let title = info.summary.as_deref().unwrap_or(session.id());
    write!(out, "# {}\n\n", one_line(title)).map_err(refused)?;
    let facts = [
        ("Session", Some(session.key().to_string())),
        ("Directory", info.cwd),
        ("Branch", info.git_branch),
    ];
    for (name, value) in facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    {
        writeln!(out, "- {name}: `{value}`").map_err(refused)?;
    }
    let conversation = session.conversation(subpath)?;
    let mut speaker = "";
    let mut written = 0;
    for entry in conversation.visible() {
        let parts = EntryPart::read(&entry.entry);
        let is_result = parts
            .iter()
            .any(|part| matches!(part, EntryPart::Result { .. }));
        let speaks = match entry.kind.as_str() {
            "assistant" => "Assistant",
            _ if is_result => "Tool",
            _ => "User",
        };
        if speaks != speaker && (speaks != "Tool" || speaker.is_empty()) {
            write!(out, "\n## {speaks}\n").map_err(refused)?;
        }
        speaker = if speaks == "Tool" { speaker } else { speaks };
        for part in &parts {
            if let Some(text) = shown(part) {
                write!(out, "\n{text}\n").map_err(refused)?;
            }
        }
        written += 1;
    }
    Ok(written)
}

fn shown(part: &EntryPart) -> Option<String> {
    Some(match part {
        EntryPart::Text(text) => text.trim_end().to_owned(),
        EntryPart::Thinking(_) => return None,
        EntryPart::Call { name, input, .. } => format!("**{name}**\n\n{}", fenced("json", input)),
        EntryPart::Result { text, is_error, .. } => {
            let head = if *is_error {
                "Result (error)"
            } else {
                "Result"
            };
            format!("*{head}*\n\n{}", fenced("", text.trim_end()))
        }
        EntryPart::Other(kind) => format!("*[{kind}]*"),
    })
}

/// A fence longer than any run of backticks in the text.
fn fenced(language: &str, text: &str) -> String {
    let longest = text
        .split(|letter| letter != '`')
        .map(str::len)
        .max()
        .unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_what_it_holds() {
        assert_eq!(fenced("", "a"), "```\na\n```");
        assert_eq!(fenced("", "````"), "`````\n````\n`````");
    }
}
