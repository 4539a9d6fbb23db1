//! `turnkeep trace`

use std::path::PathBuf;

use turnkeep::agent_trace::{self, TraceOptions, Vcs};

use super::fail::Failure;
use super::out::{Out, harmless_line};
use super::{Call, Done, Outcome};

/// Write blame as an Agent Trace record: JSON that other tools read
///
/// One record, on one line, of all files below the root of which a change is recorded, as they lie
/// on the disk: which session, turn and model wrote which lines. No git is run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only these files, and the files below these folders
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// The folder that the record tells paths from: that of the repository
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,

    /// The revision whose lines these are, such as git:SHA; also jj:, hg: and svn:
    #[arg(long, value_name = "TYPE:REV")]
    revision: Option<String>,

    /// Of the files as they were recorded last, whatever lies on the disk
    #[arg(long)]
    recorded: bool,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let mut options = TraceOptions::below(&args.root);
    if let Some(revision) = &args.revision {
        options = options.at(vcs(revision)?);
    }
    if args.recorded {
        options = options.recorded();
    }
    for path in &args.paths {
        options = options.path(path);
    }
    let record = agent_trace::record(&call.look()?, &options)?;
    let shown = serde_json::to_string(&record).map_err(std::io::Error::other)?;
    Out::new().line(&shown)?;
    let mut done = Done::All;
    let left_out = record.metadata.turnkeep.left_out.iter();
    for left in left_out.filter(|left| left.kind.hides_lines()) {
        eprintln!(
            "note: {} is left out: {}",
            harmless_line(&left.path),
            left.reason
        );
        done = Done::Part;
    }
    Ok(done)
}

fn vcs(revision: &str) -> Result<Vcs, Failure> {
    revision.parse().map_err(|error: turnkeep::Error| {
        Failure::wrong_use(error.to_string())
            .hint("write it as git:SHA, for example --revision git:$(git rev-parse HEAD)")
    })
}
