//! `turnkeep scene`

use std::path::PathBuf;

use serde_json::json;
use turnkeep::{PhaseState, Scene, Session};

use super::fail::Failure;
use super::out::{Out, Style, fit, time};
use super::place::session;
use super::{Call, Done, Outcome};

/// Show where a session's task stands, or move that as a checkpoint file
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct Args {
    /// The session
    #[arg(group = "which")]
    id: Option<String>,

    /// Write it as checkpoint.json, version 1
    #[arg(long, value_name = "FILE", requires = "id")]
    export: Option<PathBuf>,

    /// Make a session of a checkpoint
    #[arg(long, group = "which", value_name = "FILE", requires = "project")]
    import: Option<PathBuf>,

    /// The project key of the session that is made
    #[arg(
        long,
        value_name = "KEY",
        requires = "import",
        allow_hyphen_values = true
    )]
    project: Option<String>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let mut out = Out::new();
    if let (Some(file), Some(project)) = (&args.import, &args.project) {
        let session = turnkeep::import_checkpoint(&call.open(true)?, project, file)?;
        print(call, &mut out, &session)?;
        return Ok(Done::All);
    }
    let id = args.id.as_deref().unwrap_or_default();
    let session = session(&call.look()?, id, None)?;
    let Some(file) = &args.export else {
        print(call, &mut out, &session)?;
        return Ok(Done::All);
    };
    turnkeep::export_checkpoint(&session, file)?;
    let line = if call.json {
        json!({"session_id": session.id(), "file": file}).to_string()
    } else {
        format!("wrote {}", file.display())
    };
    out.line(&line)?;
    Ok(Done::All)
}

fn print(call: &Call, out: &mut Out, session: &Session) -> Result<(), Failure> {
    let scene = session.scene()?;
    if call.json {
        return Ok(out.line(&as_json(session, &scene))?);
    }
    let line = |out: &mut Out, name: &str, value: &str| {
        let room = out.width().saturating_sub(10);
        let name = out.styled(Style::Bold, &format!("{name:<8}"));
        out.line(&format!("{name}  {}", fit(value, room)))
    };
    line(out, "session", session.id())?;
    line(out, "task", scene.task.as_deref().unwrap_or("(none)"))?;
    line(out, "rounds", &scene.rounds.to_string())?;
    let tokens = scene.tokens;
    let used = format!(
        "{} used; {} in, {} out, {} from cache, {} to cache",
        scene.tokens_used, tokens.input, tokens.output, tokens.cache_read, tokens.cache_write
    );
    line(out, "tokens", &used)?;
    line(out, "messages", &scene.context.messages.len().to_string())?;
    for call in &scene.pending {
        let text = format!("{} {} since {}", call.id, call.name, time(call.started_ms));
        line(out, "pending", &text)?;
    }
    for (task, phases) in &scene.phases {
        let done = phases
            .iter()
            .filter(|phase| phase.state == PhaseState::Done);
        let text = format!("{task}: {} of {} done", done.count(), phases.len());
        line(out, "phases", &text)?;
    }
    for (key, value) in &scene.scratchpad {
        line(out, "note", &format!("{key} = {value}"))?;
    }
    Ok(())
}

fn as_json(session: &Session, scene: &Scene) -> String {
    let pending: Vec<_> = scene.pending.iter().map(super::tool::json).collect();
    json!({
        "session_id": session.id(),
        "task": scene.task,
        "rounds": scene.rounds,
        "tokens_used": scene.tokens_used,
        "tokens": {
            "input": scene.tokens.input, "output": scene.tokens.output,
            "cache_read": scene.tokens.cache_read, "cache_write": scene.tokens.cache_write,
        },
        "messages": scene.context.messages.len(),
        "pending": pending,
        "scratchpad": scene.scratchpad,
        "phases": scene.phases,
    })
    .to_string()
}
