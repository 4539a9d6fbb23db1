//! What ended a change.

use std::fs;

use turnkeep::{ChangeSource, Effect, Restore, RewindOptions};

use super::small::Desk;

#[test]
fn a_rewind_and_its_undo_are_told_of_and_what_they_ended() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"1\n"))]);
    let prompt = desk.prompt(&session, "more");
    desk.write(&session, &[("f", Some(b"1\n2\n"))]);
    let options = RewindOptions::to(&prompt).restore(Restore::Files);
    let done = session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap();
    let changes = desk.changes("f");
    assert_eq!(
        desk.effects("f"),
        [Effect::InEffect, Effect::Rewound, Effect::InEffect]
    );
    assert_eq!(changes[1].ended_by, Some(changes[2].id));
    assert_eq!(
        (changes[2].source, changes[2].operation),
        (ChangeSource::Rewind, done.operation)
    );
    session.undo(done.operation).unwrap();
    assert_eq!(
        desk.effects("f"),
        [
            Effect::InEffect,
            Effect::InEffect,
            Effect::Rewound,
            Effect::InEffect
        ]
    );
}

#[test]
fn what_was_overwritten_is_not_rewound_by_a_rewind_that_was_undone() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::write(desk.path("f"), "1\n2\n").unwrap();
    desk.prompt(&session, "one");
    desk.write(&session, &[("f", Some(b"1\n"))]);
    let prompt = desk.prompt(&session, "two");
    desk.write(&session, &[("f", Some(b"1\n2\n"))]);
    let options = RewindOptions::to(&prompt).restore(Restore::Files);
    let plan = session.plan_rewind(&options).unwrap();
    let done = session.rewind(&plan).unwrap();
    let undone = session.undo(done.operation).unwrap();
    let ends = |desk: &Desk| -> Vec<(Effect, Option<i64>)> {
        let changes = desk.changes("f").into_iter();
        changes.map(|one| (one.effect, one.ended_by)).collect()
    };
    let ids: Vec<i64> = desk.changes("f").iter().map(|one| one.id).collect();
    assert_eq!(ends(&desk)[0], (Effect::Overwritten, Some(ids[1])));
    assert_eq!(ends(&desk)[1], (Effect::InEffect, None));
    // And redone.
    session.undo(undone.operation).unwrap();
    assert_eq!(ends(&desk)[0], (Effect::InEffect, None));
    let last = desk.changes("f").last().unwrap().id;
    assert_eq!(ends(&desk)[1], (Effect::Rewound, Some(last)));
}

#[test]
fn far_back_the_end_of_a_change_is_still_found() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"first\n"))]);
    desk.write(&session, &[("f", Some(b"0\n"))]);
    for number in 1..90 {
        let id = format!("t{number}");
        let text = format!("{number}\n");
        session
            .write(|tx| {
                tx.before(id.as_str(), [desk.path("f")])?;
                fs::write(desk.path("f"), &text).unwrap();
                tx.after(id.as_str(), [desk.path("f")])
            })
            .unwrap();
    }
    let changes = desk.changes("f");
    assert_eq!(changes.len(), 91);
    assert_eq!(
        (changes[0].effect, changes[0].ended_by),
        (Effect::Overwritten, Some(changes[1].id))
    );
}
