//! The scratchpad: notes that forks, branches and time see each as their own.

use serde_json::{Value, json};
use turnkeep::{AppendOptions, ErrorKind, ForkOptions, NewMessage, NewSession, Session, Store};

use crate::kit::TestStore;

fn desk(store: &Store) -> Session {
    store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap()
}

fn say(session: &Session, text: &str) -> String {
    session
        .messages()
        .append(NewMessage::user(text))
        .unwrap()
        .uuid
}

#[test]
fn a_key_is_set_read_changed_deleted_and_remembers_its_history() {
    let test = TestStore::new();
    let session = desk(&test.store);
    let notes = session.scratchpad();
    assert_eq!(notes.get("order").unwrap(), None);
    let first = say(&session, "one");
    notes.set("order", "A17").unwrap();
    notes
        .set("plan", json!({"steps": [1, 2], "done": false}))
        .unwrap();
    notes.set("order", json!(18)).unwrap();
    assert_eq!(notes.get_as::<u32>("order").unwrap(), Some(18));
    assert_eq!(
        notes.get_as::<Vec<u8>>("order").unwrap_err().kind(),
        ErrorKind::Invalid
    );
    notes.delete("order").unwrap();
    notes.delete("order").unwrap();
    assert_eq!(notes.list().unwrap().keys().collect::<Vec<_>>(), ["plan"]);
    let values: Vec<_> = notes
        .history("order")
        .unwrap()
        .into_iter()
        .map(|note| (note.value, note.message))
        .collect();
    let here = Some(first);
    assert_eq!(
        values,
        [
            (None, here.clone()),
            (Some(json!(18)), here.clone()),
            (Some(json!("A17")), here)
        ]
    );
    assert_eq!(notes.set("", 1).unwrap_err().kind(), ErrorKind::Invalid);
    let reopened = Store::open(test.store.path())
        .unwrap()
        .sessions()
        .get(session.key())
        .unwrap();
    assert_eq!(reopened.scratchpad().list().unwrap(), notes.list().unwrap());
}

#[test]
fn a_write_groups_notes_and_messages_or_stores_none() {
    let test = TestStore::new();
    let session = desk(&test.store);
    let failed = session.write(|tx| {
        tx.set("k", 1)?;
        tx.append(NewMessage::tool_result("nobody", "x"))
    });
    assert!(failed.is_err());
    assert_eq!(session.scratchpad().list().unwrap().len(), 0);
    session
        .write(|tx| {
            tx.append(NewMessage::user("hi"))?;
            tx.set("k", 1)
        })
        .unwrap();
    assert_eq!(session.scratchpad().get("k").unwrap(), Some(json!(1)));
}

#[test]
fn compare_and_set_lets_one_of_two_writers_in() {
    let test = TestStore::new();
    let notes = desk(&test.store).scratchpad();
    notes.compare_and_set("k", None, Some(&json!(1))).unwrap();
    let late = notes
        .compare_and_set("k", None, Some(&json!(2)))
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Conflict);
    assert!(late.to_string().contains("`k` is 1"), "{late}");
    notes.compare_and_set("k", Some(&json!(1)), None).unwrap();
    assert_eq!(notes.get("k").unwrap(), None);
}

#[test]
fn forks_diverge_and_deleting_either_leaves_the_other_b56() {
    let test = TestStore::new();
    let parent = desk(&test.store);
    let cut = say(&parent, "plan");
    parent.scratchpad().set("k", 1).unwrap();
    let after = say(&parent, "go");
    let child = parent.fork(&ForkOptions::new()).unwrap();
    let early = parent.fork(&ForkOptions::new().up_to(&cut)).unwrap();
    let late = parent.fork(&ForkOptions::new().up_to(&after)).unwrap();
    child.scratchpad().set("k", 2).unwrap();
    parent.scratchpad().set("k", 3).unwrap();
    let k = |session: &Session| session.scratchpad().get("k").unwrap();
    assert_eq!(
        (k(&parent), k(&child), k(&early), k(&late)),
        (Some(json!(3)), Some(json!(2)), None, Some(json!(1)))
    );
    let grandchild = child.fork(&ForkOptions::new()).unwrap();
    parent.delete().unwrap();
    child.delete().unwrap();
    assert_eq!((k(&late), k(&grandchild)), (Some(json!(1)), Some(json!(2))));
    assert_eq!(grandchild.scratchpad().history("k").unwrap().len(), 2);
}

#[test]
fn a_value_as_of_a_message_is_the_same_through_forks_and_moves_of_the_head() {
    let test = TestStore::new();
    let session = desk(&test.store);
    let notes = session.scratchpad();
    let mut uuids = Vec::new();
    for step in 0..4 {
        uuids.push(say(&session, &format!("step {step}")));
        notes.set("step", step).unwrap();
    }
    let at = |session: &Session, uuid: &str| session.scratchpad().get_at(uuid, "step").unwrap();
    let expected = [None, Some(json!(0)), Some(json!(1)), Some(json!(2))];
    let seen: Vec<Option<Value>> = uuids.iter().map(|uuid| at(&session, uuid)).collect();
    assert_eq!(seen, expected);
    let fork = session.fork(&ForkOptions::new()).unwrap();
    let forked: Vec<_> = fork
        .conversation("")
        .unwrap()
        .entries
        .iter()
        .map(|entry| at(&fork, &entry.uuid))
        .collect();
    assert_eq!(forked, expected);
    session.switch_to(&uuids[1]).unwrap();
    assert_eq!(notes.get("step").unwrap(), Some(json!(0)));
    notes.set("step", "other way").unwrap();
    session.switch_to(&uuids[3]).unwrap();
    assert_eq!(notes.get("step").unwrap(), Some(json!(2)));
    let options = AppendOptions::new().hang_from(&uuids[2]);
    session
        .messages()
        .append_with(NewMessage::user("again"), &options)
        .unwrap();
    assert_eq!(notes.get("step").unwrap(), Some(json!(1)));
    assert_eq!(
        uuids
            .iter()
            .map(|uuid| at(&session, uuid))
            .collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn a_summary_fits_and_the_store_grows_by_what_changed_b123() {
    let test = TestStore::new();
    let session = desk(&test.store);
    let notes = session.scratchpad();
    notes.set("large", "x".repeat(4 << 20)).unwrap();
    let size = || {
        let sql = rusqlite::Connection::open(test.store.path()).unwrap();
        sql.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        std::fs::metadata(test.store.path()).unwrap().len()
    };
    let before = size();
    for step in 0..200 {
        notes.set("step", step).unwrap();
    }
    assert!(
        size() - before < 100 << 10,
        "{} bytes for 200 small notes",
        size() - before
    );
    let summary = notes.summary(200).unwrap();
    assert!(
        summary.chars().count() <= 200 && summary.contains("step: 199"),
        "{summary}"
    );
}

#[test]
fn another_writers_prompt_on_an_old_branch_has_that_branchs_notes_and_a_late_result_its_calls() {
    let test = TestStore::new();
    let session = desk(&test.store);
    let notes = session.scratchpad();
    say(&session, "deploy");
    let call = json!([{"type": "tool_use", "id": "t1", "name": "X", "input": {}}]);
    let call = session.messages().append(NewMessage::assistant(call));
    let call = call.unwrap().uuid;
    notes.set("k", "behind the call").unwrap();
    let second = say(&session, "meanwhile");
    notes.set("k", "in the second turn").unwrap();
    let settle = turnkeep::Settle::Result(json!("done"));
    let settled = session.tools().settle("t1", &settle).unwrap().call;
    let late = settled.result.unwrap();
    assert_eq!(
        notes.get_at(&late, "k").unwrap(),
        notes.get_at(&call, "k").unwrap()
    );
    assert_eq!(notes.get("k").unwrap(), Some(json!("in the second turn")));
    // As the client branches: its entry says itself where it hangs.
    let entry = json!({"type": "user", "uuid": "other", "parentUuid": call, "isSidechain": false,
        "message": {"role": "user", "content": "rather not"}});
    let append = |entry: &Value| {
        session
            .messages()
            .append_entries([entry.to_string()], &AppendOptions::new())
            .unwrap()
    };
    append(&entry);
    assert_eq!(notes.get("k").unwrap(), None);
    notes.set("k", "other way").unwrap();
    append(&entry);
    assert_eq!(
        notes.get("k").unwrap(),
        Some(json!("other way")),
        "a duplicate moves nothing"
    );
    // An answer put on the branch that was left takes the session there.
    let options = AppendOptions::new().hang_from(&second);
    let answer = session
        .messages()
        .append_with(NewMessage::assistant("Yes."), &options)
        .unwrap();
    let last = session.conversation("").unwrap().entries.pop().unwrap();
    assert_eq!(last.uuid, answer.uuid);
    assert_eq!(notes.get("k").unwrap(), Some(json!("behind the call")));
}
