//! A fork is its source up to the cut.

use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::{Value, json};
use turnkeep::{ForkOptions, Line, ResumeOptions, Session};

use super::sessions::{Maker, Step, steps};
use super::walk::walk;
use super::{check_uuids, context, field, imported, lines, messages, new_store, runner};
use crate::kit::{TestStore, all_sessions, exported};
use crate::sdk;

/// The transcript up to a message, as the file it would have been then.
fn file_until(session: &Session, uuid: &str) -> Vec<String> {
    let lines: Vec<_> = session.transcript("").unwrap();
    let names = |entry: &String| field(entry, "/uuid").as_deref() == Some(uuid);
    let last = lines
        .iter()
        .position(|line| line.entry.as_ref().is_some_and(names))
        .unwrap();
    let text = |line: &Line| String::from_utf8(line.bytes().to_vec()).unwrap();
    lines[..=last].iter().map(text).collect()
}

fn conversation(session: &Session) -> Vec<(String, bool)> {
    let entries = session.conversation("").unwrap().entries;
    entries
        .into_iter()
        .map(|entry| (entry.uuid, entry.is_visible))
        .collect()
}

/// What one fork up to a message must be. `copies` holds what is compared with.
fn check_cut(source: &Session, at: &str, copies: &TestStore) -> Session {
    let before = exported(source, "");
    let fork = source.fork(&ForkOptions::new().up_to(at)).unwrap();
    assert_eq!(exported(source, ""), before);
    let file = file_until(source, at);
    let entries = fork.conversation("").unwrap().entries;
    let origins: Vec<String> = entries
        .iter()
        .map(|entry| field(&entry.entry, "/forkedFrom/messageUuid").unwrap())
        .collect();
    assert_eq!(
        origins,
        walk(&file, at),
        "the conversation is the path to the message"
    );

    // The source as it was then, copied line by line.
    let copy = imported(
        copies,
        &format!("copy-{}", fork.id()),
        source.id(),
        (file.join("\n") + "\n").as_bytes(),
    );
    let then = copy.resume(&ResumeOptions::new().at(at)).unwrap();
    assert_eq!(
        context(&fork),
        serde_json::to_string(&then.context.messages).unwrap()
    );
    assert_eq!(
        fork.context("").unwrap().open_calls,
        then.context.open_calls
    );
    check_export(&fork, copies);
    fork
}

/// A fork's file, read by a store that knows nothing of it, is the same conversation.
fn check_export(fork: &Session, copies: &TestStore) {
    let file = exported(fork, "");
    let again = imported(copies, &format!("again-{}", fork.id()), fork.id(), &file);
    assert_eq!(exported(&again, ""), file);
    assert_eq!(
        conversation(&again),
        conversation(fork),
        "{}",
        String::from_utf8_lossy(&file)
    );
    assert_eq!(context(&again), context(fork));
}

/// What the SDK is to be asked: whether it sees of a file what is shown here.
fn asked(session: &Session) -> (Value, Value) {
    let entries: Vec<Value> = lines(session)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let visible: Vec<String> = session
        .conversation("")
        .unwrap()
        .visible()
        .map(|entry| entry.uuid.clone())
        .collect();
    (
        json!({"name": session.id(), "entries": entries}),
        json!(visible),
    )
}

fn check_sdk(asked: &[(Value, Value)]) {
    let lines: String = asked
        .iter()
        .map(|(question, _)| format!("{question}\n"))
        .collect();
    let answers = sdk::ask("sdk_chain.py", &[], lines.as_bytes());
    assert_eq!(answers.as_array().unwrap().len(), asked.len());
    for (answer, (question, shown)) in answers.as_array().unwrap().iter().zip(asked) {
        assert_eq!(answer["uuids"], *shown, "{question}");
    }
}

#[test]
fn a_fork_is_its_source_up_to_the_cut() {
    let cases = (
        steps(24),
        any::<bool>(),
        prop::collection::vec(any::<usize>(), 1..4),
    );
    let questions = RefCell::new(Vec::new());
    let judged = runner(40).run(&cases, |(mut steps, all_whole, cuts)| {
        if all_whole {
            steps.retain(Step::is_whole);
            steps.push(Step::Prompt);
        }
        let is_whole = steps.iter().all(Step::is_whole);
        let (test, copies) = (new_store(), new_store());
        let mut maker = Maker::new(1);
        maker.write(&steps);
        let source = imported(&test, "p", &maker.session_id, maker.file().as_bytes());
        let whole = source.fork(&ForkOptions::new()).unwrap();
        assert_eq!(context(&whole), context(&source));
        check_export(&whole, &copies);
        let mut from = source.clone();
        for cut in cuts {
            let messages = messages(&from);
            let Some(at) = cut.checked_rem(messages.len()) else {
                break;
            };
            let fork = check_cut(&from, &messages[at], &copies);
            let head = fork.conversation("").unwrap().entries.pop();
            let speaks =
                head.is_some_and(|head| ["user", "assistant"].contains(&head.kind.as_str()));
            if is_whole && speaks {
                questions.borrow_mut().push(asked(&fork));
            }
            from = if cut % 2 == 0 { fork } else { source.clone() };
        }
        check_uuids(&all_sessions(&test.store), &[]);
        assert_eq!(test.store.verify().unwrap().findings, []);
        Ok(())
    });
    judged.unwrap();
    let questions = questions.into_inner();
    assert!(questions.len() > 10, "{}", questions.len());
    check_sdk(&questions);
}
