//! The execution scene: checkpoints out and in, limits that continue, trimming and compaction.

use std::fs;

use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, Context, ErrorKind, ForkOptions, NewMessage, NewSession, Session, WindowOptions,
    export_checkpoint, import_checkpoint,
};

use crate::context_rules::assert_valid;
use crate::kit::TestStore;

fn started(test: &TestStore) -> Session {
    let session = test
        .store
        .sessions()
        .create(NewSession::in_project("p").cwd("/srv"))
        .unwrap();
    say(&session, NewMessage::user("deploy the service"));
    session
}

fn say(session: &Session, message: NewMessage) {
    session.messages().append(message).unwrap();
}

/// A response that calls tools, and what it cost.
fn respond(session: &Session, calls: &[&str], tokens: u64) {
    let blocks: Vec<Value> = calls
        .iter()
        .map(|id| json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"n": 1.0}}))
        .collect();
    say(
        session,
        NewMessage::response(
            &json!({"id": format!("m-{}", calls.join("-")), "role": "assistant", "content": blocks,
            "usage": {"input_tokens": 7, "output_tokens": tokens}}),
        ),
    );
}

fn round(session: &Session, call: &str, tokens: u64) {
    respond(session, &[call], tokens);
    say(session, NewMessage::tool_result(call, "done"));
}

fn checkpoint(test: &TestStore, session: &Session) -> Value {
    let file = test.path("deep/down/checkpoint.json");
    export_checkpoint(session, &file).unwrap();
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn a_checkpoint_has_six_fields_and_ends_at_the_open_call() {
    let test = TestStore::new();
    let session = started(&test);
    let first = checkpoint(&test, &session);
    let fields: Vec<&String> = first.as_object().unwrap().keys().collect();
    let six = [
        "version",
        "task",
        "turns",
        "tokensUsed",
        "messages",
        "pendingToolUse",
    ];
    assert_eq!(fields, six);
    assert_eq!(first["pendingToolUse"], Value::Null);
    round(&session, "t1", 10);
    respond(&session, &["t2"], 20);
    let one = checkpoint(&test, &session);
    assert_eq!(
        (
            &one["version"],
            &one["turns"],
            &one["tokensUsed"],
            &one["task"]
        ),
        (
            &json!(1),
            &json!(1),
            &json!(30),
            &json!("deploy the service")
        )
    );
    let messages = one["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4, "no result is made up: {messages:?}");
    assert_eq!(messages[3]["content"][0]["id"], "t2");
    assert_eq!(
        one["pendingToolUse"],
        json!({"id": "t2", "name": "Bash", "input": {"n": 1.0}})
    );
    say(&session, NewMessage::tool_result("t2", "done"));
    respond(&session, &["t3", "t4", "t5"], 5);
    say(&session, NewMessage::tool_result("t4", "done"));
    let many = checkpoint(&test, &session);
    let ids: Vec<&Value> = many["pendingToolUse"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| &call["id"])
        .collect();
    assert_eq!(ids, ["t3", "t5"]);
    assert_eq!(
        many["turns"], 2,
        "a round is over when every call is answered"
    );
}

#[test]
fn a_checkpoint_goes_on_where_it_was_with_its_counts() {
    let test = TestStore::new();
    let session = started(&test);
    session.set_task("deploy it twice").unwrap();
    session.add_tokens(1000).unwrap();
    round(&session, "t1", 10);
    respond(&session, &["t2"], 20);
    let file = test.path("checkpoint.json");
    export_checkpoint(&session, &file).unwrap();
    let before = fs::read(&file).unwrap();
    let copy = import_checkpoint(&test.store, "q", &file).unwrap();
    let scene = copy.scene().unwrap();
    assert_eq!(scene.task.as_deref(), Some("deploy it twice"));
    assert_eq!((scene.rounds, scene.tokens_used), (1, 1030));
    let pending: Vec<&str> = scene.pending.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(pending, ["t2"]);
    assert_eq!(
        scene.context.messages,
        session.scene().unwrap().context.messages
    );
    export_checkpoint(&copy, &file).unwrap();
    assert_eq!(
        fs::read(&file).unwrap(),
        before,
        "out, in and out is the same"
    );
    say(&copy, NewMessage::tool_result("t2", "done"));
    round(&copy, "t3", 5);
    let scene = copy.scene().unwrap();
    assert_eq!((scene.rounds, scene.tokens_used), (3, 1035));
    assert_valid(&copy.context("").unwrap(), "the copy");
}

#[test]
fn a_checkpoint_that_is_not_whole_is_refused_by_name_and_makes_no_session() {
    let test = TestStore::new();
    let whole = json!({"version": 1, "task": "x", "turns": 3, "tokensUsed": 4, "messages": [], "pendingToolUse": null});
    let without = |field: &str| {
        let mut value = whole.clone();
        value.as_object_mut().unwrap().remove(field);
        value.to_string()
    };
    let with = |field: &str, to: Value| {
        let mut value = whole.clone();
        value[field] = to;
        value.to_string()
    };
    let text = whole.to_string();
    let refused = [
        (text[..text.len() - 4].to_owned(), "torn"),
        (String::new(), "torn"),
        ("[]".to_owned(), "not an object"),
        (with("version", json!(2)), "version 2 is not known"),
        (without("version"), "`version` is missing"),
        (without("task"), "`task` is missing: without it nobody"),
        (without("turns"), "the limit on turns would start anew"),
        (without("tokensUsed"), "`tokensUsed` is missing"),
        (without("messages"), "`messages` is missing"),
        (
            without("pendingToolUse"),
            "may have taken effect would be forgotten",
        ),
        (with("turns", json!("3")), "`turns` is not a whole number"),
        (with("messages", json!([{"role": "system"}])), "message 1"),
        (
            with("messages", json!([{"role": "user", "content": 7}])),
            "message 1",
        ),
        (
            with(
                "pendingToolUse",
                json!({"id": "t9", "name": "X", "input": {}}),
            ),
            "t9",
        ),
    ];
    for (text, says) in refused {
        let file = test.path("checkpoint.json");
        fs::write(&file, &text).unwrap();
        let error = import_checkpoint(&test.store, "p", &file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{text}: {error}");
        let error = error.to_string();
        assert!(
            error.contains("checkpoint.json") && error.contains(says),
            "{error}"
        );
    }
    // A message that cannot be stored takes the whole session with it.
    let orphan = json!({"type": "tool_result", "tool_use_id": "t9", "content": "x"});
    let messages =
        json!([{"role": "user", "content": "go"}, {"role": "user", "content": [orphan]}]);
    let file = test.path("checkpoint.json");
    fs::write(&file, with("messages", messages)).unwrap();
    let error = import_checkpoint(&test.store, "p", &file).unwrap_err();
    assert!(error.to_string().contains("no call `t9`"), "{error}");
    let sessions = test.store.sessions();
    let all = turnkeep::SessionFilter::new().all();
    assert_eq!(sessions.list(&all, None, 10).unwrap().sessions.len(), 0);
}

#[test]
fn the_task_is_the_whole_first_prompt_of_the_conversation_also_behind_a_compaction() {
    let test = TestStore::new();
    let session = test.session();
    let task = |session: &Session| session.scene().unwrap().task;
    assert_eq!(task(&session), None);
    let long = format!("Sort the tickets.\n{}\nThe end.", "By type. ".repeat(100));
    say(&session, NewMessage::user("caveat").meta());
    let blocks = json!([{"type": "text", "text": long}, {"type": "text", "text": "Go."}]);
    say(&session, NewMessage::user(blocks));
    round(&session, "t1", 1);
    say(&session, NewMessage::user("and on"));
    let whole = Some(format!("{long}\nGo."));
    assert_eq!(task(&session), whole);
    session.compact("It was sorted.", 0).unwrap();
    session.compact("It was sorted twice.", 0).unwrap();
    let fork = session.fork(&ForkOptions::new()).unwrap();
    assert_eq!((task(&session), task(&fork)), (whole.clone(), whole));
    let caveat = &session.transcript("").unwrap()[0].entry;
    let caveat: Value = serde_json::from_str(caveat.as_deref().unwrap()).unwrap();
    let options = AppendOptions::new().hang_from(caveat["uuid"].as_str().unwrap());
    let other = NewMessage::user("Rather count them.");
    session.messages().append_with(other, &options).unwrap();
    assert_eq!(task(&session).as_deref(), Some("Rather count them."));
}

#[test]
fn a_response_stored_in_parts_counts_once_and_a_compaction_keeps_the_counts() {
    let test = TestStore::new();
    let session = started(&test);
    round(&session, "t1", 10);
    let part = |usage: u64, block: Value| {
        NewMessage::response(
            &json!({"id": "m9", "role": "assistant", "content": [block], "usage": {"output_tokens": usage}}),
        )
    };
    say(
        &session,
        part(1, json!({"type": "text", "text": "Once more."})),
    );
    say(
        &session,
        part(
            40,
            json!({"type": "tool_use", "id": "t2", "name": "X", "input": {}}),
        ),
    );
    say(&session, NewMessage::tool_result("t2", "done"));
    let scene = session.scene().unwrap();
    assert_eq!((scene.rounds, scene.tokens_used), (2, 50));
    session.compact("All went well.", 1).unwrap();
    say(&session, NewMessage::user("and again"));
    round(&session, "t3", 2);
    let scene = session.scene().unwrap();
    assert_eq!((scene.rounds, scene.tokens_used), (3, 52));
}

#[test]
fn a_compaction_cuts_no_call_from_its_result_and_a_fork_can_be_taken_before_it() {
    let test = TestStore::new();
    for keep in 0..9 {
        let session = started(&test);
        for call in ["t1", "t2", "t3"] {
            round(&session, call, 1);
        }
        say(&session, NewMessage::assistant("Deployed."));
        let before = session.context("").unwrap();
        let last = session
            .conversation("")
            .unwrap()
            .entries
            .last()
            .unwrap()
            .uuid
            .clone();
        session.scratchpad().set("plan", json!(keep)).unwrap();
        session
            .compact("It was deployed, in three rounds.", keep)
            .unwrap();
        let context = session.context("").unwrap();
        assert_valid(&context, &format!("keep {keep}"));
        let first = context.messages[0].content.get();
        assert!(first.contains("in three rounds"), "{first}");
        let all: String = context
            .messages
            .iter()
            .map(|message| message.content.get())
            .collect();
        assert_eq!(all.contains("Deployed."), keep > 0, "keep {keep}: {all}");
        assert!(context.messages.len() >= keep.min(before.messages.len()));
        assert_eq!(session.scratchpad().get("plan").unwrap(), Some(json!(keep)));
        let fork = session.fork(&ForkOptions::new().up_to(&last)).unwrap();
        assert_eq!(fork.context("").unwrap().messages, before.messages);
    }
    let session = started(&test);
    assert_eq!(
        session.compact(" ", 0).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let empty = test.session();
    assert_eq!(
        empty.compact("x", 0).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// What a window keeps, as a context of its own.
fn windowed(context: &Context, options: WindowOptions) -> Context {
    let mut small = context.clone();
    small.messages = context.window(options).into_iter().cloned().collect();
    small
}

#[test]
fn a_window_of_any_size_is_valid_keeps_the_newest_and_keeps_to_its_budget() {
    let test = TestStore::new();
    let session = started(&test);
    for turn in 0..3 {
        for call in 0..turn {
            round(&session, &format!("t{turn}{call}"), 1);
        }
        say(&session, NewMessage::assistant(format!("Answer {turn}.")));
        say(&session, NewMessage::user(format!("Question {turn}.")));
    }
    for rounds in 0..4 {
        let context = session.context("").unwrap();
        let all = context.messages.len();
        for most in 0..=all + 1 {
            let small = windowed(&context, WindowOptions::new().max_messages(most));
            assert_valid(&small, &format!("{most} of {all}"));
            assert_eq!(small.messages.last(), context.messages.last());
            // The question and the newest round are always kept.
            assert!(
                small.messages.len() <= most.max(3),
                "{most} of {all}: {}",
                small.messages.len()
            );
        }
        let tokens = |context: &Context| -> usize {
            context
                .messages
                .iter()
                .map(|message| message.content.get().len().div_ceil(4))
                .sum()
        };
        for most in (0..tokens(&context) + 5).step_by(7) {
            let small = windowed(&context, WindowOptions::new().max_tokens(most));
            assert_valid(&small, &format!("{most} tokens"));
            assert!(tokens(&small) <= most || small.messages.len() <= 3);
        }
        assert_eq!(context.window(WindowOptions::new()).len(), all);
        round(&session, &format!("last{rounds}"), 1);
    }
}
