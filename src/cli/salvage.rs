//! `turnkeep salvage`

use std::path::PathBuf;

use serde_json::json;
use turnkeep::Store;

use super::out::{Out, Style, count};
use super::{Call, Done, Outcome};

/// Save what can be read of a damaged store into a new file
///
/// The damaged one is left as it is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The new store, which must not be there yet
    new_file: PathBuf,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let from = call.store_path()?;
    let salvaged = Store::salvage(&from, &args.new_file)?;
    let mut out = Out::new();
    if call.json {
        let shown = json!({
            "sessions": salvaged.sessions,
            "entries": salvaged.entries,
            "files": salvaged.files,
            "lost": salvaged.lost,
        });
        out.line(&shown.to_string())?;
    } else {
        for lost in &salvaged.lost {
            out.line(&format!("{} {lost}", out.styled(Style::Bad, "lost:")))?;
        }
        out.line(&format!(
            "{}, {} and {} saved in {}",
            count(salvaged.sessions, "session"),
            count(salvaged.entries, "entry"),
            count(salvaged.files, "file"),
            args.new_file.display()
        ))?;
    }
    Ok(if salvaged.lost.is_empty() {
        Done::All
    } else {
        Done::Part
    })
}
