//! A rewind of 50 files that is cut at every change of a file and at every commit: by death, by a
//! full disk, by somebody else's edit in between.
//!
//! Each cut needs a process of its own. The first counts the places; `SHARD` of them are cut by one
//! test, so that the runner spreads them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use turnkeep::{
    FileOutcome, NewMessage, NewSession, OpenOptions, Restore, RewindOptions, RewindReport,
    Session, SessionKey, Store,
};

use crate::children::{self, say};

/// How many files the rewind touches.
pub const FILES: usize = 50;

/// How many tests share the places.
const SHARDS: usize = 4;

/// What lies at a path: its kind, its mode, and its content or target.
pub type Tree = BTreeMap<String, (&'static str, u32, Vec<u8>)>;

pub fn tree(folder: &Path) -> Tree {
    let mut found = Tree::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let mode = meta.permissions().mode() & 0o7777;
            let state = if meta.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                ("link", 0, target.to_str().unwrap().as_bytes().to_vec())
            } else if meta.is_dir() {
                open.push(path.clone());
                ("folder", 0, Vec::new())
            } else {
                ("file", mode, fs::read(&path).unwrap())
            };
            found.insert(name.to_owned(), state);
        }
    }
    found
}

/// A store and a work tree, which can be put back to where the rewind begins.
pub struct Scene {
    folder: tempfile::TempDir,
    pub before: Tree,
    pub after: Tree,
    pub point: String,
}

impl Scene {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        for number in 0..FILES {
            let path = work.join(name(number));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match number % 5 {
                1 => {}
                3 => symlink(format!("old-{number}"), &path).unwrap(),
                _ => fs::write(&path, format!("old {number}\n")).unwrap(),
            }
        }
        for number in (1..FILES).step_by(5) {
            // Folders that hold only what is made later are made then.
            let _ = fs::remove_dir(work.join(name(number)).parent().unwrap());
        }
        let after = tree(&work);
        let store = Store::open(folder.path().join("store.db")).unwrap();
        let new = NewSession::with_key(key()).cwd(work.to_str().unwrap());
        let session = store.sessions().create(new).unwrap();
        let messages = session.messages();
        messages.append(NewMessage::user("first")).unwrap();
        messages.append(NewMessage::assistant("yes")).unwrap();
        let point = messages
            .append(NewMessage::user("change all"))
            .unwrap()
            .uuid;
        let call = json!([{"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {}}]);
        messages.append(NewMessage::assistant(call)).unwrap();
        let names: Vec<String> = (0..FILES).map(name).collect();
        session.files().before("toolu_1", &names).unwrap();
        for number in 0..FILES {
            let path = work.join(name(number));
            match number % 5 {
                1 => {
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(&path, format!("made {number}\n")).unwrap();
                }
                2 => fs::remove_file(&path).unwrap(),
                3 => {
                    fs::remove_file(&path).unwrap();
                    symlink(format!("new-{number}"), &path).unwrap();
                }
                4 => fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap(),
                _ => fs::write(&path, format!("new {number}\n")).unwrap(),
            }
        }
        session.files().after("toolu_1", &names).unwrap();
        let result = NewMessage::tool_result("toolu_1", "done");
        messages.append(result).unwrap();
        // The last handle closes the store: all is in its file then.
        drop((messages, session, store));
        let scene = Self {
            before: tree(&work),
            after,
            point,
            folder,
        };
        fs::copy(scene.store(), scene.folder.path().join("kept.db")).unwrap();
        scene
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store.db")
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Puts store and work tree back to where the rewind begins.
    pub fn reset(&self) {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut path = self.store().into_os_string();
            path.push(suffix);
            let _ = fs::remove_file(path);
        }
        fs::copy(self.folder.path().join("kept.db"), self.store()).unwrap();
        let now = tree(&self.work());
        for (name, (kind, ..)) in now.iter().rev() {
            if now.get(name) != self.before.get(name) {
                let path = self.work().join(name);
                match *kind {
                    "folder" => drop(fs::remove_dir(path)),
                    _ => fs::remove_file(path).unwrap(),
                }
            }
        }
        for (name, (kind, mode, content)) in &self.before {
            let path = self.work().join(name);
            match *kind {
                _ if fs::symlink_metadata(&path).is_ok() => {}
                "folder" => fs::create_dir(path).unwrap(),
                "link" => symlink(str::from_utf8(content).unwrap(), path).unwrap(),
                _ => {
                    fs::write(&path, content).unwrap();
                    fs::set_permissions(path, fs::Permissions::from_mode(*mode)).unwrap();
                }
            }
        }
        assert_eq!(tree(&self.work()), self.before);
    }

    pub fn session(&self, store: &Store) -> Session {
        store.sessions().get(&key()).unwrap()
    }

    fn arguments(&self, restore: &str, cut: &Value) -> Value {
        json!({"store": self.store(), "point": self.point, "restore": restore, "cut": cut})
    }

    /// Runs the rewind in a process of its own, and answers what it said last.
    fn run(&self, restore: &str, cut: &Value) -> Option<String> {
        let part = "rewind_faults::part_rewinds";
        let mut child = children::start(part, &self.arguments(restore, cut));
        let mut last = None;
        while let Some(line) = child.hear() {
            last = Some(line);
        }
        last
    }

    fn places(&self, restore: &str) -> usize {
        let last = self.run(restore, &json!(null)).unwrap();
        assert_eq!(tree(&self.work()), self.after);
        last.parse().unwrap()
    }

    /// Whether the head was moved back.
    pub fn is_moved(&self, store: &Store) -> bool {
        let conversation = self.session(store).conversation("").unwrap();
        conversation.entries.len() == 2
    }
}

pub fn key() -> SessionKey {
    SessionKey::new("p", "s").unwrap()
}

pub fn name(number: usize) -> String {
    match number % 10 {
        1 => format!("made-{number}/deep/f{number}"),
        6 => format!("made-{number}/f{number}"),
        _ => format!("d{}/f{number}", number % 3),
    }
}

/// Passes places, and dies or fails at one.
static PASSED: AtomicUsize = AtomicUsize::new(0);

#[test]
#[ignore = "a part of the tests below"]
fn part_rewinds() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let word = |name: &str| arguments[name].as_str().unwrap().to_owned();
    let store = Store::open(word("store")).unwrap();
    let session = store.sessions().get(&key()).unwrap();
    let restore = if word("restore") == "files" {
        Restore::Files
    } else {
        Restore::Both
    };
    let plan = session
        .plan_rewind(&RewindOptions::to(word("point")).restore(restore))
        .unwrap();
    cut_as_told(&arguments["cut"]);
    let report = session.rewind(&plan);
    fail::remove("turnkeep::file");
    fail::remove("turnkeep::commit");
    if let Ok(report) = &report {
        say(&serde_json::to_string(&report.files).unwrap());
    }
    say(&PASSED.load(Ordering::SeqCst).to_string());
}

/// Sets up where the process dies, or where the disk is full from.
fn cut_as_told(cut: &Value) {
    let die_at = cut["die"].as_u64().map(|place| place as usize);
    for point in ["turnkeep::file", "turnkeep::commit"] {
        let pass = move || {
            if Some(PASSED.fetch_add(1, Ordering::SeqCst) + 1) == die_at {
                std::process::abort();
            }
        };
        fail::cfg_callback(point, pass).unwrap();
    }
    if let Some(place) = cut["full"].as_u64() {
        let actions = format!("{}*off->1*return(28)->off", place - 1);
        fail::cfg("turnkeep::file", &actions).unwrap();
    }
}

/// Opens the store after a death, which recovers, and checks that all is as before or as after.
fn check_recovered(scene: &Scene, place: usize) -> bool {
    let store = Store::open(scene.store()).unwrap();
    let now = tree(&scene.work());
    let done = now == scene.after;
    assert!(
        done || now == scene.before,
        "place {place}: neither before nor after: {:?}",
        store.notes()
    );
    assert_eq!(scene.is_moved(&store), done, "place {place}");
    if done && place.is_multiple_of(5) {
        let undone = scene.session(&store).undo(None).unwrap();
        assert!(!undone.is_partial(), "place {place}: {undone:#?}");
        assert_eq!(tree(&scene.work()), scene.before, "place {place}");
        assert!(!scene.is_moved(&store));
    }
    done
}

fn dies_everywhere(shard: usize) {
    let scene = Scene::new();
    let places = scene.places("both");
    assert!(places > FILES * 6, "{places} places");
    let (mut finished, mut untouched) = (0, 0);
    for place in (1..=places).filter(|place| place % SHARDS == shard) {
        scene.reset();
        scene.run("both", &json!({"die": place}));
        if check_recovered(&scene, place) {
            finished += 1;
        } else {
            untouched += 1;
        }
    }
    println!("{places} places; of this shard {finished} finished, {untouched} not begun");
    // Once it is recorded, recovery finishes it.
    assert!(finished > untouched);
}

#[test]
fn a_rewind_dies_anywhere_and_is_finished_1() {
    dies_everywhere(0);
}

#[test]
fn a_rewind_dies_anywhere_and_is_finished_2() {
    dies_everywhere(1);
}

#[test]
fn a_rewind_dies_anywhere_and_is_finished_3() {
    dies_everywhere(2);
}

#[test]
fn a_rewind_dies_anywhere_and_is_finished_4() {
    dies_everywhere(3);
}

#[test]
fn an_edit_between_death_and_recovery_is_kept() {
    let scene = Scene::new();
    let places = scene.places("both");
    let mut kept = 0;
    for place in (1..=places).step_by(23) {
        scene.reset();
        scene.run("both", &json!({"die": place}));
        let edited = scene.work().join(name(5));
        fs::write(&edited, "mine\n").unwrap();
        let store = Store::open(scene.store()).unwrap();
        assert_eq!(fs::read(&edited).unwrap(), b"mine\n", "place {place}");
        let mut now = tree(&scene.work());
        let same = |now: &Tree, wanted: &Tree| {
            let mut wanted = wanted.clone();
            wanted.remove(&name(5));
            *now == wanted
        };
        now.remove(&name(5));
        let (before, after) = (same(&now, &scene.before), same(&now, &scene.after));
        assert!(before || after, "place {place}: {:?}", store.notes());
        // The conversation moves only if all files did; the edit may come when all had.
        if scene.is_moved(&store) {
            assert!(after, "place {place}");
        }
        kept += 1;
    }
    assert!(kept > 10);
}

#[test]
fn a_full_disk_puts_everything_back() {
    let scene = Scene::new();
    let places = scene.places("both");
    let mut put_back = 0;
    for place in (1..=places).step_by(7) {
        scene.reset();
        scene.run("both", &json!({"full": place}));
        let store = Store::open(scene.store()).unwrap();
        // An empty folder that could not be removed stops nothing.
        let files = |mut tree: Tree| {
            tree.retain(|_, (kind, ..)| *kind != "folder");
            tree
        };
        let now = files(tree(&scene.work()));
        let done = now == files(scene.after.clone());
        let is_before = now == files(scene.before.clone());
        assert!(done || is_before, "place {place}");
        assert_eq!(scene.is_moved(&store), done, "place {place}");
        put_back += usize::from(!done);
    }
    assert!(put_back > 10, "{put_back}");
}

#[test]
fn with_files_alone_a_full_disk_leaves_only_what_it_meets() {
    let scene = Scene::new();
    let places = scene.places("files");
    for place in (3..=places).step_by(29) {
        scene.reset();
        scene.run("files", &json!({"full": place}));
        let store = Store::open(scene.store()).unwrap();
        let operation = scene.session(&store).operations().unwrap().pop().unwrap();
        let status = operation.status.unwrap();
        let (now, mut left) = (tree(&scene.work()), 0);
        for number in 0..FILES {
            let state = now.get(&name(number));
            let is_after = state == scene.after.get(&name(number));
            let is_before = state == scene.before.get(&name(number));
            assert!(is_after || is_before, "place {place}: {}", name(number));
            left += usize::from(!is_after);
        }
        assert!(left <= 1, "place {place}: {left} left");
        assert_eq!(
            status,
            if left == 0 { "done" } else { "part" },
            "place {place}"
        );
    }
}

#[test]
fn a_recovery_that_dies_is_recovered() {
    let scene = Scene::new();
    let places = scene.places("both");
    for place in [places / 3, places / 2, places - 20] {
        for second in [1, 9, 40] {
            scene.reset();
            scene.run("both", &json!({"die": place}));
            let part = "rewind_faults::part_opens";
            let arguments = json!({"store": scene.store(), "cut": {"die": second}});
            let mut child = children::start(part, &arguments);
            while child.hear().is_some() {}
            check_recovered(&scene, place);
        }
    }
}

#[test]
#[ignore = "a part of the tests below"]
fn part_opens() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    cut_as_told(&arguments["cut"]);
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    say(&store.notes().join("; "));
}

#[test]
fn two_processes_recover_once_and_a_reader_never() {
    let scene = Scene::new();
    let places = scene.places("both");
    for _ in 0..5 {
        scene.reset();
        scene.run("both", &json!({"die": places / 2}));
        let halfway = tree(&scene.work());
        let reading = OpenOptions::new().read_only(true);
        let reader = Store::open_with(scene.store(), &reading).unwrap();
        assert!(
            reader
                .notes()
                .iter()
                .any(|note| note.contains("unfinished"))
        );
        assert_eq!(tree(&scene.work()), halfway);
        drop(reader);
        let arguments = json!({"store": scene.store(), "cut": null});
        let part = "rewind_faults::part_opens";
        let openers = [0, 1].map(|_| children::start(part, &arguments));
        for opener in openers {
            opener.finish();
        }
        let store = Store::open(scene.store()).unwrap();
        assert_eq!(tree(&scene.work()), scene.after);
        let operations = scene.session(&store).operations().unwrap();
        let recovered = operations.iter().filter(|done| done.kind == "recover");
        assert_eq!(recovered.count(), 1);
    }
}

#[test]
fn another_folder_under_the_roots_name_is_not_touched() {
    let scene = Scene::new();
    let places = scene.places("both");
    scene.reset();
    scene.run("both", &json!({"die": places / 2}));
    let away = scene.folder.path().join("away");
    fs::rename(scene.work(), &away).unwrap();
    fs::create_dir(scene.work()).unwrap();
    let store = Store::open(scene.store()).unwrap();
    let said = store.notes().join("; ");
    assert!(said.contains("unfinished"), "{said}");
    assert!(tree(&scene.work()).is_empty());
    drop(store);
    fs::remove_dir(scene.work()).unwrap();
    fs::rename(&away, scene.work()).unwrap();
    assert!(check_recovered(&scene, 1));
}

#[test]
fn a_report_says_what_came_of_each_file() {
    let scene = Scene::new();
    let store = Store::open(scene.store()).unwrap();
    let session = scene.session(&store);
    let plan = session
        .plan_rewind(&RewindOptions::to(&scene.point))
        .unwrap();
    let outcomes = |report: &RewindReport, outcome: FileOutcome| {
        let files = report.files.iter();
        files.filter(|file| file.outcome == outcome).count()
    };
    assert_eq!(outcomes(plan.report(), FileOutcome::Planned), FILES);
    let report = session.rewind(&plan).unwrap();
    assert_eq!(outcomes(&report, FileOutcome::Done), FILES);
    assert_eq!(report.removed_prompt.as_deref(), Some("change all"));
    // The plan is of a moment that is over.
    let again = session.rewind(&plan).unwrap_err();
    assert!(again.to_string().contains("changed since this was planned"));
}
