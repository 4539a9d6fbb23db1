//! `turnkeep search`

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use turnkeep::{
    ErrorKind, SearchCursor, SearchHit, SearchPage, SearchQuery, SearchRole, SessionKey, Snippet,
    Store,
};

use super::fail::Failure;
use super::moment::moment;
use super::out::{Out, Style, count, fit, harmless_line, time};
use super::place::{scope, session};
use super::{Call, Done, Outcome};

/// For how long a search lets the index catch up before it answers.
const PATIENCE: Duration = Duration::from_secs(10);

/// Search what was said, what went into tools and came out of them, and titles
///
/// All words must stand in a message. '"a phrase"' in quotes of its own, and a star at the end of
/// a word for the rest of it; nothing else means anything.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to look for
    #[arg(required = true)]
    text: Vec<String>,

    /// The best ones first, of the newest 10,000
    #[arg(long)]
    rank: bool,

    /// Only in this project: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,

    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only what this one said: user, assistant, input, output or tool (both), title
    #[arg(long, value_parser = ["user", "assistant", "input", "output", "tool", "title"], hide_possible_values = true)]
    role: Vec<String>,

    /// Only what went into this tool or came out of it
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,

    /// Only tool calls that name this path, its end or its beginning, and what came out of them
    #[arg(long)]
    path: Option<String>,

    /// Only what was said at this time or later (2026-01-31, or with a time, or epoch ms)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only what was said before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Only what is in a conversation as it stands now, not on branches that were left
    #[arg(long)]
    active: bool,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    page: Option<String>,

    /// Let the index catch up to the end first, however long it takes
    #[arg(long)]
    wait: bool,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let query = query(&store, args)?;
    catch_up(&store, if args.wait { Duration::MAX } else { PATIENCE })?;
    let page = store.search(&query)?;
    let mut out = Out::paged(call.json);
    if call.json {
        let hits: Vec<Value> = page.hits.iter().map(shown).collect();
        let next = page.next.map(|next| next.to_string());
        let shown = json!({"hits": hits, "next": next, "unindexed": page.unindexed});
        out.line(&shown.to_string())?;
    } else {
        print(&mut out, &page)?;
        if page.unindexed > 0 {
            let left = count(page.unindexed, "message");
            let why = if store.is_read_only() {
                "this store can only be read, so they cannot be"
            } else {
                "--wait indexes them first"
            };
            eprintln!("note: {left} not indexed yet, and not looked at; {why}");
        }
    }
    Ok(Done::All)
}

/// Lets the index catch up, where that can be done at all.
fn catch_up(store: &Store, patience: Duration) -> Result<(), Failure> {
    if store.is_read_only() {
        return Ok(());
    }
    match store.index_search(patience) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::Full) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn query(store: &Store, args: &Args) -> Result<SearchQuery, Failure> {
    let mut query = SearchQuery::new(args.text.join(" ")).limit(args.limit as usize);
    let scope = scope(store, args.project.as_deref())?;
    if let Some(name) = &args.session {
        query = query.session(session(store, name, args.project.as_deref())?.key().clone());
    }
    if let Some(key) = scope.project_key {
        query = query.project(key);
    }
    if let Some(cwd) = scope.cwd {
        query = query.cwd(cwd);
    }
    for role in &args.role {
        for role in roles(role) {
            query = query.role(*role);
        }
    }
    if let Some(tool) = &args.tool {
        query = query.tool(tool);
    }
    if let Some(path) = &args.path {
        query = query.path(path);
    }
    if let Some(since) = &args.since {
        query = query.since_ms(moment(since)?);
    }
    if let Some(until) = &args.until {
        query = query.until_ms(moment(until)?);
    }
    if args.active {
        query = query.active();
    }
    if args.rank {
        query = query.ranked();
    }
    if let Some(cursor) = &args.page {
        query = query.after(cursor.parse::<SearchCursor>()?);
    }
    Ok(query)
}

fn roles(word: &str) -> &'static [SearchRole] {
    match word {
        "user" => &[SearchRole::User],
        "assistant" => &[SearchRole::Assistant],
        "input" => &[SearchRole::ToolInput],
        "output" => &[SearchRole::ToolOutput],
        "title" => &[SearchRole::Title],
        _ => &[SearchRole::ToolInput, SearchRole::ToolOutput],
    }
}

fn shown(hit: &SearchHit) -> Value {
    let key =
        |key: &SessionKey| json!({"project_key": key.project_key, "session_id": key.session_id});
    let marks = hit.snippet.marks.iter();
    json!({
        "project_key": hit.session.project_key,
        "session_id": hit.session.session_id,
        "summary": hit.summary,
        "subpath": hit.subpath,
        "uuid": hit.uuid,
        "turn": hit.turn,
        "role": hit.role.as_str(),
        "tool": hit.tool,
        "said_ms": hit.said_ms,
        "snippet": hit.snippet.text,
        "marks": marks.map(|mark| json!([mark.start, mark.end])).collect::<Vec<_>>(),
        "also_in": hit.also_in.iter().map(key).collect::<Vec<_>>(),
        "score": hit.score,
    })
}

fn print(out: &mut Out, page: &SearchPage) -> io::Result<()> {
    if page.hits.is_empty() {
        return out.line("nothing found");
    }
    for hit in &page.hits {
        let role = match (hit.role, &hit.tool) {
            (SearchRole::ToolInput, Some(tool)) => format!("into {tool}"),
            (SearchRole::ToolOutput, Some(tool)) => format!("out of {tool}"),
            (role, _) => role.as_str().to_owned(),
        };
        let style = match hit.role {
            SearchRole::User => Style::User,
            SearchRole::Assistant => Style::Assistant,
            _ => Style::Dim,
        };
        let role = fit(&role, 24);
        let id: String = hit.session.session_id.chars().take(8).collect();
        let also = match hit.also_in.len() {
            0 => String::new(),
            more => format!("  (and in {})", count(more as u64, "other session")),
        };
        let room = out
            .width()
            .saturating_sub(16 + 2 + role.len() + 2 + id.len() + 2 + also.len());
        let name = hit.summary.as_deref().unwrap_or(&hit.session.project_key);
        out.line(&format!(
            "{}  {}  {}  {}{}",
            time(hit.said_ms),
            out.styled(style, &role),
            harmless_line(&id),
            fit(name, room.max(8)),
            out.styled(Style::Dim, &also)
        ))?;
        let snippet = marked(out, &hit.snippet);
        out.line(&format!("    {snippet}"))?;
    }
    match page.next {
        Some(next) => out.line(&out.styled(Style::Dim, &format!("more: --page {next}"))),
        None => Ok(()),
    }
}

/// As much of a snippet as fits on a line, with what was found marked on a terminal.
fn marked(out: &Out, snippet: &Snippet) -> String {
    let room = out.width().saturating_sub(4);
    // A mark near the end is brought into view.
    let first = snippet.marks.first().map_or(0, |mark| mark.start);
    let lead = snippet.text[..first].chars().count();
    let skip = lead.saturating_sub(room / 3);
    let begin = snippet
        .text
        .char_indices()
        .nth(skip)
        .map_or(0, |(at, _)| at);
    let mut shown = String::new();
    let mut used = 0;
    let mut at = begin;
    let mut pieces: Vec<(&str, bool)> = Vec::new();
    for mark in snippet.marks.iter().filter(|mark| mark.start >= begin) {
        pieces.push((&snippet.text[at..mark.start], false));
        pieces.push((&snippet.text[mark.clone()], true));
        at = mark.end;
    }
    pieces.push((&snippet.text[at..], false));
    for (text, is_mark) in pieces {
        let mut cut = String::new();
        for letter in harmless_line(text).chars() {
            let columns = unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0);
            if used + columns > room {
                break;
            }
            used += columns;
            cut.push(letter);
        }
        if is_mark {
            cut = out.styled(Style::Bold, &cut);
        }
        shown += &cut;
        if used >= room {
            break;
        }
    }
    shown.trim_end().to_owned()
}
