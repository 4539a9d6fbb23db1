//! Reported cases: their inputs, the facts expected of them, and what both are compared by.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::claude_code::ImportReport;
use turnkeep::{Context, Conversation, Role, Session};

use crate::kit::{TestStore, fixture_path};

/// A case's input, imported.
pub struct Case {
    pub expect: Value,
    pub test: TestStore,
    pub report: ImportReport,
    name: String,
}

impl Case {
    pub fn import(name: &str) -> Self {
        let (test, report) = TestStore::with(&format!("cases/{name}"));
        Self {
            expect: expect(name),
            test,
            report,
            name: name.to_owned(),
        }
    }

    /// The session of a case that has only one.
    pub fn session(&self) -> Session {
        self.test.only_session()
    }

    /// The bytes of the only transcript.
    pub fn source(&self) -> Vec<u8> {
        fs::read(transcript_in(&folder(&self.name))).unwrap()
    }
}

/// Where a case's input lies.
pub fn folder(name: &str) -> PathBuf {
    fixture_path("cases").join(name)
}

/// The facts expected of a case.
pub fn expect(name: &str) -> Value {
    let text = fs::read_to_string(folder(name).join("expect.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A list of strings in the facts expected.
pub fn strings(value: &Value) -> Vec<&str> {
    let list = value.as_array().unwrap().iter();
    list.map(|item| item.as_str().unwrap()).collect()
}

/// The only main transcript below a folder.
pub fn transcript_in(folder: &Path) -> PathBuf {
    let mut found = Vec::new();
    for project in fs::read_dir(folder.join("projects")).unwrap() {
        for file in fs::read_dir(project.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "jsonl") {
                found.push(path);
            }
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Copies a folder, so that a test may change it.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The user and assistant messages of a conversation, by uuid.
pub fn spoken(conversation: &Conversation) -> Vec<&str> {
    let speaks = |kind: &str| matches!(kind, "user" | "assistant");
    conversation
        .entries
        .iter()
        .filter(|entry| speaks(&entry.kind))
        .map(|entry| entry.uuid.as_str())
        .collect()
}

/// The uuids of a transcript's entries, in order.
pub fn uuids(session: &Session, subpath: &str) -> Vec<String> {
    session
        .transcript(subpath)
        .unwrap()
        .iter()
        .filter_map(|line| field(line.entry.as_deref()?, "uuid"))
        .collect()
}

/// A text field of an entry.
pub fn field(entry: &str, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(entry).ok()?;
    value[name].as_str().map(str::to_owned)
}

/// A context as values. Fails on what an API would refuse: roles that do not alternate, a call
/// without its result directly behind it, a result without its call, text that is not Unicode.
pub fn checked(context: &Context) -> Vec<(Role, Value)> {
    let messages: Vec<(Role, Value)> = context
        .messages
        .iter()
        .map(|message| {
            let content = serde_json::from_str(message.content.get()).unwrap();
            (message.role, content)
        })
        .collect();
    let mut open: Vec<String> = Vec::new();
    let mut last = Role::Assistant;
    for (role, content) in &messages {
        assert_ne!(*role, last, "{messages:#?}");
        last = *role;
        let answered = blocks(content, "tool_result", "tool_use_id");
        assert_eq!(answered, open, "{messages:#?}");
        let first_other = kinds(content).iter().position(|kind| kind != "tool_result");
        assert!(
            answered.is_empty() || first_other.is_none_or(|at| at >= answered.len()),
            "results stand first: {content}"
        );
        open = blocks(content, "tool_use", "id");
    }
    assert!(open.is_empty(), "{messages:#?}");
    messages
}

/// A field of the blocks of one type.
pub fn blocks(content: &Value, kind: &str, name: &str) -> Vec<String> {
    let all = content.as_array().into_iter().flatten();
    all.filter(|block| block["type"] == kind)
        .map(|block| block[name].as_str().unwrap().to_owned())
        .collect()
}

/// The types of the blocks.
pub fn kinds(content: &Value) -> Vec<String> {
    let all = content.as_array().into_iter().flatten();
    all.map(|block| block["type"].as_str().unwrap().to_owned())
        .collect()
}

/// A user entry as the client writes one.
pub fn user(uuid: &str, parent: Option<&str>, content: impl Into<Value>) -> String {
    json!({
        "parentUuid": parent, "isSidechain": false, "type": "user", "uuid": uuid,
        "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/srv/demo",
        "message": {"role": "user", "content": content.into()},
    })
    .to_string()
}

/// An assistant entry as the client writes one; its response has an id of its own.
pub fn assistant(uuid: &str, parent: Option<&str>, content: impl Into<Value>) -> String {
    json!({
        "parentUuid": parent, "isSidechain": false, "type": "assistant", "uuid": uuid,
        "timestamp": "2026-01-02T03:04:05.000Z",
        "message": {"id": format!("msg_{uuid}"), "role": "assistant", "content": content.into()},
    })
    .to_string()
}

/// A block that calls a tool.
pub fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "true"}})
}

/// A block that answers a call.
pub fn result(id: &str, content: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": content})
}
