//! Entries as the client writes them, made up.

use serde_json::{Value, json};

/// An entry and what of it has a column of its own.
pub struct Entry {
    pub uuid: Option<String>,
    pub parent: Option<String>,
    pub kind: String,
    pub text: String,
}

impl AsRef<str> for Entry {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Makes entries of one size, each hanging from the one before it unless told otherwise.
pub struct Maker {
    bytes: usize,
    made: usize,
}

impl Maker {
    pub fn new(bytes: usize) -> Self {
        Self { bytes, made: 0 }
    }

    /// The next entry of turns of ten: a prompt, four calls each with its result, an answer.
    pub fn next(&mut self) -> Entry {
        let (parent, made) = (self.last(), self.made);
        match made % 10 {
            0 => self.make("user", parent, None, text()),
            9 => self.make("assistant", parent, Some(made), text()),
            place if place % 2 == 1 => self.make(
                "assistant",
                parent,
                Some(made),
                call(&format!("toolu_{made}")),
            ),
            _ => self.make("user", parent, None, result(&format!("toolu_{}", made - 1))),
        }
    }

    /// The next `count`.
    pub fn take(&mut self, count: usize) -> Vec<Entry> {
        (0..count).map(|_| self.next()).collect()
    }

    /// A conversation of at least `count` messages in which every tenth response makes two calls at
    /// a time, in entries of their own: the second call and the first result hang from the first.
    pub fn conversation(&mut self, count: usize) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(count + 6);
        for response in 1.. {
            if entries.len() >= count {
                break;
            }
            entries.push(self.make("user", self.last(), None, text()));
            if response % 10 == 0 {
                let ids = [format!("toolu_{response}_a"), format!("toolu_{response}_b")];
                let calls = ids
                    .each_ref()
                    .map(|id| self.make("assistant", self.last(), Some(response), call(id)));
                let results =
                    [0, 1].map(|n| self.make("user", calls[n].uuid.clone(), None, result(&ids[n])));
                entries.extend(calls.into_iter().chain(results));
            }
            entries.push(self.make("assistant", self.last(), Some(1_000_000 + response), text()));
        }
        entries
    }

    /// The uuid of the entry made last.
    fn last(&self) -> Option<String> {
        (self.made > 0).then(|| uuid(self.made))
    }

    fn make(
        &mut self,
        kind: &str,
        parent: Option<String>,
        response: Option<usize>,
        content: Value,
    ) -> Entry {
        self.made += 1;
        let mut message = json!({"role": kind, "content": content});
        if let Some(response) = response {
            message["id"] = json!(format!("msg_{response}"));
            message["model"] = json!("some-model-1");
            message["usage"] =
                json!({"input_tokens": 12, "output_tokens": 345, "cache_read_input_tokens": 6789});
        }
        let uuid = uuid(self.made);
        let mut entry = json!({
            "parentUuid": parent,
            "isSidechain": false,
            "type": kind,
            "message": message,
            "uuid": uuid,
            "timestamp": format!("2026-11-29T14:{:02}:{:02}.{:03}Z", self.made / 60_000 % 60, self.made / 1000 % 60, self.made % 1000),
            "userType": "external",
            "entrypoint": "sdk-cli",
            "cwd": "/srv/shop",
            "sessionId": "b0000000-0000-4000-8000-000000000000",
            "version": "2.1.332",
            "gitBranch": "main",
        });
        let missing = self.bytes.saturating_sub(entry.to_string().len());
        fill(&mut entry["message"]["content"][0], missing);
        Entry {
            uuid: Some(uuid),
            parent,
            kind: kind.to_owned(),
            text: entry.to_string(),
        }
    }
}

fn text() -> Value {
    json!([{"type": "text", "text": ""}])
}

fn call(id: &str) -> Value {
    json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": ""}}])
}

fn result(id: &str) -> Value {
    json!([{"type": "tool_result", "tool_use_id": id, "content": ""}])
}

fn uuid(number: usize) -> String {
    // Spread as real ones are, so that the index is not filled in order.
    let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "{:08x}-{:04x}-4000-8000-{number:012x}",
        spread >> 32,
        spread >> 16 & 0xffff
    )
}

/// Brings a block to its size: prose with line feeds and quotes, as models write it.
fn fill(block: &mut Value, bytes: usize) {
    const PROSE: &str =
        "The order \"A17\" is noted in orders.txt.\nNext comes the delivery, then the bill. ";
    let mut text = String::new();
    let mut length = 0;
    for char in PROSE.chars().cycle() {
        length += if matches!(char, '"' | '\n') { 2 } else { 1 };
        if length > bytes {
            break;
        }
        text.push(char);
    }
    let field = match block["type"].as_str() {
        Some("tool_use") => &mut block["input"]["command"],
        Some("tool_result") => &mut block["content"],
        _ => &mut block["text"],
    };
    *field = Value::String(text);
}
