//! The reported file faults: each `scenario.json` is played in a fresh folder, through the library.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{
    FileAction, FileOutcome, NewMessage, NewSession, Restore, RewindOptions, RewindReport, Session,
    Store, ToolRef,
};

use crate::case;

/// A scenario being played: a work tree, a folder outside it, a store, and two sessions.
struct Play {
    folder: tempfile::TempDir,
    store: Option<Store>,
    calls: usize,
    prompts: Vec<(String, String)>,
    reports: Vec<RewindReport>,
}

impl Play {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        let mut play = Self {
            folder,
            store: None,
            calls: 0,
            prompts: Vec::new(),
            reports: Vec::new(),
        };
        play.reopen();
        play
    }

    fn reopen(&mut self) {
        self.store = None;
        self.store = Some(Store::open(self.folder.path().join("store.db")).unwrap());
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work").canonicalize().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix("$OUTSIDE") {
            Some(rest) => {
                let outside = self.folder.path().join("outside");
                outside.join(rest.trim_start_matches('/'))
            }
            None => self.work().join(name),
        }
    }

    fn session(&self, id: &str) -> Session {
        let store = self.store.as_ref().unwrap();
        let new = NewSession::in_project("shop")
            .id(id)
            .cwd(self.work().to_str().unwrap());
        store.sessions().get_or_create(new).unwrap()
    }

    /// A tool call that a session makes and that ends.
    fn tool(
        &mut self,
        session: &str,
        name: &str,
        agent: Option<&str>,
        captured: &[&str],
        work: impl FnOnce(),
    ) {
        self.calls += 1;
        let id = format!("toolu_{}", self.calls);
        let session = self.session(session);
        if agent.is_none() {
            let call = json!([{"type": "tool_use", "id": id, "name": name, "input": {}}]);
            session
                .messages()
                .append(NewMessage::assistant(call))
                .unwrap();
        }
        let call = agent.map_or(ToolRef::new(&id), |agent| ToolRef::new(&id).by_agent(agent));
        if !captured.is_empty() {
            session.files().before(call.clone(), captured).unwrap();
        }
        work();
        if !captured.is_empty() {
            session.files().after(call, captured).unwrap();
        }
        if agent.is_none() {
            let result = NewMessage::tool_result(&id, "done");
            session.messages().append(result).unwrap();
        }
    }

    fn step(&mut self, step: &Value) {
        let word = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
        let path = self.path(&word("path"));
        let name = word("path");
        let content = match step["b64"].as_str() {
            Some(text) => base64(text),
            None => word("text").into_bytes(),
        };
        let mode = step["mode"]
            .as_str()
            .and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let write = {
            let path = path.clone();
            move || {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &content).unwrap();
                if let Some(mode) = mode {
                    set_mode(&path, mode);
                }
            }
        };
        match (word("op").as_str(), word("by").as_str()) {
            ("user_message", _) => {
                let prompt = self
                    .session("s1")
                    .messages()
                    .append(NewMessage::user(format!("prompt {}", word("id"))));
                self.prompts.push((word("id"), prompt.unwrap().uuid));
            }
            ("begin_session_without_user_message", _) => drop(self.session("s1")),
            ("write", "user") => write(),
            ("write", "agent") => self.tool("s1", "Write", None, &[&name], write),
            ("write", "bash") => self.tool("s1", "Bash", None, &[], write),
            ("write", "other_session") => self.tool("s2", "Write", None, &[&name], write),
            ("write", "subagent") => {
                self.tool("s1", "Write", Some(&word("agent")), &[&name], write);
            }
            ("read", _) => self.tool("s1", "Read", None, &[], || {}),
            ("rm", "agent") => self.tool("s1", "Remove", None, &[&name], || {
                fs::remove_file(&path).unwrap();
            }),
            ("rm", _) => fs::remove_file(&path).unwrap(),
            ("rmdir", _) => fs::remove_dir(&path).unwrap(),
            ("mkdir", _) => fs::create_dir(&path).unwrap(),
            ("symlink", _) => {
                let to = word("to");
                let to = if to.starts_with('$') {
                    self.path(&to)
                } else {
                    PathBuf::from(to)
                };
                std::os::unix::fs::symlink(to, &path).unwrap();
            }
            ("chmod", "agent") => self.tool("s1", "Chmod", None, &[&name], || {
                set_mode(&path, mode.unwrap());
            }),
            ("make_unwritable", _) => set_mode(&path, 0o555),
            ("assert_present", _) => assert!(path.exists(), "{name}"),
            ("reopen", _) => self.reopen(),
            ("drop_backup", _) => self.drop_backup(&name),
            ("rewind", _) => self.rewind(step),
            other => panic!("unknown step {other:?}"),
        }
    }

    /// Damages the store as a clean-up of its contents would.
    fn drop_backup(&mut self, name: &str) {
        self.store = None;
        let db = rusqlite::Connection::open(self.folder.path().join("store.db")).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let path = self.path(name);
        let gone = db.execute(
            "DELETE FROM blobs WHERE id IN (SELECT before_blob FROM file_changes WHERE path = ?1)",
            [path.to_str().unwrap()],
        );
        assert!(gone.unwrap() > 0);
        drop(db);
        self.reopen();
    }

    fn rewind(&mut self, step: &Value) {
        let to = step["to"].as_str().unwrap();
        let point = self
            .prompts
            .iter()
            .find(|(name, _)| name == to)
            .unwrap()
            .1
            .clone();
        let restore = match step["mode"].as_str().unwrap() {
            "files" => Restore::Files,
            "conversation" => Restore::Conversation,
            _ => Restore::Both,
        };
        let session = self.session("s1");
        let plan = session
            .plan_rewind(&RewindOptions::to(point).restore(restore))
            .unwrap();
        let report = match step["dry_run"].as_bool() {
            Some(true) => plan.report().clone(),
            _ => session.rewind(&plan).unwrap(),
        };
        self.reports.push(report);
    }

    fn check(&self, expect: &Value) {
        let report = self.reports.last().unwrap();
        for file in expect["files"].as_array().into_iter().flatten() {
            self.check_file(file);
        }
        let work = self.work();
        let names = |wanted: &dyn Fn(&turnkeep::FileReport) -> bool| -> Vec<String> {
            let files = report.files.iter().filter(|file| wanted(file));
            let mut names: Vec<String> = files.map(|file| shown(&work, &file.path)).collect();
            names.sort();
            names
        };
        let done = |action: FileAction| {
            names(&|file| file.action == action && file.outcome == FileOutcome::Done)
        };
        let listed = |name: &str| -> Option<Vec<String>> {
            let list = expect["report"][name].as_array()?;
            let mut names: Vec<String> = list
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect();
            names.sort();
            Some(names)
        };
        if let Some(wanted) = listed("deleted") {
            assert_eq!(done(FileAction::Delete), wanted, "{report:#?}");
        }
        if let Some(wanted) = listed("restored") {
            let mut restored = done(FileAction::Restore);
            restored.extend(done(FileAction::Recreate));
            restored.sort();
            assert_eq!(restored, wanted, "{report:#?}");
        }
        if let Some(wanted) = listed("conflicts") {
            let mut conflicts: Vec<String> = report
                .conflicts
                .iter()
                .map(|path| shown(&work, path))
                .collect();
            conflicts.sort();
            assert_eq!(conflicts, wanted);
        }
        if expect["report"]["not_covered"].is_string() {
            let bash = report.not_covered.iter().find(|entry| entry.what == "Bash");
            assert_eq!(bash.map(|bash| bash.count), Some(1), "{report:#?}");
        }
        if expect["report"]["applied"] == json!(false) {
            assert!(!report.touched_files(), "{report:#?}");
        }
        for failed in expect["report"]["failed"].as_array().into_iter().flatten() {
            let path = failed["path"].as_str().unwrap();
            let file = report
                .files
                .iter()
                .find(|file| shown(&work, &file.path) == path);
            let reason = file
                .and_then(|file| file.reason.clone())
                .unwrap_or_default();
            let why = failed["why"].as_str().unwrap();
            assert!(
                reason.to_lowercase().contains(why),
                "{path}: `{reason}` does not say `{why}`"
            );
        }
    }

    fn check_file(&self, file: &Value) {
        let name = file["path"].as_str().unwrap();
        let path = self.path(name);
        let found = fs::symlink_metadata(&path);
        match file["state"].as_str().unwrap() {
            "absent" => assert!(found.is_err(), "{name} is there"),
            "symlink" => {
                assert!(found.unwrap().is_symlink(), "{name}");
                if let Some(to) = file["to"].as_str() {
                    assert_eq!(fs::read_link(&path).unwrap(), Path::new(to));
                }
            }
            _ => {
                assert!(found.unwrap().is_file(), "{name}");
                let content = match (file["text"].as_str(), file["b64"].as_str()) {
                    (Some(text), _) => text.as_bytes().to_vec(),
                    (_, Some(text)) => base64(text),
                    _ => return,
                };
                assert_eq!(fs::read(&path).unwrap(), content, "{name}");
                if let Some(mode) = file["mode"].as_str() {
                    assert_eq!(format!("{:04o}", get_mode(&path)), mode, "{name}");
                }
            }
        }
    }
}

fn shown(work: &Path, path: &Path) -> String {
    path.strip_prefix(work)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn get_mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}

fn play(name: &str) -> Play {
    let text = fs::read_to_string(case::folder(name).join("scenario.json")).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let mut play = Play::new();
    for step in scenario["steps"].as_array().unwrap() {
        play.step(step);
    }
    play.check(&scenario["expect"]);
    play
}

#[test]
fn created_files_and_their_folders_go_b76() {
    play("B76");
}

#[test]
fn a_file_that_was_only_read_stays_b77() {
    play("B77");
}

#[test]
fn a_missing_backup_is_no_absence_b78() {
    play("B78");
}

#[test]
fn a_later_edit_of_the_user_is_kept_b80() {
    play("B80");
}

#[test]
fn with_force_the_later_edit_is_kept_in_the_store_b80() {
    let text = fs::read_to_string(case::folder("B80").join("scenario.json")).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let mut play = Play::new();
    let steps = scenario["steps"].as_array().unwrap();
    for step in &steps[..steps.len() - 1] {
        play.step(step);
    }
    let session = play.session("s1");
    let options = RewindOptions::to(&play.prompts[0].1)
        .restore(Restore::Files)
        .force(true);
    let done = session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap();
    assert_eq!(fs::read(play.path("a.txt")).unwrap(), b"v0\n");
    session.undo(done.operation).unwrap();
    assert_eq!(fs::read(play.path("a.txt")).unwrap(), b"v2 by user\n");
}

#[test]
fn another_sessions_work_is_not_undone_b81() {
    play("B81");
}

#[test]
fn commands_that_are_not_covered_are_counted_b83() {
    let play = play("B83");
    let planned = &play.reports[0];
    assert_eq!(planned.not_covered.len(), 1);
    assert!(planned.operation.is_none());
}

#[test]
fn a_restart_loses_no_checkpoint_b86() {
    play("B86");
}

#[test]
fn a_write_before_the_first_prompt_is_kept_b88() {
    let play = play("B88");
    let session = play.session("s1");
    let options = RewindOptions::to("@start").restore(Restore::Files);
    session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap();
    assert!(!play.path("a.txt").exists());
}

#[test]
fn links_stay_links_and_nothing_outside_is_written_b89() {
    let play = play("B89");
    assert_eq!(fs::read(play.path("real.txt")).unwrap(), b"0\n");
}

#[test]
fn modes_come_back_b90() {
    play("B90");
}

#[test]
fn bytes_come_back_b92() {
    play("B92");
}

#[test]
fn a_sub_agents_edits_are_rewound_b104() {
    play("B104");
}

#[test]
fn absence_survives_a_restart_b106() {
    play("B106");
}
