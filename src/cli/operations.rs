//! `turnkeep operations`

use serde_json::{Value, json};
use turnkeep::Operation;

use super::out::{Out, Style, fit, pad, time};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// List what was done to a session: making it, forks, rewinds, undos, settled calls
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = session(&store, &args.id, args.within.project())?;
    let operations = session.operations()?;
    let mut out = Out::new();
    if call.json {
        let shown: Vec<Value> = operations.iter().map(json).collect();
        out.line(&json!({ "operations": shown }).to_string())?;
        return Ok(Done::All);
    }
    for operation in &operations {
        let id = operation.id.to_string();
        let kind = pad(&fit(&operation.kind, 15), 15);
        let told = fit(&told(operation), out.width().saturating_sub(42));
        let kind = out.styled(Style::Bold, &kind);
        let when = time(operation.at_ms);
        out.line(format!("{}  {when}  {kind}  {told}", pad(&id, 5)).trim_end())?;
    }
    Ok(Done::All)
}

/// What came of it, in one line.
pub(super) fn told(operation: &Operation) -> String {
    let mut told: Vec<String> = Vec::new();
    match operation.status.as_deref() {
        Some("part") => told.push("in part".to_owned()),
        Some("put_back") => told.push("put back".to_owned()),
        Some(status) => told.push(status.to_owned()),
        None => {}
    }
    if let Some(by) = operation.undone_by {
        told.push(format!("undone by {by}"));
    }
    if let Some(by) = &operation.by {
        told.push(format!("by {by}"));
    }
    if let Value::Object(fields) = detail(operation) {
        let words = fields.into_iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            value => format!("{name} {value}"),
        });
        told.extend(words);
    }
    told.join(", ")
}

/// What else is known of it.
pub(super) fn detail(operation: &Operation) -> Value {
    let detail = operation.detail.as_deref();
    let parsed = detail.map(|text| serde_json::from_str(text).unwrap_or_else(|_| json!(text)));
    parsed.unwrap_or(Value::Null)
}

/// An operation as JSON; its detail is no text in it, but JSON too.
fn json(operation: &Operation) -> Value {
    json!({
        "id": operation.id,
        "kind": operation.kind,
        "at_ms": operation.at_ms,
        "by": operation.by,
        "detail": detail(operation),
        "status": operation.status,
        "undone_by": operation.undone_by,
    })
}
