//! Transcripts made up at random: everything that a client writes, and what it should not.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};

/// What is written next.
#[derive(Clone, Debug)]
pub enum Step {
    Prompt,
    Answer,
    /// One response with parallel calls, each in an entry of its own, and results of some.
    Calls(usize, usize),
    /// What follows hangs from an earlier message: what came after that is a dead branch.
    Back(usize),
    /// A message whose parent was never written.
    Broken,
    /// A message that hangs from a sub-agent's.
    UnderSidechain,
    Sidechain,
    Attachment,
    System,
    /// A message that hangs from the head through an entry that is none.
    Through,
    /// An entry without a place in the conversation.
    Side(usize, usize),
    /// Another entry with the uuid of an earlier one.
    Repeated(usize),
    /// A compaction that keeps messages, by their ends or by name; what follows hangs from the
    /// summary or from the last message kept.
    Compaction(usize, bool, bool),
    /// The client's own move of the head.
    Moved(usize),
    Malformed,
}

pub fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Prompt),
        5 => Just(Step::Answer),
        4 => (1..4_usize, 0..4_usize).prop_map(|(calls, results)| Step::Calls(calls, results)),
        3 => any::<usize>().prop_map(Step::Back),
        1 => Just(Step::Broken),
        1 => Just(Step::UnderSidechain),
        1 => Just(Step::Sidechain),
        1 => Just(Step::Attachment),
        1 => Just(Step::System),
        1 => Just(Step::Through),
        2 => (0..5_usize, any::<usize>()).prop_map(|(kind, at)| Step::Side(kind, at)),
        1 => any::<usize>().prop_map(Step::Repeated),
        1 => (0..4_usize, any::<bool>(), any::<bool>()).prop_map(|(kept, named, on)| Step::Compaction(kept, named, on)),
        1 => any::<usize>().prop_map(Step::Moved),
        1 => Just(Step::Malformed),
    ];
    // Something is always written first, mostly a prompt.
    let first = prop_oneof![4 => Just(Step::Prompt), 1 => Just(Step::Sidechain), 1 => Just(Step::Attachment), 1 => Just(Step::Broken)];
    (first, prop::collection::vec(step, 0..most)).prop_map(|(first, mut steps)| {
        steps.insert(0, first);
        steps
    })
}

impl Step {
    /// Whether what is written keeps a transcript one that the SDK reads as it was meant. It knows
    /// nothing of messages that a compaction kept.
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Broken | Self::Moved(_) | Self::Repeated(_) | Self::UnderSidechain => false,
            Self::Compaction(kept, ..) => *kept == 0,
            _ => true,
        }
    }
}

/// A transcript being made up.
#[derive(Debug, Default)]
pub struct Maker {
    pub session_id: String,
    pub lines: Vec<String>,
    /// The messages, oldest first, by uuid.
    pub messages: Vec<String>,
    /// Parents that were named and never written.
    pub missing: Vec<String>,
    parents: HashMap<String, Option<String>>,
    head: Option<String>,
    made: usize,
}

impl Maker {
    pub fn new(number: usize) -> Self {
        Self {
            session_id: format!("{number:08x}-0000-4000-8000-000000000000"),
            ..Self::default()
        }
    }

    pub fn write(&mut self, steps: &[Step]) {
        for step in steps {
            self.step(step);
        }
    }

    /// The transcript as a file.
    pub fn file(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn uuid(&mut self) -> String {
        self.made += 1;
        format!("{}-{:012x}", &self.session_id[..23], self.made)
    }

    /// A message; what follows hangs from it.
    fn message(&mut self, mut entry: Value, parent: Option<String>) -> String {
        let uuid = self.uuid();
        entry["uuid"] = json!(uuid);
        entry["parentUuid"] = json!(parent);
        self.put(&entry);
        self.messages.push(uuid.clone());
        self.parents.insert(uuid.clone(), parent);
        self.head = Some(uuid.clone());
        uuid
    }

    fn put(&mut self, entry: &Value) {
        let mut entry = entry.clone();
        entry["sessionId"] = json!(self.session_id);
        let (minute, second) = (self.lines.len() / 60, self.lines.len() % 60);
        entry["timestamp"] = json!(format!("2026-01-02T03:{minute:02}:{second:02}.000Z"));
        self.lines.push(entry.to_string());
    }

    fn pick(&self, at: usize) -> Option<String> {
        let at = at.checked_rem(self.messages.len())?;
        Some(self.messages[at].clone())
    }

    fn said(&self, kind: &str, text: &str) -> Value {
        let text = format!("{text} {}", self.made);
        let mut entry = json!({"type": kind, "isSidechain": false, "cwd": "/srv/demo", "message": {"role": kind, "content": text}});
        if kind == "assistant" {
            entry["message"]["id"] = json!(format!("msg_{}", self.made));
            entry["message"]["content"] = json!([{"type": "text", "text": text}]);
        }
        entry
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Prompt => drop(self.message(self.said("user", "prompt"), self.head.clone())),
            Step::Answer => drop(self.message(self.said("assistant", "answer"), self.head.clone())),
            Step::Calls(calls, results) => self.calls(calls, results),
            Step::Back(at) => self.head = self.pick(at),
            Step::Broken => {
                let missing = self.uuid();
                self.missing.push(missing.clone());
                self.message(self.said("user", "broken"), Some(missing));
            }
            Step::UnderSidechain => {
                let uuid = self.sidechain();
                self.message(self.said("user", "under"), Some(uuid));
            }
            Step::Sidechain => drop(self.sidechain()),
            Step::Attachment => {
                let entry = json!({"type": "attachment", "isSidechain": false, "attachment": {"type": "todo"}});
                self.message(entry, self.head.clone());
            }
            Step::System => {
                let entry = json!({"type": "system", "isSidechain": false, "subtype": "info", "content": "note"});
                self.message(entry, self.head.clone());
            }
            Step::Through => {
                let uuid = self.uuid();
                self.put(&json!({"type": "progress", "uuid": uuid, "parentUuid": self.head}));
                self.head = Some(uuid);
                self.step(&Step::Answer);
            }
            Step::Side(kind, at) => self.side(kind, at),
            Step::Repeated(at) => {
                if let Some(uuid) = self.pick(at) {
                    let mut entry = self.said("user", "repeated");
                    entry["uuid"] = json!(uuid);
                    entry["parentUuid"] = json!(self.head);
                    self.put(&entry);
                }
            }
            Step::Compaction(kept, named, on_summary) => self.compaction(kept, named, on_summary),
            Step::Moved(at) => {
                self.head = self.pick(at);
                self.put(&json!({"type": "last-prompt", "leafUuid": self.head, "explicit": true}));
            }
            Step::Malformed => self.lines.push("{\"type\": \"user\", ".to_owned()),
        }
    }

    fn calls(&mut self, calls: usize, results: usize) {
        let response = format!("msg_{}", self.made);
        let mut made = Vec::new();
        for _ in 0..calls {
            let id = format!("toolu_{}_{}", &self.session_id[..8], self.made);
            let mut entry = self.said("assistant", "");
            entry["message"]["id"] = json!(response);
            entry["message"]["content"] =
                json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"n": 1.0}}]);
            made.push((self.message(entry, self.head.clone()), id));
        }
        for (uuid, id) in made.into_iter().take(results) {
            let mut entry = self.said("user", "");
            entry["message"]["content"] =
                json!([{"type": "tool_result", "tool_use_id": id, "content": "done"}]);
            entry["sourceToolAssistantUUID"] = json!(uuid);
            self.message(entry, Some(uuid));
        }
    }

    fn sidechain(&mut self) -> String {
        let uuid = self.uuid();
        let mut entry = self.said("user", "sidechain");
        entry["isSidechain"] = json!(true);
        entry["agentId"] = json!("a1");
        entry["uuid"] = json!(uuid);
        entry["parentUuid"] = json!(self.head);
        self.put(&entry);
        uuid
    }

    fn side(&mut self, kind: usize, at: usize) {
        let of = self.pick(at);
        let entry = match kind {
            0 => json!({"type": "custom-title", "customTitle": format!("title {at}")}),
            1 => json!({"type": "summary", "summary": "so far", "leafUuid": of}),
            2 => {
                json!({"type": "file-history-snapshot", "messageId": of, "snapshot": {"messageId": of}})
            }
            3 => json!({"type": "tag", "tag": "a tag"}),
            _ => json!({"type": "queue-operation", "operation": "enqueue", "about": [of]}),
        };
        self.put(&entry);
    }

    fn compaction(&mut self, kept: usize, named: bool, on_summary: bool) {
        let mut chain = Vec::from_iter(
            self.head
                .clone()
                .filter(|head| self.messages.contains(head)),
        );
        while let Some(Some(parent)) = chain.last().map(|last| self.parents[last].clone()) {
            if chain.len() >= kept || !self.messages.contains(&parent) {
                break;
            }
            chain.push(parent);
        }
        let chain: Vec<String> = chain.into_iter().take(kept).rev().collect();
        let mut boundary = json!({"type": "system", "subtype": "compact_boundary", "isSidechain": false, "content": "Conversation compacted", "logicalParentUuid": self.head, "compactMetadata": {"trigger": "manual"}});
        if let (Some(head), Some(tail)) = (chain.first(), chain.last()) {
            let metadata = &mut boundary["compactMetadata"];
            metadata["preservedSegment"] = json!({"headUuid": head, "tailUuid": tail});
            if named {
                metadata["preservedMessages"] = json!({"uuids": chain});
            }
        }
        let boundary = self.message(boundary, None);
        let mut summary = self.said("user", "summary");
        summary["isCompactSummary"] = json!(true);
        self.message(summary, Some(boundary));
        if let Some(tail) = chain.last().filter(|_| !on_summary) {
            self.head = Some(tail.clone());
        }
    }
}
