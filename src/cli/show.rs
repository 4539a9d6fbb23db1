//! `turnkeep show`

use std::io::{self, IsTerminal};
use std::time::Duration;

use turnkeep::{EntryPart, Line, Session};

use super::fail::Failure;
use super::out::{Out, Style, clock, count, fit, harmless, harmless_line, time};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// How often a followed session is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// How many lines of a result are shown.
const RESULT_LINES: usize = 6;

/// Show a session: its conversation, its whole transcript, or what a model is to be sent
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("view").multiple(false))]
pub(super) struct Args {
    /// The session
    id: String,

    /// The active chain of messages (the default)
    #[arg(long, group = "view")]
    conversation: bool,

    /// Every entry, in the order in which it was stored
    #[arg(long, group = "view")]
    transcript: bool,

    /// What a model is to be sent to go on
    #[arg(long, group = "view")]
    context: bool,

    /// The conversation as Markdown
    #[arg(long, group = "view")]
    markdown: bool,

    /// Go on printing what is added, until interrupted
    #[arg(long, conflicts_with_all = ["context", "markdown"])]
    follow: bool,

    /// A sub-agent's transcript
    #[arg(long, value_name = "P", default_value = "", hide_default_value = true)]
    subpath: String,

    /// Only the newest N
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = session(&store, &args.id, args.within.project())?;
    let mut out = Out::new();
    if args.markdown {
        let mut text = Vec::new();
        turnkeep::export_markdown(&session, &args.subpath, &mut text)?;
        if io::stdout().is_terminal() {
            out.bytes(harmless(&String::from_utf8_lossy(&text)).as_bytes())?;
        } else {
            out.bytes(&text)?;
        }
    } else if args.follow {
        follow(call, args, &session, &mut out)?;
    } else if args.context {
        context(call, args, &session, &mut out)?;
    } else if args.transcript {
        let lines = session.transcript(&args.subpath)?;
        let lines: Vec<Line> = lines
            .into_iter()
            .filter(|line| line.to_json().is_some())
            .collect();
        let lines = newest(&lines, args.limit);
        if call.json {
            let entries: Vec<String> = lines.iter().filter_map(Line::to_json).collect();
            array(&mut out, &entries)?;
        } else {
            heading(&mut out, &session, &args.subpath)?;
            for line in lines {
                print_line(&mut out, line)?;
            }
        }
    } else {
        conversation(call, args, &session, &mut out)?;
    }
    out.flush()?;
    Ok(Done::All)
}

fn conversation(call: &Call, args: &Args, session: &Session, out: &mut Out) -> Result<(), Failure> {
    let conversation = session.conversation(&args.subpath)?;
    let entries = newest(&conversation.entries, args.limit);
    if call.json {
        let entries: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
        return Ok(array(out, &entries)?);
    }
    heading(out, session, &args.subpath)?;
    for entry in entries.iter().filter(|entry| entry.is_visible) {
        print_entry(out, &entry.kind, entry.timestamp_ms, &entry.entry)?;
    }
    let repaired = conversation.repaired_links.len() as u64;
    if repaired > 0 {
        let note = format!("{} to a missing message bridged", count(repaired, "link"));
        out.line(&out.styled(Style::Dim, &note))?;
    }
    if let Some(ancestor) = conversation.missing_ancestor {
        let note = format!("what came before ({ancestor}) is not in this session");
        out.line(&out.styled(Style::Dim, &note))?;
    }
    if args.subpath.is_empty() {
        for subpath in session.subpaths()? {
            let note = format!("--subpath {}", harmless_line(&subpath));
            out.line(&out.styled(Style::Dim, &note))?;
        }
    }
    Ok(())
}

fn context(call: &Call, args: &Args, session: &Session, out: &mut Out) -> Result<(), Failure> {
    let context = session.context(&args.subpath)?;
    let messages = newest(&context.messages, args.limit);
    if call.json {
        let json = serde_json::to_string(messages).map_err(io::Error::other)?;
        return Ok(out.line(&json)?);
    }
    heading(out, session, &args.subpath)?;
    for message in messages {
        let json = serde_json::to_string(message).map_err(io::Error::other)?;
        out.line(&harmless(&json))?;
    }
    let notes = [
        (
            context.open_calls.len(),
            "call without a result: answered as interrupted",
        ),
        (
            context.orphan_results.len(),
            "result without a call: left out",
        ),
        (
            context.api_errors,
            "line that reports an API failure: left out",
        ),
    ];
    for (number, what) in notes.into_iter().filter(|(number, _)| *number > 0) {
        out.line(&out.styled(Style::Dim, &format!("{number} × {what}")))?;
    }
    Ok(())
}

/// Prints a transcript, and what is added to it, until nobody reads any more or Ctrl-C.
fn follow(call: &Call, args: &Args, session: &Session, out: &mut Out) -> Result<(), Failure> {
    const PAGE: usize = 500;
    let mut after = 0;
    if let Some(limit) = args.limit {
        let lines = session.transcript(&args.subpath)?;
        after = lines
            .len()
            .checked_sub(limit + 1)
            .and_then(|at| lines.get(at))
            .map_or(0, |line| line.seq);
    }
    loop {
        let page = session.transcript_page(&args.subpath, after, PAGE)?;
        // Half a record at the end is waited for.
        let whole = page.iter().take_while(|line| line.kind != "partial");
        let mut printed = false;
        for line in whole {
            after = line.seq;
            printed = true;
            match line.to_json() {
                Some(json) if call.json => out.line(&json)?,
                Some(_) if args.transcript => print_line(out, line)?,
                Some(_) => print_spoken(out, line)?,
                None => {}
            }
        }
        out.flush()?;
        if !printed {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

fn print_spoken(out: &mut Out, line: &Line) -> io::Result<()> {
    match &line.entry {
        Some(entry) if matches!(line.kind.as_str(), "user" | "assistant") => {
            print_entry(out, &line.kind, None, entry)
        }
        _ => Ok(()),
    }
}

fn heading(out: &mut Out, session: &Session, subpath: &str) -> Result<(), Failure> {
    let info = session.info()?;
    let name = info.summary.as_deref().unwrap_or("(nothing said yet)");
    out.line(&out.styled(Style::Bold, &fit(name, out.width())))?;
    let key = harmless_line(&session.key().to_string());
    out.line(&out.styled(Style::Dim, &key))?;
    if !subpath.is_empty() {
        let subpath = fit(subpath, out.width());
        out.line(&out.styled(Style::Dim, &subpath))?;
        return Ok(out.line("")?);
    }
    let mut facts: Vec<String> = info.cwd.into_iter().collect();
    // The client says HEAD where there is no branch.
    let branch = info.git_branch.filter(|branch| branch != "HEAD");
    facts.extend(branch.map(|branch| format!("on {branch}")));
    facts.push(time(info.last_modified_ms));
    facts.push(format!(
        "{}, {}",
        count(info.messages, "message"),
        count(info.turns, "turn")
    ));
    out.line(&out.styled(Style::Dim, &fit(&facts.join(" · "), out.width())))?;
    Ok(out.line("")?)
}

fn print_entry(
    out: &mut Out,
    kind: &str,
    timestamp_ms: Option<i64>,
    entry: &str,
) -> io::Result<()> {
    let parts = EntryPart::read(entry);
    let spoken = parts
        .iter()
        .any(|part| !matches!(part, EntryPart::Result { .. }));
    if spoken {
        let style = if kind == "assistant" {
            Style::Assistant
        } else {
            Style::User
        };
        let at = timestamp_ms.map(clock).unwrap_or_default();
        let head = format!(
            "{} {}",
            out.styled(style, kind),
            out.styled(Style::Dim, &at)
        );
        out.line(head.trim_end())?;
    }
    for part in &parts {
        print_part(out, part)?;
    }
    Ok(())
}

fn print_part(out: &mut Out, part: &EntryPart) -> io::Result<()> {
    let width = out.width();
    match part {
        EntryPart::Text(text) => indented(out, text.trim_end(), usize::MAX),
        EntryPart::Thinking(text) if text.trim().is_empty() => Ok(()),
        EntryPart::Thinking(text) => {
            let shown = fit(text, width.saturating_sub(14));
            out.line(&out.styled(Style::Dim, &format!("  (thinking) {shown}")))
        }
        EntryPart::Call { name, input, .. } => {
            let shown = fit(&format!("{name} {input}"), width.saturating_sub(4));
            out.line(&format!("  → {shown}"))
        }
        EntryPart::Result { text, is_error, .. } => {
            let head = if *is_error {
                out.styled(Style::Bad, "  ← error")
            } else {
                "  ← result".to_owned()
            };
            out.line(&head)?;
            indented(out, text.trim_end(), RESULT_LINES)
        }
        EntryPart::Other(kind) => out.line(&out.styled(Style::Dim, &format!("  [{kind}]"))),
        // What a newer library tells apart and this program does not.
        _ => Ok(()),
    }
}

fn indented(out: &mut Out, text: &str, most: usize) -> io::Result<()> {
    let text = harmless(text);
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().take(most) {
        for part in textwrap::wrap(line, out.width().saturating_sub(4)) {
            out.line(format!("    {part}").trim_end())?;
        }
    }
    if lines.len() > most {
        let more = format!("    … {} more", count((lines.len() - most) as u64, "line"));
        out.line(&out.styled(Style::Dim, &more))?;
    }
    Ok(())
}

fn print_line(out: &mut Out, line: &Line) -> io::Result<()> {
    let text = line.to_json().unwrap_or_default();
    let kind = fit(&line.kind, 24);
    let columns = out.width().saturating_sub(34);
    out.line(&format!(
        "{:>6}  {kind:<24} {}",
        line.seq,
        out.styled(Style::Dim, &fit(&text, columns))
    ))
}

fn newest<T>(all: &[T], limit: Option<usize>) -> &[T] {
    &all[limit.map_or(0, |limit| all.len().saturating_sub(limit))..]
}

/// Prints JSON texts as one array, none of them printed anew.
fn array(out: &mut Out, entries: &[String]) -> io::Result<()> {
    out.bytes(b"[")?;
    for (number, entry) in entries.iter().enumerate() {
        out.bytes(if number == 0 { b"\n" } else { b",\n" })?;
        out.bytes(entry.as_bytes())?;
    }
    out.bytes(if entries.is_empty() { b"]\n" } else { b"\n]\n" })
}
