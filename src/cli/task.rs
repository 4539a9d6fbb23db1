//! `turnkeep task`

use clap::Subcommand;
use serde_json::{Value, json};
use turnkeep::{Phase, PhaseState};

use super::fail::Failure;
use super::out::{Out, Style, fit, pad, time};
use super::place::session;
use super::{Call, Done, Outcome};

/// Show a session's tasks and what came of their phases
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List tasks, and how far each is
    Ls {
        /// The session
        id: String,
    },
    /// Show the phases of a task
    Show {
        /// The session
        id: String,
        /// The task; not needed if there is one alone
        task: Option<String>,
    },
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let mut out = Out::new();
    match &args.command {
        Command::Ls { id } => {
            let session = session(&call.look()?, id, None)?;
            let mut tasks = Vec::new();
            for name in session.tasks()? {
                let phases = session.find_task(&name)?.phases()?;
                let done = phases
                    .iter()
                    .filter(|phase| phase.state == PhaseState::Done);
                let (done, all) = (done.count(), phases.len());
                let next = phases
                    .into_iter()
                    .find(|phase| phase.state != PhaseState::Done);
                tasks.push((name, done, all, next));
            }
            if call.json {
                let tasks: Vec<Value> = tasks
                    .iter()
                    .map(|(name, done, all, next)| json!({"name": name, "done": done, "phases": all, "next": next.as_ref().map(|phase| &phase.name)}))
                    .collect();
                out.line(&json!({ "tasks": tasks }).to_string())?;
                return Ok(Done::All);
            }
            if tasks.is_empty() {
                out.line("no tasks")?;
            }
            for (name, done, all, next) in &tasks {
                let next = next.as_ref().map_or(String::new(), |phase| {
                    format!(", next {} ({})", phase.name, word(phase.state))
                });
                let name = pad(&fit(name, 24), 24);
                let name = out.styled(Style::Bold, &name);
                out.line(&format!("{name}  {done} of {all} done{}", fit(&next, 40)))?;
            }
        }
        Command::Show { id, task } => {
            let session = session(&call.look()?, id, None)?;
            let name = match (task, &session.tasks()?[..]) {
                (Some(task), _) => task.clone(),
                (None, [only]) => only.clone(),
                (None, []) => return Err(Failure::wrong_use("this session has no task")),
                (None, tasks) => {
                    let why = format!("this session has {} tasks", tasks.len());
                    let hint = format!("name one: {}", tasks.join(", "));
                    return Err(Failure::wrong_use(why).hint(hint));
                }
            };
            let phases = session.find_task(&name)?.phases()?;
            if call.json {
                let shown = json!({"name": name, "phases": phases});
                out.line(&shown.to_string())?;
                return Ok(Done::All);
            }
            for phase in &phases {
                let name = pad(&fit(&phase.name, 24), 24);
                let name = out.styled(Style::Bold, &name);
                let state = pad(word(phase.state), 7);
                let told = told(phase);
                let room = out.width().saturating_sub(35);
                out.line(format!("{name}  {state}  {}", fit(&told, room)).trim_end())?;
            }
        }
    }
    Ok(Done::All)
}

/// What came of a phase, in one line.
fn told(phase: &Phase) -> String {
    let attempt = match phase.attempt {
        0 | 1 => String::new(),
        attempt => format!(" (attempt {attempt})"),
    };
    match phase.state {
        PhaseState::Failed => format!("{}{attempt}", phase.error.as_deref().unwrap_or_default()),
        PhaseState::Done => {
            let result = phase
                .result
                .as_ref()
                .map_or_else(String::new, Value::to_string);
            format!("{result}{attempt}")
        }
        PhaseState::Begun => {
            let began = phase.started_ms.map_or_else(String::new, time);
            format!("since {began}, not finished{attempt}")
        }
        _ => String::new(),
    }
}

fn word(state: PhaseState) -> &'static str {
    match state {
        PhaseState::Begun => "begun",
        PhaseState::Done => "done",
        PhaseState::Failed => "failed",
        _ => "waiting",
    }
}
