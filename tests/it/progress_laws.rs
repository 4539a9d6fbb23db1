//! What holds of a session's progress, whatever was said, called, settled, forked and gone back from.

mod story;

use proptest::prelude::*;
use proptest::test_runner::Config;
use turnkeep::{ContextMessage, NewMessage, ResumeOptions, Session, Settle, ToolCall};

use self::story::{Notes, Step, Story, Told, steps};
use crate::context_rules::assert_valid;
use crate::kit::exported;

/// So many random stories. A failure prints its steps, made few; nothing is kept beside the tests.
fn cases(number: u32) -> Config {
    Config {
        cases: number,
        failure_persistence: None,
        ..Config::default()
    }
}

/// A story, and what is checked behind each of its steps.
fn tell(steps: &[Step], check: impl Fn(&Told)) -> Story {
    let mut story = Story::new();
    for step in steps {
        story.step(step);
        check(story.now());
    }
    story
}

fn check_notes(told: &Told) {
    let notes = told.session.scratchpad();
    assert_eq!(notes.list().unwrap(), told.notes);
    for said in &told.messages {
        assert_eq!(
            notes.list_at(&said.uuid).unwrap(),
            said.notes,
            "{}",
            said.uuid
        );
    }
}

/// All of a session that recovery could touch.
#[derive(Debug, PartialEq)]
struct Shown {
    transcript: Vec<u8>,
    context: Vec<ContextMessage>,
    calls: Vec<ToolCall>,
    counts: (u64, u64),
    notes: Notes,
}

fn shown(session: &Session) -> Shown {
    let scene = session.scene().unwrap();
    Shown {
        transcript: exported(session, ""),
        context: session.context("").unwrap().messages,
        calls: session.tools().list().unwrap(),
        counts: (scene.rounds, scene.tokens_used),
        notes: scene.scratchpad,
    }
}

/// What an app does when it starts: whatever was in flight is given up.
fn recover(session: &Session) -> usize {
    let pending = session.tools().pending().unwrap();
    for call in &pending {
        let settled = session.tools().settle(&call.id, &Settle::Interrupted);
        assert!(settled.unwrap().stored, "{}", call.id);
    }
    assert_eq!(session.tools().pending().unwrap(), []);
    pending.len()
}

fn goes_back(step: &Step) -> bool {
    matches!(
        step,
        Step::Move(_) | Step::HangFrom(..) | Step::Entry(_) | Step::Fork(Some(_))
    )
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn the_context_is_one_that_a_model_takes_at_every_step_and_at_every_message(steps in steps()) {
        let valid = |told: &Told| assert_valid(&told.session.context("").unwrap(), "the context");
        let story = tell(&steps, valid);
        for told in &story.told {
            valid(told);
            for said in &told.messages {
                let at = ResumeOptions::new().at(&said.uuid);
                assert_valid(&told.session.resume(&at).unwrap().context, &said.uuid);
            }
        }
        prop_assert_eq!(story.test.store.verify().unwrap().findings, []);
    }

    #[test]
    fn recovery_done_again_changes_nothing_nor_does_a_result_that_comes_late(steps in steps()) {
        let mut story = tell(&steps, |_| {});
        story.reopen();
        for at in 0..story.told.len() {
            let sessions = || story.told.iter().map(|told| &told.session);
            let before: Vec<Shown> = sessions().map(shown).collect();
            recover(&story.told[at].session);
            for (other, before) in sessions().zip(before).enumerate().filter(|(other, _)| *other != at).map(|(_, both)| both) {
                prop_assert_eq!(shown(other), before, "another session was touched");
            }
        }
        let once: Vec<Shown> = story.told.iter().map(|told| shown(&told.session)).collect();
        story.reopen();
        for (told, once) in story.told.iter().zip(once) {
            let session = &told.session;
            prop_assert_eq!(recover(session), 0);
            for call in &once.calls {
                let late = session.tools().settle(&call.id, &Settle::Result("late".into())).unwrap();
                prop_assert!(!late.stored && late.call == *call);
            }
            prop_assert_eq!(&shown(session), &once);
            // Where the story went back, a call may have its result on another branch; one that
            // comes on this branch then takes its place.
            if steps.iter().any(goes_back) {
                continue;
            }
            for call in &once.calls {
                let late = NewMessage::tool_result(&call.id, "later still");
                session.messages().append(late).unwrap();
            }
            let later = shown(session);
            prop_assert_eq!((later.context, later.counts), (once.context, once.counts));
            prop_assert_eq!(later.calls, once.calls);
        }
    }

    #[test]
    fn notes_as_of_a_message_are_the_same_in_every_fork_and_after_every_move_of_the_head(steps in steps()) {
        let mut story = tell(&steps, check_notes);
        story.reopen();
        story.told.iter().for_each(check_notes);
    }
}
