//! `turnkeep reindex`

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::out::{Out, count};
use super::{Call, Done, Outcome};

/// Make the search index anew
///
/// It is derived from what is stored: nothing else changes. Others may use the store meanwhile.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(call: &Call, _: &Args) -> Outcome {
    let store = call.open(false)?;
    store.rebuild_search()?;
    let bar = if stderr().is_terminal() && !call.json {
        ProgressBar::new(0)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos} of {len} messages") {
        bar.set_style(style);
    }
    let mut indexed = 0;
    loop {
        let step = store.index_search(Duration::from_millis(500))?;
        indexed += step.indexed;
        bar.set_length(indexed + step.unindexed);
        bar.set_position(indexed);
        if step.unindexed == 0 {
            break;
        }
    }
    bar.finish_and_clear();
    let mut out = Out::new();
    if call.json {
        out.line(&json!({ "indexed": indexed }).to_string())?;
    } else {
        out.line(&format!("{} indexed", count(indexed, "message")))?;
    }
    Ok(Done::All)
}
