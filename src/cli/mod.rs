//! The words: flat verbs, one file each. What they share is in `place` (which store, which
//! session), `out` (how things are printed) and `fail` (how they go wrong).

mod append;
mod blame;
mod branches;
mod cat;
mod changes;
mod checkout;
mod checkpoints;
mod compare;
mod completions;
mod delete;
mod demo;
mod diff;
mod differences;
mod export;
mod fail;
mod fork;
mod hook;
mod import;
mod label;
mod lineage;
mod ls;
mod moment;
mod news;
mod operations;
mod out;
mod pager;
mod place;
mod points;
mod reindex;
mod rename;
mod resume;
mod rewind;
mod rewinding;
mod salvage;
mod scene;
mod scratch;
mod search;
mod show;
mod sql;
mod tag;
mod take;
mod task;
mod tool;
mod trace;
mod track;
mod undo;
mod usage;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use fail::Failure;

/// How a command that went well ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    All,
    /// Something was left out, and has been said.
    Part,
    /// Something stood in the way of all of it, and has been said.
    Nothing,
    /// A command that was run ended so.
    As(u8),
}

type Outcome = Result<Done, Failure>;

/// Keep an AI agent's sessions in one SQLite file: import, read, resume, fork and rewind them.
#[derive(Debug, Parser)]
#[command(name = "turnkeep", version, max_term_width = 80)]
#[command(
    after_help = "A session is named by its id, the beginning of one, KEY/ID, its exact title\n\
    or @last.\n\
    Exit codes: 0 done, 1 other, 2 wrong use or input, 3 not found, 4 conflict,\n\
    5 busy, 6 done in part."
)]
struct Args {
    /// The store [default: turnkeep.db in the user's data folder]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "TURNKEEP_STORE",
        hide_env_values = true
    )]
    store: Option<PathBuf>,

    /// Print JSON, and errors as JSON on stderr
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Import(import::Args),
    Ls(ls::Args),
    Show(show::Args),
    Search(search::Args),
    Usage(usage::Args),
    Sql(sql::Args),
    Export(export::Args),
    Append(append::Args),
    Resume(resume::Args),
    Fork(fork::Args),
    Lineage(lineage::Args),
    Branches(branches::Args),
    Changes(changes::Args),
    Diff(diff::Args),
    Blame(blame::Args),
    Trace(trace::Args),
    Compare(compare::Args),
    Take(take::Args),
    Tool(tool::Args),
    Scratch(scratch::Args),
    Scene(scene::Args),
    Task(task::Args),
    Track(track::Args),
    Hook(hook::Args),
    Points(points::Args),
    Label(label::Args),
    Rewind(rewind::Args),
    Undo(undo::Args),
    Operations(operations::Args),
    Cat(cat::Args),
    Checkout(checkout::Args),
    Checkpoints(checkpoints::Args),
    Rename(rename::Args),
    Tag(tag::Args),
    Delete(delete::Args),
    Verify(verify::Args),
    Reindex(reindex::Args),
    Salvage(salvage::Args),
    Demo(demo::Args),
    Completions(completions::Args),
}

/// What every command is told.
struct Call {
    store: Option<PathBuf>,
    json: bool,
}

/// A project key begins with a hyphen, so `KEY/ID` looks like flags. As in a shell, `./` before it
/// says that it is none; here no user has to.
fn not_a_flag(arg: OsString) -> OsString {
    let is_key = arg
        .to_str()
        .is_some_and(|text| text.starts_with('-') && !text.starts_with("--") && text.contains('/'));
    if !is_key {
        return arg;
    }
    let mut marked = OsString::from("./");
    marked.push(arg);
    marked
}

/// Runs the program.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().map(not_a_flag).collect();
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let as_json = has("--json");
    let is_lenient_hook = has("hook") && !has("--strict");
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) if error.use_stderr() && as_json => {
            let message = error.to_string();
            let message = message.trim().trim_start_matches("error: ");
            return Failure::wrong_use(message).report(true);
        }
        // The client takes 2 from a hook for a word against the edit.
        Err(error) if error.use_stderr() && is_lenient_hook => {
            eprint!("{error}");
            return ExitCode::from(1);
        }
        Err(error) => error.exit(),
    };
    let call = Call {
        store: args.store,
        json: args.json,
    };
    let outcome = match args.command {
        Command::Import(args) => import::run(&call, &args),
        Command::Ls(args) => ls::run(&call, &args),
        Command::Show(args) => show::run(&call, &args),
        Command::Search(args) => search::run(&call, &args),
        Command::Usage(args) => usage::run(&call, &args),
        Command::Sql(args) => sql::run(&call, &args),
        Command::Export(args) => export::run(&call, &args),
        Command::Append(args) => append::run(&call, &args),
        Command::Resume(args) => resume::run(&call, &args),
        Command::Fork(args) => fork::run(&call, &args),
        Command::Lineage(args) => lineage::run(&call, &args),
        Command::Branches(args) => branches::run(&call, &args),
        Command::Changes(args) => changes::run(&call, &args),
        Command::Diff(args) => diff::run(&call, &args),
        Command::Blame(args) => blame::run(&call, &args),
        Command::Trace(args) => trace::run(&call, &args),
        Command::Compare(args) => compare::run(&call, &args),
        Command::Take(args) => take::run(&call, &args),
        Command::Tool(args) => tool::run(&call, &args),
        Command::Scratch(args) => scratch::run(&call, &args),
        Command::Scene(args) => scene::run(&call, &args),
        Command::Task(args) => task::run(&call, &args),
        Command::Track(args) => track::run(&call, &args),
        Command::Hook(args) => hook::run(&call, &args),
        Command::Points(args) => points::run(&call, &args),
        Command::Label(args) => label::run(&call, &args),
        Command::Rewind(args) => rewind::run(&call, &args),
        Command::Undo(args) => undo::run(&call, &args),
        Command::Operations(args) => operations::run(&call, &args),
        Command::Cat(args) => cat::run(&call, &args),
        Command::Checkout(args) => checkout::run(&call, &args),
        Command::Checkpoints(args) => checkpoints::run(&call, &args),
        Command::Rename(args) => rename::run(&call, &args),
        Command::Tag(args) => tag::run(&call, &args),
        Command::Delete(args) => delete::run(&call, &args),
        Command::Verify(args) => verify::run(&call, &args),
        Command::Reindex(args) => reindex::run(&call, &args),
        Command::Salvage(args) => salvage::run(&call, &args),
        Command::Demo(args) => demo::run(&call, &args),
        Command::Completions(args) => completions::run(&args),
    };
    match outcome {
        Ok(Done::All) => ExitCode::SUCCESS,
        Ok(Done::Part) => ExitCode::from(fail::PART),
        Ok(Done::Nothing) => ExitCode::from(fail::CONFLICT),
        Ok(Done::As(code)) => ExitCode::from(code),
        Err(failure) => failure.report(call.json),
    }
}
