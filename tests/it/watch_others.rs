//! What others do to files while a command is watched is theirs.

use std::fs;

use serde_json::json;
use turnkeep::{
    ChangeFilter, FileAction, LineOrigin, NewMessage, NewSession, Restore, RewindOptions, Session,
    ToolRef, WatchOptions, Watched,
};

use crate::file_watch::{Desk, desk};

/// Another session at work in the same folder.
fn other(desk: &Desk) -> Session {
    let work = desk.path("");
    let new = NewSession::in_project("p")
        .id("other")
        .cwd(work.to_str().unwrap());
    desk.store.sessions().get_or_create(new).unwrap()
}

fn edit(desk: &Desk, session: &Session, id: &str, name: &str, text: &str) {
    session.files().before(id, [desk.path(name)]).unwrap();
    fs::write(desk.path(name), text).unwrap();
    session.files().after(id, [desk.path(name)]).unwrap();
}

/// Watches a command of the desk's session.
fn watched(desk: &Desk, id: &str, work: impl FnOnce()) -> Watched {
    let block = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
    let call = NewMessage::assistant(block);
    desk.session.messages().append(call).unwrap();
    let watch = desk
        .session
        .files()
        .watch(ToolRef::new(id), &WatchOptions::new());
    let watch = watch.unwrap();
    work();
    let watched = watch.finish().unwrap();
    let result = NewMessage::tool_result(id, "done");
    desk.session.messages().append(result).unwrap();
    watched
}

/// Rewinds the desk's session to where it began, without force.
fn back(desk: &Desk) -> Vec<(String, FileAction)> {
    let options = RewindOptions::to(&desk.point)
        .restore(Restore::Files)
        .while_pending(true);
    let plan = desk.session.plan_rewind(&options).unwrap();
    let report = desk.session.rewind(&plan).unwrap();
    let files = report.files.into_iter();
    files
        .map(|file| {
            let name = file
                .path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned();
            (name, file.action)
        })
        .collect()
}

fn writers(desk: &Desk, name: &str) -> Vec<String> {
    let blame = desk.store.audit().blame(desk.path(name)).unwrap();
    let origins = blame.lines.iter().map(|line| &blame.origins[line.origin]);
    origins
        .map(|origin| match origin {
            LineOrigin::Change { change } => change.call.as_ref().unwrap().id.clone(),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn what_another_session_recorded_meanwhile_is_not_taken_back() {
    let desk = desk();
    let other = other(&desk);
    // One that began ahead of the command, and two within.
    other.files().before("o0", [desk.path("early")]).unwrap();
    let watched = watched(&desk, "w", || {
        fs::write(desk.path("early"), "theirs\n").unwrap();
        other.files().after("o0", [desk.path("early")]).unwrap();
        edit(&desk, &other, "o1", "new", "theirs\n");
        edit(&desk, &other, "o2", "a.txt", "theirs\n");
        fs::write(desk.path("mine"), "mine\n").unwrap();
    });
    assert_eq!(watched.changed, [desk.path("mine").canonicalize().unwrap()]);
    assert_eq!(watched.not_covered, []);
    assert_eq!(
        watched.warnings,
        ["3 file(s) were changed by session `p/other` meanwhile, and are recorded as its own"]
    );
    for (name, writer) in [("early", "o0"), ("new", "o1"), ("a.txt", "o2")] {
        assert_eq!(writers(&desk, name), [writer]);
        let filter = ChangeFilter::new().path(desk.path(name));
        let told = desk.store.audit().changes(&filter, None, 9).unwrap();
        assert_eq!(told.changes.len(), 1, "{name}");
    }
    assert_eq!(back(&desk), [("mine".to_owned(), FileAction::Delete)]);
    for name in ["early", "new", "a.txt"] {
        assert_eq!(fs::read_to_string(desk.path(name)).unwrap(), "theirs\n");
    }
}

#[test]
fn what_the_command_did_behind_them_is_its_own() {
    let desk = desk();
    let other = other(&desk);
    watched(&desk, "w", || {
        edit(&desk, &other, "o1", "a.txt", "theirs\n");
        fs::write(desk.path("a.txt"), "theirs\nmine\n").unwrap();
    });
    assert_eq!(writers(&desk, "a.txt"), ["o1", "w"]);
    assert_eq!(back(&desk), [("a.txt".to_owned(), FileAction::Restore)]);
    assert_eq!(fs::read_to_string(desk.path("a.txt")).unwrap(), "theirs\n");
}

#[test]
fn what_is_still_being_changed_is_nobodys_yet() {
    let desk = desk();
    let other = other(&desk);
    let watched = watched(&desk, "w", || {
        other.files().before("o1", [desk.path("a.txt")]).unwrap();
        fs::write(desk.path("a.txt"), "whose?\n").unwrap();
    });
    assert!(watched.changed.is_empty());
    assert_eq!(
        watched.not_covered[0].reason,
        "another call was changing them too"
    );
    other.files().after("o1", [desk.path("a.txt")]).unwrap();
    assert_eq!(back(&desk), []);
    assert_eq!(fs::read_to_string(desk.path("a.txt")).unwrap(), "whose?\n");
}

#[test]
fn another_call_of_the_session_is_told_once() {
    let desk = desk();
    watched(&desk, "w", || {
        edit(&desk, &desk.session, "mine", "a.txt", "edited\n");
    });
    let filter = ChangeFilter::new().path(desk.path("a.txt"));
    let told = desk.store.audit().changes(&filter, None, 9).unwrap();
    assert_eq!(told.changes.len(), 1);
    assert_eq!(writers(&desk, "a.txt"), ["mine"]);
}

#[test]
fn two_commands_at_once_are_warned_of() {
    let desk = desk();
    let other = other(&desk);
    let theirs = other
        .files()
        .watch(ToolRef::new("o"), &WatchOptions::new())
        .unwrap();
    let watched = watched(&desk, "w", || {
        fs::write(desk.path("a.txt"), "by one of them\n").unwrap();
    });
    assert!(watched.warnings[0].contains("p/other"), "{watched:?}");
    assert!(
        watched.warnings[0].contains("cannot be told"),
        "{watched:?}"
    );
    assert!(theirs.finish().unwrap().changed.is_empty());
}
