//! `turnkeep track`

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use clap::Subcommand;
use serde_json::json;
use turnkeep::{
    Captured, FileOptions, NewSession, Session, SessionKey, Store, ToolRef, WatchOptions, Watched,
};

use super::fail::Failure;
use super::out::{Out, Style, harmless_line, path};
use super::place::{file, session};
use super::{Call, Done, Outcome};

/// Keep the state of files around a tool call, so that it can be rewound
///
/// `before` is for the moment ahead of the tool's write: when it returns, the write can be taken
/// back, whatever happens next. The call, its prompt and its message need not be stored yet.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    #[command(subcommand)]
    moment: Moment,
}

#[derive(Debug, Subcommand)]
enum Moment {
    /// Keep what lies at paths now, ahead of a tool's write
    ///
    /// Without PATH, the paths that the stored call itself names.
    Before(Capture),
    /// Record what the tool left at paths
    ///
    /// Without PATH, at all that were kept before it.
    After(Capture),
    /// Run a command that names no path, and record what it created, changed, moved and deleted
    ///
    /// What lies below the session's folder is looked at before and after it; files that git's
    /// rules leave out are not, and are reported. The program ends as the command does.
    Watch(Watching),
}

#[derive(Debug, clap::Args)]
struct Capture {
    #[command(flatten)]
    which: Which,

    /// Files, and paths at which there may be one
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Watching {
    #[command(flatten)]
    which: Which,

    /// Look at this folder, not at the session's; may be repeated
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Which call, and what is kept.
#[derive(Debug, clap::Args)]
struct Which {
    /// The call's id, as the model gave it
    #[arg(long, value_name = "TOOL_ID")]
    tool: String,

    /// The sub-agent that makes the call: it belongs to the turn that launched it
    #[arg(long, value_name = "A")]
    agent: Option<String>,

    /// The id of the turn's prompt, as hooks name it, where the prompt is not stored yet
    #[arg(long, value_name = "P")]
    prompt_id: Option<String>,

    /// The session's project key; with it, a session that is not there is made, in the current
    /// folder
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    project: Option<String>,

    /// Do not keep contents of paths that match (`*.pem`, `**/secrets/**`); may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,

    /// Do not keep larger files
    #[arg(long, value_name = "N")]
    max_file_bytes: Option<u64>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    match &args.moment {
        Moment::Before(capture) => {
            let session = capture.which.session(call, &args.id)?;
            let files = session.files();
            let captured = match &capture.paths[..] {
                [] => files.before_call(&capture.which.tool)?,
                paths => files.before(capture.which.tool(), seen(&session, paths)?)?,
            };
            say(call, &session, &captured)
        }
        Moment::After(capture) => {
            let session = capture.which.session(call, &args.id)?;
            let paths = seen(&session, &capture.paths)?;
            let captured = session.files().after(capture.which.tool(), paths)?;
            say(call, &session, &captured)
        }
        Moment::Watch(watching) => watch(call, &args.id, watching),
    }
}

impl Which {
    fn tool(&self) -> ToolRef {
        let mut tool = ToolRef::new(&self.tool);
        if let Some(agent) = &self.agent {
            tool = tool.by_agent(agent);
        }
        if let Some(prompt) = &self.prompt_id {
            tool = tool.in_prompt(prompt);
        }
        tool
    }

    /// The session; with a project, an id is taken as it is, and made if it is not there.
    fn session(&self, call: &Call, id: &str) -> Result<Session, Failure> {
        let store = self.limited(call.open(self.project.is_some())?);
        match &self.project {
            Some(project) if !id.starts_with('@') => {
                let key = SessionKey::new(project, id)?;
                let mut new = NewSession::with_key(key);
                // A folder that no text names is allowed with `rewind --root` instead.
                if let Some(folder) = std::env::current_dir()?.to_str() {
                    new = new.cwd(folder);
                }
                Ok(store.sessions().get_or_create(new)?)
            }
            project => session(&store, id, project.as_deref()),
        }
    }

    fn limited(&self, store: Store) -> Store {
        let mut options = FileOptions::new();
        for glob in &self.exclude {
            options = options.exclude(glob);
        }
        if let Some(bytes) = self.max_file_bytes {
            options = options.max_file_bytes(bytes);
        }
        store.with_files(options)
    }
}

fn watch(call: &Call, id: &str, watching: &Watching) -> Outcome {
    let session = watching.which.session(call, id)?;
    let mut options = WatchOptions::new();
    for root in &watching.root {
        options = options.root(std::path::absolute(root)?);
    }
    let files = session.files();
    // With checkpoints off the command runs all the same, and nothing is kept.
    let enabled = files.is_enabled()?;
    let watch = match enabled {
        true => Some(files.watch(watching.which.tool(), &options)?),
        false => None,
    };
    let (program, arguments) = watching
        .command
        .split_first()
        .ok_or_else(|| Failure::wrong_use("there is no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    if call.json {
        // What this program says is alone on its output.
        command.stdout(io::stderr());
    }
    let status = run_to_its_end(&mut command);
    let watched = match watch {
        Some(watch) => watch.finish()?,
        None => Watched::default(),
    };
    let status = status.map_err(|error| {
        let name = program.to_string_lossy();
        Failure::wrong_use(format!("`{name}` cannot be run: {error}"))
    })?;
    if call.json {
        let mut shown = serde_json::to_value(&watched).map_err(io::Error::other)?;
        shown["session_id"] = json!(session.id());
        shown["exit_code"] = json!(exit_code(status));
        shown["enabled"] = json!(enabled);
        Out::new().line(&shown.to_string())?;
    } else {
        let mut err = io::stderr().lock();
        for changed in &watched.changed {
            writeln!(err, "changed {}", path(changed))?;
        }
        if !enabled {
            writeln!(err, "nothing is kept: checkpoints are off for this session")?;
        }
        for outside in &watched.not_covered {
            let what = harmless_line(&outside.what);
            writeln!(
                err,
                "not covered: {what}: {} {}",
                outside.count, outside.reason
            )?;
        }
        for warning in &watched.warnings {
            writeln!(err, "note: {}", harmless_line(warning))?;
        }
    }
    Ok(match exit_code(status) {
        0 => Done::All,
        code => Done::As(code),
    })
}

/// Waits for a command, also if this program is told to end: the command is told, and what it did is
/// recorded when it is over.
fn run_to_its_end(command: &mut Command) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    #[cfg(unix)]
    {
        use rustix::process::{Pid, Signal, kill_process};
        let told = Pid::from_child(&child);
        // One that was set before stays: then the command alone decides.
        let _ = ctrlc::set_handler(move || {
            let _ = kill_process(told, Signal::TERM);
        });
    }
    child.wait()
}

/// How a command ended, as a shell tells it.
fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.unwrap_or(1)
}

fn seen(session: &Session, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    paths.iter().map(|path| file(session, path)).collect()
}

/// Says what was kept. What is not kept cannot be taken back: that is a part.
fn say(call: &Call, session: &Session, captured: &Captured) -> Outcome {
    let enabled = session.files().is_enabled()?;
    let mut out = Out::new();
    if call.json {
        let mut shown = serde_json::to_value(captured).map_err(io::Error::other)?;
        shown["session_id"] = json!(session.id());
        shown["enabled"] = json!(enabled);
        out.line(&shown.to_string())?;
    } else {
        for kept in &captured.kept {
            out.line(&format!("kept {}", path(kept)))?;
        }
        for left in &captured.not_kept {
            let what = out.styled(Style::Bad, "not kept");
            out.line(&format!("{what} {}: {}", path(&left.path), left.reason))?;
        }
        for warning in &captured.warnings {
            let what = out.styled(Style::Bad, "warning:");
            out.line(&format!("{what} {}", harmless_line(warning)))?;
        }
        if !enabled {
            out.line("nothing is kept: checkpoints are off for this session")?;
        } else if captured.kept.is_empty() && captured.not_kept.is_empty() {
            out.line("nothing to keep: the call names no file")?;
        }
    }
    Ok(match captured.not_kept.is_empty() {
        true => Done::All,
        false => Done::Part,
    })
}
