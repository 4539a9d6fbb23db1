//! Shared steps: a store in a folder of its own, fixtures, and imports of them.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use turnkeep::claude_code::{self, ImportOptions, ImportReport};
use turnkeep::{NewSession, Session, SessionFilter, Store};

/// A store in a temporary folder.
pub struct TestStore {
    pub folder: TempDir,
    pub store: Store,
}

impl TestStore {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.db")).unwrap();
        Self { folder, store }
    }

    /// A store with what a fixture holds.
    pub fn with(fixture: &str) -> (Self, ImportReport) {
        let test = Self::new();
        let report = import(&test.store, &fixture_path(fixture));
        (test, report)
    }

    /// An empty session in the project `p`.
    pub fn session(&self) -> Session {
        self.store
            .sessions()
            .create(NewSession::in_project("p"))
            .unwrap()
    }

    /// The only session in it.
    pub fn only_session(&self) -> Session {
        let mut all = self
            .store
            .sessions()
            .list(&SessionFilter::new().all(), None, 10)
            .unwrap()
            .sessions;
        assert_eq!(all.len(), 1);
        self.store.sessions().get(&all.remove(0).key()).unwrap()
    }

    /// A path in the test's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Where a fixture lies.
pub fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fixtures")
        .join(name)
}

/// Imports a folder or file.
pub fn import(store: &Store, path: &Path) -> ImportReport {
    claude_code::import(store, path, &ImportOptions::new(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap()
}

/// Every session of a store, also those that lists leave out.
pub fn all_sessions(store: &Store) -> Vec<Session> {
    let page = store
        .sessions()
        .list(&SessionFilter::new().all(), None, usize::MAX / 2)
        .unwrap();
    page.sessions
        .iter()
        .map(|info| store.sessions().get(&info.key()).unwrap())
        .collect()
}

/// The uuids of a session's conversation, in order.
pub fn uuids(session: &Session) -> Vec<String> {
    let entries = session.conversation("").unwrap().entries;
    entries.into_iter().map(|entry| entry.uuid).collect()
}

/// A transcript as JSONL.
pub fn exported(session: &Session, subpath: &str) -> Vec<u8> {
    let mut out = Vec::new();
    turnkeep::export_jsonl(session, subpath, &mut out).unwrap();
    out
}

/// The files below a folder, with their contents, by their path below it.
pub fn tree(folder: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let mut files = std::collections::BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let below = path
                    .strip_prefix(folder)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                files.insert(below, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// The sources, by their path below `src/`.
pub fn source_files() -> Vec<(String, String)> {
    let files = tree(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    files
        .into_iter()
        .map(|(path, bytes)| (path, String::from_utf8(bytes).unwrap()))
        .collect()
}

/// The program, on a store of its own, in an environment without anything of the caller's.
pub struct Turnkeep {
    pub folder: TempDir,
}

/// What the program said.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The JSON on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }

    /// What `--json` says went wrong.
    pub fn error(&self) -> serde_json::Value {
        let error: serde_json::Value = serde_json::from_str(&self.err).unwrap();
        error["error"].clone()
    }
}

impl Turnkeep {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The program with a fixture imported.
    pub fn with(fixture: &str) -> Self {
        let program = Self::new();
        let path = fixture_path(fixture);
        assert!(matches!(
            program.run(&["import", path.to_str().unwrap()]).code,
            0 | 6
        ));
        program
    }

    pub fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_turnkeep"));
        command
            .env_clear()
            .env("TZ", "UTC")
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path());
        command
            .arg("--store")
            .arg(self.folder.path().join("store.db"))
            .args(args);
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Runs the program with this on stdin.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        use std::io::Write;
        let mut command = self.command(args);
        command.stdin(std::process::Stdio::piped());
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that reads no input closes its end.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }
}
