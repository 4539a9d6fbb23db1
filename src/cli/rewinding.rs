//! What `rewind` and `undo` share: how they are asked, the plan, the question, and what came of it.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::ValueEnum;
use turnkeep::{
    FileAction, FileOptions, FileOutcome, FileReport, Restore, RewindOptions, RewindPlan,
    RewindReport, Session, Store,
};
use unicode_width::UnicodeWidthStr;

use super::differences::show_differences;
use super::fail::Failure;
use super::out::{Out, Style, count, harmless, harmless_line, pad, path};
use super::place::file;
use super::{Call, Done, Outcome};

// How a rewind or an undo is done. (A doc comment here would become the command's own.)
#[derive(Debug, clap::Args)]
pub(super) struct How {
    /// What to take back [default: both; of an undo, all that the rewind restored]
    #[arg(long, value_name = "WHAT")]
    restore: Option<Restored>,

    /// Only these files, and those below these folders
    #[arg(long, value_name = "PATH", num_args = 1..)]
    only: Vec<PathBuf>,

    /// Allow files below this folder to be changed, beside those below the session's own; may be
    /// repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,

    /// Put back also what others changed since; what is overwritten is kept first
    #[arg(long)]
    force: bool,

    /// Go on although a tool call of the session has no result yet
    #[arg(long)]
    while_pending: bool,

    /// With both, let the conversation move although some files are left as they are
    #[arg(long)]
    accept_part: bool,

    /// Show the differences also where no terminal is
    #[arg(long)]
    diff: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Who asks, for the log
    #[arg(long, value_name = "WHO")]
    by: Option<String>,

    /// Leave larger files alone [default: 100 MiB]
    #[arg(long, value_name = "N")]
    max_file_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Restored {
    Files,
    Conversation,
    Both,
}

impl How {
    /// The store: to look at it, if nothing is to be done.
    pub(super) fn store(&self, call: &Call) -> Result<Store, Failure> {
        let store = if self.dry_run {
            call.look()?
        } else {
            call.open(false)?
        };
        Ok(match self.max_file_bytes {
            Some(bytes) => store.with_files(FileOptions::new().max_file_bytes(bytes)),
            None => store,
        })
    }

    pub(super) fn options(&self, session: &Session, point: &str) -> Result<RewindOptions, Failure> {
        let mut options = RewindOptions::to(point)
            .force(self.force)
            .while_pending(self.while_pending)
            .accept_part(self.accept_part)
            .restore(match self.restore {
                Some(Restored::Files) => Restore::Files,
                Some(Restored::Conversation) => Restore::Conversation,
                Some(Restored::Both) | None => Restore::Both,
            });
        for path in &self.only {
            options = options.only(file(session, path)?);
        }
        for root in &self.root {
            options = options.root(std::path::absolute(root)?);
        }
        if let Some(who) = &self.by {
            options = options.by(who);
        }
        Ok(options)
    }
}

/// Shows a plan, asks where a person is there to answer, does it, and says what came of it.
pub(super) fn carry_out(
    call: &Call,
    how: &How,
    session: &Session,
    plan: &RewindPlan,
    what: &str,
) -> Outcome {
    let planned = plan.report();
    let mut out = Out::new();
    if call.json {
        let report = match how.dry_run {
            true => planned.clone(),
            false => session.rewind(plan)?,
        };
        let json = serde_json::to_string(&report).map_err(io::Error::other)?;
        out.line(&json)?;
        return Ok(match how.dry_run {
            true => Done::All,
            false => ended(planned, &report),
        });
    }
    let asks = !how.yes && io::stdin().is_terminal() && out.is_terminal();
    let shows_plan = how.dry_run || asks;
    if shows_plan {
        let restore = match planned.restore {
            Restore::Both => "files and conversation",
            one => one.as_str(),
        };
        let title = format!("{}: {restore}", harmless_line(what));
        out.line(&out.styled(Style::Bold, &title))?;
        show_files(&mut out, planned)?;
        show_rest(&mut out, planned)?;
    }
    if out.is_terminal() || how.diff {
        show_differences(&mut out, plan)?;
    }
    let begins = would_do_something(planned, how.accept_part);
    if how.dry_run {
        let told = match (begins, planned.is_partial()) {
            (true, _) => "nothing was changed: this is what would be done",
            (false, true) => "nothing would be done, because of what cannot be put back",
            (false, false) => "nothing would be done: all is as it was",
        };
        out.line(told)?;
        return Ok(Done::All);
    }
    if asks && begins {
        out.question("go on? [y/N] ")?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            out.line("nothing was changed")?;
            return Ok(Done::All);
        }
    }
    let report = session.rewind(plan)?;
    if !shows_plan || report.is_partial() {
        show_files(&mut out, &report)?;
    }
    if !shows_plan {
        show_rest(&mut out, &report)?;
    }
    let done = ended(planned, &report);
    show_end(&mut out, session, planned, &report, done)?;
    Ok(done)
}

/// How it ended: whether all, a part, or nothing was done.
fn ended(planned: &RewindReport, report: &RewindReport) -> Done {
    let stayed = planned.conversation_moved && !report.conversation_moved;
    let did = report.touched_files() || report.conversation_moved;
    match (report.is_partial() || stayed, did) {
        (false, _) => Done::All,
        (true, true) => Done::Part,
        (true, false) => Done::Nothing,
    }
}

/// Whether a plan changes anything. Of what is not to begin, the conversation does not move.
fn would_do_something(planned: &RewindReport, accept_part: bool) -> bool {
    let any = planned.files.iter().any(|file| touches(file.action));
    match planned.restore {
        Restore::Files => any,
        Restore::Conversation => planned.conversation_moved,
        Restore::Both => {
            planned.conversation_moved || (any && (accept_part || !planned.is_partial()))
        }
    }
}

fn touches(action: FileAction) -> bool {
    matches!(
        action,
        FileAction::Restore | FileAction::Delete | FileAction::Recreate
    )
}

/// One line a file: what is done to it, lines that come and go, the path; and why, below it where
/// it does not fit.
fn show_files(out: &mut Out, report: &RewindReport) -> Result<(), Failure> {
    let mut unchanged = 0;
    for file in &report.files {
        if file.action == FileAction::Unchanged {
            unchanged += 1;
            continue;
        }
        let (word, style) = word(file);
        // Of what has no lines, and of a mode or a link alone, there is nothing to count.
        let lines = match (file.insertions, file.deletions) {
            (0, 0) => String::new(),
            (come, go) => format!("+{come} -{go}"),
        };
        let word = out.styled(style, &pad(word, 11));
        let path = path(&file.path);
        let reason = file.reason.as_deref().map(harmless_line);
        let taken = 24 + path.width();
        let head = format!("{word}  {}  {path}", pad(&lines, 9));
        match reason {
            Some(reason) if taken + 2 + reason.width() <= out.width() => {
                out.line(&format!("{head}: {reason}"))?;
            }
            Some(reason) => {
                out.line(&head)?;
                out.wrapped(&reason, 24)?;
            }
            None => out.line(&head)?,
        }
    }
    if unchanged > 0 {
        let files = count(unchanged, "file");
        let line = format!("{}  {}  {files}", pad("unchanged", 11), pad("", 9));
        out.line(&out.styled(Style::Dim, &line))?;
    }
    Ok(())
}

/// What is, or was, done to a file.
fn word(file: &FileReport) -> (&'static str, Style) {
    use FileAction as Action;
    match (file.action, file.outcome) {
        (Action::Conflict, _) => ("conflict", Style::Bad),
        (Action::NotCovered, _) => ("not covered", Style::Bad),
        (Action::Refused, _) => ("refused", Style::Bad),
        (Action::Unchanged, _) => ("unchanged", Style::Dim),
        (_, FileOutcome::Failed) => ("failed", Style::Bad),
        (_, FileOutcome::Left) => ("left", Style::Bad),
        (Action::Delete, FileOutcome::Planned) => ("delete", Style::Bad),
        (Action::Restore, FileOutcome::Planned) => ("restore", Style::Good),
        (Action::Recreate, FileOutcome::Planned) => ("recreate", Style::Good),
        (Action::Delete, FileOutcome::Done) => ("deleted", Style::Bad),
        (Action::Restore, FileOutcome::Done) => ("restored", Style::Good),
        (Action::Recreate, FileOutcome::Done) => ("recreated", Style::Good),
    }
}

/// What is not about single files.
fn show_rest(out: &mut Out, report: &RewindReport) -> Result<(), Failure> {
    for missed in &report.not_covered {
        let what = harmless_line(&missed.what);
        let told = format!("not covered: {what} ({}): {}", missed.count, missed.reason);
        out.wrapped(&told, 0)?;
    }
    if report.conversation_moved {
        let told = match &report.head {
            Some(head) => format!("the conversation ends at {head}"),
            None => "the conversation is at its beginning".to_owned(),
        };
        out.line(&told)?;
    }
    for phase in &report.stale_phases {
        let phase = harmless_line(phase);
        let told = format!("stale: phase {phase} is done, and files that it changed go back");
        out.wrapped(&told, 0)?;
    }
    Ok(())
}

/// What came of all of it, and what can be done next.
fn show_end(
    out: &mut Out,
    session: &Session,
    planned: &RewindReport,
    report: &RewindReport,
    done: Done,
) -> Result<(), Failure> {
    let left = report.files.iter().filter(|file| {
        let stays = matches!(file.outcome, FileOutcome::Left | FileOutcome::Failed);
        stays && !touches(file.action)
    });
    let left = count(left.count() as u64, "file");
    if done == Done::Nothing && report.operation.is_none() {
        out.line(&format!("nothing was done: {left} cannot be put back"))?;
    } else if done == Done::Nothing {
        out.line("nothing was done: what had been changed was put back")?;
    } else if report.operation.is_none() {
        out.line("nothing to do")?;
    }
    if planned.conversation_moved && !report.conversation_moved && done == Done::Part {
        out.line("the conversation was not moved: something was said meanwhile")?;
    }
    if done != Done::All {
        if !report.conflicts.is_empty() {
            out.line("hint: --force puts conflicts back too, and keeps what it overwrites")?;
        }
        if done == Done::Nothing && report.restore == Restore::Both {
            out.line("hint: --accept-part does the rest, --restore conversation leaves all files")?;
        }
    }
    if let Some(prompt) = report.removed_prompt.as_deref() {
        out.line("the prompt that left the conversation:")?;
        for line in harmless(prompt).lines() {
            out.line(&format!("    {line}"))?;
        }
    }
    if let Some(operation) = report.operation.filter(|_| done != Done::Nothing) {
        let id = harmless_line(session.id());
        let told = format!("undo with: turnkeep undo {id} --operation {operation}");
        out.line(&out.styled(Style::Dim, &told))?;
    }
    Ok(())
}
