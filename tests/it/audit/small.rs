//! The audit's definitions, one by one.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use turnkeep::{
    Change, ChangeFilter, Effect, FileOptions, ForkOptions, NewMessage, NewSession, NewsCursor,
    Session, StateKind, Store,
};

/// A work folder, a store, and calls that change files there.
pub struct Desk {
    pub folder: tempfile::TempDir,
    pub store: Store,
    calls: std::cell::Cell<usize>,
}

impl Desk {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        let store = Store::open(folder.path().join("store.db")).unwrap();
        Self {
            folder,
            store,
            calls: std::cell::Cell::new(0),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder
            .path()
            .canonicalize()
            .unwrap()
            .join("work")
            .join(name)
    }

    pub fn session(&self, id: &str) -> Session {
        let work = self.path("");
        let new = NewSession::in_project("shop")
            .id(id)
            .cwd(work.to_str().unwrap());
        self.store.sessions().get_or_create(new).unwrap()
    }

    pub fn prompt(&self, session: &Session, text: &str) -> String {
        session
            .messages()
            .append(NewMessage::user(text))
            .unwrap()
            .uuid
    }

    /// A call that leaves these contents; its id.
    pub fn write(&self, session: &Session, files: &[(&str, Option<&[u8]>)]) -> String {
        let paths: Vec<PathBuf> = files.iter().map(|(name, _)| self.path(name)).collect();
        self.call(session, &paths, || {
            for (name, content) in files {
                match content {
                    Some(content) => fs::write(self.path(name), content).unwrap(),
                    None => fs::remove_file(self.path(name)).unwrap(),
                }
            }
        })
    }

    pub fn call(&self, session: &Session, paths: &[PathBuf], work: impl FnOnce()) -> String {
        self.calls.set(self.calls.get() + 1);
        let id = format!("toolu_{}", self.calls.get());
        let block = json!([{"type": "tool_use", "id": id, "name": "Write", "input": {}}]);
        session
            .messages()
            .append(NewMessage::assistant(block))
            .unwrap();
        session.files().before(id.as_str(), paths).unwrap();
        work();
        session.files().after(id.as_str(), paths).unwrap();
        session
            .messages()
            .append(NewMessage::tool_result(&id, "done"))
            .unwrap();
        id
    }

    /// The changes of a file, oldest first.
    pub fn changes(&self, name: &str) -> Vec<Change> {
        let filter = ChangeFilter::new().path(self.path(name));
        let mut page = self.store.audit().changes(&filter, None, 100).unwrap();
        page.changes.reverse();
        page.changes
    }

    pub fn effects(&self, name: &str) -> Vec<Effect> {
        self.changes(name)
            .iter()
            .map(|change| change.effect)
            .collect()
    }
}

#[test]
fn a_change_of_other_lines_leaves_the_first_in_effect() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"1\n2\n3\n4\n"))]);
    desk.write(&session, &[("f", Some(b"1\n2\n3\n4\nfive\n"))]);
    assert_eq!(desk.effects("f"), [Effect::InEffect, Effect::InEffect]);
    desk.write(&session, &[("f", Some(b"one\n2\n3\n4\nfive\n"))]);
    assert_eq!(desk.effects("f")[..2], [Effect::InPart, Effect::InEffect]);
    desk.write(&session, &[("f", Some(b"one\n"))]);
    let changes = desk.changes("f");
    assert_eq!(
        desk.effects("f")[..3],
        [Effect::Overwritten, Effect::Overwritten, Effect::InEffect]
    );
    assert_eq!(changes[1].ended_by, Some(changes[3].id));
    assert_eq!(
        (changes[3].insertions, changes[3].deletions),
        (Some(0), Some(4))
    );
    // Lines that are back take the removal of them back.
    desk.write(&session, &[("f", Some(b"one\n2\n3\n4\nfive\n"))]);
    assert_eq!(desk.effects("f")[3], Effect::Overwritten);
}

#[test]
fn what_is_no_text_is_told_by_hash_and_size() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"a\0b"))]);
    desk.write(&session, &[("f", Some(b"a\0bc"))]);
    let changes = desk.changes("f");
    let last = &changes[1];
    assert_eq!((last.insertions, last.deletions), (None, None));
    assert_eq!(
        (last.before.bytes, last.after.as_ref().unwrap().bytes),
        (Some(3), Some(4))
    );
    let hash = blake3::hash(b"a\0b").to_hex().to_string();
    assert_eq!(last.before.hash.as_deref(), Some(hash.as_str()));
    assert_eq!(desk.effects("f"), [Effect::Overwritten, Effect::InEffect]);
}

#[cfg(unix)]
#[test]
fn modes_links_and_empty_files_have_effects_too() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let desk = Desk::new();
    let session = desk.session("a");
    let path = desk.path("f");
    let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    desk.call(&session, std::slice::from_ref(&path), || {
        fs::write(&path, b"").unwrap();
    });
    desk.call(&session, std::slice::from_ref(&path), || set(0o755));
    assert_eq!(desk.effects("f"), [Effect::InEffect, Effect::InEffect]);
    assert_eq!(
        desk.changes("f")[1].after.as_ref().unwrap().mode,
        Some(0o755)
    );
    desk.call(&session, std::slice::from_ref(&path), || set(0o700));
    assert_eq!(desk.effects("f")[1], Effect::Overwritten);
    desk.call(&session, std::slice::from_ref(&path), || {
        fs::remove_file(&path).unwrap();
        symlink("elsewhere", &path).unwrap();
    });
    let last = desk.changes("f").pop().unwrap();
    let after = last.after.unwrap();
    assert_eq!(
        (after.kind, after.target),
        (StateKind::Symlink, Some(PathBuf::from("elsewhere")))
    );
    let ends = [
        Effect::Overwritten,
        Effect::Overwritten,
        Effect::Overwritten,
        Effect::InEffect,
    ];
    assert_eq!(desk.effects("f"), ends);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_folder_stands_for_the_folder() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::create_dir(desk.path("real")).unwrap();
    std::os::unix::fs::symlink("real", desk.path("link")).unwrap();
    desk.write(&session, &[("real/f", Some(b"1\n"))]);
    let audit = desk.store.audit();
    let filter = ChangeFilter::new().path(desk.path("link"));
    assert_eq!(audit.changes(&filter, None, 9).unwrap().changes.len(), 1);
    assert_eq!(
        audit.files(desk.path("link")).unwrap(),
        [desk.path("real/f")]
    );
    assert_eq!(audit.sessions_of(desk.path("link")).unwrap().len(), 1);
}

#[test]
fn what_is_not_known_is_said_to_be_unknown() {
    let desk = Desk::new();
    let store = Store::open(desk.store.path()).unwrap();
    let store = store.with_files(FileOptions::new().exclude("*.key"));
    let session = store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    fs::write(desk.path("f"), "1\n").unwrap();
    session
        .files()
        .before("toolu_open", [desk.path("f")])
        .unwrap();
    let change = desk.changes("f").pop().unwrap();
    assert_eq!(
        (change.effect, change.after, change.insertions),
        (Effect::Unknown, None, None)
    );
    assert!(change.prompt.is_none() && change.call.unwrap().tool.is_none());
    fs::write(desk.path("a.key"), "secret").unwrap();
    session
        .files()
        .before("toolu_key", [desk.path("a.key")])
        .unwrap();
    session
        .files()
        .after("toolu_key", [desk.path("a.key")])
        .unwrap();
    let change = desk.changes("a.key").pop().unwrap();
    assert_eq!(
        (change.before.kind, change.effect),
        (StateKind::NotKept, Effect::Unknown)
    );
    assert!(change.before.reason.is_some() && change.insertions.is_none());
}

#[test]
fn a_deleted_origin_is_named_by_the_fork_that_shows_it() {
    let desk = Desk::new();
    let origin = desk.session("origin");
    desk.prompt(&origin, "write it");
    desk.write(&origin, &[("f", Some(b"1\n"))]);
    let fork = origin.fork(&ForkOptions::new()).unwrap();
    desk.write(&fork, &[("f", Some(b"1\n2\n"))]);
    origin.delete().unwrap();
    let filter = ChangeFilter::new().session(fork.key());
    let told = desk
        .store
        .audit()
        .changes(&filter, None, 10)
        .unwrap()
        .changes;
    let marks: Vec<_> = told
        .iter()
        .map(|change| {
            (
                change.session.session_id.as_str(),
                change.is_inherited,
                change.is_deleted,
            )
        })
        .collect();
    assert_eq!(marks, [(fork.id(), false, false), ("origin", true, true)]);
    let prompt = told[1].prompt.as_ref().unwrap();
    assert_eq!(prompt.text.as_deref(), Some("write it"));
    assert_eq!(fork.conversation("").unwrap().entries[0].uuid, prompt.uuid);
    fork.delete().unwrap();
    assert!(desk.changes("f").is_empty());
}

#[test]
fn a_change_is_told_again_once_it_is_known_what_it_left() {
    let desk = Desk::new();
    let session = desk.session("a");
    let audit = desk.store.audit();
    let filter = ChangeFilter::new();
    let start = audit.now().unwrap();
    session.files().before("toolu_1", [desk.path("f")]).unwrap();
    let first = audit.news(&start, &filter, 10).unwrap();
    assert_eq!(first.changes.len(), 1);
    assert!(first.changes[0].after.is_none());
    desk.prompt(&session, "and now?");
    let second = audit.news(&first.cursor, &filter, 10).unwrap();
    assert!(second.changes.is_empty());
    assert_eq!(second.entries.unwrap().len(), 1);
    // A look that begins later knows of the open one too.
    let late: NewsCursor = audit.now().unwrap().to_string().parse().unwrap();
    fs::write(desk.path("f"), "1\n").unwrap();
    session.files().after("toolu_1", [desk.path("f")]).unwrap();
    for cursor in [second.cursor, late] {
        let third = audit.news(&cursor, &filter, 10).unwrap();
        assert_eq!(third.changes.len(), 1);
        assert!(third.changes[0].after.is_some());
        assert!(
            audit
                .news(&third.cursor, &filter, 10)
                .unwrap()
                .changes
                .is_empty()
        );
    }
    // Only what concerns the filter, and no messages where they cannot meet it.
    let other = desk.session("b");
    desk.write(&other, &[("g", Some(b"1\n"))]);
    let of_a = audit
        .news(&start, &filter.clone().session(session.key()), 10)
        .unwrap();
    assert_eq!(of_a.changes.len(), 1);
    assert!(
        of_a.entries
            .unwrap()
            .iter()
            .all(|message| message.session == *session.key())
    );
    let of_g = audit
        .news(&start, &filter.path(desk.path("g")), 10)
        .unwrap();
    assert_eq!((of_g.changes.len(), of_g.entries), (1, None));
}

#[test]
fn a_filter_that_names_nothing_there_is_told_so() {
    let desk = Desk::new();
    let session = desk.session("a");
    let audit = desk.store.audit();
    let filter = ChangeFilter::new().session(session.key()).turn("nope");
    let error = audit.changes(&filter, None, 1).unwrap_err();
    assert_eq!(error.to_string(), "no turn `nope` in session `shop/a`");
    assert!(audit.change(7).unwrap().is_none());
    let filter = ChangeFilter::new().turn("nope");
    let error = audit.changes(&filter, None, 1).unwrap_err();
    assert_eq!(error.to_string(), "no turn `nope`");
}
