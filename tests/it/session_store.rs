//! The store as the Claude Agent SDK knows one: the fourteen contracts that it asks of every
//! adapter (`claude_agent_sdk.testing.run_session_store_conformance`), and what we promise beyond.

mod contracts;
mod promises;

use serde_json::Value;
use turnkeep::{SessionStore, TranscriptKey};

use crate::kit::TestStore;

/// A store and its face for the SDK.
struct Desk {
    test: TestStore,
    store: SessionStore,
}

impl Desk {
    fn new() -> Self {
        let test = TestStore::new();
        let store = test.store.session_store();
        Self { test, store }
    }

    /// Appends the bodies as entries of type `x`, as the SDK's suite does.
    fn append(&self, key: &TranscriptKey, bodies: &[&str]) -> turnkeep::Appended {
        let entries = bodies.iter().map(|body| entry(body));
        self.store.append(key, entries).unwrap()
    }

    /// A transcript's entries as values; `None` if it was never written.
    fn load(&self, key: &TranscriptKey) -> Option<Vec<Value>> {
        let entries = self.store.load(key).unwrap()?;
        let parse = |entry: &String| serde_json::from_str(entry).unwrap();
        Some(entries.iter().map(parse).collect())
    }

    /// Fails unless a transcript holds exactly the bodies as entries, in order.
    fn expect(&self, key: &TranscriptKey, bodies: &[&str]) {
        let parse = |body: &&str| serde_json::from_str(&entry(body)).unwrap();
        let expected: Vec<Value> = bodies.iter().map(parse).collect();
        assert_eq!(self.load(key), Some(expected), "{key:?}");
    }

    fn ids(&self, project: &str) -> Vec<String> {
        let listed = self.store.list_sessions(project).unwrap();
        let mut ids: Vec<String> = listed.into_iter().map(|entry| entry.session_id).collect();
        ids.sort();
        ids
    }
}

fn entry(body: &str) -> String {
    format!(r#"{{"type":"x",{body}}}"#)
}

fn main_key(project: &str, session: &str) -> TranscriptKey {
    TranscriptKey::main(project, session).unwrap()
}

fn agent_key(project: &str, session: &str, subpath: &str) -> TranscriptKey {
    main_key(project, session).session.transcript(subpath)
}
