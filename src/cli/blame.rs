//! `turnkeep blame`

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::json;
use turnkeep::{Blame, Change, LineOrigin, StateInfo, StateKind};
use unicode_width::UnicodeWidthStr;

use super::fail::Failure;
use super::out::{Out, Style, beginning, fit, harmless, harmless_line, pad, path, size, time};
use super::{Call, Done, Outcome};

/// Show which session, prompt and tool call wrote each line of a file
///
/// Of the file as it lies on the disk: lines that no call wrote are `outside`, or from before
/// tracking. What is gone, a folder, a link or not text has no lines.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file; with :LINE, all that is known of that line
    #[arg(value_name = "FILE[:LINE]")]
    file: PathBuf,

    /// Of the file as it was recorded last, whatever lies on the disk
    #[arg(long)]
    recorded: bool,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let (file, line) = file_and_line(&args.file);
    if file.as_os_str().is_empty() {
        let why = format!("`{}` names no file", path(&args.file));
        return Err(Failure::wrong_use(why).hint("write FILE, or FILE:LINE"));
    }
    // Read ahead of the store: should it be the store's own file, closing it drops no lock.
    let present = (!args.recorded).then(|| Present::of(&file));
    let store = call.look()?;
    let blame = match present {
        None => store.audit().blame(&file)?,
        Some(Present::File(content)) => store.audit().blame_content(&file, &content)?,
        Some(present) => present.blame(store.audit().blame(&file)?),
    };
    let mut out = Out::paged(call.json);
    if let Some(number) = line {
        return one_line(call, &mut out, &blame, number);
    }
    if call.json {
        let shown = serde_json::to_string(&blame).map_err(std::io::Error::other)?;
        out.line(&shown)?;
        return Ok(Done::All);
    }
    match without_lines(&blame) {
        Some(what) => out.line(&format!("{} {what}", path(&blame.path)))?,
        None => print(&mut out, &blame)?,
    }
    Ok(Done::All)
}

/// What lies on the disk under a name.
enum Present {
    File(Vec<u8>),
    Absent,
    Directory,
    Symlink(Option<PathBuf>),
    /// No file, or one that cannot be read.
    Unknown(String),
}

impl Present {
    /// Opens files alone: a FIFO would be waited for, and a link's file has a history of its own.
    fn of(file: &Path) -> Self {
        let missing = [ErrorKind::NotFound, ErrorKind::NotADirectory];
        match std::fs::symlink_metadata(file) {
            Err(error) if missing.contains(&error.kind()) => Self::Absent,
            Err(error) => Self::Unknown(format!("it cannot be read: {error}")),
            Ok(found) if found.is_dir() => Self::Directory,
            Ok(found) if found.is_symlink() => Self::Symlink(std::fs::read_link(file).ok()),
            Ok(found) if found.is_file() => match std::fs::read(file) {
                Ok(content) => Self::File(content),
                Err(error) => Self::Unknown(format!("it cannot be read: {error}")),
            },
            Ok(_) => Self::Unknown("it is no file, folder or link".to_owned()),
        }
    }

    /// Blame of what is no file: it has no lines, whatever was recorded.
    fn blame(self, recorded: Blame) -> Blame {
        let (kind, target, reason) = match self {
            Self::Symlink(target) => (StateKind::Symlink, target, None),
            Self::Directory => (StateKind::Directory, None, None),
            Self::Unknown(why) => (StateKind::NotKept, None, Some(why)),
            Self::Absent | Self::File(_) => (StateKind::Absent, None, None),
        };
        Blame {
            path: recorded.path,
            state: StateInfo {
                kind,
                hash: None,
                bytes: None,
                mode: None,
                target,
                reason,
            },
            lines: Vec::new(),
            origins: Vec::new(),
        }
    }
}

/// What is told of that which has no lines.
fn without_lines(blame: &Blame) -> Option<String> {
    let state = &blame.state;
    match state.kind {
        StateKind::Absent => Some("is gone".to_owned()),
        StateKind::Directory => Some("is a folder".to_owned()),
        StateKind::Symlink => Some(match &state.target {
            Some(target) => format!("is a link to {}", harmless_line(&target.to_string_lossy())),
            None => "is a link".to_owned(),
        }),
        StateKind::File if !blame.is_text() => {
            let bytes = size(state.bytes.unwrap_or(0));
            Some(format!("is not text: {bytes}"))
        }
        StateKind::NotKept if blame.lines.is_empty() => {
            let why = state.reason.as_deref().unwrap_or("nobody knows why");
            Some(format!("is not known: {}", harmless_line(why)))
        }
        StateKind::File | StateKind::NotKept => None,
    }
}

fn file_and_line(given: &Path) -> (PathBuf, Option<usize>) {
    match split(given.as_os_str()) {
        Some(found) if given.symlink_metadata().is_err() => (found.0, Some(found.1)),
        _ => (given.to_owned(), None),
    }
}

/// What stands before the last colon, and the number behind it. A name need not be UTF-8.
#[cfg(unix)]
fn split(given: &OsStr) -> Option<(PathBuf, usize)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = given.as_bytes();
    let colon = bytes.iter().rposition(|byte| *byte == b':')?;
    let line = std::str::from_utf8(&bytes[colon + 1..]).ok()?;
    let file = PathBuf::from(OsStr::from_bytes(&bytes[..colon]));
    Some((file, line.parse().ok()?))
}

#[cfg(not(unix))]
fn split(given: &OsStr) -> Option<(PathBuf, usize)> {
    let (file, line) = given.to_str()?.rsplit_once(':')?;
    Some((PathBuf::from(file), line.parse().ok()?))
}

fn print(out: &mut Out, blame: &Blame) -> Result<(), Failure> {
    const WHO: usize = 36;
    let digits = blame.lines.len().to_string().len();
    for line in &blame.lines {
        let origin = blame.origin(line.number);
        let (who, style) = match origin {
            Some(LineOrigin::Change { change }) => (shortly(change), Style::Bold),
            Some(LineOrigin::BeforeTracking) => ("before tracking".to_owned(), Style::Dim),
            Some(LineOrigin::Outside { seen_ms, .. }) => {
                let when = seen_ms.map(|ms| format!(", seen {}", time(ms)));
                (format!("outside{}", when.unwrap_or_default()), Style::Dim)
            }
            _ => ("not known".to_owned(), Style::Dim),
        };
        let who = out.styled(style, &pad(&who, WHO));
        let text = String::from_utf8_lossy(&line.content);
        let text = harmless(text.strip_suffix('\n').unwrap_or(&text));
        let shown = format!("{who}  {:>digits$}  {text}", line.number);
        out.line(shown.trim_end())?;
    }
    Ok(())
}

fn shortly(change: &Change) -> String {
    let session = pad(&beginning(&change.session.session_id), 8);
    let what = pad(&fit(what(change), 8), 8);
    format!("{session}  {what}  {}", time(change.at_ms))
}

/// The tool that made a change, or what else did.
fn what(change: &Change) -> &str {
    let tool = change.call.as_ref().and_then(|call| call.tool.as_deref());
    tool.unwrap_or(change.source.as_str())
}

fn one_line(call: &Call, out: &mut Out, blame: &Blame, number: usize) -> Outcome {
    if let Some(what) = without_lines(blame) {
        let why = format!("{} {what}; it has no lines", path(&blame.path));
        return Err(Failure::wrong_use(why));
    }
    let line = number.checked_sub(1).and_then(|at| blame.lines.get(at));
    let (Some(line), Some(origin)) = (line, blame.origin(number)) else {
        let has = blame.lines.len();
        let why = format!(
            "{} has {has} lines, and no line {number}",
            path(&blame.path)
        );
        return Err(Failure::wrong_use(why));
    };
    if call.json {
        // The fields that name the path, as they are of the whole.
        let mut shown = json!({"line": line, "origin": origin});
        let whole = Blame {
            path: blame.path.clone(),
            state: blame.state.clone(),
            lines: Vec::new(),
            origins: Vec::new(),
        };
        let whole = serde_json::to_value(&whole).map_err(std::io::Error::other)?;
        for name in ["path", "path_bytes"] {
            if let Some(value) = whole.get(name) {
                shown[name] = value.clone();
            }
        }
        out.line(&shown.to_string())?;
        return Ok(Done::All);
    }
    let text = String::from_utf8_lossy(&line.content);
    let title = harmless_line(text.trim_end_matches(['\n', '\r']));
    out.line(&out.styled(Style::Bold, &title))?;
    let mut fact = |name: &str, value: &str| -> Result<(), Failure> {
        let room = out
            .width()
            .saturating_sub(10 + name.width().saturating_sub(8));
        Ok(out.line(&format!("{}  {}", pad(name, 8), fit(value, room)))?)
    };
    let change = match origin {
        LineOrigin::Change { change } => change,
        LineOrigin::NotKept { change } => {
            fact(
                "written",
                "not known: what was there before this change is not kept",
            )?;
            change
        }
        LineOrigin::BeforeTracking => {
            fact("written", "before the first recorded change of the file")?;
            return Ok(Done::All);
        }
        _ => {
            fact("written", "outside of any session's recorded calls")?;
            return Ok(Done::All);
        }
    };
    fact("session", &change.session.to_string())?;
    if let Some(agent) = &change.agent {
        fact("agent", agent)?;
    }
    if let Some(prompt) = &change.prompt {
        fact("prompt", &prompt.uuid)?;
        if let Some(text) = &prompt.text {
            fact("", text)?;
        }
    }
    if let Some(made) = &change.call {
        fact("call", &format!("{} {}", what(change), made.id))?;
    }
    let written_to = match change.path == blame.path {
        true => String::new(),
        false => format!(", to {}", path(&change.path)),
    };
    let at = time(change.at_ms);
    fact("change", &format!("{} at {at}{written_to}", change.id))?;
    Ok(Done::All)
}
