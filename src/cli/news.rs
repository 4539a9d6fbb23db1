//! `turnkeep changes --since CURSOR`: everything that is new.

use serde_json::{Value, json};
use turnkeep::{News, Operation, SessionKey};
use unicode_width::UnicodeWidthStr;

use super::changes;
use super::fail::Failure;
use super::operations::{detail, told};
use super::out::{Out, Style, beginning, fit, pad, time};
use super::{Call, Done, Outcome};

pub(super) fn print(call: &Call, out: &mut Out, news: &News) -> Outcome {
    if call.json {
        out.line(&whole(news)?.to_string())?;
        return Ok(Done::All);
    }
    for change in &news.changes {
        changes::print(out, change)?;
    }
    for entry in news.entries.iter().flatten() {
        let who = entry.role.as_deref().unwrap_or(&entry.kind);
        let uuid = entry.uuid.as_deref().unwrap_or("");
        line(out, entry.stored_ms, &entry.session, who, uuid)?;
    }
    for new in news.operations.iter().flatten() {
        let Operation { at_ms, kind, .. } = &new.operation;
        line(out, *at_ms, &new.session, kind, &told(&new.operation))?;
    }
    let more = if news.has_more {
        " (there is more)"
    } else {
        ""
    };
    out.line(&out.styled(Style::Dim, &format!("next: --since {}{more}", news.cursor)))?;
    Ok(Done::All)
}

fn line(
    out: &mut Out,
    at_ms: i64,
    session: &SessionKey,
    what: &str,
    more: &str,
) -> Result<(), Failure> {
    let session = pad(&beginning(&session.session_id), 8);
    let head = format!("{}  {session}  {}", time(at_ms), pad(&fit(what, 14), 14));
    let more = fit(more, out.width().saturating_sub(head.width() + 2));
    Ok(out.line(format!("{head}  {more}").trim_end())?)
}

/// All of it. The records, and what is told of operations, as such and not as text within text.
fn whole(news: &News) -> Result<Value, std::io::Error> {
    let mut shown = serde_json::to_value(news)?;
    let entries = shown.get_mut("entries").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        let record = entry["entry"].as_str().map(serde_json::from_str::<Value>);
        if let Some(Ok(record)) = record {
            entry["entry"] = record;
        }
    }
    let operations = shown.get_mut("operations").and_then(Value::as_array_mut);
    for (one, new) in operations
        .into_iter()
        .flatten()
        .zip(news.operations.iter().flatten())
    {
        one["detail"] = json!(detail(&new.operation));
    }
    Ok(shown)
}
