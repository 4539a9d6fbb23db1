//! `turnkeep points`

use serde_json::json;
use turnkeep::RestorePoint;

use super::out::{Out, Style, count, fit, harmless_line, pad, time};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// How much of an id is shown at least.
const SHORTEST: usize = 8;

/// List a session's restore points, and how many files were changed since each
///
/// Every prompt is one, every tool call is one (the state just before it), and @start is the one
/// before everything.
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
    let points = session.files().points()?;
    let mut out = Out::new();
    if call.json {
        out.line(&json!({ "points": points }).to_string())?;
        return Ok(Done::All);
    }
    let ids: Vec<&str> = points.iter().map(|point| point.id.as_str()).collect();
    let names: Vec<String> = ids
        .iter()
        .map(|id| harmless_line(short(id, &ids)))
        .collect();
    let widest = names.iter().map(|name| name.chars().count()).max();
    let widest = widest.unwrap_or(0).min(36);
    for (point, name) in points.iter().zip(&names) {
        let when = point.timestamp_ms.map_or_else(String::new, time);
        let changed = count(point.changed.len() as u64, "file");
        let head = format!(
            "{}  {}  {}",
            pad(name, widest),
            pad(&when, 16),
            pad(&changed, 9)
        );
        let room = out.width().saturating_sub(head.chars().count() + 2);
        let line = format!("{head}  {}", fit(&told(point), room.max(8)));
        let style = if point.text.is_none() {
            Style::Dim
        } else {
            Style::Bold
        };
        out.line(&out.styled(style, line.trim_end()))?;
    }
    Ok(Done::All)
}

/// What a point is, in one line.
fn told(point: &RestorePoint) -> String {
    let what = match (&point.tool, &point.text) {
        (Some(tool), _) => format!("before {tool}"),
        (None, Some(text)) => text.clone(),
        (None, None) if point.id == "@start" => String::new(),
        (None, None) => "before a call that is not stored".to_owned(),
    };
    if point.labels.is_empty() {
        return what;
    }
    format!("[{}] {what}", point.labels.join(", "))
}

/// The beginning of an id that no other id of the list has.
fn short<'a>(id: &'a str, all: &[&str]) -> &'a str {
    let is_own = |beginning: &str| {
        let others = all.iter().filter(|other| **other != id);
        !others.into_iter().any(|other| other.starts_with(beginning))
    };
    let ends = id.char_indices().map(|(at, _)| at).skip(SHORTEST);
    ends.map(|end| &id[..end])
        .find(|beginning| is_own(beginning))
        .unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn an_id_is_cut_where_no_other_goes_on_the_same() {
        let ids = [
            "0123456789",
            "0123456788",
            "012345678",
            "toolu_mock1",
            "@start",
        ];
        assert_eq!(short("0123456789", &ids), "0123456789");
        assert_eq!(short("toolu_mock1", &ids), "toolu_mo");
        assert_eq!(short("@start", &ids), "@start");
        assert_eq!(short("012345678", &ids), "012345678");
    }
}
