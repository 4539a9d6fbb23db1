//! File checkpoints through the library: points, labels, what is refused, what goes with the
//! conversation, looking without moving.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, ErrorKind, FileAction, FileOptions, FileState, ForkOptions, NewMessage,
    NewSession, Restore, RewindOptions, RewindReport, Role, Session, SessionKey, Settle, Store,
    ToolRef,
};

use crate::context_rules::assert_valid;

/// A store beside a work tree, and a session in it.
struct Desk {
    folder: tempfile::TempDir,
    store: Store,
    session: Session,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        let store = Store::open(folder.path().join("store.db")).unwrap();
        let new = NewSession::in_project("p")
            .id("s")
            .cwd(work.to_str().unwrap());
        let session = store.sessions().create(new).unwrap();
        Self {
            folder,
            store,
            session,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    fn prompt(&self, text: &str) -> String {
        let prompt = self.session.messages().append(NewMessage::user(text));
        prompt.unwrap().uuid
    }

    /// The agent writes a file in a call of its own, and answers.
    fn write(&self, id: &str, name: &str, text: &str) {
        call(&self.session, id, "Write");
        self.session.files().before(id, [name]).unwrap();
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
        self.session.files().after(id, [name]).unwrap();
        let result = NewMessage::tool_result(id, "done");
        self.session.messages().append(result).unwrap();
    }

    fn rewind(&self, options: RewindOptions) -> RewindReport {
        rewind(&self.session, options)
    }
}

fn call(session: &Session, id: &str, name: &str) {
    let call = json!([{"type": "tool_use", "id": id, "name": name, "input": {}}]);
    session
        .messages()
        .append(NewMessage::assistant(call))
        .unwrap();
}

fn rewind(session: &Session, options: RewindOptions) -> RewindReport {
    session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap()
}

fn files(point: &str) -> RewindOptions {
    RewindOptions::to(point).restore(Restore::Files)
}

#[test]
fn the_three_runs_of_the_seed() {
    let desk = Desk::new();
    fs::write(desk.path("orders.txt"), "Order A16.\n").unwrap();
    let first = desk.prompt("Note order A17");
    desk.write("toolu_1", "orders.txt", "Order A17 needs a call back.\n");
    let second = desk.prompt("And a new file");
    desk.write("toolu_2", "new.txt", "Order A18.\n");
    // Restore; and restore of absence.
    desk.rewind(files(&second));
    assert_eq!(desk.read("new.txt"), None);
    assert_eq!(
        desk.read("orders.txt").unwrap(),
        "Order A17 needs a call back.\n"
    );
    desk.rewind(files(&first));
    assert_eq!(desk.read("orders.txt").unwrap(), "Order A16.\n");
    // The conversation stays as it was.
    assert_eq!(desk.session.conversation("").unwrap().entries.len(), 6);
    // Not enabled: in the session, and in the store that rewinds.
    let off = desk
        .store
        .clone()
        .with_files(FileOptions::new().enabled(false));
    let session = off.sessions().get(desk.session.key()).unwrap();
    let error = session.plan_rewind(&files(&first)).unwrap_err();
    assert_eq!(error.to_string(), "File rewinding is not enabled");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let captured = session.files().before("toolu_9", ["orders.txt"]).unwrap();
    assert!(captured.kept.is_empty());
    desk.session.files().set_enabled(false).unwrap();
    assert!(!desk.session.files().is_enabled().unwrap());
    let error = desk.session.plan_rewind(&files(&first)).unwrap_err();
    assert_eq!(error.to_string(), "File rewinding is not enabled");
    // The conversation can go back all the same.
    let talk = RewindOptions::to(&second).restore(Restore::Conversation);
    assert_eq!(
        desk.rewind(talk).removed_prompt.as_deref(),
        Some("And a new file")
    );
}

#[test]
fn an_unknown_point_is_told_and_nothing_is_a_success() {
    let desk = Desk::new();
    let prompt = desk.prompt("hello");
    desk.write("toolu_1", "a.txt", "1\n");
    let other = desk
        .store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    let foreign = other
        .messages()
        .append(NewMessage::user("else"))
        .unwrap()
        .uuid;
    let result = desk.session.conversation("").unwrap().entries[2]
        .uuid
        .clone();
    for point in [
        "", "nothing", "@last~7", "@last~x", "@lost", &foreign, &result,
    ] {
        let error = desk.session.plan_rewind(&files(point)).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("No file checkpoint found for this message"),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    for point in [
        &prompt[..],
        &prompt[..8],
        "@last",
        "@start",
        "toolu_1",
        "toolu",
    ] {
        desk.session.plan_rewind(&files(point)).unwrap();
    }
}

#[test]
fn points_have_names_and_say_what_they_would_change() {
    let desk = Desk::new();
    let first = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    let second = desk.prompt("two");
    desk.write("toolu_2", "b.txt", "1\n");
    let files = desk.session.files();
    files.label(&second, "before b").unwrap();
    files.label("toolu_1", "first edit").unwrap();
    files.label("@start", "the beginning").unwrap();
    for name in ["", " ", "@x"] {
        assert_eq!(
            files.label(&second, name).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    let points = files.points().unwrap();
    let shown: Vec<(&str, usize, Vec<&str>)> = points
        .iter()
        .map(|point| {
            let labels = point.labels.iter().map(String::as_str).collect();
            (point.id.as_str(), point.changed.len(), labels)
        })
        .collect();
    let wanted: Vec<(&str, usize, Vec<&str>)> = vec![
        ("@start", 2, vec!["the beginning"]),
        (&first, 2, vec![]),
        ("toolu_1", 2, vec!["first edit"]),
        (&second, 1, vec!["before b"]),
        ("toolu_2", 1, vec![]),
    ];
    assert_eq!(shown, wanted);
    desk.rewind(self::files("before b"));
    assert_eq!(
        (desk.read("a.txt"), desk.read("b.txt")),
        (Some("1\n".into()), None)
    );
    // A fork has its origin's labels, under its own names for the points.
    let fork = desk.session.fork(&ForkOptions::new()).unwrap();
    rewind(&fork, self::files("first edit"));
    assert_eq!(desk.read("a.txt"), None);
}

#[test]
fn a_call_is_a_point_just_before_it() {
    let desk = Desk::new();
    desk.prompt("go on");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "a.txt", "2\n");
    desk.write("toolu_3", "b.txt", "3\n");
    let report = desk.rewind(RewindOptions::to("toolu_2"));
    assert_eq!(
        (desk.read("a.txt"), desk.read("b.txt")),
        (Some("1\n".into()), None)
    );
    // The whole response that makes the call is gone from the conversation.
    let conversation = desk.session.conversation("").unwrap();
    assert_eq!(conversation.entries.len(), 3);
    assert_eq!(report.head.as_ref(), Some(&conversation.entries[2].uuid));
    assert_valid(&desk.session.context("").unwrap(), "after the rewind");
}

#[test]
fn a_rewind_while_a_call_is_open_is_refused_b96() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    call(&desk.session, "toolu_1", "Write");
    desk.session.files().before("toolu_1", ["a.txt"]).unwrap();
    fs::write(desk.path("a.txt"), "half").unwrap();
    let error = desk
        .session
        .plan_rewind(&RewindOptions::to(&prompt))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("toolu_1"), "{error}");
    // With its own flag it goes on; the late result stays on the branch that was left.
    desk.rewind(RewindOptions::to(&prompt).while_pending(true));
    assert_eq!(desk.read("a.txt"), None);
    desk.prompt("something else");
    let result = json!({"type": "user", "uuid": "late", "parentUuid": null, "message":
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}]}});
    let options = AppendOptions::new();
    desk.session
        .messages()
        .append_entries([result.to_string()], &options)
        .unwrap();
    let context = desk.session.context("").unwrap();
    assert_valid(&context, "behind the late result");
    let text = format!("{:?}", context.messages);
    assert!(!text.contains("toolu_1"), "{text}");
}

#[test]
fn a_call_settled_after_a_crash_is_recorded_late() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    call(&desk.session, "toolu_1", "Write");
    desk.session.files().before("toolu_1", ["a.txt"]).unwrap();
    fs::write(desk.path("a.txt"), "by the tool\n").unwrap();
    desk.session
        .tools()
        .settle("toolu_1", &Settle::Interrupted)
        .unwrap();
    // What the user writes then is the user's.
    fs::write(desk.path("a.txt"), "by the user\n").unwrap();
    let report = desk.rewind(files(&prompt));
    assert_eq!(report.conflicts.len(), 1);
    assert_eq!(desk.read("a.txt").unwrap(), "by the user\n");
}

#[test]
fn captures_come_before_the_call_the_prompt_and_the_transcript() {
    let desk = Desk::new();
    let prompt_id = "5b99729d-0000-4000-8000-000000000001";
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let main = ToolRef::new("toolu_1").in_prompt(prompt_id);
    desk.session
        .files()
        .before(main.clone(), ["a.txt"])
        .unwrap();
    fs::write(desk.path("a.txt"), "1\n").unwrap();
    desk.session.files().after(main, ["a.txt"]).unwrap();
    let agent = ToolRef::new("toolu_2").in_prompt(prompt_id).by_agent("ag1");
    desk.session.files().before(agent, ["b.txt"]).unwrap();
    fs::write(desk.path("b.txt"), "1\n").unwrap();
    // Now the client's disk comes after.
    let entry = |uuid: &str, parent: Value, message: Value, kind: &str| {
        let mut entry =
            json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message});
        entry["promptId"] = json!(prompt_id);
        entry.to_string()
    };
    let call = json!({"role": "assistant", "id": "m1", "content":
        [{"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {"file_path": "a.txt"}}]});
    let answer = json!({"role": "user", "content":
        [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}]});
    let entries = [
        entry(
            "u1",
            Value::Null,
            json!({"role": "user", "content": "edit"}),
            "user",
        ),
        entry("a1", json!("u1"), call, "assistant"),
        entry("r1", json!("a1"), answer, "user"),
        json!({"type": "user", "uuid": "u2", "parentUuid": "r1", "promptId": "other",
            "message": {"role": "user", "content": "next"}})
        .to_string(),
    ];
    desk.session
        .messages()
        .append_entries(entries, &AppendOptions::new())
        .unwrap();
    let plan = desk.session.plan_rewind(&files("u2")).unwrap();
    assert!(plan.report().files.is_empty(), "{:#?}", plan.report());
    desk.rewind(files("u1"));
    assert_eq!(
        (desk.read("a.txt").unwrap().as_str(), desk.read("b.txt")),
        ("0\n", None)
    );
}

#[test]
fn a_sub_agent_that_ends_later_belongs_to_the_turn_that_launched_it() {
    let desk = Desk::new();
    let first = desk.prompt("launch");
    let agent = |id: &str| ToolRef::new(id).by_agent("ag1");
    desk.session
        .files()
        .before(agent("toolu_1"), ["a.txt"])
        .unwrap();
    fs::write(desk.path("a.txt"), "1\n").unwrap();
    let second = desk.prompt("meanwhile");
    desk.session
        .files()
        .before(agent("toolu_2"), ["b.txt"])
        .unwrap();
    fs::write(desk.path("b.txt"), "2\n").unwrap();
    let plan = desk.session.plan_rewind(&files(&second)).unwrap();
    assert!(plan.report().files.is_empty(), "{:#?}", plan.report());
    desk.rewind(files(&first));
    assert_eq!((desk.read("a.txt"), desk.read("b.txt")), (None, None));
}

#[test]
fn notes_and_phases_go_with_the_conversation_and_are_stale_with_files_alone() {
    let desk = Desk::new();
    desk.session.scratchpad().set("plan", "A").unwrap();
    let prompt = desk.prompt("migrate");
    let run = |desk: &Desk| {
        let task = desk.session.task("migrate", ["scaffold"]).unwrap();
        desk.write("toolu_1", "a.txt", "1\n");
        task.run("scaffold", |run| {
            run.note_change("a.txt").unwrap();
            Ok::<_, turnkeep::Error>(json!("made"))
        })
        .unwrap();
    };
    run(&desk);
    desk.session.scratchpad().set("plan", "B").unwrap();
    let report = desk.rewind(files(&prompt));
    assert_eq!(report.stale_phases, ["migrate/scaffold"]);
    assert_eq!(
        desk.session.scratchpad().get("plan").unwrap(),
        Some(json!("B"))
    );
    desk.session.undo(report.operation).unwrap();
    let report = desk.rewind(RewindOptions::to(&prompt));
    assert!(report.stale_phases.is_empty());
    // As of the entry the prompt hung from: there is none.
    assert_eq!(desk.session.scratchpad().get("plan").unwrap(), None);
    desk.session.undo(report.operation).unwrap();
    assert_eq!(
        desk.session.scratchpad().get("plan").unwrap(),
        Some(json!("B"))
    );
    let task = desk.session.task("migrate", ["scaffold"]).unwrap();
    assert_eq!(task.phases().unwrap()[0].result, Some(json!("made")));
}

#[test]
fn the_model_is_told_once_of_files_that_went_back() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.session
        .messages()
        .append(NewMessage::assistant("Written."))
        .unwrap();
    let told = |session: &Session| {
        let context = session.context("").unwrap();
        assert_valid(&context, "with a note");
        let users = context
            .messages
            .iter()
            .filter(|message| message.role == Role::User);
        users
            .filter(|message| message.content.get().contains("put back"))
            .count()
    };
    let report = desk.rewind(files(&prompt));
    assert_eq!(told(&desk.session), 1);
    desk.prompt("go on");
    assert_eq!(told(&desk.session), 1);
    let fork = desk.session.fork(&ForkOptions::new()).unwrap();
    assert_eq!(told(&fork), 1);
    desk.session.undo(report.operation).unwrap();
    assert_eq!(told(&desk.session), 0);
}

#[test]
fn undo_and_redo_until_something_newer_is_in_the_way() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    desk.write("toolu_1", "a.txt", "1\n");
    let rewound = desk.rewind(RewindOptions::to(&prompt)).operation.unwrap();
    let undone = desk.session.undo(None).unwrap().operation.unwrap();
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
    assert_eq!(desk.session.conversation("").unwrap().entries.len(), 3);
    // There is nothing else to undo; the undo itself can be.
    assert_eq!(
        desk.session.undo(None).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        desk.session.undo(Some(rewound)).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let redone = desk.session.undo(Some(undone)).unwrap().operation.unwrap();
    assert_eq!(desk.read("a.txt"), None);
    desk.session.undo(None).unwrap();
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
    let kinds: Vec<(String, Option<i64>)> = desk
        .session
        .operations()
        .unwrap()
        .into_iter()
        .filter(|done| done.status.is_some())
        .map(|done| (done.kind, done.undone_by))
        .collect();
    let last = redone + 1;
    let wanted = [
        ("rewind", Some(undone)),
        ("undo", Some(redone)),
        ("undo", Some(last)),
        ("undo", None),
    ];
    let wanted: Vec<(String, Option<i64>)> =
        wanted.map(|(kind, by)| (kind.to_owned(), by)).to_vec();
    assert_eq!(kinds, wanted);
    // Something newer: it stays.
    let rewound = desk.rewind(RewindOptions::to(&prompt)).operation.unwrap();
    desk.prompt("another way");
    let error = desk.session.undo(Some(rewound)).unwrap_err();
    assert!(error.to_string().contains("gone on"), "{error}");
    let files = RewindOptions::to("").restore(Restore::Files);
    let plan = desk.session.plan_undo(Some(rewound), &files).unwrap();
    desk.session.rewind(&plan).unwrap();
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
}

#[test]
fn with_both_a_conflict_stops_everything_unless_a_part_is_accepted() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "b.txt", "1\n");
    fs::write(desk.path("a.txt"), "mine\n").unwrap();
    let report = desk.rewind(RewindOptions::to(&prompt));
    assert_eq!((report.operation, report.touched_files()), (None, false));
    assert_eq!(desk.read("b.txt").unwrap(), "1\n");
    assert_eq!(desk.session.conversation("").unwrap().entries.len(), 5);
    let report = desk.rewind(RewindOptions::to(&prompt).accept_part(true));
    assert!(report.is_partial() && report.touched_files());
    assert_eq!(
        (desk.read("a.txt").unwrap().as_str(), desk.read("b.txt")),
        ("mine\n", None)
    );
    assert_eq!(desk.session.conversation("").unwrap().entries.len(), 0);
    assert_eq!(report.removed_prompt.as_deref(), Some("write"));
}

#[test]
fn only_some_paths_are_put_back() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    for (at, name) in ["a.txt", "sub/b.txt", "sub/c.txt"].into_iter().enumerate() {
        desk.write(&format!("toolu_{at}"), name, "1\n");
    }
    let report = desk.rewind(files(&prompt).only("sub/b.txt"));
    assert_eq!(report.files.len(), 1);
    assert!(desk.path("sub/c.txt").exists());
    desk.rewind(files(&prompt).only("sub"));
    assert!(!desk.path("sub").exists());
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
}

#[test]
fn what_lies_outside_the_roots_needs_consent() {
    let desk = Desk::new();
    let prompt = desk.prompt("write");
    let outside = desk.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let file = outside.join("x.txt");
    call(&desk.session, "toolu_1", "Write");
    desk.session.files().before("toolu_1", [&file]).unwrap();
    fs::write(&file, "1\n").unwrap();
    desk.session.files().after("toolu_1", [&file]).unwrap();
    desk.session
        .messages()
        .append(NewMessage::tool_result("toolu_1", "ok"))
        .unwrap();
    let report = desk.rewind(files(&prompt));
    assert_eq!(report.files[0].action, FileAction::Refused);
    assert!(file.exists());
    desk.rewind(files(&prompt).root(&outside));
    assert!(!file.exists());
    assert!(desk.session.undo(None).unwrap().is_partial());
    assert!(!file.exists());
    desk.session.files().add_root(&outside).unwrap();
    desk.session.undo(None).unwrap();
    assert!(file.exists());
    assert_eq!(desk.session.files().roots().unwrap().len(), 2);
}

#[test]
fn git_is_never_touched_b103() {
    let desk = Desk::new();
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
        command.args(args).current_dir(desk.path(""));
        assert!(command.output().unwrap().status.success(), "{args:?}");
    };
    git(&["init", "-q"]);
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    fs::create_dir_all(desk.path("nested/.git")).unwrap();
    fs::write(desk.path("nested/.git/HEAD"), "ref\n").unwrap();
    let prompt = desk.prompt("write");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "nested/b.txt", "1\n");
    git(&["commit", "-qam", "two"]);
    let before = [".git", "nested/.git"].map(|name| crate::kit::tree(&desk.path(name)));
    desk.rewind(RewindOptions::to(&prompt));
    let after = [".git", "nested/.git"].map(|name| crate::kit::tree(&desk.path(name)));
    assert_eq!(before, after);
    assert_eq!(desk.read("a.txt").unwrap(), "0\n");
}

#[test]
fn a_file_is_looked_at_and_checked_out_without_moving() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let first = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "sub/b.txt", "1\n");
    let second = desk.prompt("two");
    desk.write("toolu_3", "a.txt", "2\n");
    let files = desk.session.files();
    let at = |point: &str, name: &str| match files.at(point, name).unwrap() {
        FileState::File { content, .. } => Some(String::from_utf8(content).unwrap()),
        FileState::Absent => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(&first, "a.txt").unwrap(), "0\n");
    assert_eq!(at(&second, "a.txt").unwrap(), "1\n");
    assert_eq!(at(&second, "sub/b.txt").unwrap(), "1\n");
    assert_eq!(at(&first, "sub/b.txt"), None);
    assert_eq!(
        files.at(&first, "never.txt").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let into = desk.folder.path().join("copy");
    let out = files.checkout(&second, &into, false).unwrap();
    assert_eq!(out.written.len(), 2);
    assert_eq!(fs::read_to_string(into.join("a.txt")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(into.join("sub/b.txt")).unwrap(), "1\n");
    assert_eq!(desk.read("a.txt").unwrap(), "2\n");
    let error = files.checkout(&second, &into, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_missing_content_is_found_and_stops_only_its_own_file() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    fs::write(desk.path("b.txt"), "other\n").unwrap();
    let prompt = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.write("toolu_2", "b.txt", "1\n");
    let sql = rusqlite::Connection::open(desk.store.path()).unwrap();
    sql.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    let gone = sql
        .execute("DELETE FROM blobs WHERE bytes = 6", [])
        .unwrap();
    assert_eq!(gone, 1);
    let findings = desk.store.verify().unwrap().findings;
    assert!(
        findings
            .iter()
            .any(|found| found.what.contains("file_changes")),
        "{findings:?}"
    );
    let report = desk.rewind(files(&prompt));
    assert!(report.is_partial());
    assert_eq!(desk.read("a.txt").unwrap(), "0\n");
    assert_eq!(desk.read("b.txt").unwrap(), "1\n");
}

#[test]
fn a_label_never_hides_a_point() {
    let desk = Desk::new();
    let first = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    let second = desk.prompt("two");
    desk.write("toolu_2", "a.txt", "2\n");
    desk.session.files().label(&first, &second).unwrap();
    desk.rewind(files(&second));
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
}

#[test]
fn a_fork_that_works_in_its_checkout_leaves_its_origins_tree_alone() {
    let desk = Desk::new();
    let _first = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.prompt("two");
    let fork = desk.session.fork(&ForkOptions::new()).unwrap();
    let own = desk.folder.path().join("plan-b");
    fork.files().checkout("@last", &own, true).unwrap();
    assert_eq!(fs::read_to_string(own.join("a.txt")).unwrap(), "1\n");
    let plan = fork.plan_rewind(&files("@start")).unwrap();
    assert_eq!(plan.report().files[0].action, FileAction::Refused);
    fork.files().before("toolu_2", ["a.txt"]).unwrap();
    fs::write(own.join("a.txt"), "2\n").unwrap();
    rewind(&fork, files("toolu_2"));
    assert_eq!(fs::read_to_string(own.join("a.txt")).unwrap(), "1\n");
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
    assert!(desk.store.verify().unwrap().findings.is_empty());
}

#[test]
fn an_id_that_is_used_again_is_another_call() {
    let desk = Desk::new();
    desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    let second = desk.prompt("two");
    desk.write("toolu_1", "a.txt", "2\n");
    desk.rewind(files(&second));
    assert_eq!(desk.read("a.txt").unwrap(), "1\n");
}

#[test]
fn a_fork_goes_on_in_a_folder_of_its_own() {
    let desk = Desk::new();
    desk.prompt("one");
    desk.write("toolu_1", "sub/a.txt", "1\n");
    let point = desk.prompt("two");
    let own = desk.folder.path().join("plan-b");
    let options = ForkOptions::new().cwd(own.to_str().unwrap());
    let fork = desk.session.fork(&options).unwrap();
    let here = fork.files().points().unwrap().last().unwrap().id.clone();
    let out = fork.files().checkout(&here, &own, false).unwrap();
    assert_eq!(
        (out.written.len(), out.not_written.len()),
        (1, 0),
        "{out:?}"
    );
    // What the fork does lies there, and goes back there; the source's tree is the source's.
    let prompt = fork
        .messages()
        .append(NewMessage::user("other way"))
        .unwrap()
        .uuid;
    fork.files().before("toolu_2", ["sub/a.txt"]).unwrap();
    fs::write(own.join("sub/a.txt"), "2\n").unwrap();
    fork.files().after("toolu_2", ["sub/a.txt"]).unwrap();
    desk.write("toolu_3", "sub/a.txt", "3\n");
    rewind(&fork, files(&prompt));
    assert_eq!(fs::read_to_string(own.join("sub/a.txt")).unwrap(), "1\n");
    assert_eq!(desk.read("sub/a.txt").unwrap(), "3\n");
    desk.rewind(files(&point));
    assert_eq!(desk.read("sub/a.txt").unwrap(), "1\n");
}

#[test]
fn a_fork_keeps_its_checkpoints_when_its_source_goes_b57() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.prompt("two");
    let fork = desk.session.fork(&ForkOptions::new()).unwrap();
    let point = fork.files().points().unwrap()[1].id.clone();
    rewind(&fork, files(&point));
    assert_eq!(desk.read("a.txt").unwrap(), "0\n");
    fork.undo(None).unwrap();
    desk.session.delete().unwrap();
    let fork = desk.store.sessions().get(fork.key()).unwrap();
    rewind(&fork, files(&point));
    assert_eq!(desk.read("a.txt").unwrap(), "0\n");
    let sql = rusqlite::Connection::open(desk.store.path()).unwrap();
    let count = || -> i64 {
        sql.query_row("SELECT count(*) FROM blobs", [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(count(), 2);
    fork.delete().unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn a_deleted_session_leaves_no_rewinds_behind() {
    let desk = Desk::new();
    let prompt = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    desk.rewind(files(&prompt));
    desk.session.files().label(&prompt, "x").unwrap();
    desk.session.delete().unwrap();
    let sql = rusqlite::Connection::open(desk.store.path()).unwrap();
    for table in ["file_changes", "rewinds", "rewind_files", "labels", "blobs"] {
        let count: i64 = sql
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                row.get(0)
            })
            .unwrap();
        assert_eq!(count, 0, "{table}");
    }
    let key = SessionKey::new("p", "s").unwrap();
    assert!(desk.store.sessions().find(&key).unwrap().is_none());
}

#[test]
fn a_content_that_is_not_what_was_stored_is_found() {
    let desk = Desk::new();
    desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    assert!(desk.store.verify().unwrap().findings.is_empty());
    let sql = rusqlite::Connection::open(desk.store.path()).unwrap();
    sql.execute("UPDATE blobs SET content = x'00'", []).unwrap();
    let findings = desk.store.verify().unwrap().findings;
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.contains("blob"), "{findings:?}");
}

#[test]
fn a_salvaged_store_rewinds_as_before() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let prompt = desk.prompt("one");
    desk.write("toolu_1", "a.txt", "1\n");
    let report = desk.rewind(files(&prompt));
    desk.session.undo(report.operation).unwrap();
    let path = desk.store.path().to_owned();
    let into = desk.folder.path().join("saved.db");
    let key = desk.session.key().clone();
    let Desk {
        folder,
        store,
        session,
    } = desk;
    drop((store, session));
    let saved = Store::salvage(&path, &into).unwrap();
    assert!(saved.lost.is_empty(), "{:?}", saved.lost);
    let session = Store::open(&into).unwrap().sessions().get(&key).unwrap();
    rewind(&session, files(&prompt));
    assert_eq!(
        fs::read_to_string(folder.path().join("work/a.txt")).unwrap(),
        "0\n"
    );
}
