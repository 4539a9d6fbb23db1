//! `turnkeep diff`

use serde_json::json;
use turnkeep::{
    ChangeFilter, DiffHunk, DiffKind, DiffLine, DiffOptions, FileDiff, Session, StateInfo,
    StateKind,
};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::fail::Failure;
use super::out::{Out, Style, harmless, harmless_line, path, size};
use super::place::{Within, file, session};
use super::{Call, Done, Outcome};

/// Show how a session's files differ between two moments
///
/// A moment is a restore point (the state just before that prompt or call: see `points`), @opN or
/// @opN+ (before and after operation N), or now (what lies on the disk, the default for TO).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The moment to compare from
    from: String,

    /// The moment to compare to, then paths; a word that names no moment is a path
    #[arg(value_name = "TO|PATH")]
    rest: Vec<String>,

    /// Old and new beside each other
    #[arg(long)]
    side_by_side: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = session(&store, &args.id, args.within.project())?;
    let (to, paths) = moment_and_paths(&session, &args.rest)?;
    let mut options = DiffOptions::between(&args.from, to);
    for word in paths {
        let path = file(&session, word.as_ref())?;
        let filter = ChangeFilter::new().session(session.key()).path(&path);
        let is_known = path.symlink_metadata().is_ok()
            || !store.audit().changes(&filter, None, 1)?.changes.is_empty();
        if !is_known {
            let why = format!(
                "`{word}` is no moment of this session, and no file that is there or that it changed"
            );
            return Err(Failure::missing(why).hint(
                "`turnkeep points ID` lists the restore points, `turnkeep changes --session ID` the files",
            ));
        }
        options = options.only(path);
    }
    let files = session.files().diff(&options)?;
    let mut out = Out::paged(call.json);
    if call.json {
        let shown = json!({"from": args.from, "to": to, "files": files});
        out.line(&shown.to_string())?;
        return Ok(Done::All);
    }
    print(&mut out, &files, args.side_by_side)?;
    Ok(Done::All)
}

/// What stands behind the first moment: perhaps another one, then paths.
fn moment_and_paths<'a>(
    session: &Session,
    rest: &'a [String],
) -> Result<(&'a str, &'a [String]), Failure> {
    match rest.split_first() {
        Some((first, paths)) if session.files().is_moment(first)? => Ok((first, paths)),
        Some((first, _)) if first.starts_with('@') => Err(Failure::wrong_use(format!(
            "`{first}` is no moment of this session; a path that begins so is written ./{first}"
        ))),
        _ => Ok(("@now", rest)),
    }
}

/// Prints diffs, one file after another.
pub(super) fn print(out: &mut Out, files: &[FileDiff], side_by_side: bool) -> Result<(), Failure> {
    if files.is_empty() {
        out.line("no differences")?;
    }
    for file in files {
        heading(out, file)?;
        for hunk in &file.hunks {
            let (old, new) = (hunk.old, hunk.new);
            let at = format!("@@ -{},{} +{},{} @@", old.0, old.1, new.0, new.1);
            out.line(&out.styled(Style::Dim, &at))?;
            if side_by_side {
                beside(out, hunk)?;
            } else {
                below(out, hunk)?;
            }
        }
    }
    Ok(())
}

fn heading(out: &mut Out, file: &FileDiff) -> Result<(), Failure> {
    let kind = match file.kind {
        DiffKind::Added => "added",
        DiffKind::Deleted => "deleted",
        DiffKind::Modified => "modified",
    };
    let counts = match (file.insertions, file.deletions) {
        (Some(come), Some(go)) => format!(" +{come} -{go}"),
        _ => String::new(),
    };
    let title = format!("{}  {kind}{counts}", path(&file.path));
    out.line(&out.styled(Style::Bold, &title))?;
    if file.insertions.is_none() {
        let (from, to) = (told(&file.from), told(&file.to));
        out.line(&out.styled(Style::Bad, &format!("- {from}")))?;
        out.line(&out.styled(Style::Good, &format!("+ {to}")))?;
    }
    if let (Some(from), Some(to)) = (file.from.mode, file.to.mode)
        && from != to
    {
        out.line(&format!("mode {from:04o} -> {to:04o}"))?;
    }
    Ok(())
}

/// A state that is not shown line by line.
fn told(state: &StateInfo) -> String {
    let reason = || harmless_line(state.reason.as_deref().unwrap_or("nobody knows why"));
    match state.kind {
        StateKind::Absent => "nothing".to_owned(),
        StateKind::Directory => "a folder".to_owned(),
        StateKind::NotKept => format!("not kept: {}", reason()),
        StateKind::Symlink => {
            let target = state.target.clone().unwrap_or_default();
            format!("link to {}", harmless_line(&target.to_string_lossy()))
        }
        StateKind::File => {
            let hash = state.hash.as_deref().unwrap_or_default();
            let beginning = hash.get(..16).unwrap_or(hash);
            format!("{}, {beginning}", size(state.bytes.unwrap_or(0)))
        }
    }
}

fn style(line: &DiffLine) -> (char, Option<(Style, Style)>) {
    match (line.old, line.new) {
        (Some(_), None) => ('-', Some((Style::Bad, Style::BadWord))),
        (None, _) => ('+', Some((Style::Good, Style::GoodWord))),
        _ => (' ', None),
    }
}

fn below(out: &mut Out, hunk: &DiffHunk) -> Result<(), Failure> {
    for line in &hunk.lines {
        let (sign, styles) = style(line);
        let shown = painted(out, &sign.to_string(), line, styles, None);
        out.line(&shown)?;
        if line.is_unended {
            out.line(&out.styled(Style::Dim, "\\ No newline at end of file"))?;
        }
    }
    Ok(())
}

fn beside(out: &mut Out, hunk: &DiffHunk) -> Result<(), Failure> {
    let number = |at: Option<usize>| at.map_or_else(|| " ".repeat(5), |at| format!("{at:>4} "));
    let columns = (out.width() - 3) / 2 - 5;
    let mut at = 0;
    while at < hunk.lines.len() {
        let behind = &hunk.lines[at..];
        let count = |goes: bool, lines: &[DiffLine]| {
            let wanted = |line: &&DiffLine| match goes {
                true => line.new.is_none(),
                false => line.old.is_none(),
            };
            lines.iter().take_while(wanted).count()
        };
        let goes = count(true, behind);
        let comes = count(false, &behind[goes..]);
        let rows: Vec<(Option<&DiffLine>, Option<&DiffLine>)> = if goes + comes == 0 {
            vec![(behind.first(), behind.first())]
        } else {
            let (old, new) = (&behind[..goes], &behind[goes..goes + comes]);
            (0..goes.max(comes))
                .map(|row| (old.get(row), new.get(row)))
                .collect()
        };
        for (old, new) in &rows {
            let side = |line: &Option<&DiffLine>, is_old: bool| match line {
                Some(line) => {
                    let at = if is_old { line.old } else { line.new };
                    let text = painted(out, "", line, style(line).1, Some(columns));
                    format!("{}{text}", number(at))
                }
                None => " ".repeat(columns + 5),
            };
            let mark = match (old, new) {
                (Some(_), None) => '<',
                (None, Some(_)) => '>',
                (Some(old), _) if old.new.is_none() => '|',
                _ => ' ',
            };
            let row = format!("{} {mark} {}", side(old, true), side(new, false));
            out.line(row.trim_end())?;
        }
        at += (goes + comes).max(1);
    }
    Ok(())
}

/// A line in its style, the words that differ in another; cut and filled up to `columns` if there
/// are so many only.
fn painted(
    out: &Out,
    lead: &str,
    line: &DiffLine,
    styles: Option<(Style, Style)>,
    columns: Option<usize>,
) -> String {
    let mut parts: Vec<(&str, bool)> = Vec::new();
    let mut at = 0;
    for (first, end) in &line.words {
        parts.push((&line.text[at..*first], false));
        parts.push((&line.text[*first..*end], true));
        at = *end;
    }
    parts.push((&line.text[at..], false));
    let mut left = columns.unwrap_or(usize::MAX);
    let mut shown = String::new();
    for (at, (text, is_word)) in parts.into_iter().enumerate() {
        let text = match text.strip_suffix('\r') {
            // It may be all that differs.
            Some(text) => format!("{} (CR)", harmless(text)),
            None => harmless(text),
        };
        let text = if columns.is_some() {
            cut(&text, left)
        } else {
            text
        };
        left = left.saturating_sub(text.width());
        let text = if at == 0 {
            format!("{lead}{text}")
        } else {
            text
        };
        match styles {
            _ if text.is_empty() => {}
            Some((_, word)) if is_word => shown.push_str(&out.styled(word, &text)),
            Some((plain, _)) => shown.push_str(&out.styled(plain, &text)),
            None => shown.push_str(&text),
        }
    }
    if columns.is_some() {
        shown.push_str(&" ".repeat(left));
    }
    shown
}

/// The beginning of a text that takes at most so many columns; tabs as four spaces.
fn cut(text: &str, columns: usize) -> String {
    let text = text.replace('\t', "    ");
    if text.width() <= columns {
        return text;
    }
    let mut used = 1;
    let fits = |letter: &char| {
        used += letter.width().unwrap_or(0);
        used <= columns
    };
    let mut kept: String = text.chars().take_while(fits).collect();
    if columns > 0 {
        kept.push('…');
    }
    kept
}
