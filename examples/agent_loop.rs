//! An agent's loop that can be killed anywhere and goes on where it was.
//!
//! ```sh
//! cargo run --example agent_loop -- notes/           # a new session; type `note TEXT`, end with ctrl-d
//! cargo run --example agent_loop -- notes/ --resume  # the last one, and what was open in it
//! ```
//!
//! The model is a script, so that nothing has to be paid for: it calls a tool that appends the text
//! to `notes.txt` (for `note ONE and TWO`, two calls at once), and says so. Everything else is what
//! a real loop does. `--script FILE` takes the prompts from a file, of which those that were given
//! before are skipped. `--die-at N` ends the process, as a crash would, at the Nth step, of which
//! each is either stored or not.

use std::cell::Cell;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{NewMessage, NewSession, Role, Session, SessionFilter, Settle, Store, ToolCall};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut folder = PathBuf::from("agent-loop");
    let (mut resume, mut script, mut die_at) = (false, None, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--resume" => resume = true,
            "--script" => script = Some(args.next().ok_or("--script needs a file")?),
            "--die-at" => die_at = args.next().map(|step| step.parse()).transpose()?,
            other if other.starts_with('-') => return Err(format!("no option {other}").into()),
            _ => folder = PathBuf::from(arg),
        }
    }
    fs::create_dir_all(&folder)?;
    let store = Store::open(folder.join("turnkeep.db"))?;
    let last = if resume { last(&store)? } else { None };
    let is_new = last.is_none();
    let new = NewSession::in_project("agent-loop");
    let agent = Agent {
        session: last.map_or_else(|| store.sessions().create(new), Ok)?,
        notes: folder.join("notes.txt"),
        die_at,
        step: Cell::new(0),
    };
    if is_new {
        agent.stepped();
    } else {
        agent.take_up()?;
    }
    match script {
        Some(script) => agent.follow(Path::new(&script)),
        None => agent.listen(),
    }
}

/// The last session, if there is one.
fn last(store: &Store) -> Outcome<Option<Session>> {
    let project = SessionFilter::new().project("agent-loop").all();
    let newest = store.sessions().list(&project, None, 1)?.sessions;
    let newest = newest.first().map(|newest| newest.key());
    Ok(newest.map(|key| store.sessions().get(&key)).transpose()?)
}

struct Agent {
    session: Session,
    notes: PathBuf,
    die_at: Option<u32>,
    step: Cell<u32>,
}

impl Agent {
    /// Asks for prompts, and answers each.
    fn listen(&self) -> Outcome<()> {
        let is_asked = io::stdin().is_terminal();
        let mut lines = io::stdin().lock().lines();
        loop {
            if is_asked {
                print!("> ");
                io::stdout().flush()?;
            }
            match lines.next() {
                Some(line) => self.answer(line?)?,
                None => return Ok(()),
            }
        }
    }

    /// Takes the prompts from a file; those that were stored before are not given again.
    fn follow(&self, script: &Path) -> Outcome<()> {
        let before = self.session.conversation("")?;
        let before = before.visible().filter(|entry| is_prompt(&entry.entry));
        let before = before.count();
        for (number, line) in BufReader::new(File::open(script)?).lines().enumerate() {
            match line? {
                line if number < before => println!("skipped, done before: {line}"),
                line => self.answer(line)?,
            }
        }
        Ok(())
    }

    fn answer(&self, prompt: String) -> Outcome<()> {
        if prompt.trim().is_empty() {
            return Ok(());
        }
        self.session.messages().append(NewMessage::user(prompt))?;
        self.stepped();
        self.run()
    }

    /// Finds out what came of the calls that were open, and ends the turn that was under way.
    fn take_up(&self) -> Outcome<()> {
        let scene = self.session.scene()?;
        let last = self.session.conversation("")?.entries.pop();
        println!(
            "resumed: {} rounds, {} tokens; the last message is {}",
            scene.rounds,
            scene.tokens_used,
            last.map_or_else(|| "none".to_owned(), |last| last.uuid)
        );
        for (key, value) in &scene.scratchpad {
            println!("remembered: {key} = {value}");
        }
        for call in &scene.pending {
            println!("open since the crash: {} {}", call.id, call.input);
        }
        for call in scene.pending {
            // The store runs nothing: whether a call took effect is for the app to find out.
            if is_noted(&self.notes, &call.idempotency_key)? {
                println!("had taken effect, its result is stored: {}", call.id);
                self.record(&call)?;
            } else {
                println!("had not taken effect, is run again: {}", call.id);
                let again = self.session.tools().settle(&call.id, &Settle::Rerun)?;
                self.call(&again.call)?;
            }
        }
        self.run()
    }

    /// Asks the model until it has nothing more to do.
    fn run(&self) -> Outcome<()> {
        loop {
            let messages = self.session.context("")?.messages;
            let Some(last) = messages.last().filter(|last| last.role == Role::User) else {
                return Ok(());
            };
            let content = model(&serde_json::from_str(last.content.get())?, messages.len());
            if let Some(text) = content.as_str() {
                println!("{text}");
            }
            let response =
                json!({"role": "assistant", "content": content, "usage": {"output_tokens": 10}});
            // Save point A: the calls are known before any tool runs.
            self.session
                .messages()
                .append(NewMessage::response(&response))?;
            self.stepped();
            for call in self.session.tools().pending()? {
                self.call(&call)?;
            }
        }
    }

    /// Runs a tool call, and stores its result.
    fn call(&self, call: &ToolCall) -> Outcome<()> {
        let mut notes = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.notes)?;
        writeln!(notes, "{} ({})", text_of(call)?, call.idempotency_key)?;
        notes.sync_all()?;
        // Between the effect and its record: the one place where only the app can tell.
        self.stepped();
        self.record(call)
    }

    /// Save point B: the result and what is to be remembered of it, both or neither.
    fn record(&self, call: &ToolCall) -> Outcome<()> {
        let text = text_of(call)?;
        self.session.write(|tx| {
            tx.settle(&call.id, &Settle::Result(json!("noted")))?;
            tx.set("last_note", text)
        })?;
        self.stepped();
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
fn model(said: &Value, number: usize) -> Value {
    match said.as_str().map(|said| said.strip_prefix("note ")) {
        Some(Some(texts)) => {
            let call = |(at, text)| {
                let id = format!("call-{number}-{at}");
                json!({"type": "tool_use", "id": id, "name": "note", "input": {"text": text}})
            };
            texts.split(" and ").enumerate().map(call).collect()
        }
        Some(None) => json!("Say `note TEXT`."),
        None => json!("It is noted."),
    }
}

fn text_of(call: &ToolCall) -> Outcome<String> {
    let input: Value = serde_json::from_str(&call.input)?;
    Ok(input["text"].as_str().unwrap_or_default().to_owned())
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
