//! `turnkeep take`

use std::path::PathBuf;

use turnkeep::{Error, FileAction, FileOutcome, RewindReport, TakeOptions};

use super::fail::Failure;
use super::out::{Out, path};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Take one file over from another session, as that one left it
///
/// It is written like a rewind writes: what lies there is kept first, and `undo` takes it back.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that takes it
    id: String,

    /// The file
    file: PathBuf,

    /// The session it is taken from
    #[arg(long, value_name = "ID", allow_hyphen_values = true)]
    from: String,

    /// As it was at a restore point of that session, or before (@opN) or after (@opN+) an operation
    #[arg(long, value_name = "POINT")]
    at: Option<String>,

    /// Allow a file below this folder to be written, beside those in the session's own roots
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Also over what was changed outside, or by a third session
    #[arg(long)]
    force: bool,

    /// Although a tool call of the session has no result yet
    #[arg(long)]
    while_pending: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = if args.dry_run {
        call.look()?
    } else {
        call.open(false)?
    };
    let taker = session(&store, &args.id, args.within.project())?;
    let from = session(&store, &args.from, args.within.project())?;
    let mut options = TakeOptions::file(std::path::absolute(&args.file)?)
        .force(args.force)
        .while_pending(args.while_pending);
    if let Some(point) = &args.at {
        options = options.at(point);
    }
    for root in &args.root {
        options = options.root(root);
    }
    let plan = taker.files().plan_take(&from, &options)?;
    let report = match args.dry_run {
        true => plan.report().clone(),
        false => taker.rewind(&plan)?,
    };
    let mut out = Out::new();
    if !args.dry_run && report.is_partial() {
        return Err(left(&report));
    }
    if call.json {
        let shown = serde_json::to_string(&report).map_err(std::io::Error::other)?;
        out.line(&shown)?;
        return Ok(Done::All);
    }
    for file in &report.files {
        let what = match (file.action, file.outcome) {
            (FileAction::Unchanged, _) => "is the same already".to_owned(),
            (FileAction::Conflict, FileOutcome::Planned) => {
                format!(
                    "would be left: {}",
                    file.reason.as_deref().unwrap_or("a conflict")
                )
            }
            (action, FileOutcome::Planned) => {
                format!(
                    "would be taken ({}) +{} -{}",
                    action.as_str(),
                    file.insertions,
                    file.deletions
                )
            }
            _ => format!("taken +{} -{}", file.insertions, file.deletions),
        };
        out.line(&format!("{}  {what}", path(&file.path)))?;
    }
    if let Some(operation) = report.operation {
        out.line(&format!("operation {operation}"))?;
    }
    Ok(Done::All)
}

/// Why nothing was done.
fn left(report: &RewindReport) -> Failure {
    let file = report.files.first();
    let path = file.map(|file| path(&file.path)).unwrap_or_default();
    let reason = file
        .and_then(|file| file.reason.clone())
        .unwrap_or_default();
    let why = format!("{path} was left as it is: {reason}");
    let failure = Failure::Store(Error::Conflict(why));
    match file.map(|file| file.action) {
        Some(FileAction::Conflict) => {
            failure.hint("--force takes it over all the same, and keeps what it overwrites")
        }
        _ => failure,
    }
}
