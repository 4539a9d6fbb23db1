//! Claude Code's checkpoints after an import: the reported cases, and the real runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::claude_code::ImportReport;
use turnkeep::{
    FileAction, FileOutcome, ForkOptions, Restore, RewindOptions, RewindReport, Session, Store,
};

use crate::case::{self, copy_folder};
use crate::kit::{TestStore, fixture_path, import};

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

fn outcomes(report: &RewindReport) -> BTreeMap<String, (FileAction, FileOutcome)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = report.files.iter();
    files
        .map(|file| (name(&file.path), (file.action, file.outcome)))
        .collect()
}

/// How many rows a query counts.
fn count(store: &Store, sql: &str) -> i64 {
    let file = rusqlite::Connection::open(store.path()).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

const CHANGES: &str = "SELECT count(*) FROM file_changes";
const BLOBS: &str = "SELECT count(*) FROM blobs";

#[test]
fn backups_come_along_into_a_fork_and_outlive_the_source_b57() {
    let moved = Moved::of("cases/B57", "/srv/demo");
    let expect = case::expect("B57");
    let report = moved.import();
    assert_eq!((report.file_backups, report.file_changes), (2, 2));
    assert!(!report.partial, "{report:?}");
    let source = moved.test.only_session();
    let u1 = crate::kit::uuids(&source)[0].clone();
    let blobs = count(&moved.test.store, BLOBS);
    let up_to = expect["fork_up_to"].as_str().unwrap();
    let fork = source.fork(&ForkOptions::new().up_to(up_to)).unwrap();
    assert_eq!(count(&moved.test.store, BLOBS), blobs, "blobs are shared");
    let child = crate::kit::uuids(&fork)[0].clone();
    assert_ne!(child, u1);
    let refused = fork.plan_rewind(&RewindOptions::to(&u1).restore(Restore::Files));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("No file checkpoint found for this message"),
        "{refused}"
    );

    let before = expect["rewind_in_fork"]["a.txt"].as_str().unwrap();
    for source_is_there in [true, false] {
        moved.write("a.txt", "content after turn 2\n");
        if !source_is_there {
            source.delete().unwrap();
        }
        let report = rewind(&fork, &child);
        assert_eq!(moved.read("a.txt").as_deref(), Some(before), "{report:?}");
        fork.undo(None).unwrap();
        let back = moved.read("a.txt");
        assert_eq!(back.as_deref(), Some("content after turn 2\n"));
    }
    assert_eq!(moved.test.store.verify().unwrap().findings, []);
}

#[test]
fn a_first_edit_is_found_in_its_delta_and_in_an_older_clients_second_snapshot_b87() {
    let expect = case::expect("B87");
    let rewinds = expect["rewind_to"].as_object().unwrap();
    assert_eq!(rewinds.len(), 3);
    for (prompt, files) in rewinds {
        let moved = Moved::of("cases/B87", "/srv/demo");
        // Both sessions changed the same file: each is looked at alone.
        let named = |path: &PathBuf| fs::read_to_string(path).unwrap().contains(prompt);
        let transcript = transcripts_below(&moved.config).into_iter().find(named);
        let report = import(&moved.test.store, &transcript.unwrap());
        assert!(!report.partial && report.notes.is_empty(), "{report:?}");
        moved.write("a.txt", "as the last turn left it\n");
        moved.write("born.txt", "born\n");
        let report = rewind(&moved.test.only_session(), prompt);
        for (name, content) in files.as_object().unwrap() {
            let there = moved.read(name);
            assert_eq!(there.as_deref(), content.as_str(), "{prompt} {report:?}");
        }
    }
}

#[test]
fn two_imported_sessions_do_not_undo_each_other_b87() {
    let moved = Moved::of("cases/B87", "/srv/demo");
    moved.import();
    moved.write("a.txt", "as the newer session left it\n");
    let older = moved.session("05e6479d");
    let report = rewind(&older, &prompts(&older)[0]);
    assert_eq!(report.conflicts, [moved.work.join("a.txt")]);
    let there = moved.read("a.txt");
    assert_eq!(there.as_deref(), Some("as the newer session left it\n"));
}

/// The prompts of a session, in order.
fn prompts(session: &Session) -> Vec<String> {
    let points = session.files().points().unwrap().into_iter();
    points
        .filter(|point| point.tool.is_none() && point.text.is_some())
        .map(|point| point.id)
        .collect()
}

#[test]
fn records_that_lead_elsewhere_are_refused_and_good_names_are_not_b129() {
    let moved = Moved::of("cases/B129", "/srv/demo");
    let backups = moved.config.join("file-history");
    let backups = fs::read_dir(backups)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    #[cfg(unix)]
    {
        let linked = backups.join("fedcba9876543210@v1");
        fs::remove_file(&linked).ok();
        std::os::unix::fs::symlink("/etc/hostname", &linked).unwrap();
        let transcript = case::transcript_in(&moved.config);
        let text = fs::read_to_string(&transcript).unwrap();
        let more =
            r#""trackedFileBackups":{"linked.txt":{"backupFileName":"fedcba9876543210@v1"},"#;
        fs::write(&transcript, text.replace(r#""trackedFileBackups":{"#, more)).unwrap();
    }
    let outside = moved.work.join("../../outside.txt");
    assert!(!outside.exists());
    let report = moved.import();
    let said: Vec<&str> = report
        .problems
        .iter()
        .map(|problem| &*problem.what)
        .collect();
    for name in [
        "`../../outside.txt`",
        "`../../../etc/passwd`",
        "`/etc/passwd`",
    ] {
        assert_eq!(
            said.iter().filter(|what| what.contains(name)).count(),
            1,
            "{said:?}"
        );
    }
    assert!(said.iter().any(|what| what.contains("link")), "{said:?}");
    let expect = case::expect("B129");
    let session = moved.test.only_session();
    let report = rewind(&session, &prompts(&session)[0]);
    for name in case::strings(&expect["restorable"])
        .into_iter()
        .chain(case::strings(&expect["literal_names"]))
    {
        assert_eq!(
            moved.read(name).as_deref(),
            Some("backup bytes\n"),
            "{report:?}"
        );
    }
    let found = outcomes(&report);
    let left = |action| (action, FileOutcome::Left);
    assert_eq!(found["evil.txt"], left(FileAction::Refused));
    for name in ["ok.txt", "ok2.txt", "linked.txt"] {
        assert_eq!(found[name], left(FileAction::NotCovered), "{name}");
        assert_eq!(moved.read(name), None);
    }
    assert!(!found.contains_key("outside.txt"));
    assert!(!outside.exists() && !Path::new("/etc/evil.txt").exists());
}

/// An entry of a transcript that the tests write themselves.
pub struct Lines {
    work: PathBuf,
    number: u32,
    last: Option<String>,
    pub entries: Vec<Value>,
    /// The fields that every entry has.
    shared: Value,
}

impl Lines {
    pub fn new(work: &Path) -> Self {
        Self {
            work: work.to_owned(),
            number: 0,
            last: None,
            entries: Vec::new(),
            shared: json!({}),
        }
    }

    /// Lines of a sub-agent, which begin at this time.
    pub fn of_agent(work: &Path, agent: &str, prompt_id: &str, number: u32) -> Self {
        let shared = json!({"isSidechain": true, "agentId": agent, "promptId": prompt_id});
        Self {
            number,
            shared,
            ..Self::new(work)
        }
    }

    fn push(&mut self, kind: &str, uuid: String, content: Value, more: Value) {
        self.number += 1;
        let mut entry = json!({
            "parentUuid": self.last, "type": kind, "uuid": uuid,
            "cwd": self.work, "message": {"role": kind, "content": content},
            "timestamp": format!("2026-01-02T03:{:02}:{:02}.000Z", self.number / 60, self.number % 60),
        });
        for extra in [&self.shared, &more] {
            for (name, value) in extra.as_object().unwrap() {
                entry[name] = value.clone();
            }
        }
        self.last = Some(uuid);
        self.entries.push(entry);
    }

    pub fn prompt(&mut self, uuid: &str) {
        let more = json!({"promptId": format!("turn of {uuid}")});
        self.push("user", uuid.to_owned(), json!(format!("do {uuid}")), more);
    }

    /// A call, and what it answered.
    pub fn call(
        &mut self,
        id: &str,
        tool: &str,
        input: Value,
        answer: &str,
        result: Option<Value>,
    ) {
        let call = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
        self.push("assistant", format!("call {id}"), call, json!({}));
        let content = json!([{"type": "tool_result", "tool_use_id": id, "content": answer}]);
        let more = match result {
            Some(result) => json!({"toolUseResult": result}),
            None => json!({}),
        };
        self.push("user", format!("result {id}"), content, more);
    }

    fn path(&self, name: &str) -> Value {
        json!(self.work.join(name))
    }

    /// An edit as the main transcript tells of it.
    pub fn write(&mut self, id: &str, name: &str, before: Option<&str>, after: &str) {
        let path = self.path(name);
        let kind = if before.is_some() { "update" } else { "create" };
        let result =
            json!({"type": kind, "filePath": path, "content": after, "originalFile": before});
        let input = json!({"file_path": path, "content": after});
        self.call(id, "Write", input, "done", Some(result));
    }

    pub fn snapshot(&mut self, prompt: &str, files: Value) {
        self.entries.push(json!({
            "type": "file-history-snapshot", "messageId": prompt, "isSnapshotUpdate": false,
            "snapshot": {"messageId": prompt, "trackedFileBackups": files},
        }));
    }

    pub fn delta(&mut self, prompt: &str, name: &str, backup: Option<&str>) {
        self.entries.push(json!({
            "type": "file-history-delta", "messageId": "an answer", "snapshotMessageId": prompt,
            "trackingPath": name, "backup": {"backupFileName": backup},
        }));
    }
}

const ID: &str = "aaaaaaaa-0000-4000-8000-000000000001";

#[test]
fn a_transcript_without_checkpoints_says_so_and_edits_are_known_by_the_tools_b88() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.write("t1", "made.txt", None, "made\n");
    lines.prompt("u2");
    lines.write("t2", "old.txt", Some("old\n"), "new\n");
    let edit =
        json!({"file_path": moved.work.join("odd.txt"), "old_string": "a", "new_string": "b"});
    lines.call("t3", "Edit", edit, "updated", None);
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    let report = moved.import();
    assert_eq!((report.file_changes, report.partial), (3, false));
    let notes: Vec<&str> = report.notes.iter().map(|note| &*note.what).collect();
    let says = "no file checkpoints in this transcript; of 3 edits, 2 can be taken back by what the tools answered";
    assert_eq!(notes, [says]);
    assert_eq!(moved.import().notes, [], "nothing new");

    moved.write("made.txt", "made\n");
    moved.write("old.txt", "new\n");
    moved.write("odd.txt", "b\n");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(0o751);
        fs::set_permissions(moved.work.join("old.txt"), mode).unwrap();
    }
    let session = moved.test.only_session();
    let report = rewind(&session, "u1");
    assert_eq!(
        (moved.read("made.txt"), moved.read("old.txt").as_deref()),
        (None, Some("old\n"))
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let there = fs::metadata(moved.work.join("old.txt")).unwrap();
        assert_eq!(
            there.permissions().mode() & 0o777,
            0o751,
            "the mode is not touched"
        );
    }
    let odd = report
        .files
        .iter()
        .find(|file| file.path.ends_with("odd.txt"))
        .unwrap();
    assert_eq!(
        (odd.action, odd.outcome),
        (FileAction::NotCovered, FileOutcome::Left)
    );
    assert!(
        odd.reason.as_ref().unwrap().contains("does not tell"),
        "{odd:?}"
    );
    assert_eq!(moved.read("odd.txt").as_deref(), Some("b\n"));

    // Undone, it is as it was; and a call is a point too.
    session.undo(None).unwrap();
    assert_eq!(moved.read("old.txt").as_deref(), Some("new\n"));
    let report = rewind(&session, "t2");
    assert_eq!(
        moved.read("old.txt").as_deref(),
        Some("old\n"),
        "{report:?}"
    );
    assert_eq!(moved.read("made.txt").as_deref(), Some("made\n"));
}

#[test]
fn what_the_user_did_after_an_edit_without_a_checkpoint_is_kept_b88() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    lines.write("t1", "a.txt", Some("old\n"), "new\n");
    moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
    moved.import();
    moved.write("a.txt", "new, and the user's own\n");
    let session = moved.test.only_session();
    let report = rewind(&session, "u1");
    assert_eq!(report.conflicts, [moved.work.join("a.txt")]);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("new, and the user's own\n")
    );
}

#[test]
fn a_sub_agents_edits_belong_to_the_turn_that_launched_it_b104() {
    let moved = Moved::empty();
    let mut lines = Lines::new(&moved.work);
    lines.prompt("u1");
    let launch = json!({"prompt": "work", "description": "work"});
    lines.call("launch", "Agent", launch, "launched", None);
    lines.prompt("u2");
    lines.write("t2", "b.txt", None, "b\n");
    let path = |name: &str| json!(moved.work.join(name));
    // It goes on while the second turn runs.
    let mut agent = Lines::of_agent(&moved.work, "ag1", "turn of u1", 100);
    agent.call(
        "a1",
        "Read",
        json!({"file_path": path("a.txt")}),
        "1\t0\n2\t",
        None,
    );
    let write = json!({"file_path": path("a.txt"), "content": "by sub-agent\n"});
    agent.call("a2", "Write", write, "updated", None);
    let made = json!({"file_path": path("made.txt"), "content": "m\n"});
    agent.call(
        "a3",
        "Write",
        made,
        "File created successfully at: made.txt",
        None,
    );
    let below = format!("{ID}/subagents/agent-ag1");
    for meta in [Some(json!({"agentType": "x", "toolUseId": "launch"})), None] {
        moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
        moved.transcript(&format!("{below}.jsonl"), &agent.entries);
        let beside = moved
            .config
            .join("projects/p")
            .join(format!("{below}.meta.json"));
        match meta {
            Some(meta) => fs::write(&beside, meta.to_string()).unwrap(),
            None => fs::remove_file(&beside).unwrap(),
        }
        let store = TestStore::new();
        let report = import(&store.store, &moved.config);
        assert_eq!(report.file_changes, 3, "{report:?}");
        moved.write("a.txt", "by sub-agent\n");
        moved.write("made.txt", "m\n");
        moved.write("b.txt", "b\n");
        let session = store.only_session();
        let report = rewind(&session, "u2");
        assert_eq!(moved.read("b.txt"), None, "{report:?}");
        assert_eq!(moved.read("made.txt").as_deref(), Some("m\n"));
        let report = rewind(&session, "u1");
        assert_eq!(moved.read("a.txt").as_deref(), Some("0\n"), "{report:?}");
        assert_eq!(moved.read("made.txt"), None);
        assert_eq!(report.not_covered, [], "{report:?}");
    }
}

#[test]
fn a_real_sub_agents_edits_are_rewound_b104() {
    let moved = Moved::of("transcripts/subagent_checkpoint", "/home/dev/shop");
    moved.import();
    // As the run left them. The client's own rewind to the first prompt makes b.txt the sub-agent's.
    moved.write("a.txt", "ONE-by-main\nTWO-by-sub\n");
    moved.write("b.txt", "bEe-by-main-by-sub\n");
    moved.write("c.txt", "by sub\n");
    let session = moved.session("0aa8f065");
    let report = rewind(&session, &prompts(&session)[0]);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("one\ntwo\n"),
        "{report:?}"
    );
    assert_eq!(moved.read("b.txt").as_deref(), Some("bee\n"));
    assert_eq!(moved.read("c.txt"), None);
    assert_eq!(report.not_covered, []);
}

#[test]
fn commands_in_an_imported_transcript_are_counted_as_not_covered_b83() {
    for tracked in [true, false] {
        let moved = Moved::empty();
        let mut lines = Lines::new(&moved.work);
        let run = |lines: &mut Lines, id: &str| {
            let input = json!({"command": "echo edited > a.txt"});
            lines.call(id, "Bash", input, "", Some(json!({"stdout": ""})));
        };
        lines.prompt("u0");
        run(&mut lines, "c0");
        lines.prompt("u1");
        lines.snapshot("u1", json!({}));
        run(&mut lines, "c1");
        if tracked {
            let input =
                json!({"file_path": moved.work.join("b.txt"), "content": "edited by tool\n"});
            lines.call("t1", "Write", input, "File created", None);
            lines.delta("u1", "b.txt", None);
            moved.write("b.txt", "edited by tool\n");
        }
        run(&mut lines, "c2");
        moved.transcript(&format!("{ID}.jsonl"), &lines.entries);
        moved.import();
        moved.write("a.txt", "edited\n");
        let report = rewind(&moved.test.only_session(), "u1");
        let counted: Vec<(&str, usize)> = report
            .not_covered
            .iter()
            .map(|what| (what.what.as_str(), what.count))
            .collect();
        assert_eq!(counted, [("Bash", 2)], "{report:?}");
        assert_eq!(moved.read("b.txt"), None);
        assert_eq!(moved.read("a.txt").as_deref(), Some("edited\n"));
    }
}
