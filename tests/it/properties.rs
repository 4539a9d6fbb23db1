//! Laws that hold for any transcript.

mod bytes;
mod growing;
mod rewrites;
mod trees;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use turnkeep::{Durability, OpenOptions, Session, SessionKey, Store};

use crate::context_rules::assert_valid;
use crate::kit::{exported, uuids};

/// The session that the generated transcripts belong to.
const SESSION: &str = "0b5e55ed-0000-4000-8000-000000000001";

/// A store and a client's folder, for one case.
struct Case {
    folder: TempDir,
    store: Store,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // A case is thrown away: it need not survive a power cut.
        let options = OpenOptions::new().durability(Durability::Normal);
        let store = Store::open_with(folder.path().join("store.db"), &options).unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        Self { folder, store }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Lets the file hold `bytes`, and imports it.
    fn import(&self, bytes: &[u8]) -> turnkeep::claude_code::ImportReport {
        let file = self.project().join(format!("{SESSION}.jsonl"));
        fs::write(&file, bytes).unwrap();
        crate::kit::import(&self.store, &file)
    }

    fn session(&self) -> Session {
        let key = SessionKey::new("project", SESSION).unwrap();
        self.store.sessions().get(&key).unwrap()
    }

    /// The transcript as it is exported, and its conversation by uuid; what is kept up must agree
    /// with the entries, and the context must be one that a model takes.
    fn shown(&self) -> (Vec<u8>, Vec<String>) {
        let session = self.session();
        assert_eq!(self.store.verify().unwrap().findings, []);
        assert_valid(&session.context("").unwrap(), SESSION);
        (exported(&session, ""), uuids(&session))
    }
}

/// Bytes as text that a person can read in a failed test.
fn readable(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// So many random cases. A failure prints its input, made small; nothing is kept beside the tests.
fn cases(number: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases: number,
        failure_persistence: None,
        ..Default::default()
    }
}
