//! Blame, case by case.

use std::fs;

use serde_json::json;
use turnkeep::{LineOrigin, NewMessage, Restore, RewindOptions, Session, ToolRef, WatchOptions};

use super::small::Desk;

/// Who wrote each line of a file, in short.
fn blame(desk: &Desk, name: &str) -> Vec<(String, String)> {
    let blame = desk.store.audit().blame(desk.path(name)).unwrap();
    let told = blame.lines.iter().map(|line| {
        let origin = match blame.origin(line.number).unwrap() {
            LineOrigin::Change { change } => change.call.clone().unwrap().id,
            LineOrigin::BeforeTracking => "before".to_owned(),
            LineOrigin::Outside { .. } => "outside".to_owned(),
            _ => "not kept".to_owned(),
        };
        let text = String::from_utf8(line.content.clone()).unwrap();
        (text.trim_end().to_owned(), origin)
    });
    told.collect()
}

fn assert_blame(desk: &Desk, name: &str, wanted: &[(&str, &str)]) {
    let told = blame(desk, name);
    let told: Vec<(&str, &str)> = told
        .iter()
        .map(|(line, origin)| (line.as_str(), origin.as_str()))
        .collect();
    assert_eq!(told, wanted);
}

#[test]
fn lines_keep_their_origin_through_edits_rewinds_and_undos() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::write(desk.path("f"), "old\n").unwrap();
    let one = desk.write(&session, &[("f", Some(b"one\nold\n"))]);
    let prompt = desk.prompt(&session, "more");
    let two = desk.write(&session, &[("f", Some(b"one\ntwo\n"))]);
    assert_blame(&desk, "f", &[("one", &one), ("two", &two)]);
    let options = RewindOptions::to(&prompt).restore(Restore::Files);
    let done = session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap();
    assert_blame(&desk, "f", &[("one", &one), ("old", "before")]);
    session.undo(done.operation).unwrap();
    assert_blame(&desk, "f", &[("one", &one), ("two", &two)]);
    fs::write(desk.path("f"), "one\nby hand\ntwo\n").unwrap();
    let other = desk.session("b");
    let three = desk.write(&other, &[("f", Some(b"one\nby hand\ntwo\nthree"))]);
    assert_blame(
        &desk,
        "f",
        &[
            ("one", &one),
            ("by hand", "outside"),
            ("two", &two),
            ("three", &three),
        ],
    );
    let told = desk
        .store
        .audit()
        .blame_content(desk.path("f"), b"one\nthree\n")
        .unwrap();
    assert!(matches!(
        told.origin(2),
        Some(LineOrigin::Outside { seen_by: None, .. })
    ));
    assert!(told.origin(0).is_none() && told.origin(3).is_none());
}

#[test]
fn what_was_deleted_and_comes_again_is_new() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.prompt(&session, "one");
    desk.write(&session, &[("f", Some(b"1\n"))]);
    desk.write(&session, &[("f", None)]);
    let gone = desk.store.audit().blame(desk.path("f")).unwrap();
    assert!(gone.lines.is_empty());
    fs::write(desk.path("f"), "1\n").unwrap();
    desk.prompt(&session, "two");
    let last = desk.write(&session, &[("f", Some(b"1\n2\n"))]);
    assert_blame(&desk, "f", &[("1", "outside"), ("2", &last)]);
}

#[test]
fn a_moved_file_takes_its_lines_along() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::write(desk.path("a"), "old\n").unwrap();
    desk.prompt(&session, "one");
    let first = desk.write(&session, &[("a", Some(b"old\n1\n2\n3\n"))]);
    // In one call, and changed on the way.
    desk.prompt(&session, "two");
    let second = desk.write(&session, &[("a", None), ("b", Some(b"old\n1\n2\nthree\n"))]);
    let wanted = [
        ("old", "before"),
        ("1", &*first),
        ("2", &first),
        ("three", &second),
    ];
    assert_blame(&desk, "b", &wanted);
    // In two calls of a turn, the new one first; and back again.
    desk.prompt(&session, "three");
    desk.write(&session, &[("c", Some(b"old\n1\n2\nthree\n"))]);
    desk.write(&session, &[("b", None)]);
    assert_blame(&desk, "c", &wanted);
    desk.write(&session, &[("c", None), ("a", Some(b"old\n1\n2\nthree\n"))]);
    assert_blame(&desk, "a", &wanted);
    // What has little in common is another file, and so is what comes in another turn.
    desk.prompt(&session, "four");
    let fresh = desk.write(&session, &[("a", None), ("d", Some(b"x\ny\nz\n"))]);
    assert_blame(&desk, "d", &[("x", &*fresh), ("y", &fresh), ("z", &fresh)]);
    desk.prompt(&session, "five");
    let late = desk.write(&session, &[("e", Some(b"old\n1\n2\nthree\n"))]);
    assert!(blame(&desk, "e").iter().all(|(_, origin)| *origin == late));
}

fn watched(desk: &Desk, session: &Session, id: &str, work: impl FnOnce()) {
    let block = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
    session
        .messages()
        .append(NewMessage::assistant(block))
        .unwrap();
    let options = WatchOptions::new().root(desk.path(""));
    let watch = session.files().watch(ToolRef::new(id), &options).unwrap();
    work();
    watch.finish().unwrap();
}

#[test]
fn a_watched_move_takes_lines_along() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.prompt(&session, "one");
    let first = desk.write(&session, &[("a", Some(b"1\n2\n"))]);
    watched(&desk, &session, "mv", || {
        fs::rename(desk.path("a"), desk.path("z")).unwrap();
    });
    assert_blame(&desk, "z", &[("1", &first), ("2", &first)]);
    watched(&desk, &session, "sed", || {
        fs::write(desk.path("z"), "1\nzwei\n").unwrap();
    });
    assert_blame(&desk, "z", &[("1", &first), ("zwei", "sed")]);
}

#[test]
fn moves_in_the_turn_that_wrote_the_lines_lead_back_to_who_wrote_them() {
    for moves in 1..5 {
        let desk = Desk::new();
        let session = desk.session("a");
        desk.prompt(&session, "write, then move");
        let first = desk.write(&session, &[("f0", Some(b"1\n2\n3\n"))]);
        let second = desk.write(&session, &[("f0", Some(b"1\ntwo\n3\n"))]);
        for number in 0..moves {
            watched(&desk, &session, &format!("mv{number}"), || {
                let (from, to) = (format!("f{number}"), format!("f{}", number + 1));
                fs::rename(desk.path(&from), desk.path(&to)).unwrap();
            });
        }
        let wanted = [("1", &*first), ("two", &second), ("3", &first)];
        assert_blame(&desk, &format!("f{moves}"), &wanted);
    }
}

#[test]
fn a_file_that_is_moved_onto_another_brings_its_lines() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.prompt(&session, "one");
    let first = desk.write(&session, &[("a", Some(b"1\n2\n3\n"))]);
    let other = desk.write(&session, &[("b", Some(b"x\ny\n"))]);
    desk.prompt(&session, "two");
    watched(&desk, &session, "mv", || {
        fs::rename(desk.path("a"), desk.path("b")).unwrap();
    });
    assert_blame(&desk, "b", &[("1", &*first), ("2", &first), ("3", &first)]);
    // They change places.
    desk.prompt(&session, "three");
    let third = desk.write(&session, &[("a", Some(b"p\nq\n"))]);
    watched(&desk, &session, "swap", || {
        fs::rename(desk.path("a"), desk.path("t")).unwrap();
        fs::rename(desk.path("b"), desk.path("a")).unwrap();
        fs::rename(desk.path("t"), desk.path("b")).unwrap();
    });
    assert_blame(&desk, "a", &[("1", &*first), ("2", &first), ("3", &first)]);
    assert_blame(&desk, "b", &[("p", &*third), ("q", &third)]);
    // A new version is written beside and put in the old one's place: only what is new in it is new.
    desk.prompt(&session, "four");
    let fourth = desk.write(&session, &[("a.new", Some(b"1\n2\n3\n4\n"))]);
    watched(&desk, &session, "put", || {
        fs::rename(desk.path("a.new"), desk.path("a")).unwrap();
    });
    let wanted = [("1", &*first), ("2", &first), ("3", &first), ("4", &fourth)];
    assert_blame(&desk, "a", &wanted);
    // A copy leaves what it was made of: it is the command's.
    desk.prompt(&session, "four and a half");
    watched(&desk, &session, "cp", || {
        fs::copy(desk.path("a"), desk.path("b")).unwrap();
    });
    assert!(blame(&desk, "b").iter().all(|(_, origin)| origin == "cp"));
    // What has no lines moves as one piece.
    desk.prompt(&session, "five");
    let fifth = desk.write(&session, &[("bin", Some(b"\0\n\0"))]);
    watched(&desk, &session, "away", || {
        fs::rename(desk.path("bin"), desk.path("b")).unwrap();
    });
    assert!(blame(&desk, "b").iter().all(|(_, origin)| *origin == fifth));
    assert_ne!(other, fourth);
}

#[test]
fn two_files_that_change_places_lead_nobody_round_in_circles() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.prompt(&session, "one");
    let one = desk.write(&session, &[("a", Some(b"a\n")), ("b", Some(b"b\n"))]);
    for _ in 0..3 {
        desk.write(&session, &[("a", None), ("b", None)]);
        desk.write(&session, &[("a", Some(b"b\n")), ("b", Some(b"a\n"))]);
        desk.write(&session, &[("a", None), ("b", None)]);
        desk.write(&session, &[("a", Some(b"a\n")), ("b", Some(b"b\n"))]);
    }
    assert_eq!(blame(&desk, "a").len(), 1);
    assert_eq!(blame(&desk, "b")[0].0, "b");
    assert!(one.starts_with("toolu"));
}

#[test]
fn without_a_backup_nobody_knows() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::write(desk.path("f"), "1\n").unwrap();
    session.files().after("late", [desk.path("f")]).unwrap();
    assert_blame(&desk, "f", &[("1", "not kept")]);
    let next = desk.write(&session, &[("f", Some(b"1\n2\n"))]);
    assert_blame(&desk, "f", &[("1", "not kept"), ("2", &next)]);
    let error = desk.store.audit().blame(desk.path("never")).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no recorded change of the file"),
        "{error}"
    );
}
