//! What every provider asks of a context, checked on one.

use std::collections::HashSet;

use serde::Deserialize;
use turnkeep::{Context, ContextMessage, Role};

/// The fields of a block that the rules look at; the others, numbers of any size among them, only
/// have to be JSON.
#[derive(Debug, Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    tool_use_id: Option<String>,
}

/// Fails unless a model would take the context: the user begins and roles alternate, each call is
/// answered once, directly behind it and first in its message, and nothing is empty.
pub fn assert_valid(context: &Context, name: &str) {
    let mut open = HashSet::new();
    for (at, message) in context.messages.iter().enumerate() {
        let place = format!("{name}, message {at}");
        let expected = if at % 2 == 0 {
            Role::User
        } else {
            Role::Assistant
        };
        assert_eq!(message.role, expected, "{place}: {}", message.content);
        let blocks = blocks(message);
        assert!(!blocks.is_empty(), "{place} is empty");
        answer(&blocks, &mut open, &place);
        assert!(open.is_empty(), "{place} does not answer {open:?}");
        for call in blocks.iter().filter(|block| block.kind == "tool_use") {
            assert_eq!(message.role, Role::Assistant, "{place} calls");
            open.insert(call.id.clone().unwrap());
        }
    }
    assert!(open.is_empty(), "{name} ends before {open:?} is answered");
}

/// The blocks of a message; a plain string is one text.
fn blocks(message: &ContextMessage) -> Vec<Block> {
    let json = message.content.get();
    if json.starts_with('[') {
        return serde_json::from_str(json).unwrap();
    }
    vec![Block {
        kind: "text".to_owned(),
        text: Some(serde_json::from_str(json).unwrap()),
        id: None,
        tool_use_id: None,
    }]
}

/// Takes the calls that the results of a message answer out of `open`.
fn answer(blocks: &[Block], open: &mut HashSet<String>, place: &str) {
    let mut only_results = true;
    for block in blocks {
        if block.kind == "text" {
            let text = block.text.as_deref().unwrap();
            assert!(!text.is_empty(), "{place} has an empty text");
        }
        if block.kind != "tool_result" {
            only_results = false;
            continue;
        }
        assert!(only_results, "{place}: a result stands behind other blocks");
        let call = block.tool_use_id.as_deref().unwrap();
        assert!(open.remove(call), "{place}: {call} was not open");
    }
}
