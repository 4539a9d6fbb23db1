//! The differences that a rewind makes, as unified diffs: of text by lines, of anything else by size.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use turnkeep::{FileAction, FileReport, FileState, RewindPlan};

use super::fail::Failure;
use super::out::{Out, Style, harmless_line, path, size};

/// How many lines of differences are shown of one file.
const LINES: usize = 200;

/// Larger contents are told by size alone.
const MOST_BYTES: usize = 1 << 20;

/// How long one pair of contents is compared; what is not compared by then is shown as replaced.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows what each file that is put back becomes, or would become.
pub(super) fn show_differences(out: &mut Out, plan: &RewindPlan) -> Result<(), Failure> {
    for file in &plan.report().files {
        let differs = !matches!(file.action, FileAction::Unchanged | FileAction::Refused);
        if differs {
            let (now, then) = plan.contents(&file.path)?;
            show(out, file, &now, &then)?;
        }
    }
    Ok(())
}

fn show(
    out: &mut Out,
    file: &FileReport,
    now: &FileState,
    then: &FileState,
) -> Result<(), Failure> {
    let title = match file.action {
        FileAction::Conflict => format!("{} (left alone)", path(&file.path)),
        _ => path(&file.path),
    };
    out.line(&out.styled(Style::Bold, &title))?;
    match (text(now), text(then)) {
        (Some(from), Some(to)) => lines(out, from, to)?,
        _ => {
            out.line(&out.styled(Style::Bad, &format!("- {}", told(now))))?;
            out.line(&out.styled(Style::Good, &format!("+ {}", told(then))))?;
        }
    }
    if let (FileState::File { mode, .. }, FileState::File { mode: other, .. }) = (now, then)
        && mode != other
    {
        out.line(&format!("mode {mode:04o} -> {other:04o}"))?;
    }
    Ok(())
}

/// The content that can be shown line by line. Nothing is an empty text.
fn text(state: &FileState) -> Option<&[u8]> {
    match state {
        FileState::Absent => Some(b""),
        FileState::File { content, .. } => {
            let is_text = content.len() <= MOST_BYTES && !content.contains(&0);
            is_text.then_some(content)
        }
        _ => None,
    }
}

/// What lies there, in words.
fn told(state: &FileState) -> String {
    match state {
        FileState::Absent => "nothing".to_owned(),
        FileState::File { content, .. } => {
            let kind = if content.contains(&0) {
                "binary"
            } else {
                "text"
            };
            format!("{kind}, {}", size(content.len() as u64))
        }
        FileState::Symlink { target } => {
            format!("link to {}", harmless_line(&target.to_string_lossy()))
        }
        FileState::Directory => "a folder".to_owned(),
        FileState::NotKept { reason } => format!("not kept: {}", harmless_line(reason)),
    }
}

fn lines(out: &mut Out, from: &[u8], to: &[u8]) -> Result<(), Failure> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(from, to);
    let mut shown = 0;
    let mut more = 0;
    for hunk in diff.unified_diff().iter_hunks() {
        let changes = hunk.iter_changes().map(|change| {
            let (sign, style) = match change.tag() {
                ChangeTag::Equal => (' ', None),
                ChangeTag::Delete => ('-', Some(Style::Bad)),
                ChangeTag::Insert => ('+', Some(Style::Good)),
            };
            let line = change.to_string_lossy();
            let end = if change.missing_newline() {
                " (no line end)"
            } else {
                ""
            };
            let line = line.strip_suffix('\n').unwrap_or(&line);
            (format!("{sign}{}{end}", visible(line)), style)
        });
        let header = (hunk.header().to_string(), Some(Style::Dim));
        for (line, style) in std::iter::once(header).chain(changes) {
            if shown >= LINES {
                more += 1;
                continue;
            }
            shown += 1;
            match style {
                Some(style) => out.line(&out.styled(style, line.trim_end_matches('\n')))?,
                None => out.line(&line)?,
            }
        }
    }
    if more > 0 {
        out.line(&out.styled(Style::Dim, &format!("… {more} more lines")))?;
    }
    Ok(())
}

/// A line whose tabs stay, and whose other control characters cannot steer the terminal. A CR at
/// its end is told, as it may be all that differs.
fn visible(line: &str) -> String {
    match line.strip_suffix('\r') {
        Some(line) => format!("{} (CR)", super::out::harmless(line)),
        None => super::out::harmless(line),
    }
}
