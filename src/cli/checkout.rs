//! `turnkeep checkout`

use std::io;
use std::path::PathBuf;

use super::out::{Out, Style, count, path};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Write a session's files, as they were at a restore point, into an empty folder
///
/// Only the files that the session changed are known, each is written below the folder as it lies
/// below the session's own. The session's own files are not touched.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The restore point: an id, the beginning of one, a label, @last, @last~2 or @start
    point: String,

    /// The folder: an empty one, or a new one
    #[arg(long, value_name = "DIR")]
    into: PathBuf,

    /// Let the session change and rewind files in that folder: for a fork that works there
    #[arg(long)]
    as_root: bool,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = if args.as_root {
        call.open(false)?
    } else {
        call.look()?
    };
    let session = session(&store, &args.id, args.within.project())?;
    let files = session.files();
    let done = files.checkout(&args.point, &args.into, args.as_root)?;
    let mut out = Out::new();
    if call.json {
        let json = serde_json::to_string(&done).map_err(io::Error::other)?;
        out.line(&json)?;
    } else {
        for file in &done.written {
            out.line(&path(file))?;
        }
        for left in &done.not_written {
            let what = out.styled(Style::Bad, "left out:");
            out.line(&format!("{what} {}: {}", path(&left.path), left.reason))?;
        }
        let written = count(done.written.len() as u64, "file");
        out.line(&format!("{written} in {}", path(&args.into)))?;
    }
    Ok(match done.not_written.is_empty() {
        true => Done::All,
        false => Done::Part,
    })
}
