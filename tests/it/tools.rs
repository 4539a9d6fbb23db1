//! The tool ledger: what was in flight, and settling it.

use serde_json::json;
use turnkeep::{
    AppendOptions, ErrorKind, ForkOptions, NewMessage, NewSession, Session, Settle, Store,
    ToolState,
};

use crate::kit::TestStore;

fn calls(store: &Store, ids: &[&str]) -> Session {
    let session = store
        .sessions()
        .create(NewSession::in_project("p").cwd("/srv"))
        .unwrap();
    session
        .messages()
        .append(NewMessage::user("deploy"))
        .unwrap();
    let blocks: Vec<_> = ids
        .iter()
        .map(|id| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "deploy", "n": 1.0}}))
        .collect();
    session
        .messages()
        .append(NewMessage::assistant(json!(blocks)))
        .unwrap();
    session
}

fn states(session: &Session) -> Vec<(String, ToolState)> {
    session
        .tools()
        .list()
        .unwrap()
        .into_iter()
        .map(|call| (call.id, call.state))
        .collect()
}

/// How often each call is answered in the context, and that it is directly behind its call.
fn results(session: &Session, id: &str) -> usize {
    let context = session.context("").unwrap();
    let texts: Vec<&str> = context
        .messages
        .iter()
        .map(|message| message.content.get())
        .collect();
    texts
        .iter()
        .map(|text| text.matches(&format!(r#""tool_use_id":"{id}""#)).count())
        .sum()
}

#[test]
fn what_was_in_flight_is_reported_after_a_crash_and_nothing_is_run_b34() {
    let test = TestStore::new();
    let session = calls(&test.store, &["t1"]);
    let path = test.store.path().to_owned();
    let reopened = Store::open(&path)
        .unwrap()
        .sessions()
        .get(session.key())
        .unwrap();
    let pending = reopened.tools().pending().unwrap();
    let [call] = &pending[..] else {
        panic!("one call: {pending:?}")
    };
    assert_eq!(
        (call.id.as_str(), call.name.as_str(), call.attempt),
        ("t1", "Bash", 1)
    );
    assert_eq!(call.input, r#"{"command":"deploy","n":1.0}"#);
    assert!(call.started_ms > 0 && call.turn.is_some());
    assert_eq!(
        results(&reopened, "t1"),
        1,
        "the model is told that it was interrupted"
    );
    assert_eq!(
        reopened.transcript("").unwrap().len(),
        2,
        "and nothing was stored"
    );
}

#[test]
fn settling_twice_and_a_late_result_leave_one_result_per_call_b33() {
    let test = TestStore::new();
    let session = calls(&test.store, &["t1", "t2"]);
    let first = session.tools().settle("t1", &Settle::Interrupted).unwrap();
    assert_eq!(
        (first.stored, first.call.state),
        (true, ToolState::Interrupted)
    );
    let again = session
        .tools()
        .settle("t1", &Settle::Result(json!("late")))
        .unwrap();
    assert_eq!(
        (again.stored, again.call.state),
        (false, ToolState::Interrupted)
    );
    session
        .messages()
        .append(NewMessage::tool_result("t1", "later still"))
        .unwrap();
    session
        .tools()
        .settle("t2", &Settle::Result(json!("done")))
        .unwrap();
    assert_eq!(
        states(&session),
        [
            ("t1".into(), ToolState::Interrupted),
            ("t2".into(), ToolState::Ok)
        ]
    );
    assert_eq!((results(&session, "t1"), results(&session, "t2")), (1, 1));
    assert!(session.tools().pending().unwrap().is_empty());
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn a_call_is_run_again_under_the_same_key_and_both_attempts_are_known() {
    let test = TestStore::new();
    let session = calls(&test.store, &["t1"]);
    let before = session.tools().pending().unwrap().remove(0);
    session
        .tools()
        .note_input("t1", &json!({"command": "deploy --dry-run"}))
        .unwrap();
    let again = session.tools().settle("t1", &Settle::Rerun).unwrap().call;
    assert_eq!((again.state, again.attempt), (ToolState::Pending, 2));
    assert_eq!(again.idempotency_key, before.idempotency_key);
    let done = session
        .tools()
        .settle("t1", &Settle::Failed(json!("no route")))
        .unwrap()
        .call;
    assert_eq!((done.state, done.attempt), (ToolState::Error, 2));
    assert_eq!(
        session
            .tools()
            .settle("nope", &Settle::Rerun)
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_result_found_out_later_does_not_take_the_conversation_back() {
    let test = TestStore::new();
    let session = calls(&test.store, &["t1", "t2"]);
    session
        .messages()
        .append(NewMessage::user("are you there?"))
        .unwrap();
    session
        .messages()
        .append(NewMessage::assistant("Yes."))
        .unwrap();
    session
        .tools()
        .settle("t1", &Settle::Result(json!("deployed")))
        .unwrap();
    let context = session.context("").unwrap();
    let last = context.messages.last().unwrap().content.get();
    assert!(last.contains("Yes."), "{last}");
    assert!(context.messages[2].content.get().contains("deployed"));
    assert_eq!(context.open_calls, ["t2"]);
    let next = session.messages().append(NewMessage::user("good")).unwrap();
    assert_eq!(
        session
            .conversation("")
            .unwrap()
            .entries
            .last()
            .unwrap()
            .uuid,
        next.uuid
    );
}

#[test]
fn a_call_that_a_compaction_kept_open_has_its_result_in_the_context_once_it_is_settled() {
    let test = TestStore::new();
    let session = calls(&test.store, &["t1", "t2"]);
    session.compact("A deployment was begun.", 1).unwrap();
    let fork = session.fork(&ForkOptions::new()).unwrap();
    for session in [&session, &fork] {
        let text = |session: &Session| {
            let context = session.context("").unwrap();
            serde_json::to_string(&context.messages).unwrap()
        };
        assert_eq!(session.context("").unwrap().open_calls, ["t1", "t2"]);
        let settle = Settle::Result(json!(format!("deployed by {}", session.id())));
        session.tools().settle("t1", &settle).unwrap();
        let context = session.context("").unwrap();
        assert_eq!(context.open_calls, ["t2"], "as the ledger has it");
        assert!(text(session).contains(&format!("deployed by {}", session.id())));
        let late = NewMessage::tool_result("t1", "later still");
        session.messages().append(late).unwrap();
        assert!(!text(session).contains("later still"));
        assert_eq!((results(session, "t1"), results(session, "t2")), (1, 1));
    }
    let scene = fork.scene().unwrap();
    session.tools().settle("t2", &Settle::Interrupted).unwrap();
    assert_eq!((session.scene().unwrap().rounds, scene.rounds), (1, 0));
    assert_eq!(
        fork.scene().unwrap().rounds,
        0,
        "the origin's is not the fork's"
    );
}

#[test]
fn a_fork_settles_its_own_copy_of_an_open_call_b38() {
    let test = TestStore::new();
    let source = calls(&test.store, &["t1"]);
    let fork = source.fork(&ForkOptions::new()).unwrap();
    assert_eq!(states(&fork), [("t1".into(), ToolState::Pending)]);
    let key = |session: &Session| session.tools().list().unwrap()[0].idempotency_key.clone();
    assert_ne!(key(&fork), key(&source));
    fork.tools()
        .settle("t1", &Settle::Result(json!("by the fork")))
        .unwrap();
    assert_eq!(states(&fork), [("t1".into(), ToolState::Ok)]);
    assert_eq!(states(&source), [("t1".into(), ToolState::Pending)]);
    source.tools().settle("t1", &Settle::Interrupted).unwrap();
    assert_eq!(states(&fork), [("t1".into(), ToolState::Ok)]);
    assert_eq!((results(&fork, "t1"), results(&source, "t1")), (1, 1));
    let before = source.fork(&ForkOptions::new()).unwrap();
    assert_eq!(
        states(&before),
        [("t1".into(), ToolState::Interrupted)],
        "a result up to the cut is inherited"
    );
}

#[test]
fn the_clients_own_marks_tell_rejected_interrupted_and_lost_calls_apart() {
    let (test, _) = TestStore::with("transcripts/kill_in_tool");
    let session = test.only_session();
    let by_name: Vec<_> = session
        .tools()
        .list()
        .unwrap()
        .into_iter()
        .map(|call| (call.name, call.state))
        .collect();
    assert_eq!(
        by_name,
        [
            ("Write".into(), ToolState::Ok),
            ("Bash".into(), ToolState::Unknown)
        ]
    );
    let session = calls(&test.store, &["t1"]);
    let message = session.tools().list().unwrap()[0].message.clone();
    let denied = json!({"type": "user", "uuid": "r", "parentUuid": message, "toolDenialKind": "user-rejected",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true}]}});
    session
        .messages()
        .append_entries([denied.to_string()], &AppendOptions::new())
        .unwrap();
    assert_eq!(states(&session), [("t1".into(), ToolState::Rejected)]);
}
