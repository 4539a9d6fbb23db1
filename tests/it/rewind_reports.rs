//! What a plan and a rewind say of themselves.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use turnkeep::{
    ErrorKind, FileAction, FileOutcome, FileState, NewMessage, NewSession, Restore, RewindOptions,
    Session,
};

use crate::kit::TestStore;

/// A session at work in the test's folder.
fn session(test: &TestStore) -> Session {
    let cwd = test.folder.path().canonicalize().unwrap();
    let new = NewSession::in_project("p").cwd(cwd.to_str().unwrap());
    test.store.sessions().create(new).unwrap()
}

fn prompt(session: &Session) -> String {
    let message = NewMessage::user("go");
    session.messages().append(message).unwrap().uuid
}

fn write(test: &TestStore, session: &Session, call: &str, name: &str, content: &str) {
    session.files().before(call, [name]).unwrap();
    fs::write(test.path(name), content).unwrap();
    session.files().after(call, [name]).unwrap();
}

fn path(test: &TestStore, name: &str) -> PathBuf {
    test.folder.path().canonicalize().unwrap().join(name)
}

#[test]
fn a_rewind_that_does_not_begin_says_that_the_conversation_is_where_it_was() {
    let test = TestStore::new();
    let session = session(&test);
    let point = prompt(&session);
    write(&test, &session, "t1", "a.txt", "1\n");
    write(&test, &session, "t2", "b.txt", "1\n");
    let said = NewMessage::assistant("done");
    let head = session.messages().append(said).unwrap().uuid;
    fs::write(test.path("a.txt"), "by the user\n").unwrap();
    let options = RewindOptions::to(&point);
    let plan = session.plan_rewind(&options).unwrap();
    let done = session.rewind(&plan).unwrap();
    for report in [plan.report(), &done] {
        assert_eq!(report.head.as_ref(), Some(&head));
        assert_eq!((report.operation, report.conversation_moved), (None, false));
        assert_eq!(report.removed_prompt, None);
    }
    assert!(
        done.files
            .iter()
            .all(|file| file.outcome == FileOutcome::Left)
    );
    // A part is accepted: it would move, and does.
    let plan = session.plan_rewind(&options.accept_part(true)).unwrap();
    let done = session.rewind(&plan).unwrap();
    for report in [plan.report(), &done] {
        assert_eq!(
            (report.head.as_ref(), report.conversation_moved),
            (None, true)
        );
        assert_eq!(report.removed_prompt.as_deref(), Some("go"));
    }
}

#[test]
fn a_rewind_with_nothing_to_do_says_what_came_of_each_file() {
    let test = TestStore::new();
    let session = session(&test);
    let point = prompt(&session);
    write(&test, &session, "t1", "a.txt", "1\n");
    write(&test, &session, "t2", "b.txt", "1\n");
    fs::remove_file(test.path("a.txt")).unwrap();
    let files = RewindOptions::to(&point)
        .restore(Restore::Files)
        .only("a.txt");
    let plan = session.plan_rewind(&files).unwrap();
    assert_eq!(plan.report().files[0].outcome, FileOutcome::Planned);
    let done = session.rewind(&plan).unwrap();
    assert_eq!((done.operation, done.files.len()), (None, 1));
    assert_eq!(done.files[0].action, FileAction::Unchanged);
    assert_eq!(done.files[0].outcome, FileOutcome::Done);
    assert!(!done.is_partial());

    // The same where a part is accepted and all that is left is in the way.
    let both = RewindOptions::to(&point).accept_part(true);
    session
        .rewind(&session.plan_rewind(&both).unwrap())
        .unwrap();
    fs::write(test.path("b.txt"), "by the user\n").unwrap();
    let done = session
        .rewind(&session.plan_rewind(&both).unwrap())
        .unwrap();
    assert_eq!(done.operation, None);
    let left = done
        .files
        .iter()
        .find(|file| file.path == path(&test, "b.txt"));
    let left = left.unwrap();
    assert_eq!(
        (left.action, left.outcome),
        (FileAction::Conflict, FileOutcome::Left)
    );
}

#[test]
fn a_phase_is_stale_only_if_a_file_of_it_was_taken_back() {
    let test = TestStore::new();
    let session = session(&test);
    let point = prompt(&session);
    let task = session.task("release", ["build"]).unwrap();
    task.run("build", |run| {
        write(&test, &session, "t1", "a.txt", "1\n");
        run.note_change("a.txt")?;
        Ok::<_, turnkeep::Error>(json!(1))
    })
    .unwrap();
    let files = RewindOptions::to(&point).restore(Restore::Files);
    let plan = session.plan_rewind(&files).unwrap();
    assert_eq!(plan.report().stale_phases, ["release/build"]);
    // Somebody edits it between the plan and the rewind's first step: nothing is done.
    fs::write(test.path("a.txt"), "by the user\n").unwrap();
    let refused = session.rewind(&plan).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    let plan = session.plan_rewind(&files).unwrap();
    let done = session.rewind(&plan).unwrap();
    assert_eq!(done.stale_phases, Vec::<String>::new());
    fs::write(test.path("a.txt"), "1\n").unwrap();
    let plan = session.plan_rewind(&files).unwrap();
    let done = session.rewind(&plan).unwrap();
    assert_eq!(done.stale_phases, ["release/build"]);
}

#[test]
fn a_plan_shows_what_each_file_holds_and_is_to_hold() {
    let test = TestStore::new();
    let session = session(&test);
    fs::write(test.path("a.txt"), "0\n").unwrap();
    fs::write(test.path("twice.txt"), "0\n").unwrap();
    std::os::unix::fs::symlink("a.txt", test.path("link")).unwrap();
    let point = prompt(&session);
    write(&test, &session, "t1", "a.txt", "1\n");
    write(&test, &session, "t2", "made.txt", "1\n");
    write(&test, &session, "t3", "twice.txt", "1\n");
    fs::hard_link(test.path("twice.txt"), test.path("again.txt")).unwrap();
    session.files().before("t4", ["link"]).unwrap();
    fs::remove_file(test.path("link")).unwrap();
    session.files().after("t4", ["link"]).unwrap();
    let files = RewindOptions::to(&point).restore(Restore::Files);
    let plan = session.plan_rewind(&files).unwrap();
    let contents = |name: &str| plan.contents(path(&test, name));
    let content = |state: FileState| match state {
        FileState::File { content, .. } => String::from_utf8(content).unwrap(),
        other => panic!("{other:?}"),
    };
    let (now, then) = contents("a.txt").unwrap();
    assert_eq!(
        (content(now), content(then)),
        ("1\n".to_owned(), "0\n".to_owned())
    );
    let (now, then) = contents("made.txt").unwrap();
    assert_eq!((content(now), then), ("1\n".to_owned(), FileState::Absent));
    let target = PathBuf::from("a.txt");
    let link = (FileState::Absent, FileState::Symlink { target });
    assert_eq!(contents("link").unwrap(), link);
    // Of a file that is refused nothing is told, and of one that the plan does not have neither.
    let (now, then) = contents("twice.txt").unwrap();
    assert!(matches!(&now, FileState::NotKept { reason } if reason.contains("2 names")));
    assert_eq!(now, then);
    assert_eq!(
        contents("none.txt").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_rewind_that_was_undone_is_in_nobodys_way() {
    let test = TestStore::new();
    let session = session(&test);
    let point = prompt(&session);
    write(&test, &session, "t1", "a.txt", "1\n");
    let said = NewMessage::assistant("done");
    session.messages().append(said).unwrap();
    let fork = session.fork(&Default::default()).unwrap();
    let files = |point: &str| RewindOptions::to(point).restore(Restore::Files);
    let action = |session: &Session, point: &str| {
        let plan = session.plan_rewind(&files(point)).unwrap();
        plan.report().files[0].action
    };
    let rewind = |session: &Session| {
        let plan = session.plan_rewind(&files("@last")).unwrap();
        session.rewind(&plan).unwrap().operation
    };
    // Another session's rewind is a change of its own, until it is undone; done again it is one.
    let other = rewind(&fork);
    assert_eq!(action(&session, &point), FileAction::Unchanged);
    fs::write(test.path("a.txt"), "1\n").unwrap();
    assert_eq!(action(&session, &point), FileAction::Conflict);
    fs::remove_file(test.path("a.txt")).unwrap();
    let undo = fork.undo(other).unwrap().operation;
    assert_eq!(action(&session, &point), FileAction::Delete);
    let redo = fork.undo(undo).unwrap().operation;
    fs::write(test.path("a.txt"), "1\n").unwrap();
    assert_eq!(action(&session, &point), FileAction::Conflict);
    fs::remove_file(test.path("a.txt")).unwrap();
    fork.undo(redo).unwrap();
    assert_eq!(action(&session, &point), FileAction::Delete);

    // Neither is it in the way of an undo: two rewinds are taken back one by one.
    let second = prompt(&session);
    write(&test, &session, "t2", "a.txt", "2\n");
    let to = |point: &str| {
        let plan = session.plan_rewind(&files(point)).unwrap();
        session.rewind(&plan).unwrap().operation
    };
    let (nearer, farther) = (to(&second), to(&point));
    assert!(!test.path("a.txt").exists());
    session.undo(farther).unwrap();
    assert_eq!(fs::read(test.path("a.txt")).unwrap(), b"1\n");
    let undone = session.undo(nearer).unwrap();
    assert_eq!(undone.files[0].action, FileAction::Restore);
    assert_eq!(fs::read(test.path("a.txt")).unwrap(), b"2\n");
}
