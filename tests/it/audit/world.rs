//! A store with 100 sessions and 2,000 edits of 60 files: several agents, forks, rewinds, undos,
//! renames, and edits outside of any session. The world keeps its own account of all that happens.
//! Every line ever written is another one, so that its text tells who wrote it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use turnkeep::{
    Durability, FileAction, FileOutcome, ForkOptions, NewMessage, NewSession, OpenOptions, Restore,
    RewindOptions, Session, Store, ToolRef,
};

/// The lines of a file; `None` for no file.
pub type Text = Option<Vec<String>>;

/// What made a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Tool,
    Rewind,
    Undo,
    Outside,
}

/// One thing that was done to one file.
#[derive(Clone, Debug)]
pub struct Step {
    pub by: By,
    /// The session's place in the world; meaningless for what was done outside.
    pub session: usize,
    pub call: Option<String>,
    pub tool: &'static str,
    pub agent: Option<String>,
    /// What the prompt of its turn says.
    pub prompt: String,
    pub path: PathBuf,
    pub before: Text,
    pub after: Text,
    /// The file that this one was made of, in the same call.
    pub renamed_from: Option<PathBuf>,
    /// The rewind or undo that did it, and the one that it takes back.
    pub operation: Option<i64>,
    pub undoes: Option<i64>,
}

pub struct Member {
    pub session: Session,
    /// How many of the steps, and of which sessions, it inherits.
    pub inherits: Vec<usize>,
    /// Its prompts: text and uuid.
    pub prompts: Vec<(String, String)>,
}

pub struct World {
    pub folder: TempDir,
    pub store: Store,
    pub members: Vec<Member>,
    pub steps: Vec<Step>,
    pub edits: usize,
    dice: u64,
    lines: usize,
}

const SESSIONS: usize = 100;
const EDITS: usize = 2_000;
pub const FILES: usize = 60;

/// The model that a session's main agent works with.
pub fn model(session: usize) -> String {
    format!("claude-{}", session % 3)
}

impl World {
    /// Builds it. `look` sees it now and then on the way.
    pub fn build(mut look: impl FnMut(&Self)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap().join("work");
        fs::create_dir(&work).unwrap();
        let options = OpenOptions::new().durability(Durability::Normal);
        let store = Store::open_with(folder.path().join("store.db"), &options).unwrap();
        let mut world = Self {
            folder,
            store,
            members: Vec::new(),
            steps: Vec::new(),
            edits: 0,
            dice: 88_172_645_463_325_252,
            lines: 0,
        };
        for file in (0..FILES).step_by(2) {
            // Half of them are there before anything is tracked.
            let lines: Vec<String> = (0..6).map(|at| format!("old {file}.{at}\n")).collect();
            world.put(&world.path(file), &Some(lines));
        }
        for number in 0..SESSIONS {
            world.session(number);
            if number % 25 == 10 {
                look(&world);
            }
        }
        assert!(world.edits >= EDITS, "{} edits", world.edits);
        world
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    pub fn path(&self, file: usize) -> PathBuf {
        self.work().join(format!("part{}/file{file}.txt", file % 5))
    }

    pub fn throw(&mut self, below: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice >> 1).unwrap() % below
    }

    pub fn read(&self, path: &Path) -> Text {
        let text = fs::read_to_string(path).ok()?;
        Some(text.split_inclusive('\n').map(String::from).collect())
    }

    fn put(&self, path: &Path, text: &Text) {
        match text {
            Some(lines) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, lines.concat()).unwrap();
            }
            None => drop(fs::remove_file(path)),
        }
    }

    /// One session's life: turns of edits, perhaps a rewind and an undo of it.
    fn session(&mut self, number: usize) {
        let forks = number % 3 == 2;
        let member = if forks {
            // A fork of one that did not go back, at its head.
            let origin = number - 2;
            let session = self.members[origin].session.fork(&ForkOptions::new());
            let of_origin = |(at, step): (usize, &Step)| {
                let is_own = step.by != By::Outside && step.session == origin;
                is_own.then_some(at)
            };
            let mut inherits = self.members[origin].inherits.clone();
            inherits.extend(self.steps.iter().enumerate().filter_map(of_origin));
            Member {
                session: session.unwrap(),
                inherits,
                prompts: self.members[origin].prompts.clone(),
            }
        } else {
            let work = self.work();
            let new = NewSession::in_project("shop").cwd(work.to_str().unwrap());
            Member {
                session: self.store.sessions().create(new).unwrap(),
                inherits: Vec::new(),
                prompts: Vec::new(),
            }
        };
        self.members.push(member);
        let turns = 4;
        let mut last_prompt = String::new();
        for turn in 0..turns {
            let text = format!("session {number}, turn {turn}");
            let prompt = NewMessage::user(text.as_str());
            let appended = self.members[number].session.messages().append(prompt);
            last_prompt = appended.unwrap().uuid;
            self.members[number]
                .prompts
                .push((text.clone(), last_prompt.clone()));
            for _ in 0..5 {
                self.edit(number, &text);
            }
            if self.throw(3) == 0 {
                self.outside();
            }
        }
        if number % 4 == 1 {
            let operation = self.back(number, &last_prompt, number % 8 == 1);
            if number % 12 == 1 {
                self.undo(number, operation);
            }
        }
    }

    /// One call: it changes a file, or makes another one of it.
    fn edit(&mut self, number: usize, prompt: &str) {
        self.edits += 1;
        // Half of the files are seldom changed: there lines stay.
        let (most, seldom) = (FILES / 2, self.throw(8) == 0);
        let file = self.throw(most) + if seldom { most } else { 0 };
        let path = self.path(file);
        let before = self.read(&path);
        let (tool, after) = self.changed(&before);
        let mut paths = vec![(path.clone(), before.clone(), after, None)];
        // Now and then a file moves, and changes a little on the way.
        let other = self.throw_other(file);
        let other = self.path(other);
        if self.throw(12) == 0
            && let Some(lines) = before.filter(|lines| lines.len() >= 4)
            && !other.exists()
        {
            let mut lines = lines;
            lines[0] = self.line();
            paths = vec![
                (path.clone(), self.read(&path), None, None),
                (other, None, Some(lines), Some(path)),
            ];
        }
        let agent = (self.throw(5) == 0).then(|| format!("agent of {prompt}"));
        let id = format!("toolu_{}", self.edits);
        let session = self.members[number].session.clone();
        let call = match &agent {
            Some(agent) => ToolRef::new(&id).by_agent(agent),
            None => ToolRef::new(&id),
        };
        let names: Vec<&PathBuf> = paths.iter().map(|(path, ..)| path).collect();
        let begun = session.write(|tx| {
            if agent.is_none() {
                let block = json!([{"type": "tool_use", "id": id, "name": tool, "input": {}}]);
                let response =
                    json!({"model": model(number), "role": "assistant", "content": block});
                tx.append(NewMessage::response(&response))?;
            }
            tx.before(call.clone(), &names)
        });
        begun.unwrap();
        for (path, _, after, _) in &paths {
            self.put(path, after);
        }
        let ended = session.write(|tx| {
            tx.after(call.clone(), &names)?;
            if agent.is_none() {
                tx.append(NewMessage::tool_result(&id, "done"))?;
            }
            Ok(())
        });
        ended.unwrap();
        for (path, before, after, renamed_from) in paths {
            self.steps.push(Step {
                by: By::Tool,
                session: number,
                call: Some(id.clone()),
                tool,
                agent: agent.clone(),
                prompt: prompt.to_owned(),
                path,
                before,
                after,
                renamed_from,
                operation: None,
                undoes: None,
            });
        }
    }

    fn throw_other(&mut self, file: usize) -> usize {
        (file + 1 + self.throw(FILES - 1)) % FILES
    }

    fn line(&mut self) -> String {
        self.lines += 1;
        format!("line {}\n", self.lines)
    }

    /// Another text, and the tool that makes it of this one.
    fn changed(&mut self, before: &Text) -> (&'static str, Text) {
        let Some(lines) = before else {
            let count = 3 + self.throw(6);
            return ("Write", Some((0..count).map(|_| self.line()).collect()));
        };
        let mut lines = lines.clone();
        match self.throw(10) {
            0 => ("Remove", None),
            1 => ("Edit", Some(lines)),
            2 | 3 if lines.len() > 2 => {
                let at = self.throw(lines.len() - 1);
                lines.drain(at..=at + self.throw(2));
                ("Edit", Some(lines))
            }
            4 | 5 if !lines.is_empty() => {
                let at = self.throw(lines.len());
                lines[at] = self.line();
                ("Edit", Some(lines))
            }
            _ => {
                let at = self.throw(lines.len() + 1);
                for _ in 0..1 + self.throw(3) {
                    let line = self.line();
                    lines.insert(at, line);
                }
                ("Edit", Some(lines))
            }
        }
    }

    /// Somebody edits a file by hand.
    fn outside(&mut self) {
        let path = self.path(self.dice as usize % FILES);
        let before = self.read(&path);
        let mut lines = before.clone().unwrap_or_default();
        let first = self.throw(lines.len() + 1);
        lines.truncate(first);
        let (at, line) = (self.throw(lines.len() + 1), self.line());
        lines.insert(at, line);
        let after = Some(lines);
        self.put(&path, &after);
        self.steps.push(Step {
            by: By::Outside,
            session: usize::MAX,
            call: None,
            tool: "",
            agent: None,
            prompt: String::new(),
            path,
            before,
            after,
            renamed_from: None,
            operation: None,
            undoes: None,
        });
    }

    fn tree(&self) -> BTreeMap<PathBuf, Text> {
        let paths = (0..FILES).map(|file| self.path(file));
        paths.map(|path| (path.clone(), self.read(&path))).collect()
    }

    fn back(&mut self, number: usize, point: &str, both: bool) -> Option<i64> {
        let restore = if both { Restore::Both } else { Restore::Files };
        let options = RewindOptions::to(point).restore(restore).accept_part(true);
        let session = self.members[number].session.clone();
        let plan = session.plan_rewind(&options).unwrap();
        let before = self.tree();
        let report = session.rewind(&plan).unwrap();
        self.note(By::Rewind, number, &before, &report, None);
        report.operation
    }

    fn undo(&mut self, number: usize, operation: Option<i64>) {
        let Some(operation) = operation else { return };
        let before = self.tree();
        let session = self.members[number].session.clone();
        let report = session.undo(Some(operation)).unwrap();
        self.note(By::Undo, number, &before, &report, Some(operation));
    }

    fn note(
        &mut self,
        by: By,
        number: usize,
        before: &BTreeMap<PathBuf, Text>,
        report: &turnkeep::RewindReport,
        undoes: Option<i64>,
    ) {
        for file in &report.files {
            let touched = matches!(
                file.action,
                FileAction::Restore | FileAction::Delete | FileAction::Recreate
            );
            if !touched || file.outcome != FileOutcome::Done {
                continue;
            }
            self.steps.push(Step {
                by,
                session: number,
                call: None,
                tool: "",
                agent: None,
                prompt: String::new(),
                path: file.path.clone(),
                before: before[&file.path].clone(),
                after: self.read(&file.path),
                renamed_from: None,
                operation: report.operation,
                undoes,
            });
        }
    }
}
