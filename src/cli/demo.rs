//! `turnkeep demo`

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::json;
use turnkeep::claude_code::{self, ImportOptions, ImportReport};
use turnkeep::{Error, NewMessage, Session, SessionFilter, Store};

use super::fail::Failure;
use super::out::{Out, Style, count, fit, size};
use super::{Call, Done, Outcome};

/// A session that the real client wrote, with two sub-agents: path below the config folder, content.
const SESSION: [(&str, &str); 5] = [
    (
        "projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e.jsonl",
        include_str!(
            "../../tests/it/fixtures/transcripts/parallel/projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e.jsonl"
        ),
    ),
    (
        "projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a11e8ef78fd70ff0e.jsonl",
        include_str!(
            "../../tests/it/fixtures/transcripts/parallel/projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a11e8ef78fd70ff0e.jsonl"
        ),
    ),
    (
        "projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a11e8ef78fd70ff0e.meta.json",
        include_str!(
            "../../tests/it/fixtures/transcripts/parallel/projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a11e8ef78fd70ff0e.meta.json"
        ),
    ),
    (
        "projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a71fb9e53b41683f5.jsonl",
        include_str!(
            "../../tests/it/fixtures/transcripts/parallel/projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a71fb9e53b41683f5.jsonl"
        ),
    ),
    (
        "projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a71fb9e53b41683f5.meta.json",
        include_str!(
            "../../tests/it/fixtures/transcripts/parallel/projects/-home-dev-shop/3fbd77ca-5d4f-4bfd-97e0-926f6a2ffe9e/subagents/agent-a71fb9e53b41683f5.meta.json"
        ),
    ),
];

/// Show the main job in a scratch folder, step by step
///
/// Touches no store and no transcripts of yours.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Work in this folder, which must be empty or not there, and keep it
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    if call.json {
        return Err(Failure::wrong_use("the demo is for reading").hint("leave --json out"));
    }
    let scratch = Scratch::make(args.into.as_deref())?;
    let mut out = Out::new();
    show(&mut out, &scratch.path)?;
    if scratch.keep {
        let store = scratch.path.join("turnkeep.db");
        out.line(&format!(
            "\nThe folder is kept. Try: turnkeep --store {} ls",
            store.display()
        ))?;
    } else {
        out.line("\nThe scratch folder is removed; `turnkeep demo --into DIR` keeps it.")?;
    }
    Ok(Done::All)
}

fn show(out: &mut Out, folder: &Path) -> Result<(), Failure> {
    let source = folder.join("claude");
    step(out, 1, "A folder as Claude Code left it")?;
    for (path, content) in SESSION {
        put(&source.join(path), content)?;
        out.line(&format!(
            "  {}  {}",
            size(content.len() as u64),
            fit(path.rsplit('/').next().unwrap_or(path), 60)
        ))?;
    }

    step(
        out,
        2,
        "Import it: every line is kept as it is, in one SQLite file",
    )?;
    let store = Store::open(folder.join("turnkeep.db"))?;
    let report = import(&store, &source)?;
    out.line(&format!(
        "  {}, {}, in {}",
        count(report.sessions, "session"),
        count(report.new_entries, "entry"),
        store.path().display()
    ))?;

    step(out, 3, "List it, without reading a transcript")?;
    let page = store.sessions().list(&SessionFilter::new(), None, 10)?;
    for info in &page.sessions {
        let name = info.summary.as_deref().unwrap_or("-");
        out.line(&format!(
            "  {}  {}  {}",
            info.session_id,
            count(info.messages, "message"),
            fit(name, 20)
        ))?;
    }
    let session = store.sessions().resolve("@last", &Default::default())?;

    step(
        out,
        4,
        "Read it as a model needs it: parallel calls put back, every call answered",
    )?;
    let context = session.context("")?;
    let conversation = session.conversation("")?;
    out.line(&format!(
        "  {} of the conversation become {} for the model; {} open",
        count(conversation.visible().count() as u64, "entry"),
        count(context.messages.len() as u64, "message"),
        count(context.open_calls.len() as u64, "call")
    ))?;

    step(
        out,
        5,
        "Go on: a prompt, and a call that is cut off by a crash",
    )?;
    go_on(out, &session, folder)?;

    step(out, 6, "Export what was imported: byte for byte")?;
    export(out, folder, &source)?;

    step(
        out,
        7,
        "Import again: only what is new is taken, and nothing is",
    )?;
    let again = import(&store, &source)?;
    out.line(&format!(
        "  {} seen, {} new",
        count(again.entries, "entry"),
        again.new_entries
    ))?;
    let verified = store.verify()?;
    out.line(&format!("  checked: {} findings", verified.findings.len()))?;
    Ok(())
}

/// Appends a call without its result, forgets the store as a crash would, and opens it again.
fn go_on(out: &mut Out, session: &Session, folder: &Path) -> Result<(), Failure> {
    session
        .messages()
        .append(NewMessage::user("Deploy the shop."))?;
    session.messages().append(NewMessage::assistant(json!([
        {"type": "tool_use", "id": "toolu_demo", "name": "Bash", "input": {"command": "./deploy"}}
    ])))?;
    let reopened = Store::open(folder.join("turnkeep.db"))?;
    let session = reopened.sessions().get(session.key())?;
    let context = session.context("")?;
    out.line(&format!(
        "  after opening it again: {:?} has no result; the model is told:",
        context.open_calls
    ))?;
    let last = context
        .messages
        .last()
        .map(|message| message.content.get().to_owned())
        .unwrap_or_default();
    let told = last.split("\"content\":").nth(1).unwrap_or(&last);
    out.line(&out.styled(Style::Dim, &format!("  {}", fit(told, 76))))?;
    Ok(())
}

/// Exports a fresh import of the source and compares every file.
fn export(out: &mut Out, folder: &Path, source: &Path) -> Result<(), Failure> {
    let fresh = Store::open(folder.join("fresh.db"))?;
    import(&fresh, source)?;
    let session = fresh.sessions().resolve("@last", &Default::default())?;
    let exported = folder.join("exported");
    claude_code::export_config_folder(&exported, &[session])?;
    for (path, content) in SESSION {
        let written =
            fs::read(exported.join(path)).map_err(|error| cannot("reading", &exported, error))?;
        let same = if written == content.as_bytes() {
            "same"
        } else {
            "DIFFERENT"
        };
        out.line(&format!(
            "  {same}  {}",
            fit(path.rsplit('/').next().unwrap_or(path), 60)
        ))?;
    }
    Ok(())
}

fn import(store: &Store, path: &Path) -> Result<ImportReport, Failure> {
    Ok(claude_code::import(
        store,
        path,
        &ImportOptions::new(),
        &mut |_| ControlFlow::Continue(()),
    )?)
}

fn step(out: &mut Out, number: u32, what: &str) -> Result<(), Failure> {
    out.line(&format!(
        "\n{}",
        out.styled(Style::Bold, &format!("{number}. {what}"))
    ))?;
    Ok(())
}

fn put(path: &Path, content: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, content))
        .map_err(|error| cannot("writing", path, error))
}

fn cannot(doing: &'static str, path: &Path, source: std::io::Error) -> Failure {
    Failure::Store(Error::Io {
        doing,
        path: path.to_owned(),
        source,
    })
}

/// The folder the demo works in; removed at the end unless the user named it.
struct Scratch {
    path: PathBuf,
    keep: bool,
}

impl Scratch {
    fn make(into: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = into {
            let used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
            if used {
                let message = format!("{} is not empty", path.display());
                return Err(Failure::wrong_use(message)
                    .hint("name an empty folder, or one that is not there"));
            }
            fs::create_dir_all(path).map_err(|error| cannot("making", path, error))?;
            return Ok(Self {
                path: path.to_owned(),
                keep: true,
            });
        }
        let path = std::env::temp_dir().join(format!("turnkeep-demo-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| cannot("making", &path, error))?;
        Ok(Self { path, keep: false })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Left behind it does no harm: it lies in the system's folder for such files.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}
