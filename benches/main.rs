//! What the store costs beside its bare alternative: rusqlite on the same schema, with the same
//! settings, the bytes copied out. `docs/BENCHMARKS.md` has the numbers and what they are held to.
//!
//! `cargo bench` runs all of it, `cargo bench append` only what has `append` in its name. What is
//! held to a ratio is timed in turn with its other side and printed last; divan times the rest.
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

mod append;
mod audit;
mod entries;
mod files;
mod forks;
mod import;
mod kit;
mod list;
mod read;
mod search;
mod size;
mod usage;

const BESIDE: [(&str, fn()); 23] = [
    ("append::one_entry", append::one_entry),
    ("append::one_message", append::one_message),
    ("append::batch", append::batch),
    ("read::load", read::load),
    ("read::conversation", read::conversation),
    ("import::of_200_mb", import::of_200_mb),
    ("forks::of_1_000", forks::of_1_000),
    ("forks::of_10_000", forks::of_10_000),
    ("forks::of_100_000", forks::of_100_000),
    ("forks::growth", forks::growth),
    ("forks::read", forks::fork_beside_source),
    ("forks::chain", forks::chain_beside_plain),
    ("files::backup", files::backup),
    (
        "files::backup_in_a_large_tree",
        files::backup_in_a_large_tree,
    ),
    ("files::scan", files::scan),
    ("files::rewind", files::rewind),
    (
        "files::rewind_over_1_000_turns",
        files::rewind_over_1_000_turns,
    ),
    ("files::size", files::size),
    ("search", search::run),
    ("audit::pages", audit::pages),
    ("audit::blame", audit::blame),
    ("size", size::print),
    ("usage::by_day", usage::by_day),
];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    kit::use_folder(folder.path());
    divan::main();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, run) in BESIDE {
        if wanted.iter().all(|part| name.contains(part.as_str())) {
            run();
        }
    }
}
