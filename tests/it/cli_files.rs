//! The program: keeping files, looking at them, and rewinding them.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{FileOptions, Restore, RewindOptions, Store};

use crate::cli::keys;
use crate::kit::{Ran, Turnkeep};

/// The program at work in a folder, as an agent's hooks call it.
pub struct Desk {
    pub program: Turnkeep,
    said: Cell<usize>,
}

impl Desk {
    pub fn new() -> Self {
        Self {
            program: Turnkeep::new(),
            said: Cell::new(0),
        }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.program.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.program.run(args)
    }

    /// Runs it, and it must go well.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Appends an entry under the last one.
    fn say(&self, kind: &str, content: Value) -> String {
        let number = self.said.get();
        let uuid = |number: usize| format!("{number:08x}-0000-4000-8000-000000000000");
        let entry = json!({
            "type": kind, "uuid": uuid(number), "parentUuid": number.checked_sub(1).map(uuid),
            "cwd": self.path("").canonicalize().unwrap(),
            "message": {"id": format!("msg_{number}"), "role": kind, "content": content},
        });
        let args = ["append", "s1", "--project", "shop", "--create"];
        let ran = self.program.run_with(&args, &entry.to_string());
        assert_eq!(ran.code, 0, "{}", ran.err);
        self.said.set(number + 1);
        uuid(number)
    }

    /// A prompt; answers its uuid.
    pub fn prompt(&self, text: &str) -> String {
        self.say("user", json!(text))
    }

    pub fn call(&self, id: &str, file: &str) {
        let input = json!({"file_path": file});
        self.say(
            "assistant",
            json!([{"type": "tool_use", "id": id, "name": "Write", "input": input}]),
        );
    }

    pub fn result(&self, id: &str) {
        self.say(
            "user",
            json!([{"type": "tool_result", "tool_use_id": id, "content": "ok"}]),
        );
    }

    /// A whole call that writes a file.
    pub fn write(&self, id: &str, file: &str, content: &str) {
        self.write_as(id, Path::new(file), content);
    }

    fn write_as(&self, id: &str, file: &Path, content: &str) {
        self.call(id, &file.to_string_lossy());
        let mut before = self
            .program
            .command(&["track", "s1", "before", "--tool", id]);
        assert!(before.arg(file).output().unwrap().status.success());
        if let Some(folder) = self.path(file).parent() {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(self.path(file), content).unwrap();
        self.ok(&["track", "s1", "after", "--tool", id]);
        self.result(id);
    }
}

/// The seed's run: a turn that notes an order in a file, and a rewind to that turn.
fn note_and_rewind(desk: &Desk) -> Ran {
    let point = desk.prompt("Note order A17 in orders.txt");
    desk.write("toolu_1", "orders.txt", "Order A17 needs a call back.\n");
    assert_eq!(desk.read("orders.txt"), "Order A17 needs a call back.\n");
    desk.run(&["rewind", "s1", "--to", &point, "--restore", "files"])
}

#[test]
fn a_file_that_the_agent_changed_comes_back() {
    let desk = Desk::new();
    fs::write(desk.path("orders.txt"), "nothing yet\n").unwrap();
    let ran = note_and_rewind(&desk);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("restored     +1 -1      orders.txt\n"),
        "{}",
        ran.out
    );
    assert_eq!(desk.read("orders.txt"), "nothing yet\n");
    // The conversation stays exactly as it was.
    let shown = desk.run(&["show", "s1", "--json"]).json();
    assert_eq!(shown.as_array().unwrap().len(), 3);
}

#[test]
fn a_file_that_the_agent_made_goes() {
    let desk = Desk::new();
    let ran = note_and_rewind(&desk);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!desk.path("orders.txt").exists());
}

#[test]
fn with_checkpoints_off_a_rewind_says_so() {
    let desk = Desk::new();
    desk.prompt("hi");
    assert_eq!(
        desk.ok(&["checkpoints", "s1"]),
        "checkpoints of shop/s1 are on; 0 bytes kept\n"
    );
    desk.ok(&["checkpoints", "s1", "off"]);
    fs::write(desk.path("orders.txt"), "nothing yet\n").unwrap();
    let ran = note_and_rewind(&desk);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("File rewinding is not enabled"),
        "{}",
        ran.err
    );
    assert_eq!(desk.read("orders.txt"), "Order A17 needs a call back.\n");
    let kept = desk
        .run(&["track", "s1", "before", "--tool", "t", "a", "--json"])
        .json();
    assert_eq!(
        (&kept["enabled"], &kept["kept"]),
        (&json!(false), &json!([]))
    );
    let shown = desk.run(&["checkpoints", "s1", "on", "--json"]).json();
    assert_eq!(
        shown,
        json!({"session_id": "s1", "enabled": true, "stored_bytes": 0})
    );
}

#[test]
fn with_checkpoints_off_in_the_store_that_rewinds_it_says_so_too() {
    let desk = Desk::new();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    let store = Store::open(desk.path("store.db")).unwrap();
    let store = store.with_files(FileOptions::new().enabled(false));
    let session = store.sessions().resolve("s1", &Default::default()).unwrap();
    let options = RewindOptions::to(&point).restore(Restore::Files);
    let refused = session.plan_rewind(&options).unwrap_err();
    assert_eq!(refused.to_string(), "File rewinding is not enabled");
    assert_eq!(desk.read("a.txt"), "1\n");
}

#[test]
fn the_prompts_of_two_turns_are_collected_and_the_first_is_rewound_to() {
    let desk = Desk::new();
    fs::write(desk.path("orders.txt"), "nothing yet\n").unwrap();
    desk.prompt("first");
    desk.write("toolu_1", "orders.txt", "first\n");
    desk.prompt("second");
    desk.write("toolu_2", "orders.txt", "second\n");
    desk.write("toolu_3", "made.txt", "made\n");
    let points = desk.run(&["points", "s1", "--json"]).json();
    let points = points["points"].as_array().unwrap().clone();
    assert_eq!(
        keys(&points[0]),
        ["changed", "id", "labels", "text", "timestamp_ms", "tool"]
    );
    let prompts: Vec<&Value> = points
        .iter()
        .filter(|point| point["text"].is_string())
        .collect();
    assert_eq!(prompts.len(), 2);
    assert_eq!(prompts[1]["changed"].as_array().unwrap().len(), 2);
    let second = prompts[1]["id"].as_str().unwrap();
    desk.ok(&["rewind", "s1", "--to", second, "--restore", "files"]);
    assert_eq!(
        desk.read("orders.txt"),
        "first\n",
        "turn one's work is kept"
    );
    let first = prompts[0]["id"].as_str().unwrap();
    desk.ok(&["rewind", "s1", "--to", first, "--restore", "files"]);
    assert_eq!(desk.read("orders.txt"), "nothing yet\n");
    assert!(!desk.path("made.txt").exists());
}

#[test]
fn a_path_in_a_folder_that_is_not_there_is_absent() {
    let desk = Desk::new();
    let point = desk.prompt("Note it in notes/2026/orders.txt");
    desk.call("toolu_1", "notes/2026/orders.txt");
    let kept = desk.ok(&[
        "track",
        "s1",
        "before",
        "--tool",
        "toolu_1",
        "notes/2026/orders.txt",
    ]);
    assert_eq!(kept, "kept notes/2026/orders.txt\n");
    // The tool fails: there is no such folder. The rewind has nothing to do.
    fs::write(desk.path("notes/2026/orders.txt"), "x").unwrap_err();
    desk.result("toolu_1");
    let ran = desk.ok(&["rewind", "s1", "--to", &point, "--restore", "files"]);
    assert!(ran.contains("nothing to do"), "{ran}");
    // A tool that makes the folder is taken back with the folder.
    desk.write("toolu_2", "notes/2026/orders.txt", "x");
    desk.ok(&["rewind", "s1", "--to", &point, "--restore", "files"]);
    assert!(!desk.path("notes").exists());
}

#[test]
fn points_that_are_none_are_refused() {
    let desk = Desk::new();
    let first = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    let answer = desk.say("assistant", json!("done"));
    // Without an id there is nothing to go back to; an answer is no point; nor is another's prompt.
    for point in [
        "",
        "nope",
        &answer,
        "@last~7",
        "11111111-2222-4333-8444-555555555555",
    ] {
        let ran = desk.run(&["rewind", "s1", "--to", point, "--json"]);
        assert_eq!(ran.code, 3, "{point}");
        let error = ran.error();
        assert_eq!(error["kind"], "not_found");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("No file checkpoint found for this message"),
            "{message}"
        );
    }
    assert_eq!(desk.read("a.txt"), "1\n");
    assert_eq!(desk.run(&["rewind", "nobody", "--to", &first]).code, 3);
    assert_eq!(desk.run(&["rewind", "s1"]).code, 2);
}

#[test]
fn a_rewinds_report_has_its_shape_and_its_exit_codes() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "b.txt", "1\n");
    desk.say(
        "assistant",
        json!([{"type": "tool_use", "id": "toolu_3", "name": "Bash", "input": {}}]),
    );
    desk.result("toolu_3");
    let head = desk.say("assistant", json!("done"));
    fs::write(desk.path("a.txt"), "by the user\n").unwrap();

    let planned = desk.run(&["rewind", "s1", "--to", &point, "--dry-run", "--json"]);
    assert_eq!((planned.code, &planned.json()["head"]), (0, &json!(head)));

    // Both, with a conflict: nothing is done, and the report says where all of it is.
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let report = ran.json();
    assert_eq!(
        keys(&report),
        [
            "conflicts",
            "conversation_moved",
            "files",
            "head",
            "not_covered",
            "operation",
            "removed_prompt",
            "restore",
            "stale_phases"
        ]
    );
    assert_eq!(
        keys(&report["files"][0]),
        [
            "action",
            "deletions",
            "insertions",
            "outcome",
            "path",
            "reason"
        ]
    );
    let a = desk.path("a.txt").canonicalize().unwrap();
    assert_eq!(report["conflicts"], json!([a]));
    assert_eq!(
        (
            &report["operation"],
            &report["head"],
            &report["conversation_moved"]
        ),
        (&Value::Null, &json!(head), &json!(false))
    );
    let outcomes: Vec<&Value> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| &file["outcome"])
        .collect();
    assert_eq!(outcomes, ["left", "left"]);
    assert_eq!(report["not_covered"][0]["what"], "Bash");
    assert!(desk.path("b.txt").exists());

    // Files alone: the other path is done.
    let ran = desk.run(&[
        "rewind",
        "s1",
        "--to",
        &point,
        "--restore",
        "files",
        "--json",
    ]);
    assert_eq!(ran.code, 6);
    assert_eq!(ran.json()["files"][1]["action"], "delete");
    assert!(!desk.path("b.txt").exists());
    // Again: nothing is left to do but what is in the way.
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--restore", "files"]);
    assert_eq!(ran.code, 4);
    assert!(ran.out.contains("nothing was done"), "{}", ran.out);
    // A part is accepted: the conversation moves.
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--accept-part", "--json"]);
    assert_eq!(
        (ran.code, &ran.json()["conversation_moved"]),
        (6, &json!(true))
    );
    assert_eq!(ran.json()["removed_prompt"], "go");
    assert_eq!(desk.read("a.txt"), "by the user\n");
    // With force it goes, is kept, and comes back.
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--force"]);
    assert_eq!(
        (ran.code, desk.read("a.txt").as_str()),
        (0, "0\n"),
        "{}",
        ran.err
    );
    desk.ok(&["undo", "s1"]);
    assert_eq!(desk.read("a.txt"), "by the user\n");
}

#[test]
fn a_rewind_waits_for_no_call_but_says_which_is_open() {
    let desk = Desk::new();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.call("toolu_2", "a.txt");
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--json"]);
    assert_eq!((ran.code, &ran.error()["kind"]), (4, &json!("conflict")));
    assert!(ran.err.contains("toolu_2"), "{}", ran.err);
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--while-pending"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(!desk.path("a.txt").exists());
}

#[test]
fn rewinds_are_listed_undone_and_done_again() {
    let desk = Desk::new();
    let point = desk.prompt("make a.txt");
    desk.write("toolu_1", "a.txt", "1\n");
    let head = desk.say("assistant", json!("done"));
    let ran = desk.ok(&["rewind", "s1", "--to", &point, "--by", "dora"]);
    assert!(
        ran.contains("the prompt that left the conversation:\n    make a.txt\n"),
        "{ran}"
    );
    let hint = ran
        .lines()
        .find_map(|line| line.strip_prefix("undo with: turnkeep "));
    let undo: Vec<&str> = hint.unwrap().split(' ').collect();
    desk.ok(&undo);
    assert_eq!(desk.read("a.txt"), "1\n");
    let shown = desk.run(&["resume", "s1", "--json"]).json();
    assert_eq!(shown["head"], json!(head));
    let again = desk.run(&undo);
    assert_eq!(again.code, 4, "it is undone already: {}", again.out);

    let listed = desk.run(&["operations", "s1", "--json"]).json();
    let listed = listed["operations"].as_array().unwrap().clone();
    assert_eq!(
        keys(&listed[0]),
        ["at_ms", "by", "detail", "id", "kind", "status", "undone_by"]
    );
    let (rewind, undone) = (&listed[listed.len() - 2], &listed[listed.len() - 1]);
    assert_eq!(
        (
            &rewind["kind"],
            &rewind["by"],
            &rewind["detail"]["restore"],
            &rewind["undone_by"]
        ),
        (
            &json!("rewind"),
            &json!("dora"),
            &json!("both"),
            &undone["id"]
        )
    );
    let number = undone["id"].to_string();
    desk.ok(&["undo", "s1", "--operation", &number]);
    assert!(
        !desk.path("a.txt").exists(),
        "undoing the undo does it again"
    );
    assert_eq!(desk.run(&["undo", "s1", "--operation", "999"]).code, 3);
    let told = desk.ok(&["operations", "s1"]);
    assert!(told.contains("by dora"), "{told}");
}

#[test]
fn a_file_is_looked_at_without_moving_anything() {
    let desk = Desk::new();
    fs::write(desk.path("a.bin"), [0, 159, 146, 150]).unwrap();
    desk.prompt("go");
    desk.write("toolu_1", "a.bin", "text\n");
    desk.write("toolu_2", "sub/b.txt", "b\n");
    desk.ok(&["label", "s1", "toolu_2", "before b"]);
    let mut cat = desk
        .program
        .command(&["cat", "s1", "a.bin", "--at", "@last"]);
    assert_eq!(cat.output().unwrap().stdout, [0, 159, 146, 150]);
    assert_eq!(
        desk.ok(&["cat", "s1", "a.bin", "--at", "before b"]),
        "text\n"
    );
    let shown = desk
        .run(&["cat", "s1", "a.bin", "--at", "@start", "--json"])
        .json();
    assert_eq!(
        (&shown["state"], &shown["content"], &shown["mode"]),
        (&json!("file"), &json!("AJ+Slg=="), &json!("0644"))
    );
    let ran = desk.run(&["cat", "s1", "sub/b.txt", "--at", "before b", "--json"]);
    assert_eq!((ran.code, &ran.json()["state"]), (3, &json!("absent")));
    assert!(ran.err.contains("there was no file"), "{}", ran.err);
    assert_eq!(
        desk.run(&["cat", "s1", "never.txt", "--at", "@last"]).code,
        3
    );
    assert_eq!(desk.run(&["cat", "s1", "a.bin", "--at", "nope"]).code, 3);

    // From below the session's folder a path is what a shell would take it for; from elsewhere it
    // is seen from the session's folder.
    for (folder, file) in [
        ("sub", "b.txt"),
        ("sub", "../sub/b.txt"),
        ("/", "sub/b.txt"),
    ] {
        let mut cat = desk.program.command(&["cat", "s1", file, "--at", "@last"]);
        let output = cat.current_dir(desk.path(folder)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("there was no file"),
            "{folder} {file}: {said}"
        );
    }
    assert_eq!(desk.read("a.bin"), "text\n");
}

#[test]
fn the_files_of_a_point_are_written_into_an_empty_folder() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "sub/b.txt", "b\n");
    desk.prompt("more");
    desk.write("toolu_3", "a.txt", "2\n");
    let done = desk
        .run(&["checkout", "s1", "@last", "--into", "out", "--json"])
        .json();
    assert_eq!(keys(&done), ["not_written", "written"]);
    assert_eq!(
        (desk.read("out/a.txt"), desk.read("out/sub/b.txt")),
        ("1\n".into(), "b\n".into())
    );
    assert_eq!(desk.read("a.txt"), "2\n");
    assert_eq!(
        desk.run(&["checkout", "s1", "@last", "--into", "out"]).code,
        2
    );
    // A fork that works in a folder of its own.
    let fork = desk.run(&["fork", "s1", "--json"]).json();
    let fork = fork["session_id"].as_str().unwrap();
    desk.ok(&["checkout", fork, "@last", "--into", "plan-b", "--as-root"]);
    desk.ok(&["track", fork, "before", "--tool", "t", "plan-b/a.txt"]);
    fs::write(desk.path("plan-b/a.txt"), "fork\n").unwrap();
    desk.ok(&["track", fork, "after", "--tool", "t"]);
    desk.ok(&["rewind", fork, "--to", "t", "--restore", "files"]);
    assert_eq!(
        (desk.read("plan-b/a.txt"), desk.read("a.txt")),
        ("1\n".into(), "2\n".into())
    );
}

#[test]
fn track_makes_a_session_only_if_told_a_project() {
    let desk = Desk::new();
    let track = ["track", "s9", "before", "--tool", "t", "a.txt"];
    assert_eq!(desk.run(&track).code, 3);
    desk.prompt("go");
    assert_eq!(desk.run(&track).code, 3);
    let captured = desk
        .run(&[&track[..], &["--project", "shop", "--json"]].concat())
        .json();
    assert_eq!(
        keys(&captured),
        ["enabled", "kept", "not_kept", "session_id", "warnings"]
    );
    let folder = desk.path("").canonicalize().unwrap();
    assert_eq!(captured["kept"], json!([folder.join("a.txt")]));
    let listed = desk.run(&["ls", "--all", "--json"]).json();
    let made = listed["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|info| info["session_id"] == "s9");
    assert_eq!(made.unwrap()["cwd"], json!(folder));
    // It is there now, and the call alone is a point of it, found and listed.
    fs::write(desk.path("a.txt"), "x").unwrap();
    desk.ok(&["track", "s9", "before", "--tool", "toolu_other", "b.txt"]);
    let points = desk.run(&["points", "s9", "--json"]).json();
    let points = points["points"].as_array().unwrap();
    let ids: Vec<&Value> = points.iter().map(|point| &point["id"]).collect();
    assert_eq!(ids, ["@start", "t", "toolu_other"]);
    let changed = |at: usize| points[at]["changed"].as_array().unwrap().len();
    assert_eq!((changed(1), changed(2)), (2, 1));
    let told = desk.ok(&["points", "s9"]);
    assert!(told.contains("before a call that is not stored"), "{told}");
    desk.ok(&["label", "s9", "toolu_o", "the other"]);
    desk.ok(&["rewind", "s9", "--to", "t", "--restore", "files"]);
    assert!(!desk.path("a.txt").exists());
}

#[test]
fn the_paths_of_a_stored_call_need_not_be_named() {
    let desk = Desk::new();
    desk.prompt("go");
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    desk.call("toolu_1", "a.txt");
    assert_eq!(
        desk.ok(&["track", "s1", "before", "--tool", "toolu_1"]),
        "kept a.txt\n"
    );
    fs::write(desk.path("a.txt"), "1\n").unwrap();
    desk.result("toolu_1");
    desk.ok(&["rewind", "s1", "--to", "toolu_1", "--restore", "files"]);
    assert_eq!(desk.read("a.txt"), "0\n");
    let ran = desk.run(&["track", "s1", "before", "--tool", "toolu_9"]);
    assert_eq!(ran.code, 3, "{}", ran.out);
}

#[test]
fn what_is_not_kept_is_said_before_the_edit() {
    let desk = Desk::new();
    desk.prompt("go");
    fs::write(desk.path("key.pem"), "secret\n").unwrap();
    fs::write(desk.path("big.txt"), "0123456789").unwrap();
    let ran = desk.run(&[
        "track",
        "s1",
        "before",
        "--tool",
        "t",
        "--exclude",
        "*.pem",
        "--max-file-bytes",
        "9",
        "key.pem",
        "big.txt",
        "new.txt",
        "store.db",
    ]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    for line in [
        "kept new.txt\n",
        "not kept key.pem: excluded\n",
        "not kept big.txt: too large",
        "not kept store.db: it is the store's own file\n",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    let ran = desk.run(&["cat", "s1", "key.pem", "--at", "t"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("is not kept: excluded"), "{}", ran.err);
}

#[test]
fn names_of_any_bytes_are_rewound_and_told() {
    let desk = Desk::new();
    let point = desk.prompt("go");
    let names = [
        &b"caf\xe9.txt"[..],
        b"two\nlines.txt",
        "cafe\u{301}.txt".as_bytes(),
    ];
    for (number, name) in names.iter().enumerate() {
        let name = Path::new(OsStr::from_bytes(name));
        fs::write(desk.path(name), "0\n").unwrap();
        desk.write_as(&format!("toolu_{number}"), name, "1\n");
    }
    // The composed form is another name, and another file.
    fs::write(desk.path("caf\u{e9}.txt"), "other\n").unwrap();
    let shown = desk.ok(&[
        "rewind",
        "s1",
        "--to",
        &point,
        "--restore",
        "files",
        "--dry-run",
    ]);
    assert_eq!(
        shown
            .lines()
            .filter(|line| line.starts_with("restore "))
            .count(),
        3,
        "{shown}"
    );
    let report = desk.run(&[
        "rewind",
        "s1",
        "--to",
        &point,
        "--restore",
        "files",
        "--json",
    ]);
    assert_eq!(report.code, 0, "{}", report.err);
    let files = report.json()["files"].as_array().unwrap().clone();
    let whole = |name: &[u8]| {
        [
            desk.path("").canonicalize().unwrap().as_os_str().as_bytes(),
            b"/",
            name,
        ]
        .concat()
    };
    assert_eq!(files[0]["path_bytes"], json!(base64(&whole(names[0]))));
    assert_eq!(files[1]["path_bytes"], Value::Null);
    assert!(
        files[1]["path"]
            .as_str()
            .unwrap()
            .ends_with("two\nlines.txt")
    );
    assert!(
        files[2]["path"]
            .as_str()
            .unwrap()
            .ends_with("cafe\u{301}.txt")
    );
    for name in names {
        let path = desk.path(OsStr::from_bytes(name));
        assert_eq!(fs::read(&path).unwrap(), b"0\n", "{}", path.display());
    }
    assert_eq!(desk.read("caf\u{e9}.txt"), "other\n");
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn a_fifo_in_the_way_is_told_and_not_waited_for() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    fs::remove_file(desk.path("a.txt")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(desk.path("a.txt"))
        .status();
    assert!(made.unwrap().success());
    for force in [&[][..], &["--force"]] {
        let args = [
            &["rewind", "s1", "--to", &point, "--restore", "files"],
            force,
        ]
        .concat();
        let ran = desk.run(&args);
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert!(ran.out.contains("a FIFO lies there now"), "{}", ran.out);
    }
    let ran = desk.run(&["track", "s1", "before", "--tool", "toolu_2", "a.txt"]);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (6, "not kept a.txt: it is a FIFO\n")
    );
    let ran = desk.run(&["rewind", "s1", "--to", &point, "--dry-run", "--diff"]);
    assert_eq!(ran.code, 0);
}

#[test]
fn a_file_with_two_names_is_left_alone() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    fs::hard_link(desk.path("a.txt"), desk.path("also.txt")).unwrap();
    let ran = desk.run(&[
        "rewind",
        "s1",
        "--to",
        &point,
        "--restore",
        "files",
        "--force",
        "--json",
    ]);
    assert_eq!(ran.code, 4);
    let file = &ran.json()["files"][0];
    assert_eq!(file["action"], "refused");
    assert!(
        file["reason"].as_str().unwrap().contains("2 names"),
        "{file}"
    );
    assert_eq!(
        (desk.read("a.txt"), desk.read("also.txt")),
        ("1\n".into(), "1\n".into())
    );
}

#[test]
fn only_some_paths_and_other_roots_are_rewound() {
    let desk = Desk::new();
    let outside = tempfile::tempdir().unwrap();
    let far = outside.path().canonicalize().unwrap().join("far.txt");
    let far = far.to_str().unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "sub/a.txt", "1\n");
    desk.write("toolu_2", "b.txt", "1\n");
    desk.write("toolu_3", far, "1\n");
    let to = ["rewind", "s1", "--to", &point, "--restore", "files"];
    desk.ok(&[&to[..], &["--only", "sub", "none.txt"]].concat());
    assert!(!desk.path("sub").exists() && desk.path("b.txt").exists());
    let ran = desk.run(&to);
    assert_eq!(ran.code, 6);
    assert!(ran.out.contains("refused"), "{}", ran.out);
    assert!(!desk.path("b.txt").exists() && Path::new(far).exists());
    let root = outside.path().to_str().unwrap();
    desk.ok(&[&to[..], &["--root", root]].concat());
    assert!(!Path::new(far).exists());
}

#[test]
fn a_plan_is_read_at_80_columns_with_its_differences() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(desk.path("b.bin"), [0, 1, 2]).unwrap();
    fs::write(desk.path("c.txt"), "c\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "one\n2\nthree\n");
    desk.write("toolu_2", "b.bin", "text\n");
    desk.write("toolu_3", "c.txt", "by the agent\n");
    desk.write("toolu_4", "new.txt", "n\n");
    fs::write(desk.path("c.txt"), "by the user\n").unwrap();
    let plan = desk.ok(&[
        "rewind",
        "s1",
        "--to",
        &point,
        "--restore",
        "files",
        "--dry-run",
        "--diff",
    ]);
    let plan = plan.replace(&point, "POINT");
    insta::assert_snapshot!(plan, @r"
    rewind to POINT: files
    restore      +1 -1      a.txt
    restore                 b.bin
    conflict     +1 -1      c.txt: it was changed outside the session since
    delete       +0 -1      new.txt
    a.txt
    @@ -1,3 +1,3 @@
     one
    -2
    +two
     three
    b.bin
    - text, 5 bytes
    + binary, 3 bytes
    c.txt (left alone)
    @@ -1 +1 @@
    -by the user
    +c
    new.txt
    @@ -1 +0,0 @@
    -n
    nothing was changed: this is what would be done
    ");
    assert!(
        plan.lines().all(|line| line.chars().count() <= 80),
        "{plan}"
    );
    assert_eq!(desk.read("a.txt"), "one\n2\nthree\n");
}

#[test]
fn another_session_at_work_in_the_same_folder_is_warned_of() {
    let desk = Desk::new();
    desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    let args = [
        "track",
        "s2",
        "before",
        "--tool",
        "t",
        "--project",
        "shop",
        "b.txt",
    ];
    let told = desk.ok(&args);
    let warning = "warning: session `shop/s1` is changing files below";
    assert!(told.contains(warning), "{told}");
    // Its own edit is not undone by the other's rewind.
    fs::write(desk.path("b.txt"), "s2\n").unwrap();
    desk.ok(&["track", "s2", "after", "--tool", "t"]);
    desk.ok(&["rewind", "s1", "--to", "@start", "--restore", "files"]);
    assert!(desk.path("b.txt").exists() && !desk.path("a.txt").exists());
}

#[test]
fn after_a_rewind_of_files_alone_the_model_is_told() {
    let desk = Desk::new();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.ok(&["rewind", "s1", "--to", &point, "--restore", "files"]);
    let context = desk.ok(&["show", "s1", "--context", "--json"]);
    assert!(context.contains("are no longer on disk"), "{context}");
    assert!(context.contains("a.txt"), "{context}");
    desk.ok(&["undo", "s1"]);
    let context = desk.ok(&["show", "s1", "--context", "--json"]);
    assert!(!context.contains("no longer on disk"), "{context}");
}

#[test]
fn a_command_is_watched_and_the_program_ends_as_it_does() {
    let desk = Desk::new();
    let point = desk.prompt("tidy up");
    std::fs::write(desk.path("a.txt"), "before\n").unwrap();
    let watch = ["track", "s1", "watch", "--tool", "toolu_1"];
    let script = "echo out; echo after > a.txt; mkdir made; echo b > made/b.txt; exit 3";
    let ran = desk.run(&[&watch[..], &["--", "sh", "-c", script]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (3, "out\n"));
    for line in ["changed ", "a.txt", "made/b.txt"] {
        assert!(ran.err.contains(line), "{}", ran.err);
    }
    let json = [
        "track", "s1", "watch", "--tool", "toolu_2", "--json", "--", "sh", "-c", "echo x",
    ];
    let ran = desk.run(&json);
    assert_eq!(ran.json()["exit_code"], json!(0));
    assert_eq!(ran.json()["changed"], json!([]));
    assert_eq!(ran.err, "x\n");
    let ran = desk.run(&[&watch[..4], &["toolu_3", "--", "/no/such/program"]].concat());
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("/no/such/program"), "{}", ran.err);
    desk.ok(&["rewind", "s1", "--to", &point, "--restore", "files"]);
    assert_eq!(desk.read("a.txt"), "before\n");
    assert!(!desk.path("made").exists());
}

#[test]
fn a_hook_keeps_files_around_the_clients_edits_and_never_stands_in_the_way() {
    let desk = Desk::new();
    let file = desk.path("a.txt");
    std::fs::write(&file, "before\n").unwrap();
    let hook = |event: &str, tool: &str, path: &Path| {
        json!({
            "session_id": "11111111-0000-4000-8000-000000000001",
            "transcript_path": "/home/u/.claude/projects/-srv-shop/11111111.jsonl",
            "cwd": desk.path(""), "hook_event_name": event, "prompt_id": "p1",
            "tool_name": "Edit", "tool_use_id": tool, "tool_input": {"file_path": path},
        })
        .to_string()
    };
    let run = |args: &[&str], input: &str| {
        let ran = desk.program.run_with(&[&["hook"], args].concat(), input);
        assert_eq!(ran.out, "");
        (ran.code, ran.err)
    };
    assert_eq!(
        run(&[], &hook("PreToolUse", "toolu_1", &file)),
        (0, String::new())
    );
    std::fs::write(&file, "after\n").unwrap();
    assert_eq!(
        run(&[], &hook("PostToolUse", "toolu_1", &file)),
        (0, String::new())
    );
    desk.ok(&[
        "rewind",
        "11111111",
        "--to",
        "toolu_1",
        "--restore",
        "files",
    ]);
    assert_eq!(desk.read("a.txt"), "before\n");
    // A mistake in the settings stops no edit.
    assert_eq!(run(&["--no-such"], "").0, 1);
    // Events and tools that edit nothing keep nothing.
    assert_eq!(run(&[], &hook("Stop", "toolu_2", &file)).0, 0);
    // What goes wrong is said, and does not stop the edit unless it is to.
    for input in ["", "{", &hook("PreToolUse", "", &file)] {
        let (code, said) = run(&[], input);
        assert!(code == 1 && !said.is_empty(), "{input}: {code} {said}");
    }
    std::fs::create_dir(desk.path("folder.d")).unwrap();
    let fifo = desk.path("pipe");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(run(&[], &hook("PreToolUse", "toolu_3", &fifo)).0, 1);
    let (code, said) = run(&["--strict"], &hook("PreToolUse", "toolu_4", &fifo));
    assert_eq!(code, 2);
    assert!(said.contains("is not kept: it is a FIFO"), "{said}");
}

#[test]
fn what_a_watched_command_left_out_is_named_also_where_no_call_is_stored() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path(".git")).unwrap();
    std::fs::write(desk.path(".gitignore"), "*.o\n").unwrap();
    let watch = [
        "track",
        "s9",
        "watch",
        "--tool",
        "t1",
        "--project",
        "shop",
        "--",
    ];
    let ran = desk.run(&[&watch[..], &["sh", "-c", "echo 1 > a.o; echo 2 > s.txt"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let plan = desk
        .run(&[
            "rewind",
            "s9",
            "--to",
            "t1",
            "--restore",
            "files",
            "--dry-run",
            "--json",
        ])
        .json();
    let told = plan["not_covered"].to_string();
    assert!(
        told.contains("git's rules") && told.contains("watched commands"),
        "{told}"
    );
    // A command that a signal ends, and one that runs while nothing is kept.
    let ran = desk.run(&[&watch[..4], &["t2", "--", "sh", "-c", "kill -9 $$"]].concat());
    assert_eq!(ran.code, 137);
    desk.ok(&["checkpoints", "s9", "off"]);
    let ran = desk.run(&[&watch[..4], &["t3", "--", "echo", "ran"]].concat());
    assert_eq!((ran.code, ran.out.as_str()), (0, "ran\n"));
    assert!(ran.err.contains("checkpoints are off"), "{}", ran.err);
}
