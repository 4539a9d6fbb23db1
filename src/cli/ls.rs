//! `turnkeep ls`

use std::collections::HashSet;
use std::io;

use serde_json::{Value, json};
use turnkeep::{Cursor, SessionFilter, SessionInfo, SessionKey, Store};
use unicode_width::UnicodeWidthStr;

use super::fail::Failure;
use super::lineage::draw;
use super::moment::moment;
use super::out::{Out, Style, count, fit, pad, time};
use super::place::scope;
use super::{Call, Done, Outcome};

/// List sessions, newest first
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only this project's: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,

    /// Only those whose title or summary holds this text
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Only those with this tag
    #[arg(long)]
    tag: Option<String>,

    /// Only those modified at this time or later (2026-01-31, or with a time, or epoch ms)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only those modified before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    after: Option<String>,

    /// Show forks under the session they were forked from
    #[arg(long)]
    tree: bool,

    /// Those as well that hold no conversation of their own
    #[arg(long)]
    all: bool,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let scope = scope(&store, args.project.as_deref())?;
    let mut filter = SessionFilter::new();
    if let Some(key) = scope.project_key {
        filter = filter.project(key);
    }
    if let Some(cwd) = scope.cwd {
        filter = filter.cwd(cwd);
    }
    if let Some(text) = &args.text {
        filter = filter.text(text);
    }
    if let Some(tag) = &args.tag {
        filter = filter.tag(tag);
    }
    if let Some(since) = &args.since {
        filter = filter.since_ms(moment(since)?);
    }
    if let Some(until) = &args.until {
        filter = filter.until_ms(moment(until)?);
    }
    if args.all {
        filter = filter.all();
    }
    let after = args
        .after
        .as_deref()
        .map(str::parse::<Cursor>)
        .transpose()?;
    let page = store.sessions().list(&filter, after, args.limit as usize)?;
    let mut out = Out::new();
    if call.json {
        let sessions: Vec<Value> = page.sessions.iter().map(shown).collect();
        let next = page.next.map(|next| next.to_string());
        out.line(&json!({"sessions": sessions, "next": next}).to_string())?;
    } else {
        if args.tree {
            trees(&mut out, &store, &page.sessions)?;
        } else {
            print(&mut out, &page.sessions)?;
        }
        if let Some(next) = page.next {
            out.line(&out.styled(Style::Dim, &format!("more: --after {next}")))?;
        }
    }
    Ok(Done::All)
}

/// Draws each family once, where its newest session stands in the list.
fn trees(out: &mut Out, store: &Store, sessions: &[SessionInfo]) -> Result<(), Failure> {
    let mut drawn: HashSet<SessionKey> = HashSet::new();
    for info in sessions {
        if drawn.contains(&info.key()) {
            continue;
        }
        let Some(session) = store.sessions().find(&info.key())? else {
            continue;
        };
        let family = session.family()?;
        draw(out, &family, "")?;
        drawn.extend(family.into_iter().map(|kin| kin.key));
    }
    Ok(())
}

fn shown(info: &SessionInfo) -> Value {
    json!({
        "session_id": info.session_id,
        "project_key": info.project_key,
        "title": info.title,
        "summary": info.summary,
        "first_prompt": info.first_prompt,
        "tag": info.tag,
        "cwd": info.cwd,
        "git_branch": info.git_branch,
        "created_at_ms": info.created_at_ms,
        "last_modified_ms": info.last_modified_ms,
        "messages": info.messages,
        "turns": info.turns,
        "forked_from": info.forked_from,
    })
}

fn print(out: &mut Out, sessions: &[SessionInfo]) -> io::Result<()> {
    if sessions.is_empty() {
        return out.line("no sessions");
    }
    let ids: Vec<String> = sessions
        .iter()
        .map(|info| short(&info.session_id, sessions))
        .collect();
    let counts: Vec<String> = sessions
        .iter()
        .map(|info| count(info.messages, "message"))
        .collect();
    let widest = |all: &[String]| all.iter().map(|text| text.width()).max().unwrap_or(0);
    let columns = (widest(&ids), widest(&counts));
    for ((info, id), messages) in sessions.iter().zip(&ids).zip(&counts) {
        let (id, messages) = (pad(id, columns.0), pad(messages, columns.1));
        let tag = info
            .tag
            .as_ref()
            .map_or_else(String::new, |tag| format!(" [{}]", fit(tag, 12)));
        let place = fit(place(info), 16);
        let rest = out
            .width()
            .saturating_sub(columns.0 + columns.1 + 22 + tag.width() + place.width() + 2);
        let name = info.summary.as_deref().unwrap_or("(nothing said yet)");
        let name = out.styled(Style::Bold, &fit(name, rest.max(12)));
        let (messages, place) = (
            out.styled(Style::Dim, &messages),
            out.styled(Style::Dim, &place),
        );
        out.line(&format!(
            "{id}  {}  {messages}  {name}{tag}  {place}",
            time(info.last_modified_ms)
        ))?;
    }
    Ok(())
}

/// The folder a session works in, by its last name; else its project.
fn place(info: &SessionInfo) -> &str {
    let folder = info
        .cwd
        .as_deref()
        .and_then(|cwd| cwd.rsplit(['/', '\\']).find(|part| !part.is_empty()));
    folder.unwrap_or(&info.project_key)
}

/// The beginning of an id that tells it from the others shown.
fn short(id: &str, among: &[SessionInfo]) -> String {
    let unique = |beginning: &str| {
        among
            .iter()
            .filter(|info| info.session_id.starts_with(beginning))
            .count()
            <= 1
    };
    let ends = id.char_indices().map(|(at, _)| at).skip(8);
    let end = ends.into_iter().find(|end| unique(&id[..*end]));
    fit(&id[..end.unwrap_or(id.len())], 36)
}
