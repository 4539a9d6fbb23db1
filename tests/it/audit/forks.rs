//! What forks did differently, and taking a file over.

use std::fs;

use turnkeep::{
    ChangeFilter, ChangeSource, DiffKind, Effect, FileAction, ForkOptions, LineOrigin, NewMessage,
    NewSession, Restore, RewindOptions, Session, TakeOptions,
};

use super::small::Desk;

/// A session with a file, and a fork of it that works in a folder of its own.
fn fork_with_a_root(desk: &Desk, origin: &Session) -> Session {
    let root = desk.folder.path().canonicalize().unwrap().join("other");
    fs::create_dir_all(&root).unwrap();
    let options = ForkOptions::new().cwd(root.to_str().unwrap());
    let fork = origin.fork(&options).unwrap();
    fork.files().add_root(&root).unwrap();
    fork
}

fn write_at(session: &Session, id: &str, path: &std::path::Path, text: &str) {
    session
        .write(|tx| {
            tx.before(id, [path])?;
            fs::write(path, text).unwrap();
            tx.after(id, [path])
        })
        .unwrap();
}

fn names(session: &Session, other: &Session) -> Vec<(String, bool, bool)> {
    let found = session.compare(other).unwrap();
    let files = found.files.iter().map(|file| {
        let name = file
            .diff
            .path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        (name, file.changed_left, file.changed_right)
    });
    files.collect()
}

#[test]
fn talk_and_files_of_two_forks_are_told_apart() {
    let desk = Desk::new();
    let origin = desk.session("origin");
    desk.prompt(&origin, "first");
    desk.write(&origin, &[("f", Some(b"1\n")), ("same", Some(b"s\n"))]);
    let fork = origin.fork(&ForkOptions::new()).unwrap();
    desk.prompt(&origin, "on here");
    desk.write(&origin, &[("f", Some(b"1\nhere\n"))]);
    desk.prompt(&fork, "on there");
    desk.write(&fork, &[("new", Some(b"n\n"))]);
    desk.write(&fork, &[("g", Some(b"g\n"))]);
    desk.write(&fork, &[("g", None)]);
    let found = origin.compare(&fork).unwrap();
    assert_eq!(
        (found.common, found.left.len(), found.right.len()),
        (3, 3, 7)
    );
    let (one, two) = found.last_common.unwrap();
    assert_ne!(one, two);
    assert_eq!(fork.conversation("").unwrap().entries[2].uuid, two);
    assert!(found.left[0].entry.contains("on here") && found.right[0].entry.contains("on there"));
    assert_eq!(
        names(&origin, &fork),
        [
            ("f".to_owned(), true, false),
            ("new".to_owned(), false, true)
        ]
    );
    // The fork holds what it inherited: it never saw the other's line.
    let f = &found.files[0].diff;
    assert_eq!(
        (f.kind, f.insertions, f.deletions),
        (DiffKind::Modified, Some(0), Some(1))
    );
    assert_eq!(found.files[1].diff.kind, DiffKind::Added);
    let back = fork.compare(&origin).unwrap();
    assert_eq!(
        (back.left.len(), back.right.len(), back.files.len()),
        (7, 3, 2)
    );
    let sibling = origin.fork(&ForkOptions::new()).unwrap();
    assert_eq!(names(&fork, &sibling).len(), 2);
    assert!(names(&origin, &sibling).is_empty());
    let other = desk.session("other");
    let error = origin.compare(&other).unwrap_err();
    assert!(error.to_string().contains("no common origin"), "{error}");
}

#[test]
fn a_file_of_another_fork_is_taken_over_and_given_back() {
    let desk = Desk::new();
    let origin = desk.session("origin");
    desk.prompt(&origin, "first");
    let first = desk.write(&origin, &[("f", Some(b"1\n2\n"))]);
    let fork = fork_with_a_root(&desk, &origin);
    let theirs = desk.folder.path().canonicalize().unwrap().join("other/f");
    fs::write(&theirs, "1\n2\n").unwrap();
    let point = desk.prompt(&fork, "there");
    write_at(&fork, "t_fork", &theirs, "1\nzwei\n");
    // It is found under its own root.
    let found = origin.compare(&fork).unwrap();
    assert_eq!(found.files.len(), 1);
    assert_eq!(
        (&found.files[0].diff.path, &found.files[0].other_path),
        (&desk.path("f"), &theirs)
    );
    let plan = origin
        .files()
        .plan_take(&fork, &TakeOptions::file("f"))
        .unwrap();
    assert_eq!(plan.report().files[0].action, FileAction::Restore);
    assert_eq!(fs::read(desk.path("f")).unwrap(), b"1\n2\n");
    let done = origin.files().take("f", &fork, None).unwrap();
    assert_eq!(fs::read(desk.path("f")).unwrap(), b"1\nzwei\n");
    assert!(names(&origin, &fork).is_empty());
    let last = desk.changes("f").pop().unwrap();
    assert_eq!(
        (last.source, last.operation),
        (ChangeSource::Take, done.operation)
    );
    assert_eq!(last.effect, Effect::InEffect);
    // Its lines are whose they are: those that were here already, and those from there.
    let blame = desk.store.audit().blame(desk.path("f")).unwrap();
    let calls: Vec<Option<String>> = blame
        .lines
        .iter()
        .map(|line| match blame.origin(line.number) {
            Some(LineOrigin::Change { change }) => Some(change.call.clone().unwrap().id),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [Some(first.clone()), Some("t_fork".to_owned())]);
    // The model is told, until it is undone.
    let told = |session: &Session| {
        let context = serde_json::to_string(&session.context("").unwrap().messages).unwrap();
        context.contains("replaced by those of session")
    };
    assert!(told(&origin));
    origin.undo(None).unwrap();
    assert_eq!(fs::read(desk.path("f")).unwrap(), b"1\n2\n");
    assert!(!told(&origin));
    let changes = desk.changes("f");
    assert_eq!(
        (changes[0].effect, changes[1].effect),
        (Effect::InEffect, Effect::Rewound)
    );
    // As it was at a point of the other: the same as here.
    let same = origin.files().take("f", &fork, Some(&point)).unwrap();
    assert_eq!(
        (same.operation, same.files[0].action),
        (None, FileAction::Unchanged)
    );
}

#[test]
fn what_somebody_else_changed_is_not_taken_over() {
    let desk = Desk::new();
    let origin = desk.session("origin");
    desk.prompt(&origin, "first");
    desk.write(&origin, &[("f", Some(b"1\n"))]);
    let fork = origin.fork(&ForkOptions::new()).unwrap();
    desk.write(&fork, &[("f", Some(b"2\n")), ("g", Some(b"g\n"))]);
    let state = |name: &str| fs::read(desk.path(name)).unwrap();
    fs::write(desk.path("f"), "by hand\n").unwrap();
    let left = origin.files().take("f", &fork, None).unwrap();
    assert_eq!(
        (left.conflicts.len(), state("f")),
        (1, b"by hand\n".to_vec())
    );
    let third = desk.session("third");
    desk.write(&third, &[("f", Some(b"3\n"))]);
    let left = origin.files().take("f", &fork, None).unwrap();
    let reason = left.files[0].reason.clone().unwrap();
    assert_eq!(
        (reason.as_str(), state("f")),
        ("a third session changed it last", b"3\n".to_vec())
    );
    let options = TakeOptions::file("f").force(true);
    let done = origin
        .rewind(&origin.files().plan_take(&fork, &options).unwrap())
        .unwrap();
    assert_eq!(state("f"), b"2\n");
    origin.undo(done.operation).unwrap();
    assert_eq!(state("f"), b"3\n");
    // What the fork wrote into the same folder is there already.
    let same = origin.files().take("g", &fork, None).unwrap();
    assert_eq!(same.files[0].action, FileAction::Unchanged);
    let error = origin.files().take("never", &fork, None).unwrap_err();
    assert!(
        error.to_string().contains("no change of the file"),
        "{error}"
    );
    let now = origin.files().take("f", &fork, Some("now")).unwrap_err();
    assert!(now.to_string().contains("not from the disk"), "{now}");
    // An open call of the taker is respected.
    let block = serde_json::json!([{"type": "tool_use", "id": "open", "name": "X", "input": {}}]);
    origin
        .messages()
        .append(NewMessage::assistant(block))
        .unwrap();
    assert!(origin.files().take("f", &fork, None).is_err());
    let elsewhere = tempfile::tempdir().unwrap();
    let store = turnkeep::Store::open(elsewhere.path().join("store.db")).unwrap();
    let stranger = store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    assert!(origin.files().take("f", &stranger, None).is_err());
    assert!(origin.compare(&stranger).is_err());
}

#[test]
fn a_fork_of_a_fork_shows_what_its_origin_shows() {
    let desk = Desk::new();
    let first = desk.session("a");
    let prompt = desk.prompt(&first, "write it");
    desk.write(&first, &[("f", Some(b"one\n"))]);
    let second = fork_with_a_root(&desk, &first);
    let options = RewindOptions::to(&prompt).restore(Restore::Files);
    let plan = first.plan_rewind(&options).unwrap();
    first.rewind(&plan).unwrap();
    let shown = |session: &Session| {
        let filter = ChangeFilter::new().session(session.key());
        let told = desk.store.audit().changes(&filter, None, 9).unwrap();
        let ids: Vec<i64> = told.changes.iter().map(|change| change.id).collect();
        ids
    };
    let last = second.conversation("").unwrap().entries.pop().unwrap().uuid;
    let whole = second.fork(&ForkOptions::new()).unwrap();
    let cut = second.fork(&ForkOptions::new().up_to(last)).unwrap();
    assert_eq!(shown(&second).len(), 1);
    assert_eq!(shown(&whole), shown(&second));
    assert_eq!(shown(&cut), shown(&second));
    assert_eq!(names(&second, &cut), []);
    // Once the first is deleted nobody shows its rewind.
    first.delete().unwrap();
    assert_eq!(desk.changes("f").len(), 1);
    assert_eq!(shown(&cut).len(), 1);
}
