//! Laws of rewinding over random stories: a rewind gives exactly the tree of its point, again and
//! again and in both directions; undoing one gives exactly what was there; what others changed stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use turnkeep::{
    FileAction, ForkOptions, NewMessage, NewSession, Restore, RewindOptions, Session, Store,
};

use crate::context_rules::assert_valid;

/// The paths that a story is about; one lies in a folder that may not be there.
const PATHS: [&str; 4] = ["a.txt", "b.txt", "sub/c.txt", "sub/deep/d.txt"];

/// Something that happens in a story.
#[derive(Clone, Debug)]
enum Deed {
    Prompt,
    /// The agent writes a text to a path, in one call with another path or alone.
    Write(usize, u8, Option<usize>),
    Remove(usize),
    /// The agent's call is never told to have ended.
    WriteWithoutAfter(usize, u8),
    /// Back to a prompt, files and conversation or files alone.
    Rewind(usize, bool),
    Undo,
    Compact,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let path = 0..PATHS.len();
    let deed = prop_oneof![
        3 => Just(Deed::Prompt),
        5 => (path.clone(), any::<u8>(), proptest::option::of(path.clone()))
            .prop_map(|(path, text, other)| Deed::Write(path, text, other)),
        2 => path.clone().prop_map(Deed::Remove),
        1 => (path, any::<u8>()).prop_map(|(path, text)| Deed::WriteWithoutAfter(path, text)),
        2 => (0..8usize, any::<bool>()).prop_map(|(point, both)| Deed::Rewind(point, both)),
        1 => Just(Deed::Undo),
        1 => Just(Deed::Compact),
    ];
    proptest::collection::vec(deed, 1..24)
}

type Tree = BTreeMap<String, Vec<u8>>;

/// A story under way, with what the tree was at each prompt.
struct Story {
    folder: tempfile::TempDir,
    store: Store,
    session: Session,
    calls: usize,
    /// Of each prompt its uuid, the tree, and whether there was a folder.
    points: Vec<(String, Tree, bool)>,
}

impl Story {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("a.txt"), "from before\n").unwrap();
        let store = Store::open(folder.path().join("store.db")).unwrap();
        let new = NewSession::in_project("p").cwd(work.to_str().unwrap());
        let session = store.sessions().create(new).unwrap();
        let mut story = Self {
            folder,
            store,
            session,
            calls: 0,
            points: Vec::new(),
        };
        story.prompt();
        story
    }

    fn work(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    fn tree(&self) -> Tree {
        crate::kit::tree(&self.work())
    }

    fn prompt(&mut self) {
        let text = format!("prompt {}", self.points.len());
        let uuid = self
            .session
            .messages()
            .append(NewMessage::user(text))
            .unwrap()
            .uuid;
        let has_folder = self.work().join("sub").exists();
        self.points.push((uuid, self.tree(), has_folder));
    }

    fn call(&mut self, paths: &[&str], told: bool, work: impl Fn(&Path)) {
        self.calls += 1;
        let id = format!("toolu_{}", self.calls);
        let call = json!([{"type": "tool_use", "id": id, "name": "Edit", "input": {}}]);
        let messages = self.session.messages();
        messages.append(NewMessage::assistant(call)).unwrap();
        self.session.files().before(id.as_str(), paths).unwrap();
        for path in paths {
            work(&self.work().join(path));
        }
        if told {
            self.session.files().after(id.as_str(), paths).unwrap();
        }
        messages
            .append(NewMessage::tool_result(&id, "done"))
            .unwrap();
    }

    fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Prompt => self.prompt(),
            Deed::Write(path, text, other) => {
                let mut paths = vec![PATHS[*path]];
                paths.extend(
                    other
                        .map(|other| PATHS[other])
                        .filter(|other| *other != PATHS[*path]),
                );
                self.call(&paths, true, |path| write(path, *text));
            }
            Deed::WriteWithoutAfter(path, text) => {
                self.call(&[PATHS[*path]], false, |path| write(path, *text));
            }
            Deed::Remove(path) => self.call(&[PATHS[*path]], true, |path| {
                let _ = fs::remove_file(path);
            }),
            Deed::Rewind(point, both) => self.rewind(*point, *both),
            Deed::Undo => self.undo(),
            Deed::Compact => {
                let _ = self.session.compact("so far", 1);
            }
        }
        assert_valid(&self.session.context("").unwrap(), "the story");
    }

    fn rewind(&mut self, point: usize, both: bool) {
        let (uuid, wanted, had_folder) = self.points[point % self.points.len()].clone();
        let restore = if both { Restore::Both } else { Restore::Files };
        let options = RewindOptions::to(&uuid).restore(restore);
        let before = self.tree();
        let plan = self.session.plan_rewind(&options).unwrap();
        assert_eq!(self.tree(), before, "a plan touches nothing");
        let report = self.session.rewind(&plan).unwrap();
        assert!(!report.is_partial(), "{report:#?}");
        assert_eq!(self.tree(), wanted, "{report:#?}");
        if !had_folder {
            assert!(!self.work().join("sub").exists(), "a folder was left");
        }
        // Once more changes nothing.
        let again = self.session.plan_rewind(&options).unwrap();
        let still = |file: &turnkeep::FileReport| file.action == FileAction::Unchanged;
        assert!(again.report().files.iter().all(still));
    }

    fn undo(&mut self) {
        let done = self.session.operations().unwrap();
        let last = done.iter().rev().find(|done| {
            matches!(done.kind.as_str(), "rewind" | "undo") && done.undone_by.is_none()
        });
        let Some(last) = last else { return };
        let (tree, conversation) = (self.tree(), self.session.conversation("").unwrap());
        // Something newer may be in the way; then nothing is lost.
        let undone = match self.session.undo(Some(last.id)) {
            Ok(undone) => undone,
            Err(error) => {
                assert!(error.to_string().contains("gone on"), "{error}");
                return;
            }
        };
        let Some(operation) = undone.operation.filter(|_| !undone.is_partial()) else {
            return;
        };
        let redone = self.session.undo(Some(operation)).unwrap();
        assert!(!redone.is_partial(), "{redone:#?}");
        assert_eq!(self.tree(), tree);
        assert_eq!(
            self.session.conversation("").unwrap().entries.len(),
            conversation.entries.len()
        );
    }
}

fn write(path: &Path, text: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content(text)).unwrap();
}

fn content(text: u8) -> String {
    format!("text {}\n", text % 6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_rewind_gives_the_tree_of_its_point(deeds in deeds()) {
        let mut story = Story::new();
        for deed in &deeds {
            story.act(deed);
        }
        for point in (0..story.points.len()).chain((0..story.points.len()).rev()) {
            story.rewind(point, false);
        }
    }

    #[test]
    fn rewind_then_undo_is_identity(deeds in deeds(), point in 0..8usize, both in any::<bool>()) {
        let mut story = Story::new();
        for deed in &deeds {
            story.act(deed);
        }
        let (tree, conversation) = (story.tree(), story.session.conversation("").unwrap());
        story.session.scratchpad().set("k", "now").unwrap();
        let (uuid, ..) = story.points[point % story.points.len()].clone();
        let restore = if both { Restore::Both } else { Restore::Files };
        let plan = story.session.plan_rewind(&RewindOptions::to(uuid).restore(restore)).unwrap();
        let report = story.session.rewind(&plan).unwrap();
        if let Some(operation) = report.operation {
            story.session.undo(Some(operation)).unwrap();
        }
        prop_assert_eq!(story.tree(), tree);
        let now = story.session.conversation("").unwrap();
        let uuids = |of: &turnkeep::Conversation| -> Vec<String> {
            of.entries.iter().map(|entry| entry.uuid.clone()).collect()
        };
        prop_assert_eq!(uuids(&now), uuids(&conversation));
        prop_assert_eq!(story.session.scratchpad().get("k").unwrap(), Some(json!("now")));
    }

    #[test]
    fn what_others_change_stays(deeds in deeds(), point in 0..8usize, path in 0..PATHS.len()) {
        let mut story = Story::new();
        for deed in &deeds {
            story.act(deed);
        }
        let mine = story.work().join(PATHS[path]);
        write(&mine, 0);
        fs::write(&mine, "mine\n").unwrap();
        let (uuid, wanted, _) = story.points[point % story.points.len()].clone();
        let options = RewindOptions::to(uuid).restore(Restore::Files);
        let session = &story.session;
        // What nobody recorded the end of is taken as the call's own.
        let unsure = deeds.iter().any(|deed| matches!(deed, Deed::WriteWithoutAfter(..)));
        let report = session.rewind(&session.plan_rewind(&options).unwrap()).unwrap();
        let now = story.tree();
        if !unsure {
            prop_assert_eq!(now.get(PATHS[path]).map(Vec::as_slice), Some(&b"mine\n"[..]), "{:#?}", report);
        }
        for other in PATHS.iter().filter(|other| **other != PATHS[path]) {
            prop_assert_eq!(now.get(*other), wanted.get(*other));
        }
    }

    #[test]
    fn a_fork_rewinds_to_what_it_inherits(deeds in deeds(), point in 0..8usize) {
        let mut story = Story::new();
        for deed in &deeds {
            story.act(deed);
        }
        let fork = story.session.fork(&ForkOptions::new()).unwrap();
        let before = story.tree();
        let shown: Vec<_> = fork.files().points().unwrap();
        // The points that are prompts of the conversation, under their new names.
        let prompts: Vec<_> = shown.iter().filter(|point| point.text.is_some()).collect();
        let chosen = prompts[point % prompts.len()];
        let text = chosen.text.clone().unwrap();
        let index: usize = text.trim_start_matches("prompt ").parse().unwrap();
        let options = RewindOptions::to(&chosen.id).restore(Restore::Files).while_pending(true);
        let report = fork.rewind(&fork.plan_rewind(&options).unwrap()).unwrap();
        prop_assert!(!report.is_partial(), "{:#?}", report);
        prop_assert_eq!(story.tree(), story.points[index].1.clone());
        if let Some(operation) = report.operation {
            fork.undo(Some(operation)).unwrap();
        }
        prop_assert_eq!(story.tree(), before);
        drop(story.store.clone());
    }

    #[test]
    fn nobody_elses_edit_is_ever_undone(script in script()) {
        let mut story = Story::new();
        let new = NewSession::in_project("p").id("other").cwd(story.work().to_str().unwrap());
        let other = story.store.sessions().create(new).unwrap();
        other.messages().append(NewMessage::user("theirs")).unwrap();
        let mut account = Account::default();
        for (number, (who, path, text)) in script.into_iter().enumerate() {
            let file = story.work().join(PATHS[path]);
            account.note(who, path, story.points.len());
            match who {
                Who::Session => story.act(&Deed::Write(path, text, None)),
                Who::Other => {
                    let call = format!("theirs-{number}");
                    other.files().before(call.as_str(), [&file]).unwrap();
                    write(&file, text);
                    other.files().after(call.as_str(), [&file]).unwrap();
                }
                Who::User => {
                    // What nobody else ever writes: only then can it be told apart.
                    write(&file, text);
                    fs::write(&file, format!("mine {number}\n")).unwrap();
                }
                Who::Prompt => story.prompt(),
                Who::Rewinds => {
                    let point = usize::from(text) % story.points.len();
                    assert_only_own_changes_go(&mut story, &account, point);
                }
            }
        }
        for point in 0..story.points.len() {
            assert_only_own_changes_go(&mut story, &account, point);
        }
    }
}

/// Who does something in a script.
#[derive(Clone, Copy, Debug)]
enum Who {
    Session,
    Other,
    User,
    Prompt,
    Rewinds,
}

fn script() -> impl Strategy<Value = Vec<(Who, usize, u8)>> {
    let who = prop_oneof![
        4 => Just(Who::Session),
        2 => Just(Who::Other),
        2 => Just(Who::User),
        2 => Just(Who::Prompt),
        1 => Just(Who::Rewinds),
    ];
    proptest::collection::vec((who, 0..PATHS.len(), any::<u8>()), 1..24)
}

/// Who wrote each path last, and how many prompts there were when somebody else than the session did.
#[derive(Default)]
struct Account {
    last: BTreeMap<&'static str, Who>,
    foreign: BTreeMap<&'static str, usize>,
}

impl Account {
    fn note(&mut self, who: Who, path: usize, points: usize) {
        if matches!(who, Who::Session | Who::Other | Who::User) {
            self.last.insert(PATHS[path], who);
        }
        if matches!(who, Who::Other | Who::User) {
            self.foreign.insert(PATHS[path], points);
        }
    }
}

/// Rewinds the session's files to a point: what somebody else wrote last stays, and what only the
/// session wrote since is what it was. Then takes that back, which gives exactly what was there.
fn assert_only_own_changes_go(story: &mut Story, account: &Account, point: usize) {
    let (uuid, wanted, _) = story.points[point].clone();
    let before = story.tree();
    let options = RewindOptions::to(uuid).restore(Restore::Files);
    let report = story
        .session
        .rewind(&story.session.plan_rewind(&options).unwrap())
        .unwrap();
    let after = story.tree();
    for path in PATHS {
        let (was, is) = (before.get(path), after.get(path));
        if matches!(account.last.get(path), Some(Who::Other | Who::User)) {
            assert_eq!(was, is, "{path} was somebody else's: {report:#?}");
        }
        if account
            .foreign
            .get(path)
            .is_none_or(|points| *points <= point)
        {
            assert_eq!(is, wanted.get(path), "{path}: {report:#?}");
        }
    }
    if let Some(operation) = report.operation {
        assert!(!story.session.undo(Some(operation)).unwrap().is_partial());
    }
    assert_eq!(story.tree(), before);
}
