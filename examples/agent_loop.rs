//! An agent's loop that can be killed anywhere and goes on where it was.
//!
//! ```sh
//! cargo run --example agent_loop -- notes/           # a new session; type `note TEXT`
//! cargo run --example agent_loop -- notes/ --resume  # the last one, and what was open in it
//! ```
//!
//! The model is a script, so that nothing has to be paid for: it calls a tool that appends the text
//! to `notes.txt`, and says so. Everything else is what a real loop does. `--die-at N` ends the
//! process, as a crash would, at the Nth step, of which each is either stored or not.

use std::cell::Cell;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{NewMessage, NewSession, Role, Session, SessionFilter, Settle, Store, ToolCall};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut folder = PathBuf::from("agent-loop");
    let (mut resume, mut die_at) = (false, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--resume" => resume = true,
            "--die-at" => die_at = args.next().map(|step| step.parse()).transpose()?,
            _ => folder = PathBuf::from(arg),
        }
    }
    fs::create_dir_all(&folder)?;
    let store = Store::open(folder.join("turnkeep.db"))?;
    let agent = Agent {
        session: open(&store, resume)?,
        notes: folder.join("notes.txt"),
        die_at,
        step: Cell::new(0),
    };
    let mut told = 0;
    if resume {
        told = agent.take_up()?;
    }
    for (number, line) in io::stdin().lock().lines().enumerate() {
        let line = line?;
        // Prompts that were stored before the crash are not asked again.
        if number < told {
            println!("skipped, done before: {line}");
            continue;
        }
        agent.session.messages().append(NewMessage::user(line))?;
        agent.stepped();
        agent.run()?;
    }
    Ok(())
}

/// A new session, or the last one.
fn open(store: &Store, resume: bool) -> Outcome<Session> {
    let project = SessionFilter::new().project("agent-loop");
    let newest = store.sessions().list(&project, None, 1)?.sessions;
    Ok(match newest.first().filter(|_| resume) {
        Some(newest) => store.sessions().get(&newest.key())?,
        None => store
            .sessions()
            .create(NewSession::in_project("agent-loop"))?,
    })
}

struct Agent {
    session: Session,
    notes: PathBuf,
    die_at: Option<u32>,
    step: Cell<u32>,
}

impl Agent {
    /// Finds out what came of the calls that were open, and ends the turn that was under way.
    /// Returns how many prompts there were.
    fn take_up(&self) -> Outcome<usize> {
        let scene = self.session.scene()?;
        println!(
            "resumed: {} messages, {} rounds",
            scene.context.messages.len(),
            scene.rounds
        );
        for call in scene.pending {
            // The store runs nothing: whether a call took effect is for the app to find out.
            println!("open since the crash: {} {}", call.name, call.input);
            if is_noted(&self.notes, &call.idempotency_key)? {
                println!("it had taken effect: its result is stored");
                let result = Settle::Result(json!("noted"));
                self.session.tools().settle(&call.id, &result)?;
            } else {
                println!("it had not taken effect: it is run again");
                let again = self.session.tools().settle(&call.id, &Settle::Rerun)?;
                self.call(&again.call)?;
            }
            self.stepped();
        }
        self.run()?;
        let conversation = self.session.conversation("")?;
        let prompts = conversation
            .visible()
            .filter(|entry| is_prompt(&entry.entry));
        Ok(prompts.count())
    }

    /// Asks the model until it has nothing more to do.
    fn run(&self) -> Outcome<()> {
        loop {
            let context = self.session.context("")?;
            let Some(last) = context
                .messages
                .last()
                .filter(|last| last.role == Role::User)
            else {
                return Ok(());
            };
            let answer = model(&serde_json::from_str(last.content.get())?);
            if let Some(text) = answer.as_str() {
                println!("{text}");
            }
            self.session
                .messages()
                .append(NewMessage::assistant(answer))?;
            self.stepped();
            for call in self.session.tools().pending()? {
                self.call(&call)?;
                self.stepped();
            }
        }
    }

    /// Runs a tool call, and stores its result.
    fn call(&self, call: &ToolCall) -> Outcome<()> {
        let input: Value = serde_json::from_str(&call.input)?;
        let text = input["text"].as_str().unwrap_or_default();
        let mut notes = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.notes)?;
        writeln!(notes, "{text} ({})", call.idempotency_key)?;
        notes.sync_all()?;
        // Between the effect and its record: the one place where only the app can tell.
        self.stepped();
        let result = NewMessage::tool_result(&call.id, "noted");
        self.session.messages().append(result)?;
        Ok(())
    }

    fn stepped(&self) {
        self.step.set(self.step.get() + 1);
        if self.die_at == Some(self.step.get()) {
            std::process::abort();
        }
    }
}

/// What the scripted model answers to the last message.
fn model(said: &Value) -> Value {
    match said.as_str().map(|said| said.strip_prefix("note ")) {
        Some(Some(text)) => {
            let id = format!("call-{text}");
            json!([{"type": "tool_use", "id": id, "name": "note", "input": {"text": text}}])
        }
        Some(None) => json!("Say `note TEXT`."),
        None => json!("It is noted."),
    }
}

fn is_noted(notes: &Path, key: &str) -> io::Result<bool> {
    match fs::read_to_string(notes) {
        Ok(notes) => Ok(notes.contains(key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_prompt(entry: &str) -> bool {
    let entry: Value = serde_json::from_str(entry).unwrap_or_default();
    entry["message"]["role"] == "user" && entry["message"]["content"].is_string()
}
