//! Forks beside the Agent SDK's own: for every message of every real run.

use std::ffi::OsStr;
use std::fs;

use serde_json::{Value, json};
use turnkeep::ForkOptions;

use crate::kit::{TestStore, all_sessions, exported, fixture_path};
use crate::sdk::ask;

const RUNS: [&str; 13] = crate::transcripts::RUNS;

#[test]
fn the_fork_up_to_every_message_equals_the_sdks() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = String::new();
    let mut number = 0;
    for run in RUNS {
        let (test, _) = TestStore::with(&format!("transcripts/{run}"));
        for session in all_sessions(&test.store) {
            let key = session.key();
            let source = fixture_path(&format!(
                "transcripts/{run}/projects/{}/{}.jsonl",
                key.project_key, key.session_id
            ));
            for line in session.transcript("").unwrap() {
                let Some(entry) = line
                    .entry
                    .filter(|_| matches!(line.kind.as_str(), "user" | "assistant"))
                else {
                    continue;
                };
                let entry: Value = serde_json::from_str(&entry).unwrap();
                let up_to = entry["uuid"].as_str().unwrap();
                let fork = session.fork(&ForkOptions::new().up_to(up_to)).unwrap();
                number += 1;
                let path = folder.path().join(format!("{number}.jsonl"));
                fs::write(&path, exported(&fork, "")).unwrap();
                let case = json!({"source": source, "session_id": session.id(), "up_to": up_to, "fork": path});
                manifest.push_str(&format!("{case}\n"));
            }
        }
        assert_eq!(test.store.verify().unwrap().findings, [], "{run}");
    }
    let cases = folder.path().join("manifest");
    fs::write(&cases, manifest).unwrap();
    let answer = ask("compare_forks.py", &[cases.as_os_str()], b"");
    assert_eq!(answer["compared"], json!(number));
    assert!(number > 200, "{number}");
    assert_eq!(answer["differences"], json!([]));
}

/// What the real client sends to the model when it resumes an exported session: the texts, in order.
fn resumed_by_the_client(test: &TestStore, session: &turnkeep::Session) -> Vec<String> {
    let config = test.path(&format!("config-{}", session.id()));
    turnkeep::claude_code::export_config_folder(&config, std::slice::from_ref(session)).unwrap();
    let work = test.path("work");
    let arguments: [&OsStr; 4] = [
        config.as_os_str(),
        work.as_os_str(),
        session.id().as_ref(),
        "GO ON".as_ref(),
    ];
    let answer = ask("client_resume.py", &arguments, b"");
    assert_eq!(answer["exit"], json!(0), "{answer}");
    let messages = answer["requests"][0].as_array().unwrap();
    let texts = messages
        .iter()
        .filter(|message| message["role"] != "system")
        .flat_map(|message| match &message["content"] {
            Value::String(text) => vec![text.clone()],
            Value::Array(blocks) => blocks
                .iter()
                .filter_map(|block| block["text"].as_str().map(String::from))
                .filter(|text| !text.starts_with("<system-reminder>") && !text.starts_with("lorem"))
                .collect(),
            _ => Vec::new(),
        });
    texts.collect()
}

fn said(session: &turnkeep::Session) -> Vec<String> {
    let context = session.context("").unwrap();
    let contents = context
        .messages
        .iter()
        .map(|message| serde_json::from_str::<Value>(message.content.get()).unwrap());
    let texts = contents.flat_map(|content| match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block["text"].as_str().map(String::from))
            .collect(),
        _ => Vec::new(),
    });
    texts.chain(["GO ON".to_owned()]).collect()
}

#[test]
fn the_real_client_resumes_forks_and_moved_heads_as_they_are_shown() {
    let (test, _) = TestStore::with("transcripts/resume_flags");
    let source = test
        .store
        .sessions()
        .resolve("d68c4f87", &turnkeep::Scope::default())
        .unwrap();
    let prompts: Vec<String> = source
        .conversation("")
        .unwrap()
        .visible()
        .filter(|entry| entry.kind == "user" && entry.entry.contains("\"TURN-"))
        .map(|entry| entry.uuid.clone())
        .collect();
    let fork = source.fork(&ForkOptions::new()).unwrap();
    let entries = fork.conversation("").unwrap().entries;
    let answer = entries
        .iter()
        .rev()
        .filter(|entry| entry.kind == "assistant")
        .nth(2)
        .unwrap();
    let again = fork.fork(&ForkOptions::new().up_to(&answer.uuid)).unwrap();
    let before = source.conversation("").unwrap();
    let place = before
        .entries
        .iter()
        .position(|entry| entry.uuid == prompts[2])
        .unwrap();
    let moved = source.fork(&ForkOptions::new()).unwrap();
    let target = moved.conversation("").unwrap().entries[place - 1]
        .uuid
        .clone();
    moved.switch_to(&target).unwrap();
    for session in [&fork, &again, &moved] {
        let shown = said(session);
        assert!(shown.len() > 3, "{shown:?}");
        assert_eq!(resumed_by_the_client(&test, session), shown);
    }
}
