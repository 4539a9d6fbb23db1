//! A task of several phases that can be killed anywhere and goes on where it was.
//!
//! ```sh
//! cargo run --example phase_runner -- release/              # runs the phases, one after another
//! cargo run --example phase_runner -- release/              # again: skips those that are done
//! cargo run --example phase_runner -- other/ --fail test    # a phase that fails; run it again
//! ```
//!
//! Each phase does one thing that must not be done twice, as a commit or a mail must not: it
//! appends a line to `effects.txt`. `--die-at N` ends the process, as a crash would, at its Nth
//! step. What a dead process had claimed is free again after `--claim-ms` (5000).

use std::cell::Cell;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use turnkeep::{
    ErrorKind, NewMessage, NewSession, PhaseError, PhaseRun, Session, Settle, Store, Task,
};

const PHASES: [&str; 4] = ["scaffold", "implement", "test", "announce"];

/// The prompt's uuid, so that it is stored once however often the program is started.
const PROMPT: &str = "0d6f6a52-5f0e-4b8e-9c3b-6a3f3f0f7f10";

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut folder = PathBuf::from("phase-runner");
    let (mut fail, mut die_at, mut claim) = (None, None, 5000);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--fail" => fail = Some(value()?),
            "--die-at" => die_at = Some(value()?.parse()?),
            "--claim-ms" => claim = value()?.parse()?,
            other if other.starts_with('-') => return Err(format!("no option {other}").into()),
            _ => folder = PathBuf::from(arg),
        }
    }
    fs::create_dir_all(&folder)?;
    let store = Store::open(folder.join("turnkeep.db"))?;
    let new = NewSession::in_project("phase-runner").id("release");
    let runner = Runner {
        session: store.sessions().get_or_create(new)?,
        effects: folder.join("effects.txt"),
        fail,
        die_at,
        step: Cell::new(0),
    };
    runner.stepped();
    runner.take_up()?;
    let prompt = NewMessage::user("Release the app.").uuid(PROMPT);
    runner.session.messages().append(prompt)?;
    runner.stepped();
    let task = runner.session.task("release", PHASES)?;
    let task = task.claim_for(Duration::from_millis(claim));
    runner.stepped();
    for phase in PHASES {
        runner.run(&task, phase)?;
    }
    println!("released");
    Ok(())
}

struct Runner {
    session: Session,
    effects: PathBuf,
    fail: Option<String>,
    die_at: Option<u32>,
    step: Cell<u32>,
}

impl Runner {
    /// Says where the task stands, if it was begun before.
    fn take_up(&self) -> Outcome<()> {
        let Some(last) = self.session.conversation("")?.entries.pop() else {
            return Ok(());
        };
        let scene = self.session.scene()?;
        println!(
            "resumed: {} messages; the last message is {}",
            scene.context.messages.len(),
            last.uuid
        );
        for (key, value) in &scene.scratchpad {
            println!("remembered: {key} = {value}");
        }
        for call in scene.pending {
            // The phase that made it finds out what came of it, when it is run again.
            println!("open since the crash: {} {}", call.id, call.name);
        }
        Ok(())
    }

    /// Runs a phase, unless it is done.
    fn run(&self, task: &Task, phase: &str) -> Outcome<()> {
        let mut has_waited = false;
        loop {
            let is_run = Cell::new(false);
            let result = task.run(phase, |run| {
                is_run.set(true);
                self.work(run)
            });
            match result {
                Ok(result) if is_run.get() => println!("done: {phase} {result}"),
                Ok(result) => println!("skipped, done before: {phase} {result}"),
                // Whoever ran it is still at it, or died: then its claim lapses.
                Err(PhaseError::Store(error)) if error.kind() == ErrorKind::Conflict => {
                    if !has_waited {
                        println!("waiting: {error}");
                    }
                    has_waited = true;
                    sleep(Duration::from_millis(20));
                    continue;
                }
                Err(error) => return Err(format!("phase {phase} failed: {error}").into()),
            }
            self.stepped();
            return Ok(());
        }
    }

    /// What every phase does here: a call, its effect, and what is to be kept of it. The phase's
    /// key is the same at every attempt, so each step can tell that it was taken before.
    fn work(&self, run: &PhaseRun<'_>) -> Outcome<Value> {
        self.stepped();
        if run.was_interrupted {
            println!("begun before: {}, attempt {}", run.name, run.attempt);
        }
        if self.fail.as_ref() == Some(&run.name) {
            return Err("2 of 40 are red".into());
        }
        let (key, call) = (&run.idempotency_key, format!("call-{}", run.name));
        let blocks = json!([{"type": "tool_use", "id": call, "name": run.name, "input": {}}]);
        let response = NewMessage::assistant(blocks).uuid(key);
        self.session.messages().append(response)?;
        self.stepped();
        let line = match self.line_of(key)? {
            Some(line) => {
                println!("had taken effect: {}", run.name);
                line
            }
            None => self.take_effect(&run.name, key)?,
        };
        self.stepped();
        run.note_change(json!({"file": "effects.txt", "line": line}))?;
        self.stepped();
        self.session.write(|tx| {
            tx.settle(&call, &Settle::Result(json!(format!("line {line}"))))?;
            tx.set("last_phase", &run.name)
        })?;
        self.stepped();
        Ok(json!({"line": line}))
    }

    /// Does what must be done once. Returns the number of its line.
    fn take_effect(&self, phase: &str, key: &str) -> Outcome<usize> {
        let mut effects = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.effects)?;
        writeln!(effects, "{phase} {key}")?;
        effects.sync_all()?;
        Ok(self.line_of(key)?.unwrap_or_default())
    }

    /// The number of the line that an attempt before this one wrote.
    fn line_of(&self, key: &str) -> Outcome<Option<usize>> {
        let effects = match fs::read_to_string(&self.effects) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            effects => effects?,
        };
        let found = effects.lines().position(|line| line.ends_with(key));
        Ok(found.map(|at| at + 1))
    }

    fn stepped(&self) {
        self.step.set(self.step.get() + 1);
        if self.die_at == Some(self.step.get()) {
            std::process::abort();
        }
    }
}
