//! `turnkeep compare`

use std::io;

use serde_json::{Value, json};
use turnkeep::{ConversationEntry, EntryPart, FileDiff, ForkedFile, Session, StateKind};

use super::diff;
use super::fail::Failure;
use super::out::{Out, Style, beginning, count, fit, harmless_line, path};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Show what two sessions with a common origin did differently, in talk and in files
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The one session
    left: String,

    /// The other: a fork of it, its origin, or another fork of that
    right: String,

    /// The files' differences too, line by line
    #[arg(long)]
    diff: bool,

    /// Old and new beside each other
    #[arg(long, requires = "diff")]
    side_by_side: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let left = session(&store, &args.left, args.within.project())?;
    let right = session(&store, &args.right, args.within.project())?;
    let found = left.compare(&right)?;
    let mut out = Out::paged(call.json);
    if call.json {
        let (one, two) = match &found.last_common {
            Some((one, two)) => (json!(one), json!(two)),
            None => (Value::Null, Value::Null),
        };
        let files: Result<Vec<Value>, Failure> = found.files.iter().map(file).collect();
        let shown = json!({
            "common": found.common,
            "left": side(&left, &one, &found.left),
            "right": side(&right, &two, &found.right),
            "files": files?,
        });
        out.line(&shown.to_string())?;
        return Ok(Done::All);
    }
    let common = count(found.common as u64, "message");
    out.line(&format!("{common} in common"))?;
    for (session, entries) in [(&left, &found.left), (&right, &found.right)] {
        said(&mut out, session, entries)?;
    }
    if found.files.is_empty() {
        out.line("no file differs")?;
    }
    for file in &found.files {
        let by = match (file.changed_left, file.changed_right) {
            (true, true) => "both".to_owned(),
            (true, false) => beginning(left.id()),
            _ => beginning(right.id()),
        };
        let counts = match (file.diff.insertions, file.diff.deletions) {
            (Some(come), Some(go)) => format!("+{come} -{go}"),
            _ if [&file.diff.from, &file.diff.to]
                .iter()
                .any(|state| state.kind == StateKind::NotKept) =>
            {
                "not known".to_owned()
            }
            _ => "not text".to_owned(),
        };
        let line = format!("{}  {counts}  changed by {by}", path(&file.diff.path));
        out.line(&out.styled(Style::Bold, &line))?;
    }
    if args.diff {
        let diffs: Vec<FileDiff> = found.files.iter().map(|file| file.diff.clone()).collect();
        out.line("")?;
        diff::print(&mut out, &diffs, args.side_by_side)?;
    }
    Ok(Done::All)
}

fn said(out: &mut Out, session: &Session, entries: &[ConversationEntry]) -> Result<(), Failure> {
    let key = harmless_line(&session.key().to_string());
    let number = count(entries.len() as u64, "message");
    out.line(&out.styled(Style::Bold, &format!("{key}: {number} of its own")))?;
    for entry in entries.iter().filter(|entry| entry.is_visible) {
        for part in EntryPart::read(&entry.entry) {
            let text = match &part {
                EntryPart::Text(text) => text.clone(),
                EntryPart::Call { name, input, .. } => format!("→ {name} {input}"),
                _ => continue,
            };
            let line = fit(&format!("{}: {text}", entry.kind), out.width() - 4);
            out.line(&format!("    {line}"))?;
        }
    }
    Ok(())
}

fn side(session: &Session, last_common: &Value, entries: &[ConversationEntry]) -> Value {
    let messages: Vec<Value> = entries
        .iter()
        .map(|entry| {
            json!({
                "uuid": entry.uuid,
                "kind": entry.kind,
                "timestamp_ms": entry.timestamp_ms,
                "entry": serde_json::from_str::<Value>(&entry.entry).unwrap_or(Value::Null),
            })
        })
        .collect();
    json!({
        "project_key": session.key().project_key,
        "session_id": session.id(),
        "last_common": last_common,
        "messages": messages,
    })
}

fn file(file: &ForkedFile) -> Result<Value, Failure> {
    let mut shown = serde_json::to_value(&file.diff).map_err(io::Error::other)?;
    if let Some(fields) = shown.as_object_mut() {
        let other = file.other_path.to_string_lossy();
        fields.insert("other_path".to_owned(), json!(other));
        fields.insert("changed_left".to_owned(), json!(file.changed_left));
        fields.insert("changed_right".to_owned(), json!(file.changed_right));
    }
    Ok(shown)
}
