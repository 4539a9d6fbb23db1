//! `turnkeep hook`

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnkeep::{Captured, NewSession, SessionKey, ToolRef};

use super::fail::Failure;
use super::out::{Out, path};
use super::{Call, Done, Outcome};

/// Keep files around an edit of Claude Code: a hook that reads its input
///
/// Set it for PreToolUse and PostToolUse of Write, Edit and NotebookEdit. It keeps what lies at the
/// paths that the call names before the edit, and what the edit left, in the session of that name,
/// which it makes if it is not there; a later `import` adds the conversation. It never stands in
/// the client's way: what goes wrong is said on stderr, and the edit goes on.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Stop an edit whose file cannot be kept (exit code 2, by which the client stops it)
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    match keep(call) {
        Ok(None) => Ok(Done::All),
        Ok(Some(captured)) if captured.not_kept.is_empty() => Ok(Done::All),
        Ok(Some(captured)) => {
            for left in &captured.not_kept {
                eprintln!(
                    "turnkeep: {} is not kept: {}",
                    path(&left.path),
                    left.reason
                );
            }
            Ok(code(args))
        }
        Err(failure) => {
            // Whatever the failure's own code is: 2 would stop the edit.
            failure.report(call.json);
            Ok(code(args))
        }
    }
}

fn code(args: &Args) -> Done {
    Done::As(if args.strict { 2 } else { 1 })
}

/// Takes one hook's input; `None` if there is nothing to keep.
fn keep(call: &Call) -> Result<Option<Captured>, Failure> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    let hook: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::wrong_use(format!("the hook's input is not JSON: {error}")))?;
    let word = |name: &str| hook[name].as_str().filter(|word| !word.is_empty());
    let event = word("hook_event_name").unwrap_or_default();
    let named = ["file_path", "notebook_path"].into_iter();
    let paths: Vec<PathBuf> = named
        .filter_map(|name| hook["tool_input"][name].as_str())
        .map(|path| word("cwd").map_or(path.into(), |cwd| Path::new(cwd).join(path)))
        .collect();
    let is_edit = matches!(event, "PreToolUse" | "PostToolUse" | "PostToolUseFailure");
    if !is_edit || paths.is_empty() || word("tool_name") == Some("Read") {
        return Ok(None);
    }
    let missing = |name: &str| Failure::wrong_use(format!("the hook's input has no `{name}`"));
    let id = word("session_id").ok_or_else(|| missing("session_id"))?;
    let mut tool = ToolRef::new(word("tool_use_id").ok_or_else(|| missing("tool_use_id"))?);
    if let Some(agent) = word("agent_id") {
        tool = tool.by_agent(agent);
    }
    if let Some(prompt) = word("prompt_id") {
        tool = tool.in_prompt(prompt);
    }
    // As the client names the folder of the project, so that an import meets the same session.
    let project = word("transcript_path")
        .and_then(|path| Path::new(path).parent()?.file_name()?.to_str())
        .ok_or_else(|| missing("transcript_path"))?;
    let mut new = NewSession::with_key(SessionKey::new(project, id)?);
    if let Some(cwd) = word("cwd") {
        new = new.cwd(cwd);
    }
    let files = call.open(true)?.sessions().get_or_create(new)?.files();
    let captured = match event {
        "PreToolUse" => files.before(tool, paths)?,
        _ => files.after(tool, paths)?,
    };
    if call.json {
        let shown = serde_json::to_string(&captured).map_err(io::Error::other)?;
        Out::new().line(&shown)?;
    }
    Ok(Some(captured))
}
