//! Two ways to keep files and to rewind them: the library, and the program. A test that plays its
//! story through both speaks to either in the same words.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use turnkeep::{NewMessage, NewSession, Restore, RewindOptions, Session, Store, ToolRef};

/// What a story needs. Reports are JSON, as the program prints them.
pub trait Driver {
    /// A session that nothing is said in yet.
    fn begin(&self, session: &str);
    /// Says something; answers the prompt's uuid.
    fn prompt(&self, session: &str, text: &str) -> String;
    /// A tool call of the model.
    fn call(&self, session: &str, id: &str, name: &str);
    /// Its result.
    fn result(&self, session: &str, id: &str);
    fn before(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]);
    fn after(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]);
    fn rewind(&self, session: &str, point: &str, restore: &str, dry_run: bool) -> Value;
    /// What a process that ends and another that begins do to it.
    fn reopen(&mut self);
}

/// Where a story takes place: a work tree, a folder outside it, and a store.
#[derive(Clone, Debug)]
pub struct Place {
    pub folder: PathBuf,
}

impl Place {
    pub fn new(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap();
        std::fs::create_dir(folder.join("work")).unwrap();
        std::fs::create_dir(folder.join("outside")).unwrap();
        Self { folder }
    }

    pub fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    pub fn store(&self) -> PathBuf {
        self.folder.join("store.db")
    }

    pub fn session(&self, store: &Store, id: &str) -> Session {
        let new = NewSession::in_project("shop")
            .id(id)
            .cwd(self.work().to_str().unwrap());
        store.sessions().get_or_create(new).unwrap()
    }
}

/// The library, in this process.
pub struct Library {
    place: Place,
    store: Option<Store>,
}

impl Library {
    pub fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            store: Some(Store::open(place.store()).unwrap()),
        }
    }

    fn session(&self, id: &str) -> Session {
        self.place.session(self.store.as_ref().unwrap(), id)
    }
}

fn tool(id: &str, agent: Option<&str>) -> ToolRef {
    agent.map_or(ToolRef::new(id), |agent| ToolRef::new(id).by_agent(agent))
}

impl Driver for Library {
    fn begin(&self, session: &str) {
        self.session(session);
    }

    fn prompt(&self, session: &str, text: &str) -> String {
        let message = NewMessage::user(text);
        self.session(session)
            .messages()
            .append(message)
            .unwrap()
            .uuid
    }

    fn call(&self, session: &str, id: &str, name: &str) {
        let call = json!([{"type": "tool_use", "id": id, "name": name, "input": {}}]);
        let message = NewMessage::assistant(call);
        self.session(session).messages().append(message).unwrap();
    }

    fn result(&self, session: &str, id: &str) {
        let result = NewMessage::tool_result(id, "done");
        self.session(session).messages().append(result).unwrap();
    }

    fn before(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]) {
        let files = self.session(session).files();
        files.before(tool(id, agent), paths).unwrap();
    }

    fn after(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]) {
        let files = self.session(session).files();
        files.after(tool(id, agent), paths).unwrap();
    }

    fn rewind(&self, session: &str, point: &str, restore: &str, dry_run: bool) -> Value {
        let session = self.session(session);
        let options = RewindOptions::to(point).restore(match restore {
            "files" => Restore::Files,
            "conversation" => Restore::Conversation,
            _ => Restore::Both,
        });
        let plan = session.plan_rewind(&options).unwrap();
        let report = match dry_run {
            true => plan.report().clone(),
            false => session.rewind(&plan).unwrap(),
        };
        serde_json::to_value(&report).unwrap()
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Store::open(self.place.store()).unwrap());
    }
}

/// The program: a process for every word.
pub struct Program {
    place: Place,
    binary: PathBuf,
}

impl Program {
    pub fn new(place: &Place, binary: &Path) -> Self {
        Self {
            place: place.clone(),
            binary: binary.to_owned(),
        }
    }

    /// Runs it; answers the JSON that it prints, and its exit code.
    fn run(&self, args: &[&str], paths: &[&Path], input: &str) -> (Value, i32) {
        use std::io::Write;
        use std::process::Stdio;
        let mut child = Command::new(&self.binary)
            .env_clear()
            .current_dir(self.place.work())
            .arg("--store")
            .arg(self.place.store())
            .args(args)
            .args(paths)
            .arg("--json")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let printed = serde_json::from_str(&said).unwrap_or_else(|error| {
            let err = String::from_utf8_lossy(&output.stderr);
            panic!("{args:?}: {error}: {said}{err}")
        });
        (printed, output.status.code().unwrap())
    }

    /// Appends an entry under the head; answers its uuid.
    fn say(&self, session: &str, kind: &str, content: Value) -> String {
        let store = Store::open(self.place.store()).unwrap();
        let there = self.place.session(&store, session);
        let entries = there.conversation("").unwrap().entries;
        let parent = entries.last().map(|entry| entry.uuid.clone());
        let number = there.transcript("").unwrap().len();
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        drop((there, store));
        let entry = json!({
            "type": kind, "uuid": uuid, "parentUuid": parent, "cwd": self.place.work(),
            "message": {"id": format!("msg_{uuid}"), "role": kind, "content": content},
        });
        let args = ["append", session, "--project", "shop", "--create"];
        let (appended, code) = self.run(&args, &[], &entry.to_string());
        assert_eq!((code, &appended["head"]), (0, &json!(uuid)));
        uuid
    }

    fn track(&self, moment: &str, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]) {
        let mut args = vec!["track", session, moment, "--tool", id, "--project", "shop"];
        if let Some(agent) = agent {
            args.extend(["--agent", agent]);
        }
        let (captured, code) = self.run(&args, paths, "");
        let is_whole = captured["not_kept"] == json!([]);
        assert_eq!(code, if is_whole { 0 } else { 6 }, "{captured}");
    }
}

impl Driver for Program {
    fn begin(&self, session: &str) {
        let args = ["append", session, "--project", "shop", "--create"];
        let entry = json!({"type": "mode", "mode": "default", "cwd": self.place.work()});
        self.run(&args, &[], &entry.to_string());
    }

    fn prompt(&self, session: &str, text: &str) -> String {
        self.say(session, "user", json!(text))
    }

    fn call(&self, session: &str, id: &str, name: &str) {
        let call = json!([{"type": "tool_use", "id": id, "name": name, "input": {}}]);
        self.say(session, "assistant", call);
    }

    fn result(&self, session: &str, id: &str) {
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "done"}]);
        self.say(session, "user", result);
    }

    fn before(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]) {
        self.track("before", session, id, agent, paths);
    }

    fn after(&self, session: &str, id: &str, agent: Option<&str>, paths: &[&Path]) {
        self.track("after", session, id, agent, paths);
    }

    fn rewind(&self, session: &str, point: &str, restore: &str, dry_run: bool) -> Value {
        let mut args = vec!["rewind", session, "--to", point, "--restore", restore];
        if dry_run {
            args.push("--dry-run");
        }
        let (report, code) = self.run(&args, &[], "");
        let files = || report["files"].as_array().unwrap().iter();
        let is_left =
            files().any(|file| matches!(file["outcome"].as_str(), Some("left" | "failed")));
        let is_done =
            files().any(|file| file["outcome"] == "done" && file["action"] != "unchanged");
        let expected = match (dry_run || !is_left, is_done) {
            (true, _) => 0,
            (false, true) => 6,
            (false, false) => 4,
        };
        assert_eq!(code, expected, "{report}");
        report
    }

    /// Every word is a process of its own.
    fn reopen(&mut self) {}
}
