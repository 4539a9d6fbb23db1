//! `turnkeep export`

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use turnkeep::claude_code::export_config_folder;
use turnkeep::{Session, SessionFilter, Store};

use super::fail::Failure;
use super::out::{Out, count, size};
use super::place::{scope, session};
use super::{Call, Done, Outcome};

/// How many sessions are looked up at a time.
const PAGE: usize = 200;

/// Write a session's transcript as JSONL, or whole sessions as a Claude Code config folder
///
/// What was imported from one file comes out byte for byte. A config folder can be given to the
/// client (CLAUDE_CONFIG_DIR), which resumes from it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session; with --claude-code any number, none for all
    #[arg(required_unless_present = "claude_code")]
    id: Vec<String>,

    /// A sub-agent's transcript
    #[arg(
        long,
        value_name = "P",
        default_value = "",
        hide_default_value = true,
        conflicts_with = "claude_code"
    )]
    subpath: String,

    /// The file to write, which must not be there yet [default: stdout]
    #[arg(short, long, value_name = "FILE", conflicts_with = "claude_code")]
    output: Option<PathBuf>,

    /// Write a config folder
    #[arg(long, value_name = "DIR")]
    claude_code: Option<PathBuf>,

    /// Only this project's: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    match (&args.claude_code, args.id.as_slice()) {
        (Some(folder), names) => folder_of(call, args, &store, folder, names),
        (None, [name]) => jsonl(args, &session(&store, name, args.project.as_deref())?),
        (None, _) => Err(
            Failure::wrong_use("several sessions do not fit in one file")
                .hint("name one, or write a folder with --claude-code DIR"),
        ),
    }
}

fn jsonl(args: &Args, session: &Session) -> Outcome {
    let Some(path) = &args.output else {
        let mut out = io::stdout().lock();
        return match turnkeep::export_jsonl(session, &args.subpath, &mut out) {
            Err(turnkeep::Error::Io { source, .. })
                if source.kind() == io::ErrorKind::BrokenPipe =>
            {
                Err(Failure::ClosedPipe)
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(out.flush().map(|()| Done::All)?),
        };
    };
    // Read first: a name that is not there leaves no empty file behind.
    session.transcript_page(&args.subpath, 0, 1)?;
    write_new(path, |file| {
        Ok(turnkeep::export_jsonl(session, &args.subpath, file).map(drop)?)
    })?;
    Ok(Done::All)
}

/// Writes a file beside its place, private, and puts it there unless something is.
fn write_new(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        let message = format!("{}: {error}", path.display());
        Failure::wrong_use(message).hint("name a file that is not there yet, in a folder that is")
    };
    if path.exists() {
        let message = format!("{} is there already; nothing was written", path.display());
        return Err(Failure::wrong_use(message).hint("name a file that is not there yet"));
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = io::BufWriter::new(options.open(&beside).map_err(cannot)?);
    let written = content(&mut file)
        .and_then(|()| file.flush().map_err(cannot))
        .and_then(|()| file.get_ref().sync_all().map_err(cannot))
        // A link fails where a name is taken; a rename would replace it.
        .and_then(|()| fs::hard_link(&beside, path).map_err(cannot));
    drop(fs::remove_file(&beside));
    written
}

fn folder_of(call: &Call, args: &Args, store: &Store, folder: &Path, names: &[String]) -> Outcome {
    let sessions: Vec<Session> = if names.is_empty() {
        every_session(store, args.project.as_deref())?
    } else {
        names
            .iter()
            .map(|name| session(store, name, args.project.as_deref()))
            .collect::<Result<_, _>>()?
    };
    let report = export_config_folder(folder, &sessions)?;
    let mut out = Out::new();
    if call.json {
        let json = serde_json::to_string(&report).map_err(io::Error::other)?;
        out.line(&json)?;
    } else {
        out.line(&format!(
            "{} in {}, {}, in {}",
            count(report.sessions, "session"),
            count(report.files, "file"),
            size(report.bytes),
            folder.display()
        ))?;
    }
    Ok(Done::All)
}

fn every_session(store: &Store, project: Option<&str>) -> Result<Vec<Session>, Failure> {
    let scope = scope(store, project)?;
    let mut filter = SessionFilter::new().all();
    if let Some(key) = scope.project_key {
        filter = filter.project(key);
    }
    if let Some(cwd) = scope.cwd {
        filter = filter.cwd(cwd);
    }
    let (mut sessions, mut after) = (Vec::new(), None);
    loop {
        let page = store.sessions().list(&filter, after, PAGE)?;
        for info in &page.sessions {
            sessions.extend(store.sessions().find(&info.key())?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(sessions);
        }
    }
}
