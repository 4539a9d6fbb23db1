//! Claude Code's checkpoints after an import: sessions in a folder of the test's own.

mod calls;
mod client;
mod edits;
mod laws;
mod order;
mod real_runs;
mod records;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnkeep::claude_code::ImportReport;
use turnkeep::{Restore, RewindOptions, RewindReport, Session};

use crate::case::copy_folder;
use crate::kit::{TestStore, fixture_path, import};

/// The session that the tests' own transcripts are of.
pub const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";

/// A fixture whose session works in a folder of the test's own.
pub struct Moved {
    pub test: TestStore,
    pub config: PathBuf,
    pub work: PathBuf,
}

impl Moved {
    /// A copy of a fixture, with the folder that it names in place of `from`.
    pub fn of(fixture: &str, from: &str) -> Self {
        let moved = Self::empty();
        copy_folder(&fixture_path(fixture), &moved.config);
        let to = moved.work.to_str().unwrap().to_owned();
        for path in transcripts_below(&moved.config) {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(from, &to)).unwrap();
        }
        moved
    }

    pub fn empty() -> Self {
        let test = TestStore::new();
        let config = test.path("config");
        let work = test.path("work");
        fs::create_dir(&config).unwrap();
        fs::create_dir(&work).unwrap();
        Self {
            work: work.canonicalize().unwrap(),
            test,
            config,
        }
    }

    pub fn import(&self) -> ImportReport {
        import(&self.test.store, &self.config)
    }

    pub fn session(&self, beginning: &str) -> Session {
        let scope = turnkeep::Scope::default();
        self.test
            .store
            .sessions()
            .resolve(beginning, &scope)
            .unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.work.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What lies at a path; `None` if nothing does.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work.join(name)).ok()
    }

    /// Writes a transcript of the session `id` in the project `p`.
    pub fn transcript(&self, below: &str, entries: &[Value]) {
        let path = self.config.join("projects/p").join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let lines: Vec<String> = entries.iter().map(|entry| format!("{entry}\n")).collect();
        fs::write(path, lines.concat()).unwrap();
    }

    pub fn backup(&self, id: &str, name: &str, text: &str) {
        let path = self.config.join("file-history").join(id).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn transcripts_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(transcripts_below(&path));
        } else if path.extension().is_some_and(|ending| ending == "jsonl") {
            found.push(path);
        }
    }
    found
}

pub fn rewind(session: &Session, to: &str) -> RewindReport {
    let options = RewindOptions::to(to)
        .restore(Restore::Files)
        .while_pending(true);
    let plan = session.plan_rewind(&options).unwrap();
    session.rewind(&plan).unwrap()
}

/// The prompts of a session, in order.
pub fn prompts(session: &Session) -> Vec<String> {
    let points = session.files().points().unwrap().into_iter();
    points
        .filter(|point| point.tool.is_none() && point.text.is_some())
        .map(|point| point.id)
        .collect()
}
