//! Laws of imported checkpoints, over random sessions that are written as the client writes them.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use turnkeep::Store;

use super::client::Lines;
use super::{ID, Moved, rewind};

const NAMES: [&str; 3] = ["a.txt", "b.txt", "sub/c.txt"];

#[derive(Clone, Debug)]
enum Deed {
    /// The main agent writes a file.
    Write(usize, u8),
    /// A sub-agent reads a file, if it is there, and writes it.
    Delegate(usize, u8),
    /// A command changes a file that the client tracks, or removes it.
    Command(usize, Option<u8>),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (name, text) = (0..NAMES.len(), 0..5_u8);
    prop_oneof![
        4 => (name.clone(), text.clone()).prop_map(|(name, text)| Deed::Write(name, text)),
        2 => (name.clone(), text.clone()).prop_map(|(name, text)| Deed::Delegate(name, text)),
        1 => (name, proptest::option::of(text)).prop_map(|(name, text)| Deed::Command(name, text)),
    ]
}

/// Files by name; one that is missing is not there.
type Disk = BTreeMap<&'static str, String>;

/// A client at work: the files, what it wrote about them, and how they were at each prompt.
struct Client {
    moved: Moved,
    lines: Lines,
    checkpoints: bool,
    /// Whether the sub-agents' metadata names the calls that launched them.
    names_launches: bool,
    disk: Disk,
    tracked: BTreeMap<&'static str, (u32, Option<String>)>,
    prompts: Vec<(String, Disk)>,
    /// How the files were before each edit of the main agent, by its call.
    edits: Vec<(String, Disk)>,
    agents: u32,
    calls: u32,
}

impl Client {
    fn play(checkpoints: bool, names_launches: bool, turns: &[Vec<Deed>]) -> Self {
        let moved = Moved::empty();
        let mut client = Self {
            lines: Lines::new(&moved.work),
            moved,
            checkpoints,
            names_launches,
            disk: BTreeMap::from([("a.txt", "a at first\n".to_owned())]),
            tracked: BTreeMap::new(),
            prompts: Vec::new(),
            edits: Vec::new(),
            agents: 0,
            calls: 0,
        };
        for (number, deeds) in turns.iter().enumerate() {
            client.turn(number, deeds);
        }
        client
    }

    fn turn(&mut self, number: usize, deeds: &[Deed]) {
        let prompt = format!("u{number}");
        self.lines.prompt(&prompt);
        self.prompts.push((prompt.clone(), self.disk.clone()));
        if self.checkpoints {
            self.snapshot(&prompt);
        }
        for deed in deeds {
            match deed {
                Deed::Write(name, text) => self.write(&prompt, NAMES[*name], *text),
                Deed::Delegate(name, text) => self.delegate(&prompt, NAMES[*name], *text),
                Deed::Command(name, text) => self.command(NAMES[*name], *text),
            }
        }
    }

    fn snapshot(&mut self, prompt: &str) {
        let mut files = json!({});
        for (name, (version, content)) in &mut self.tracked {
            let now = self.disk.get(name).cloned();
            if *content != now {
                *version += 1;
                *content = now;
            }
            let backup = content.as_ref().map(|_| backup_name(name, *version));
            if let (Some(content), Some(backup)) = (&content, &backup) {
                self.moved.backup(ID, backup, content);
            }
            files[*name] = json!({"backupFileName": backup, "version": version});
        }
        self.lines.snapshot(prompt, files);
    }

    fn write(&mut self, prompt: &str, name: &'static str, text: u8) {
        let before = self.disk.get(name).cloned();
        let after = format!("{text} by main\n");
        self.calls += 1;
        let id = format!("w{}", self.calls);
        self.edits.push((id.clone(), self.disk.clone()));
        self.lines.write(&id, name, before.as_deref(), &after);
        if self.checkpoints && !self.tracked.contains_key(name) {
            let backup = before.as_ref().map(|_| backup_name(name, 1));
            if let (Some(content), Some(backup)) = (&before, &backup) {
                self.moved.backup(ID, backup, content);
            }
            self.lines.delta(prompt, name, backup.as_deref());
            self.tracked.insert(name, (1, before));
        }
        self.disk.insert(name, after);
    }

    fn delegate(&mut self, prompt: &str, name: &'static str, text: u8) {
        self.agents += 1;
        self.calls += 1;
        let (agent, id) = (format!("g{}", self.agents), format!("s{}", self.calls));
        let path = json!(self.moved.work.join(name));
        let launch = format!("launch {agent}");
        let clock = self.lines.clock();
        let turn = format!("turn of {prompt}");
        let mut lines = Lines::of_agent(&self.moved.work, &agent, &turn, clock);
        let answer = match self.disk.get(name) {
            Some(content) => {
                let shown: Vec<String> = (1..)
                    .zip(content.split('\n'))
                    .map(|(number, line)| format!("{number}\t{line}"))
                    .collect();
                let input = json!({"file_path": path});
                lines.call(&format!("r{id}"), "Read", input, &shown.join("\n"), None);
                "The file has been updated successfully."
            }
            None => "File created successfully at: it",
        };
        let after = format!("{text} by {agent}\n");
        let input = json!({"file_path": path, "content": after});
        lines.call(&id, "Write", input, answer, None);
        self.lines.wait_until(lines.clock());
        let task = json!({"prompt": "do it"});
        self.lines.call(&launch, "Agent", task, "done", None);
        let below = format!("{ID}/subagents/agent-{agent}");
        self.moved
            .transcript(&format!("{below}.jsonl"), &lines.entries);
        if self.names_launches {
            let beside = self.moved.config.join("projects/p").join(below);
            let meta = json!({"agentType": "x", "toolUseId": launch});
            fs::write(beside.with_extension("meta.json"), meta.to_string()).unwrap();
        }
        self.disk.insert(name, after);
    }

    fn command(&mut self, name: &'static str, text: Option<u8>) {
        if self.tracked.contains_key(name) {
            self.calls += 1;
            let id = format!("c{}", self.calls);
            let run = json!({"command": "work"});
            self.lines
                .call(&id, "Bash", run, "", Some(json!({"stdout": ""})));
            match text {
                Some(text) => self.disk.insert(name, format!("{text} by a command\n")),
                None => self.disk.remove(name),
            };
        }
    }

    fn lay(&self, disk: &Disk) {
        fs::remove_dir_all(&self.moved.work).unwrap();
        fs::create_dir(&self.moved.work).unwrap();
        for (name, text) in disk {
            self.moved.write(name, text);
        }
    }

    fn there(&self) -> Disk {
        let read = |name: &&'static str| Some((*name, self.moved.read(name)?));
        NAMES.iter().filter_map(read).collect()
    }

    fn write_lines(&self, entries: &[Value]) {
        self.moved.transcript(&format!("{ID}.jsonl"), entries);
    }
}

fn backup_name(name: &str, version: u32) -> String {
    format!("{}@v{version}", name.replace('/', "_"))
}

/// What is stored of the files' changes, in order, without the numbers of the rows.
pub(super) fn changes(store: &Store) -> Vec<Vec<Option<String>>> {
    let file = rusqlite::Connection::open(store.path()).unwrap();
    let mut statement = file
        .prepare(
            "SELECT h.path, h.source, h.tool_use_id, h.agent, h.turn_uuid, h.before_state, h.before_hash,
                 h.after_state, h.after_hash, h.before_ms, h.after_ms, m.uuid, f.before_mode, f.after_mode
             FROM file_history h JOIN file_changes f ON f.id = h.change
             LEFT JOIN messages m ON m.id = f.message ORDER BY h.change",
        )
        .unwrap();
    let columns = statement.column_count();
    let text = |row: &rusqlite::Row<'_>, at| {
        let value: rusqlite::types::Value = row.get(at).unwrap();
        match value {
            rusqlite::types::Value::Null => None,
            other => Some(format!("{other:?}")),
        }
    };
    statement
        .query_map([], |row| Ok((0..columns).map(|at| text(row, at)).collect()))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn ids(store: &Store) -> Vec<i64> {
    let file = rusqlite::Connection::open(store.path()).unwrap();
    let mut statement = file
        .prepare("SELECT id FROM file_changes ORDER BY id")
        .unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

fn turns() -> impl Strategy<Value = Vec<Vec<Deed>>> {
    proptest::collection::vec(proptest::collection::vec(deed(), 0..4), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_prompt_of_an_imported_session_can_be_gone_back_to(
        checkpoints: bool,
        names_launches: bool,
        turns in turns(),
    ) {
        let client = Client::play(checkpoints, names_launches, &turns);
        client.write_lines(&client.lines.entries);
        let report = client.moved.import();
        prop_assert!(!report.partial, "{report:?}");
        let session = client.moved.session(ID);
        client.lay(&client.disk);
        for (prompt, disk) in &client.prompts {
            let report = rewind(&session, prompt);
            prop_assert_eq!(&client.there(), disk, "{} {:?}", prompt, report);
            prop_assert!(report.conflicts.is_empty());
            let mut left = report.not_covered.iter();
            prop_assert!(left.all(|left| left.what == "Bash"), "{report:?}");
            if report.operation.is_some() {
                session.undo(None).unwrap();
            }
            prop_assert_eq!(&client.there(), &client.disk, "{} undone", prompt);
        }
        prop_assert_eq!(client.moved.test.store.verify().unwrap().findings, []);
    }

    #[test]
    fn every_edit_that_is_told_whole_is_a_change_and_can_be_gone_back_to(
        checkpoints: bool,
        mut turns in turns(),
    ) {
        for deeds in &mut turns {
            deeds.retain(|deed| !matches!(deed, Deed::Command(..)));
        }
        let client = Client::play(checkpoints, true, &turns);
        client.write_lines(&client.lines.entries);
        client.moved.import();
        let rows = changes(&client.moved.test.store);
        let edits = turns.iter().map(Vec::len).sum::<usize>();
        let calls = rows.iter().filter(|row| row[2].is_some());
        prop_assert_eq!((calls.count(), rows.len()), (edits, edits), "{:?}", rows);
        prop_assert!(rows.iter().all(|row| row[4].is_some() && row[7].is_some()), "{rows:?}");
        let session = client.moved.session(ID);
        client.lay(&client.disk);
        for (call, disk) in &client.edits {
            let report = rewind(&session, call);
            prop_assert_eq!(&client.there(), disk, "{} {:?}", call, report);
            prop_assert!(report.conflicts.is_empty());
            if report.operation.is_some() {
                session.undo(None).unwrap();
            }
        }
    }

    #[test]
    fn imports_of_a_growing_session_come_to_the_same_as_one(
        checkpoints: bool,
        names_launches: bool,
        turns in turns(),
        cuts in proptest::collection::vec(0.0..1.0, 1..4),
    ) {
        let client = Client::play(checkpoints, names_launches, &turns);
        let all = &client.lines.entries;
        client.write_lines(all);
        let whole = client.moved.import();
        let once = changes(&client.moved.test.store);
        prop_assert_eq!(whole.file_changes, once.len() as u64);
        let before = ids(&client.moved.test.store);
        let again = client.moved.import();
        prop_assert_eq!((again.file_changes, again.new_entries), (0, 0));
        prop_assert_eq!(ids(&client.moved.test.store), before);

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * all.len() as f64) as usize).collect();
        cuts.push(all.len());
        cuts.sort_unstable();
        let grown = crate::kit::TestStore::new();
        for cut in cuts {
            client.write_lines(&all[..cut]);
            crate::kit::import(&grown.store, &client.moved.config);
        }
        prop_assert_eq!(changes(&grown.store), once);
        prop_assert_eq!(grown.store.verify().unwrap().findings, []);
    }
}

#[test]
fn an_agents_edit_behind_the_turns_own_is_covered_where_its_launch_is_not_named() {
    let turns = [vec![
        Deed::Write(0, 0),
        Deed::Command(0, None),
        Deed::Delegate(0, 0),
    ]];
    let client = Client::play(true, false, &turns);
    client.write_lines(&client.lines.entries);
    client.moved.import();
    let session = client.moved.session(ID);
    client.lay(&client.disk);
    let (prompt, disk) = &client.prompts[0];
    let report = rewind(&session, prompt);
    assert_eq!(&client.there(), disk);
    let mut left = report.not_covered.iter();
    assert!(left.all(|left| left.what == "Bash"), "{report:?}");
}
