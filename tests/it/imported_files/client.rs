//! Transcripts that the tests write themselves, as the client writes them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// An entry of a transcript that the tests write themselves.
pub struct Lines {
    work: PathBuf,
    number: u32,
    last: Option<String>,
    pub entries: Vec<Value>,
    /// The fields that every entry has.
    shared: Value,
}

impl Lines {
    pub fn new(work: &Path) -> Self {
        Self {
            work: work.to_owned(),
            number: 0,
            last: None,
            entries: Vec::new(),
            shared: json!({}),
        }
    }

    /// Lines of a sub-agent, which begin at this time.
    pub fn of_agent(work: &Path, agent: &str, prompt_id: &str, number: u32) -> Self {
        let shared = json!({"isSidechain": true, "agentId": agent, "promptId": prompt_id});
        Self {
            number,
            shared,
            ..Self::new(work)
        }
    }

    /// When the last entry was written.
    pub fn clock(&self) -> u32 {
        self.number
    }

    pub fn wait_until(&mut self, clock: u32) {
        self.number = self.number.max(clock);
    }

    fn push(&mut self, kind: &str, uuid: String, content: Value, more: Value) {
        self.number += 1;
        let mut entry = json!({
            "parentUuid": self.last, "type": kind, "uuid": uuid,
            "cwd": self.work, "message": {"role": kind, "content": content},
            "timestamp": format!("2026-01-02T03:{:02}:{:02}.000Z", self.number / 60, self.number % 60),
        });
        for extra in [&self.shared, &more] {
            for (name, value) in extra.as_object().unwrap() {
                entry[name] = value.clone();
            }
        }
        self.last = Some(uuid);
        self.entries.push(entry);
    }

    pub fn prompt(&mut self, uuid: &str) {
        let more = json!({"promptId": format!("turn of {uuid}")});
        self.push("user", uuid.to_owned(), json!(format!("do {uuid}")), more);
    }

    /// A call, and what it answered.
    pub fn call(
        &mut self,
        id: &str,
        tool: &str,
        input: Value,
        answer: &str,
        result: Option<Value>,
    ) {
        let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
        self.push("assistant", format!("call {id}"), call, json!({}));
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": answer}]);
        let more = match result {
            Some(result) => json!({"toolUseResult": result}),
            None => json!({}),
        };
        self.push("user", format!("result {id}"), content, more);
    }

    fn path(&self, name: &str) -> Value {
        json!(self.work.join(name))
    }

    /// An edit as the main transcript tells of it.
    pub fn write(&mut self, id: &str, name: &str, before: Option<&str>, after: &str) {
        let path = self.path(name);
        let kind = if before.is_some() { "update" } else { "create" };
        let result =
            json!({"type": kind, "filePath": path, "content": after, "originalFile": before});
        let input = json!({"file_path": path, "content": after});
        self.call(id, "Write", input, "done", Some(result));
    }

    pub fn snapshot(&mut self, prompt: &str, files: Value) {
        self.entries.push(json!({
            "type": "file-history-snapshot", "messageId": prompt, "isSnapshotUpdate": false,
            "snapshot": {"messageId": prompt, "trackedFileBackups": files},
        }));
    }

    pub fn delta(&mut self, prompt: &str, name: &str, backup: Option<&str>) {
        self.entries.push(json!({
            "type": "file-history-delta", "messageId": "an answer", "snapshotMessageId": prompt,
            "trackingPath": name, "backup": {"backupFileName": backup},
        }));
    }
}
