//! `turnkeep import`

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use turnkeep::claude_code::{self, ImportOptions, ImportReport, Progress};

use super::fail::Failure;
use super::out::{Out, Style, count};
use super::{Call, Done, Outcome};

/// How many problems are printed without `--json`.
const SHOWN: usize = 20;

/// Take in Claude Code's transcripts: what is new of them
///
/// PATH is a config folder (it holds `projects/`), one project's folder, or one .jsonl file. The
/// source is never touched. A second import takes only what is new.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// [default: CLAUDE_CONFIG_DIR, else ~/.claude]
    path: Option<PathBuf>,

    /// File everything under this project key, in place of the folder's name
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    project: Option<String>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let path = match &args.path {
        Some(path) => path.clone(),
        None => default_path()?,
    };
    if !path.exists() {
        let message = format!("{} is not there", path.display());
        return Err(Failure::wrong_use(message)
            .hint("name a Claude Code config folder, a project's folder or a .jsonl file"));
    }
    let store = call.open(true)?;
    let mut options = ImportOptions::new();
    if let Some(key) = &args.project {
        options = options.into_project(key);
    }
    let stop = stop_on_interrupt();
    let bar = bar();
    let report = claude_code::import(&store, &path, &options, &mut |progress: Progress<'_>| {
        bar.set_length(progress.bytes.1);
        bar.set_position(progress.bytes.0.min(progress.bytes.1));
        bar.set_message(format!(
            "{} of {} files",
            progress.files.0, progress.files.1
        ));
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bar.finish_and_clear();
    let report = report?;
    let mut out = Out::new();
    if call.json {
        let json = serde_json::to_string(&report).map_err(io::Error::other)?;
        out.line(&json)?;
    } else {
        print(&mut out, &report, &store.path().display().to_string())?;
    }
    Ok(if report.partial {
        Done::Part
    } else {
        Done::All
    })
}

fn print(out: &mut Out, report: &ImportReport, store: &str) -> io::Result<()> {
    out.line(&format!(
        "{}, {} ({} new) in {store}",
        count(report.sessions, "session"),
        count(report.entries, "entry"),
        report.new_entries
    ))?;
    let odd = [
        (
            report.repaired_links,
            "link to a missing message",
            "bridged when read",
        ),
        (
            report.differing_entries,
            "entry with the uuid of another",
            "kept as a line",
        ),
        (
            report.foreign_entries,
            "entry of another session",
            "filed there",
        ),
        (report.file_backups, "file backup", "kept"),
    ];
    for (number, what, then) in odd.into_iter().filter(|(number, ..)| *number > 0) {
        let what = if number == 1 {
            what.to_owned()
        } else {
            plural(what)
        };
        out.line(&format!("  {number} {what}: {then}"))?;
    }
    if report.file_changes > 0 {
        let changes = count(report.file_changes, "file change");
        out.line(&format!(
            "  {changes}: made of checkpoints and of what tools answered"
        ))?;
    }
    for note in report.notes.iter().take(SHOWN) {
        out.line(&format!("note: session {}: {}", note.session_id, note.what))?;
    }
    if report.notes.len() > SHOWN {
        let more = report.notes.len() - SHOWN;
        out.line(&format!("… and {more} more; --json lists them all"))?;
    }
    for problem in report.problems.iter().take(SHOWN) {
        let line = problem
            .line
            .map_or_else(String::new, |line| format!(":{line}"));
        let place = format!("{}{line}", problem.file.display());
        out.line(&format!(
            "{} {place}: {}",
            out.styled(Style::Bad, "problem:"),
            problem.what
        ))?;
    }
    if report.problems.len() > SHOWN {
        out.line(&format!(
            "… and {} more; --json lists them all",
            report.problems.len() - SHOWN
        ))?;
    }
    Ok(())
}

/// The plural of the first word that has one.
fn plural(what: &str) -> String {
    let (noun, rest) = what.split_once(' ').unwrap_or((what, ""));
    match noun {
        "file" => "file backups".to_owned(),
        "entry" => format!("entries {rest}"),
        noun => format!("{noun}s {rest}"),
    }
}

fn default_path() -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty())
    {
        return Ok(folder.into());
    }
    let home = etcetera::home_dir().map_err(|_| {
        Failure::wrong_use("the home folder is not known").hint("name the folder to import")
    })?;
    Ok(home.join(".claude"))
}

/// A flag that Ctrl-C sets. The first one stops the import cleanly; a second one ends the program.
fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    // Without a handler Ctrl-C ends the program at once, which loses nothing either.
    drop(ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    }));
    stop
}

fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let template = "importing {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
