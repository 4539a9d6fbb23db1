//! The conversation is the SDK's, on any transcript whose links are whole.

use std::fmt::Write;
use std::fs;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use turnkeep::{Session, SessionKey};

use super::growing::{Step, Tree, steps};
use super::{Case, cases};
use crate::context_rules::assert_valid;
use crate::sdk::ask;

const TREES: usize = 300;

#[test]
fn the_conversation_of_a_whole_tree_is_the_sdks() {
    let mut runner = TestRunner::new(cases(1));
    let steps = steps();
    let all: Vec<Vec<Step>> = (0..TREES)
        .map(|_| steps.new_tree(&mut runner).unwrap().current())
        .collect();
    let found = differing(&all);
    if let Some(found) = found.into_iter().min_by_key(|(steps, _)| steps.len()) {
        let (steps, what) = smallest(found);
        panic!("{steps:#?}\n{what}");
    }
}

/// The one difference by design: the newest message is the head, whatever else hangs from it.
#[test]
fn a_note_under_the_newest_message_does_not_bring_a_dead_branch_back() {
    let message = |kind: &str, uuid: &str, parent: Option<&str>| {
        let message = json!({"role": kind, "content": uuid});
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": message})
    };
    let mut note = message("user", "note", Some("a3"));
    note["isMeta"] = json!(true);
    let entries = [
        message("user", "u1", None),
        message("assistant", "a1", Some("u1")),
        message("user", "u2", Some("a1")),
        message("assistant", "a2", Some("u2")),
        message("user", "u3", Some("a1")),
        message("assistant", "a3", Some("u3")),
        note,
    ];
    let case = Case::new();
    case.import(&lines(&entries).into_bytes());
    assert_eq!(visible(&case.session()), ["u1", "a1", "u3", "a3"]);
    let question = json!({"name": "dead", "entries": entries}).to_string();
    let theirs = ask("sdk_chain.py", &[], question.as_bytes());
    assert_eq!(theirs[0]["uuids"], json!(["u1", "a1", "u2", "a2"]));
}

/// Results of one response come in the order of their calls where their times are the same, though
/// another response used the same ids.
#[test]
fn results_of_ids_used_again_keep_the_order_of_their_calls() {
    let said = |uuid: &str, parent: &str, response: &str, call: &str| {
        let call = json!({"type": "tool_use", "id": call, "name": "Read", "input": {}});
        let message = json!({"id": response, "role": "assistant", "content": [call]});
        json!({"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message})
    };
    let result = |uuid: &str, parent: &str, source: &str, call: &str| {
        let block = json!({"type": "tool_result", "tool_use_id": call, "content": "done"});
        let message = json!({"role": "user", "content": [block]});
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "message": message,
            "sourceToolAssistantUUID": source})
    };
    let prompt = |uuid: &str, parent: Option<&str>| {
        let message = json!({"role": "user", "content": "go on"});
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "message": message})
    };
    let entries = [
        prompt("u1", None),
        said("a1", "u1", "m1", "t1"),
        result("r1", "a1", "a1", "t1"),
        said("a2", "r1", "m2", "t1"),
        said("a3", "a2", "m2", "t2"),
        result("r3", "a3", "a3", "t2"),
        result("r2", "a3", "a2", "t1"),
        prompt("u2", Some("a3")),
    ];
    let case = Case::new();
    case.import(&lines(&entries).into_bytes());
    let question = json!({"name": "again", "entries": entries}).to_string();
    let theirs = ask("sdk_chain.py", &[], question.as_bytes());
    let expected = ["u1", "a1", "r1", "a2", "a3", "r2", "r3", "u2"];
    assert_eq!(theirs[0]["uuids"], json!(expected));
    assert_eq!(visible(&case.session()), expected);
}

fn lines(entries: &[Value]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

fn visible(session: &Session) -> Vec<String> {
    let conversation = session.conversation("").unwrap();
    let visible = conversation.visible();
    visible.map(|entry| entry.uuid.clone()).collect()
}

/// Leaves steps out for as long as the conversations go on to differ.
fn smallest(found: (Vec<Step>, String)) -> (Vec<Step>, String) {
    let mut found = found;
    loop {
        let without = |at: usize| {
            let mut fewer = found.0.clone();
            fewer.remove(at);
            fewer
        };
        let fewer: Vec<Vec<Step>> = (0..found.0.len()).map(without).collect();
        match differing(&fewer).into_iter().next() {
            Some(smaller) => found = smaller,
            None => return found,
        }
    }
}

/// The transcripts of which the SDK reads another conversation than we do, and both.
fn differing(all: &[Vec<Step>]) -> Vec<(Vec<Step>, String)> {
    let case = Case::new();
    let mut question = String::new();
    let mut trees = Vec::new();
    for (number, steps) in all.iter().enumerate() {
        let tree = Tree::grow(steps);
        let lines = lines(&tree.entries);
        fs::write(case.project().join(format!("{}.jsonl", id(number))), &lines).unwrap();
        let named = json!({"name": number.to_string(), "entries": tree.entries});
        writeln!(question, "{named}").unwrap();
        trees.push(lines);
    }
    let report = crate::kit::import(&case.store, &case.project());
    assert_eq!((report.repaired_links, report.problems), (0, vec![]));
    assert_eq!(case.store.verify().unwrap().findings, []);
    let answer = ask("sdk_chain.py", &[], question.as_bytes());
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), all.len());
    let mut found = Vec::new();
    for (number, theirs) in answers.iter().enumerate() {
        let key = SessionKey::new("project", id(number)).unwrap();
        let session = case.store.sessions().get(&key).unwrap();
        let name = format!("{:#?}\n{}", all[number], trees[number]);
        assert_valid(&session.context("").unwrap(), &name);
        let ours = visible(&session);
        let theirs: Vec<String> = serde_json::from_value(theirs["uuids"].clone()).unwrap();
        if ours != theirs {
            let what = format!("{}\nours   {ours:?}\ntheirs {theirs:?}", trees[number]);
            found.push((all[number].clone(), what));
        }
    }
    found
}

fn id(number: usize) -> String {
    format!("00000000-0000-4000-9000-{number:012}")
}
