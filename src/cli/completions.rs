//! `turnkeep completions`

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Done, Outcome};

/// Print a script that completes commands in a shell
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut super::Args::command(),
        "turnkeep",
        &mut script,
    );
    io::stdout().lock().write_all(&script)?;
    Ok(Done::All)
}
