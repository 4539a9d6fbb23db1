//! `turnkeep changes`

use std::path::PathBuf;

use serde_json::json;
use turnkeep::{
    Change, ChangeCursor, ChangeFilter, ChangeSource, Effect, NewsCursor, Session, StateKind, Store,
};
use unicode_width::UnicodeWidthStr;

use super::fail::Failure;
use super::moment::moment;
use super::out::{Out, Style, beginning, count, fit, pad, path, time};
use super::place::{Within, session};
use super::{Call, Done, Outcome, news};

/// List what tool calls and rewinds did to files, newest first
///
/// Each with its session, prompt and tool call, the lines it added and removed, and whether it is
/// still in effect.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only of this file, or of the files below this folder
    path: Option<PathBuf>,

    /// Only those that this session shows, inherited ones included
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    session: Option<String>,

    /// Only those of the turn of this message
    #[arg(long, value_name = "UUID")]
    turn: Option<String>,

    /// Only those of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,

    /// Only those of this sub-agent; `main` for those of none
    #[arg(long, value_name = "A")]
    agent: Option<String>,

    /// Only those recorded at this time or later; or all that is new since an earlier look's cursor
    #[arg(long, value_name = "TIME|CURSOR")]
    since: Option<String>,

    /// Only those recorded before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    after: Option<ChangeCursor>,

    /// List the sessions that changed the file, or any below the folder, not the changes
    #[arg(long, requires = "path", conflicts_with_all = ["session", "turn", "tool", "agent", "since", "until", "after"])]
    sessions: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let mut out = Out::paged(call.json);
    if let (true, Some(path)) = (args.sessions, &args.path) {
        return sessions(call, &mut out, &store, path);
    }
    let session = match &args.session {
        Some(name) => Some(session(&store, name, args.within.project())?),
        None => None,
    };
    let mut filter = filter(args, session.as_ref())?;
    let limit = args.limit as usize;
    if let Some(since) = &args.since {
        if let Ok(cursor) = since.parse::<NewsCursor>() {
            let news = store.audit().news(&cursor, &filter, limit)?;
            return news::print(call, &mut out, &news);
        }
        filter = filter.since_ms(moment(since)?);
    }
    // Taken first: what comes in between is then told by the next look, and not lost.
    let cursor = store.audit().now()?;
    let page = store.audit().changes(&filter, args.after, limit)?;
    if call.json {
        let next = page.next.map(|next| next.to_string());
        let shown = json!({"changes": page.changes, "next": next, "cursor": cursor.to_string()});
        out.line(&shown.to_string())?;
        return Ok(Done::All);
    }
    if page.changes.is_empty() {
        out.line("no changes")?;
    }
    for change in &page.changes {
        print(&mut out, change)?;
    }
    if let Some(next) = page.next {
        out.line(&out.styled(Style::Dim, &format!("more: --after {next}")))?;
    }
    Ok(Done::All)
}

fn filter(args: &Args, session: Option<&Session>) -> Result<ChangeFilter, Failure> {
    let mut filter = ChangeFilter::new();
    if let Some(path) = &args.path {
        // As the shell's user sees it, also where a session works elsewhere.
        filter = filter.path(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
    }
    if let Some(session) = session {
        filter = filter.session(session.key());
    }
    if let Some(turn) = &args.turn {
        filter = filter.turn(turn);
    }
    if let Some(tool) = &args.tool {
        filter = filter.tool(tool);
    }
    match args.agent.as_deref() {
        Some("main") => filter = filter.main_agent(),
        Some(agent) => filter = filter.agent(agent),
        None => {}
    }
    if let Some(until) = &args.until {
        filter = filter.until_ms(moment(until)?);
    }
    Ok(filter)
}

/// Two lines: what was done to which file; by which session, in answer to what.
pub(super) fn print(out: &mut Out, change: &Change) -> Result<(), Failure> {
    let counts = match (change.insertions, change.deletions) {
        (Some(come), Some(go)) => format!("+{come} -{go}"),
        _ => uncounted(change).to_owned(),
    };
    let what = change
        .call
        .as_ref()
        .and_then(|call| call.tool.as_deref())
        .unwrap_or(change.source.as_str());
    let head = format!(
        "{:>5}  {}  {}",
        change.id,
        time(change.at_ms),
        pad(&fit(what, 10), 10)
    );
    let tail = format!("{counts}  {}", effect(change));
    let room = out.width().saturating_sub(head.width() + tail.width() + 4);
    let shown = fit_end(&path(&change.path), room.max(12));
    let style = match change.effect {
        Effect::InEffect | Effect::InPart => Style::Bold,
        _ => Style::Dim,
    };
    out.line(&format!("{head}  {}  {tail}", out.styled(style, &shown)))?;
    let mut by = beginning(&change.session.session_id);
    if change.is_inherited {
        by.push_str(" (inherited)");
    }
    if change.is_deleted {
        by.push_str(" (deleted)");
    }
    if let Some(agent) = &change.agent {
        by.push_str(&format!(" agent {}", fit(agent, 16)));
    }
    let why = match (&change.prompt, change.operation) {
        (_, Some(operation)) if change.source != ChangeSource::Tool => {
            format!("operation {operation}")
        }
        (Some(prompt), _) => match &prompt.text {
            Some(text) => format!("\"{text}\""),
            None => prompt.uuid.clone(),
        },
        // No call of the turn before it can have made it.
        (None, _) if change.source == ChangeSource::Import && change.call.is_none() => {
            "between turns".to_owned()
        }
        (None, _) => "no prompt known".to_owned(),
    };
    let line = fit(&format!("{by}  {why}"), out.width().saturating_sub(7));
    Ok(out.line(&out.styled(Style::Dim, &format!("       {line}")))?)
}

/// Why the lines of a change are not counted.
fn uncounted(change: &Change) -> &'static str {
    let Some(after) = &change.after else {
        return "end not known";
    };
    let either = |kind: StateKind| change.before.kind == kind || after.kind == kind;
    if either(StateKind::NotKept) {
        "not kept"
    } else if either(StateKind::Symlink) {
        "link"
    } else if either(StateKind::Directory) {
        "folder"
    } else {
        "not text"
    }
}

fn effect(change: &Change) -> String {
    let word = change.effect.as_str().replace('_', " ");
    match change.ended_by {
        Some(by) => format!("{word} by {by}"),
        None => word,
    }
}

/// The end of a path, which tells more than its beginning.
pub(super) fn fit_end(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut kept: Vec<char> = Vec::new();
    let mut used = 1;
    for letter in text.chars().rev() {
        used += unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0);
        if used > columns {
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    kept.into_iter().rev().collect()
}

fn sessions(call: &Call, out: &mut Out, store: &Store, path: &PathBuf) -> Outcome {
    let found = store.audit().sessions_of(path)?;
    if call.json {
        out.line(&json!({"sessions": found}).to_string())?;
        return Ok(Done::All);
    }
    if found.is_empty() {
        out.line("no session changed it")?;
    }
    for touching in &found {
        let deleted = if touching.is_deleted {
            " (deleted)"
        } else {
            ""
        };
        let changes = count(touching.changes, "change");
        let key = fit(&touching.session.to_string(), 50);
        out.line(&format!(
            "{}  {changes}  {key}{deleted}",
            time(touching.last_ms)
        ))?;
    }
    Ok(Done::All)
}
