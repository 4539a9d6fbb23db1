//! Reported faults of tool calls: what a model is sent must be valid, and tell the truth.

use serde_json::{Value, json};
use turnkeep::{AppendOptions, ErrorKind, NewMessage, NewSession, Role, Store};

use crate::case::{Case, assistant, blocks, call, checked, folder, kinds, result, strings, user};
use crate::children;
use crate::kit::{TestStore, exported};

#[test]
fn a_call_without_a_result_is_answered_in_the_view_alone_b30() {
    let case = Case::import("B30");
    let session = case.session();
    let context = session.context("").unwrap();
    assert_eq!(context.open_calls, strings(&case.expect["pending"]));
    let messages = checked(&context);
    let answer = &messages[2].1[0];
    assert_eq!(answer["tool_use_id"], "toolu_B30");
    assert_eq!(answer["is_error"], true);
    assert_eq!(case.expect["stored_unchanged"], true);
    assert_eq!(exported(&session, ""), case.source());
}

#[test]
fn a_call_cut_off_by_a_kill_is_pending_after_the_reopen_b30() {
    let test = TestStore::new();
    let arguments = json!({"store": test.store.path()});
    let mut child = children::start("cases_calls::part_makes_a_call_and_hangs", &arguments);
    assert_eq!(child.hear().as_deref(), Some("called"));
    child.kill();
    let store = Store::open(test.store.path()).unwrap();
    let session = store.sessions().resolve("s", &Default::default()).unwrap();
    let context = session.context("").unwrap();
    assert_eq!(context.open_calls, ["t1"]);
    let messages = checked(&context);
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[2].1[0]["is_error"], true);
    // Looking settles nothing: the real result may still come, and is the only one then.
    assert_eq!(session.info().unwrap().entries, 2);
    let late = NewMessage::tool_result("t1", "done after all");
    session.messages().append(late).unwrap();
    let settled = session.context("").unwrap();
    assert!(settled.open_calls.is_empty());
    assert_eq!(checked(&settled)[2].1[0]["content"], "done after all");
}

#[test]
#[ignore = "a part of another test"]
fn part_makes_a_call_and_hangs() {
    let Some(arguments) = children::arguments() else {
        return;
    };
    let store = Store::open(arguments["store"].as_str().unwrap()).unwrap();
    let session = store
        .sessions()
        .create(NewSession::in_project("p").id("s"))
        .unwrap();
    session.messages().append(NewMessage::user("go")).unwrap();
    let message = NewMessage::assistant(json!([call("t1")]));
    session.messages().append(message).unwrap();
    children::say("called");
    children::listen();
}

#[test]
fn several_results_of_one_call_reach_the_model_once_b30() {
    let test = TestStore::new();
    let session = test.session();
    let entries = [
        user("u1", None, "go"),
        assistant("a1", Some("u1"), json!([call("t1"), call("t2")])),
        user("r1", Some("a1"), json!([result("t1", "first")])),
        user("r2", Some("r1"), json!([result("t1", "second")])),
        user("r3", Some("r2"), json!([result("t9", "of nothing")])),
        user("u2", Some("r3"), "and?"),
    ];
    session
        .messages()
        .append_entries(entries, &AppendOptions::new())
        .unwrap();
    let context = session.context("").unwrap();
    let messages = checked(&context);
    let answered = blocks(&messages[2].1, "tool_result", "content");
    assert_eq!(answered[0], "first");
    assert_eq!(context.open_calls, ["t2"]);
    assert_eq!(context.orphan_results, ["t1", "t9"]);
}

#[test]
fn the_repair_keeps_the_evidence_b35() {
    let case = Case::import("B30");
    let messages = checked(&case.session().context("").unwrap());
    let calls = blocks(&messages[1].1, "tool_use", "id");
    assert_eq!(calls, ["toolu_B30"], "the call stays visible");
    let said = messages[2].1[0]["content"].to_string().to_lowercase();
    assert!(
        said.contains("interrupted") && said.contains("unknown"),
        "{said}"
    );
}

#[test]
fn the_repair_makes_no_second_user_message_b37() {
    let text = std::fs::read_to_string(folder("B37").join("sequence.json")).unwrap();
    let sequence: Value = serde_json::from_str(&text).unwrap();
    let case = Case::import("B30");
    let messages = checked(&case.session().context("").unwrap());
    let roles: Vec<Role> = messages.iter().map(|(role, _)| *role).collect();
    let adjacent = roles.windows(2).filter(|two| two[0] == two[1]).count();
    assert_eq!(sequence["expect"]["adjacent_user_messages"], adjacent);
    let turn = &messages[2].1;
    assert_eq!(kinds(turn), ["tool_result", "text"]);
    let described = [
        format!(
            "tool_result {} (is_error)",
            turn[0]["tool_use_id"].as_str().unwrap()
        ),
        format!("text: {}", turn[1]["text"].as_str().unwrap()),
    ];
    assert_eq!(described[..], strings(&sequence["expect"]["user_turn"])[..]);
}

#[test]
fn a_result_needs_its_call_b40() {
    let test = TestStore::new();
    let session = test.session();
    session.messages().append(NewMessage::user("go")).unwrap();
    let answer = || NewMessage::tool_result("t1", "ok");
    let refused = session.messages().append(answer()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("`t1`"), "{refused}");
    assert_eq!(session.info().unwrap().entries, 1, "nothing was stored");
    // A write that fails on the result takes back what it did before.
    let outcome = session.write(|tx| {
        tx.append(NewMessage::user("held back"))?;
        tx.append(answer())
    });
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.info().unwrap().entries, 1, "nothing was stored");
    // Approved: the call and its result go in together.
    session
        .write(|tx| {
            tx.append(NewMessage::assistant(json!([call("t1")])))?;
            tx.append(answer())
        })
        .unwrap();
    let context = session.context("").unwrap();
    assert!(context.open_calls.is_empty());
    assert_eq!(checked(&context).len(), 3);
}

#[test]
fn signed_thinking_and_numbers_stay_as_they_are_b41() {
    let case = Case::import("B41");
    let session = case.session();
    assert_eq!(case.expect["export_equals_import_bytes"], true);
    assert_eq!(exported(&session, ""), case.source());
    assert_eq!(session.info().unwrap().messages, 5);
    assert_untouched(&session.context("").unwrap(), &case);
}

#[test]
fn signed_thinking_and_numbers_stay_as_they_are_through_every_door_b41() {
    let case = Case::import("B41");
    let source = String::from_utf8(case.source()).unwrap();
    let test = TestStore::new();
    let session = test
        .store
        .sessions()
        .create(NewSession::in_project("p").id("s"))
        .unwrap();
    session
        .messages()
        .append_entries(source.lines(), &AppendOptions::new())
        .unwrap();
    assert_eq!(exported(&session, ""), case.source());
    assert_untouched(&session.context("").unwrap(), &case);

    let door = test.store.session_store();
    let key = turnkeep::TranscriptKey::main("p", "sdk").unwrap();
    door.append(&key, source.lines()).unwrap();
    let loaded = door.load(&key).unwrap().unwrap();
    assert_eq!(loaded, source.lines().collect::<Vec<_>>());
}

/// The model's blocks come in their order, and none of them was printed anew.
fn assert_untouched(context: &turnkeep::Context, case: &Case) {
    let content = context.messages[1].content.get();
    assert_eq!(context.messages[1].role, Role::Assistant);
    let source = String::from_utf8(case.source()).unwrap();
    let mut from = 0;
    for kind in strings(&case.expect["block_order"]) {
        let start = format!(r#"{{"type":"{kind}""#);
        let line = source.lines().find(|line| line.contains(&start)).unwrap();
        let at = line.find(&start).unwrap();
        let block = &line[at..line.find(r#"],"stop_reason""#).unwrap()];
        let found = content[from..].find(block);
        from += found.unwrap_or_else(|| panic!("{block} in {content}")) + block.len();
    }
    for number in strings(&case.expect["number_text_kept"]) {
        assert!(content.contains(number), "{number} in {content}");
    }
}
