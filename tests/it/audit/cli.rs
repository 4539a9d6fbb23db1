//! The program: `changes`, `blame`, `diff`, `compare`, `take`.

use std::fs;

use serde_json::{Value, json};

use crate::kit::{Ran, Turnkeep};

/// A store in which a session wrote a file twice.
pub struct Desk {
    pub program: Turnkeep,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self {
            program: Turnkeep::new(),
        };
        desk.say(
            "a",
            r#"{"type":"user","uuid":"p1","message":{"role":"user","content":"first the list"}}"#,
        );
        desk.write("a", "p1", "t1", "list.txt", "milk\nbread\n");
        desk.say("a", r#"{"type":"user","uuid":"p2","parentUuid":"mt1","message":{"role":"user","content":"now eggs"}}"#);
        desk.write("a", "p2", "t2", "list.txt", "milk\neggs\nbread\n");
        desk
    }

    pub fn say(&self, session: &str, entry: &str) {
        let ran = self
            .program
            .run_with(&["append", session, "--project", "p", "--create"], entry);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    pub fn store(&self) -> turnkeep::Store {
        turnkeep::Store::open(self.program.folder.path().join("store.db")).unwrap()
    }

    pub fn session(&self, id: &str) -> turnkeep::Session {
        let key = turnkeep::SessionKey::new("p", id).unwrap();
        self.store().sessions().get(&key).unwrap()
    }

    /// A call of a session that writes a file, with its message.
    pub fn write(&self, session: &str, parent: &str, id: &str, name: &str, text: &str) {
        let entry = json!({
            "type": "assistant", "uuid": format!("m{id}"), "parentUuid": parent,
            "message": {"id": id, "role": "assistant",
                "content": [{"type": "tool_use", "id": id, "name": "Write", "input": {}}]},
        });
        self.say(session, &entry.to_string());
        let path = self
            .program
            .folder
            .path()
            .canonicalize()
            .unwrap()
            .join(name);
        let session = self.session(session);
        session.files().before(id, [&path]).unwrap();
        fs::write(&path, text).unwrap();
        session.files().after(id, [&path]).unwrap();
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        let ran = self.program.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.out, ran.err);
        ran
    }
}

/// What a person reads, without times.
pub fn steady(text: &str) -> String {
    let mut steady = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let is_time = |word: &str| {
            let digits = word
                .chars()
                .all(|letter| letter.is_ascii_digit() || "-:".contains(letter));
            digits
                && (word.len() == 10 || word.len() == 5)
                && (word.contains('-') || word.contains(':'))
        };
        let words: Vec<String> = words
            .iter()
            .map(|word| {
                if is_time(word) {
                    "#".repeat(word.len())
                } else {
                    (*word).to_owned()
                }
            })
            .collect();
        steady.push_str(words.join(" ").trim_end());
        steady.push('\n');
    }
    steady
}

#[test]
fn changes_are_listed_with_who_and_why() {
    let desk = Desk::new();
    insta::assert_snapshot!(steady(&desk.run(&["changes", "list.txt"]).out), @r#"
    2  ########## #####  Write       list.txt  +1 -0  in effect
       a "now eggs"
    1  ########## #####  Write       list.txt  +2 -0  in effect
       a "first the list"
    "#);
    let told = desk.run(&["changes", "list.txt", "--json"]).json();
    let change = &told["changes"][0];
    assert_eq!(change["session_id"], json!("a"));
    assert_eq!(change["call"], json!({"id": "t2", "tool": "Write"}));
    assert_eq!(change["prompt"], json!({"uuid": "p2", "text": "now eggs"}));
    assert_eq!(
        (
            &change["insertions"],
            &change["deletions"],
            &change["effect"]
        ),
        (&json!(1), &json!(0), &json!("in_effect"))
    );
    assert!(change["path"].as_str().unwrap().ends_with("/list.txt"));
    let page = desk.run(&["changes", "--limit", "1", "--json"]).json();
    let next = page["next"].as_str().unwrap();
    let rest = desk.run(&["changes", "--after", next, "--json"]).json();
    assert_eq!(rest["changes"][0]["call"]["id"], json!("t1"));
    assert_eq!(rest["next"], Value::Null);
    for (args, count) in [
        (&["--session", "a"][..], 2),
        (&["--turn", "p1"], 1),
        (&["--session", "a", "--turn", "mt2"], 1),
        (&["--tool", "Bash"], 0),
        (&["--agent", "main"], 2),
        (&["--agent", "x"], 0),
        (&["--since", "2020-01-01"], 2),
        (&["--until", "2020-01-01"], 0),
        (&["."], 2),
    ] {
        let told = desk.run(&[&["changes", "--json"], args].concat()).json();
        assert_eq!(told["changes"].as_array().unwrap().len(), count, "{args:?}");
    }
    assert_eq!(desk.run(&["changes", "other.txt"]).out, "no changes\n");
    let sessions = desk
        .run(&["changes", "list.txt", "--sessions", "--json"])
        .json();
    assert_eq!(sessions["sessions"][0]["changes"], json!(2));
    assert_eq!(desk.program.run(&["changes", "--session", "nope"]).code, 3);
    assert_eq!(
        desk.program.run(&["changes", "--since", "yesterday"]).code,
        2
    );
}

#[test]
fn who_changed_a_folder_is_listed_too() {
    let desk = Desk::new();
    let folder = desk.program.folder.path().join("sub");
    fs::create_dir(&folder).unwrap();
    desk.write("a", "mt2", "t3", "sub/one.txt", "1\n");
    desk.write("a", "mt3", "t4", "sub/two.txt", "2\n");
    let of = |path: &str| {
        let ran = desk.run(&["changes", path, "--sessions", "--json"]).json();
        ran["sessions"].clone()
    };
    assert_eq!(of("sub")[0]["changes"], json!(2));
    assert_eq!(of("sub/two.txt")[0]["changes"], json!(1));
    assert_eq!(of(".")[0]["changes"], json!(4));
    assert_eq!(of("other"), json!([]));
}

#[cfg(unix)]
#[test]
fn a_line_of_a_file_whose_name_is_no_text_is_blamed() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let desk = Desk::new();
    let folder = desk.program.folder.path().canonicalize().unwrap();
    let name = OsString::from_vec(b"caf\xe9.txt".to_vec());
    let path = folder.join(&name);
    let session = desk.session("a");
    session.files().before("t9", [&path]).unwrap();
    fs::write(&path, "one\ntwo\n").unwrap();
    session.files().after("t9", [&path]).unwrap();
    let mut with_line = name.clone();
    with_line.push(":2");
    let mut command = desk.program.command(&["blame", "--json"]);
    let ran = command.arg(with_line).output().unwrap();
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["line"]["text"], json!("two"));
    assert_eq!(told["origin"]["change"]["call"]["id"], json!("t9"));
    assert!(told["path_bytes"].is_string());
}

#[test]
fn a_store_is_followed_by_cursor() {
    let desk = Desk::new();
    let begun = desk.run(&["changes", "--json"]).json();
    let cursor = begun["cursor"].as_str().unwrap();
    let nothing = desk.run(&["changes", "--since", cursor, "--json"]).json();
    assert_eq!(
        nothing,
        json!({"changes": [], "entries": [], "operations": [], "cursor": cursor, "has_more": false})
    );
    desk.write("a", "mt2", "t3", "list.txt", "eggs\n");
    let news = desk.run(&["changes", "--since", cursor, "--json"]).json();
    assert_eq!(news["changes"][0]["call"]["id"], json!("t3"));
    let message = &news["entries"][0];
    assert_eq!(
        (&message["uuid"], &message["entry"]["message"]["id"]),
        (&json!("mt3"), &json!("t3"))
    );
    let next = news["cursor"].as_str().unwrap();
    let of_file = desk
        .run(&["changes", "list.txt", "--since", next, "--json"])
        .json();
    assert_eq!(of_file["changes"], json!([]));
    assert_eq!(
        (of_file.get("entries"), of_file.get("operations")),
        (None, None)
    );
    assert_eq!(desk.program.run(&["rename", "a", "the desk"]).code, 0);
    let named = desk.run(&["changes", "--since", next, "--json"]).json();
    assert_eq!(
        (
            &named["entries"][0]["entry"]["customTitle"],
            &named["operations"][0]["kind"]
        ),
        (&json!("the desk"), &json!("rename"))
    );
    let read = desk.run(&["changes", "--since", cursor]).out;
    let last = named["cursor"].as_str().unwrap();
    assert!(read.contains(&format!("next: --since {last}")), "{read}");
}

#[test]
fn a_diff_is_shown_below_and_beside() {
    let desk = Desk::new();
    let shown = desk.run(&["diff", "a", "p2"]).out;
    insta::assert_snapshot!(shown, @"
    list.txt  modified +1 -0
    @@ -1,2 +1,3 @@
     milk
    +eggs
     bread
    ");
    assert_eq!(desk.run(&["diff", "a", "p2", "now", "list.txt"]).out, shown);
    assert_eq!(desk.run(&["diff", "a", "p2", "./list.txt"]).out, shown);
    desk.write("a", "mt2", "t3", "list.txt", "milk, 2 bottles\nbread\n");
    let shown = desk.run(&["diff", "a", "p2", "now", "--side-by-side"]).out;
    insta::assert_snapshot!(shown, @"
    list.txt  modified +1 -1
    @@ -1,2 +1,2 @@
       1 milk                              |    1 milk, 2 bottles
       2 bread                                  2 bread
    ");
    let told = desk.run(&["diff", "a", "p2", "t3", "--json"]).json();
    assert_eq!((&told["from"], &told["to"]), (&json!("p2"), &json!("t3")));
    let file = &told["files"][0];
    assert_eq!(
        file["unified"],
        json!(
            "diff --git a/FOLDER/list.txt b/FOLDER/list.txt\n--- a/FOLDER/list.txt\n+++ b/FOLDER/list.txt\n@@ -1,2 +1,3 @@\n milk\n+eggs\n bread\n"
                .replace(
                    "/FOLDER",
                    desk.program
                        .folder
                        .path()
                        .canonicalize()
                        .unwrap()
                        .to_str()
                        .unwrap()
                )
        )
    );
    assert_eq!(
        file["hunks"][0]["lines"][1],
        json!({"old": null, "new": 2, "text": "eggs", "words": [], "is_unended": false})
    );
    assert_eq!(desk.program.run(&["diff", "a", "nope"]).code, 3);
    fs::write(desk.program.folder.path().join("list.txt"), b"a\0b").unwrap();
    let shown = desk.run(&["diff", "a", "p2"]).out;
    assert!(
        shown.contains("- 11 bytes, ") && shown.contains("+ 3 bytes, "),
        "{shown}"
    );
}

#[test]
fn blame_tells_of_all_lines_and_of_one() {
    let desk = Desk::new();
    let file = desk.program.folder.path().join("list.txt");
    fs::write(&file, "milk\neggs\nby hand\n").unwrap();
    insta::assert_snapshot!(steady(&desk.run(&["blame", "list.txt"]).out), @"
    a         Write     ########## #####  1  milk
    a         Write     ########## #####  2  eggs
    outside                               3  by hand
    ");
    let recorded = desk
        .run(&["blame", "list.txt", "--recorded", "--json"])
        .json();
    assert_eq!(
        recorded["lines"][2],
        json!({"number": 3, "text": "bread", "origin": 0})
    );
    assert_eq!(recorded["origins"][1]["kind"], json!("change"));
    assert_eq!(
        recorded["origins"][1]["change"]["prompt"]["text"],
        json!("now eggs")
    );
    insta::assert_snapshot!(steady(&desk.run(&["blame", "list.txt:2"]).out), @"
    eggs
    session   p/a
    prompt    p2
              now eggs
    call      Write t2
    change    2 at ########## #####
    ");
    let line = desk.run(&["blame", "list.txt:2", "--json"]).json();
    assert_eq!(line["origin"]["change"]["call"]["id"], json!("t2"));
    assert!(line["path"].as_str().unwrap().ends_with("list.txt"));
    let by_hand = desk.run(&["blame", "list.txt:3"]).out;
    assert!(by_hand.contains("outside of any session"), "{by_hand}");
    assert_eq!(desk.program.run(&["blame", "list.txt:9"]).code, 2);
    assert_eq!(desk.program.run(&["blame", "other.txt"]).code, 3);
    fs::write(&file, b"a\0b").unwrap();
    assert_eq!(
        desk.run(&["blame", "list.txt"]).out,
        "list.txt is not text: 3 bytes\n"
    );
}

#[test]
fn two_forks_are_compared_and_a_file_is_taken_over() {
    let desk = Desk::new();
    desk.run(&["tool", "settle", "a", "t1", "--result", "done"]);
    desk.run(&["tool", "settle", "a", "t2", "--result", "done"]);
    let forked = desk
        .run(&["fork", "a", "--title", "plan B", "--json"])
        .json();
    let fork = forked["session_id"].as_str().unwrap();
    let prompt = turnkeep::NewMessage::user("no bread");
    let prompt = desk.session(fork).messages().append(prompt).unwrap();
    let file = desk
        .program
        .folder
        .path()
        .canonicalize()
        .unwrap()
        .join("list.txt");
    let session = desk.session(fork);
    session.files().before("f1", [&file]).unwrap();
    fs::write(&file, "milk\neggs\n").unwrap();
    session.files().after("f1", [&file]).unwrap();
    let shown = desk
        .run(&["compare", "a", "plan B", "--diff"])
        .out
        .replace(fork, "FORK");
    assert!(shown.contains("p/a: 0 messages of its own\n"), "{shown}");
    assert!(shown.contains("    user: no bread\n"), "{shown}");
    assert!(shown.contains(" milk\n eggs\n-bread\n"), "{shown}");
    let told = desk.run(&["compare", "a", fork, "--json"]).json();
    assert_eq!(told["files"][0]["changed_right"], json!(true));
    assert_eq!(told["files"][0]["changed_left"], json!(false));
    assert_eq!(told["right"]["messages"][0]["uuid"], json!(prompt.uuid));
    assert_eq!(told["left"]["messages"], json!([]));
    // Back to what the one session left, and over to the other's again.
    let root = desk.program.folder.path().to_str().unwrap();
    let args = ["take", fork, "list.txt", "--from", "a", "--root", root];
    let planned = desk.run(&[&args[..], &["--dry-run"]].concat()).out;
    assert_eq!(planned, "list.txt  would be taken (restore) +1 -0\n");
    let done = desk.run(&args).out;
    assert!(
        done.starts_with("list.txt  taken +1 -0\noperation "),
        "{done}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "milk\neggs\nbread\n");
    let again = desk.run(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(again["files"][0]["action"], json!("unchanged"));
    fs::write(&file, "by hand\n").unwrap();
    let left = desk.program.run(&args);
    assert_eq!(left.code, 4, "{}", left.out);
    assert!(left.err.contains("changed outside"), "{}", left.err);
    let hint = "hint: --force takes it over all the same, and keeps what it overwrites";
    assert!(left.err.contains(hint), "{}", left.err);
    assert_eq!(desk.program.run(&["compare", "a", "nope"]).code, 3);
}

#[test]
fn a_turn_is_named_by_any_of_its_messages_and_a_cursor_by_its_own_store() {
    let desk = Desk::new();
    let count = |turn: &str| {
        let told = desk
            .program
            .run(&["changes", "--turn", turn, "--json"])
            .json();
        told["changes"].as_array().unwrap().len()
    };
    assert_eq!((count("p2"), count("mt2"), count("p1")), (1, 1, 1));
    let ran = desk
        .program
        .run(&["changes", "--since", "c99999-m999", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.out);
}

#[test]
fn columns_of_one_name_are_all_told() {
    let desk = Desk::new();
    let rows = desk
        .program
        .run(&["sql", "SELECT 1 AS a, 2 AS a, 3 AS b", "--json"]);
    assert_eq!(rows.json(), json!([{"a": 1, "a_2": 2, "b": 3}]));
}
