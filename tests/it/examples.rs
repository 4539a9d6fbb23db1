//! The examples, as processes that die at every step.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use turnkeep::{SessionFilter, Store};

use crate::context_rules::assert_valid;

const PROMPTS: &str = "note one\nhello\nnote two\n";

/// Where the example lies: beside the tests.
fn example() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(format!("agent_loop{}", std::env::consts::EXE_SUFFIX))
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut process = Command::new(example())
        .arg(folder)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the examples are built: cargo build --examples");
    // A process that dies early reads no more.
    drop(process.stdin.take().unwrap().write_all(PROMPTS.as_bytes()));
    process.wait_with_output().unwrap()
}

/// The messages of the one session, and the notes without their keys.
fn state(folder: &Path) -> (Vec<(String, Value)>, Vec<String>) {
    let store = Store::open(folder.join("turnkeep.db")).unwrap();
    assert_eq!(store.verify().unwrap().findings, []);
    let sessions = store.sessions();
    let all = sessions
        .list(&SessionFilter::new().all(), None, 10)
        .unwrap();
    assert_eq!(all.sessions.len(), 1);
    let session = sessions.get(&all.sessions[0].key()).unwrap();
    let context = session.context("").unwrap();
    assert_valid(&context, "the resumed session");
    let messages = context
        .messages
        .iter()
        .map(|message| {
            let content = serde_json::from_str(message.content.get()).unwrap();
            (format!("{:?}", message.role), content)
        })
        .collect();
    let notes = std::fs::read_to_string(folder.join("notes.txt")).unwrap();
    let texts = notes
        .lines()
        .map(|line| line.split(' ').next().unwrap().to_owned());
    (messages, texts.collect())
}

#[test]
fn the_agent_loop_killed_at_every_step_ends_as_if_it_had_not_been() {
    let undisturbed = tempfile::tempdir().unwrap();
    assert!(run(undisturbed.path(), &[]).status.success());
    let expected = state(undisturbed.path());
    assert_eq!(expected.1, ["one", "two"]);
    let mut reported = BTreeSet::new();
    let mut deaths = 0;
    for step in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let died = run(folder.path(), &["--die-at", &step.to_string()]);
        if died.status.success() {
            break;
        }
        deaths += 1;
        // It dies once more on the way, and then comes to its end.
        run(folder.path(), &["--resume", "--die-at", "1"]);
        let resumed = run(folder.path(), &["--resume"]);
        let out = String::from_utf8_lossy(&resumed.stdout).into_owned();
        assert!(resumed.status.success(), "step {step}: {resumed:?}");
        assert_eq!(
            state(folder.path()),
            expected,
            "killed at step {step}: {out}"
        );
        reported.extend(
            out.lines()
                .filter(|line| line.starts_with("it had"))
                .map(String::from),
        );
    }
    assert!(deaths > 8, "{deaths}");
    assert!(!reported.is_empty(), "no open call was asked about");
}
