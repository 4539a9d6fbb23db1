//! The examples, as processes that die at every step.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkeep::{NewMessage, Session, SessionFilter, Store};

use crate::context_rules::assert_valid;
use crate::kit::uuids;

const PROMPTS: &str = "note one\nhello\nnote two and three\n";

/// Where an example lies: beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// What a process of an example said, and whether it came to its end.
pub struct Told {
    pub out: String,
    pub ended: bool,
}

impl Told {
    /// What stands behind `start` on the lines that begin with it.
    pub fn lines(&self, start: &str) -> Vec<&str> {
        let lines = self.out.lines();
        lines.filter_map(|line| line.strip_prefix(start)).collect()
    }
}

/// Runs an example in a folder, with this typed in.
pub fn run(name: &str, folder: &Path, args: &[&str], typed: &str) -> Told {
    let mut process = Command::new(example(name))
        .arg(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the examples are built: cargo build --examples");
    // A process that dies early reads no more.
    drop(process.stdin.take().unwrap().write_all(typed.as_bytes()));
    let output: Output = process.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.contains("panicked"), "{said}");
    Told {
        out: String::from_utf8(output.stdout).unwrap(),
        ended: output.status.success(),
    }
}

/// The one session in an example's folder.
pub fn session(folder: &Path) -> Option<Session> {
    let store = Store::open(folder.join("turnkeep.db")).unwrap();
    assert_eq!(store.verify().unwrap().findings, []);
    let all = SessionFilter::new().all();
    let mut all = store.sessions().list(&all, None, 10).unwrap().sessions;
    assert!(all.len() < 2, "{all:?}");
    Some(store.sessions().get(&all.pop()?.key()).unwrap())
}

/// What a process that died left behind in the store.
pub struct Left {
    lines: Vec<String>,
    last: Option<String>,
    pending: Vec<String>,
}

impl Left {
    pub fn behind(session: &Session) -> Self {
        let pending = session.tools().pending().unwrap();
        Self {
            lines: lines(session),
            last: uuids(session).pop(),
            pending: pending.into_iter().map(|call| call.id).collect(),
        }
    }

    /// The process behind it resumed at the last message that was saved, and reported each call
    /// that was open once. What was stored is still there, in its order.
    pub fn check(&self, told: &Told, session: Option<&Session>) {
        let out = &told.out;
        let resumed: Vec<&str> = told
            .lines("resumed: ")
            .iter()
            .map(|line| line.split_once("; the last message is ").unwrap().1)
            .collect();
        let saved = self.last.as_deref();
        assert_eq!(
            resumed.last().copied().filter(|at| *at != "none"),
            saved,
            "{out}"
        );
        let mut reported: Vec<&str> = told
            .lines("open since the crash: ")
            .iter()
            .map(|line| line.split_once(' ').unwrap().0)
            .collect();
        reported.sort_unstable();
        let mut pending = self.pending.clone();
        pending.sort_unstable();
        assert_eq!(reported, pending, "each open call is reported once: {out}");
        if let Some(session) = session {
            assert_eq!(lines(session)[..self.lines.len()], self.lines);
        }
    }
}

fn lines(session: &Session) -> Vec<String> {
    let lines = session.transcript("").unwrap().into_iter();
    lines.filter_map(|line| line.entry).collect()
}

/// The context that a model is sent, as values.
pub fn messages(session: &Session) -> Vec<(String, Value)> {
    let context = session.context("").unwrap();
    assert_valid(&context, "the resumed session");
    let messages = context.messages.iter().map(|message| {
        let content = serde_json::from_str(message.content.get()).unwrap();
        (format!("{:?}", message.role), content)
    });
    messages.collect()
}

/// All that an agent's loop comes to: messages, counts, what is remembered, and its effects.
#[derive(Debug, PartialEq)]
struct State {
    messages: Vec<(String, Value)>,
    rounds: u64,
    tokens: u64,
    last_note: Option<Value>,
    notes: Vec<String>,
}

fn state(folder: &Path) -> State {
    let session = session(folder).unwrap();
    let scene = session.scene().unwrap();
    assert!(scene.pending.is_empty());
    let notes = fs::read_to_string(folder.join("notes.txt")).unwrap();
    // Each line ends with the key of its session's call.
    let texts = notes.lines().map(|line| line.split(' ').next().unwrap());
    State {
        messages: messages(&session),
        rounds: scene.rounds,
        tokens: scene.tokens_used,
        last_note: scene.scratchpad.get("last_note").cloned(),
        notes: texts.map(String::from).collect(),
    }
}

#[test]
fn the_agent_loop_killed_at_every_step_ends_as_if_it_had_not_been() {
    let script = tempfile::NamedTempFile::new().unwrap();
    fs::write(&script, PROMPTS).unwrap();
    let script = ["--script", script.path().to_str().unwrap()];
    let with = |more: &[&'static str]| [&script[..], more].concat();
    let undisturbed = tempfile::tempdir().unwrap();
    assert!(run("agent_loop", undisturbed.path(), &with(&[]), "").ended);
    let expected = state(undisturbed.path());
    assert_eq!(expected.notes, ["one", "two", "three"]);
    assert_eq!((expected.rounds, expected.tokens), (2, 50));
    let (mut deaths, mut found) = (0, [0, 0]);
    for step in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let number = step.to_string();
        let args = [&with(&[])[..], &["--die-at", &number]].concat();
        if run("agent_loop", folder, &args, "").ended {
            break;
        }
        deaths += 1;
        let left = Left::behind(&session(folder).unwrap());
        // It dies once more on the way, and then comes to its end.
        let told = run(
            "agent_loop",
            folder,
            &with(&["--resume", "--die-at", "1"]),
            "",
        );
        left.check(&told, session(folder).as_ref());
        let left = Left::behind(&session(folder).unwrap());
        let told = run("agent_loop", folder, &with(&["--resume"]), "");
        assert!(told.ended, "killed at step {step}: {}", told.out);
        left.check(&told, session(folder).as_ref());
        assert_eq!(
            state(folder),
            expected,
            "killed at step {step}: {}",
            told.out
        );
        found[0] += told.lines("had taken effect").len();
        found[1] += told.lines("had not taken effect").len();
    }
    // A session, three prompts, five responses, and for each call its effect and its result.
    assert_eq!(deaths, 1 + 3 + 5 + 2 * 3);
    assert!(found[0] > 0 && found[1] > 0, "what was asked: {found:?}");
}

#[test]
fn the_agent_loop_is_resumed_as_a_repl_and_goes_on_from_the_last_message() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(run("agent_loop", folder, &["--resume"], "note one\n").ended);
    let left = Left::behind(&session(folder).unwrap());
    let told = run("agent_loop", folder, &["--resume"], "\nnote two\n");
    left.check(&told, session(folder).as_ref());
    assert_eq!(told.lines("remembered: "), [r#"last_note = "one""#]);
    assert_eq!(state(folder).notes, ["one", "two"]);
    // A prompt that was saved and not answered is answered before the next one.
    let session = session(folder).unwrap();
    session
        .messages()
        .append(NewMessage::user("note three"))
        .unwrap();
    drop(session);
    assert!(run("agent_loop", folder, &["--resume"], "hello\n").ended);
    assert_eq!(state(folder).notes, ["one", "two", "three"]);
    assert_eq!(state(folder).messages.len(), 3 * 4 + 2);
}
