//! The reported file faults: each `scenario.json` is played in a fresh folder, through the library
//! and through the program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{Restore, RewindOptions, Session, Store};

use crate::file_drivers::{Driver, Library, Place, Program};
use crate::{case, children};

/// How a play gets its driver.
type Make = dyn Fn(&Place) -> Box<dyn Driver>;

/// A scenario being played.
struct Play {
    _folder: tempfile::TempDir,
    place: Place,
    driver: Option<Box<dyn Driver>>,
    make: Box<Make>,
    calls: usize,
    prompts: Vec<(String, String)>,
    reports: Vec<Value>,
}

impl Play {
    fn new(make: impl Fn(&Place) -> Box<dyn Driver> + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path());
        Self {
            _folder: folder,
            driver: Some(make(&place)),
            place,
            make: Box::new(make),
            calls: 0,
            prompts: Vec::new(),
            reports: Vec::new(),
        }
    }

    fn driver(&self) -> &dyn Driver {
        self.driver.as_deref().unwrap()
    }

    fn work(&self) -> PathBuf {
        self.place.work()
    }

    fn path(&self, name: &str) -> PathBuf {
        match name.strip_prefix("$OUTSIDE") {
            Some(rest) => {
                let outside = self.place.folder.join("outside");
                outside.join(rest.trim_start_matches('/'))
            }
            None => self.work().join(name),
        }
    }

    /// The session as the library sees it, for what a scenario does not say.
    fn session(&self, id: &str) -> Session {
        let store = Store::open(self.place.store()).unwrap();
        self.place.session(&store, id)
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
        let captured: Vec<&Path> = captured.iter().map(Path::new).collect();
        if agent.is_none() {
            self.driver().call(session, &id, name);
        }
        if !captured.is_empty() {
            self.driver().before(session, &id, agent, &captured);
        }
        work();
        if !captured.is_empty() {
            self.driver().after(session, &id, agent, &captured);
        }
        if agent.is_none() {
            self.driver().result(session, &id);
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
                let text = format!("prompt {}", word("id"));
                let uuid = self.driver().prompt("s1", &text);
                self.prompts.push((word("id"), uuid));
            }
            ("begin_session_without_user_message", _) => self.driver().begin("s1"),
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
            ("reopen", _) => self.driver.as_mut().unwrap().reopen(),
            ("drop_backup", _) => self.drop_backup(&name),
            ("rewind", _) => self.rewind(step),
            other => panic!("unknown step {other:?}"),
        }
    }

    /// Damages the store as a clean-up of its contents would.
    fn drop_backup(&mut self, name: &str) {
        self.driver = None;
        let db = rusqlite::Connection::open(self.place.store()).unwrap();
        db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        let path = self.path(name);
        let gone = db.execute(
            "DELETE FROM blobs WHERE id IN (SELECT before_blob FROM file_changes WHERE path = ?1)",
            [path.to_str().unwrap()],
        );
        assert!(gone.unwrap() > 0);
        drop(db);
        self.driver = Some((self.make)(&self.place));
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
        let mode = step["mode"].as_str().unwrap();
        let dry_run = step["dry_run"] == json!(true);
        let report = self.driver().rewind("s1", &point, mode, dry_run);
        self.reports.push(report);
    }

    fn check(&self, expect: &Value) {
        let report = self.reports.last().unwrap();
        for file in expect["files"].as_array().into_iter().flatten() {
            self.check_file(file);
        }
        let work = self.work();
        let files = || report["files"].as_array().unwrap().iter();
        let done = |action: &str| -> Vec<String> {
            let files =
                files().filter(|file| file["action"] == action && file["outcome"] == "done");
            let mut names: Vec<String> = files.map(|file| shown(&work, &file["path"])).collect();
            names.sort();
            names
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
            assert_eq!(done("delete"), wanted, "{report:#}");
        }
        if let Some(wanted) = listed("restored") {
            let mut restored = done("restore");
            restored.extend(done("recreate"));
            restored.sort();
            assert_eq!(restored, wanted, "{report:#}");
        }
        if let Some(wanted) = listed("conflicts") {
            let conflicts = report["conflicts"].as_array().unwrap().iter();
            let mut conflicts: Vec<String> = conflicts.map(|path| shown(&work, path)).collect();
            conflicts.sort();
            assert_eq!(conflicts, wanted);
        }
        if expect["report"]["not_covered"].is_string() {
            let not_covered = report["not_covered"].as_array().unwrap();
            let bash = not_covered.iter().find(|entry| entry["what"] == "Bash");
            assert_eq!(
                bash.map(|bash| &bash["count"]),
                Some(&json!(1)),
                "{report:#}"
            );
        }
        if expect["report"]["applied"] == json!(false) {
            let touched = files().any(|file| file["outcome"] == "done");
            assert!(!touched, "{report:#}");
        }
        if let Some(moved) = expect["report"]["conversation_moved"].as_bool() {
            assert_eq!(report["conversation_moved"], moved, "{report:#}");
            let head = self.session("s1").conversation("").unwrap().entries;
            let head = head.last().map(|entry| json!(entry.uuid));
            assert_eq!(Some(&report["head"]), head.as_ref());
        }
        for failed in expect["report"]["failed"].as_array().into_iter().flatten() {
            let path = failed["path"].as_str().unwrap();
            let file = files().find(|file| shown(&work, &file["path"]) == path);
            let reason = file.and_then(|file| file["reason"].as_str());
            let reason = reason.unwrap_or_default();
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

fn shown(work: &Path, path: &Value) -> String {
    let path = Path::new(path.as_str().unwrap());
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

fn scenario(name: &str) -> Value {
    let text = fs::read_to_string(case::folder(name).join("scenario.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// New plays: through the library, and through the program.
fn plays() -> [Play; 2] {
    with_program(Path::new(env!("CARGO_BIN_EXE_turnkeep")).to_owned())
}

fn with_program(binary: PathBuf) -> [Play; 2] {
    [
        Play::new(|place| Box::new(Library::new(place))),
        Play::new(move |place| Box::new(Program::new(place, &binary))),
    ]
}

fn play_all(mut plays: [Play; 2], scenario: &Value) -> [Play; 2] {
    for play in &mut plays {
        for step in scenario["steps"].as_array().unwrap() {
            play.step(step);
        }
        play.check(&scenario["expect"]);
    }
    plays
}

fn play(name: &str) -> [Play; 2] {
    play_all(plays(), &scenario(name))
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
    let scenario = scenario("B80");
    let [mut play, _] = plays();
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
    for play in play("B83") {
        let planned = &play.reports[0];
        assert_eq!(planned["not_covered"].as_array().unwrap().len(), 1);
        assert_eq!(planned["operation"], Value::Null);
    }
}

#[test]
fn a_restart_loses_no_checkpoint_b86() {
    play("B86");
}

#[test]
fn a_write_before_the_first_prompt_is_kept_b88() {
    for play in play("B88") {
        play.driver().rewind("s1", "@start", "files", false);
        assert!(!play.path("a.txt").exists());
    }
}

#[test]
fn links_stay_links_and_nothing_outside_is_written_b89() {
    for play in play("B89") {
        assert_eq!(fs::read(play.path("real.txt")).unwrap(), b"0\n");
    }
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

#[test]
fn a_target_that_cannot_be_written_stops_all_b95() {
    let folder = tempfile::tempdir().unwrap();
    // Both binaries may lie where only root may go.
    let binary = folder.path().join("turnkeep");
    fs::copy(env!("CARGO_BIN_EXE_turnkeep"), &binary).unwrap();
    let arguments = json!({"binary": binary});
    let part = "file_scenarios::part_b95";
    let said = children::start_unprivileged(folder.path(), part, &arguments).finish();
    assert_eq!(said, ["played 2"]);
}

#[test]
#[ignore = "a part of another test"]
fn part_b95() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let binary = PathBuf::from(arguments["binary"].as_str().unwrap());
    let plays = play_all(with_program(binary), &scenario("B95"));
    for play in &plays {
        // Nothing lies beside the files, and the folder can be removed again.
        set_mode(&play.path("ro"), 0o755);
        assert_eq!(fs::read_dir(play.work()).unwrap().count(), 2);
        assert_eq!(fs::read_dir(play.path("ro")).unwrap().count(), 1);
        let again = play
            .driver()
            .rewind("s1", &play.prompts[0].1, "both", false);
        assert_eq!(
            again["conversation_moved"], true,
            "the same call goes on: {again:#}"
        );
        assert_eq!(fs::read(play.path("ro/b.txt")).unwrap(), b"0\n");
    }
    children::say(&format!("played {}", plays.len()));
}
