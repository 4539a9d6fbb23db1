//! Forks of transcripts that are not whole: the smallest of each kind.

use serde_json::{Value, json};
use turnkeep::{AppendOptions, ForkOptions, NewSession, Session, Store};

use crate::kit::{TestStore, exported, import};

fn session(store: &Store, entries: &[Value]) -> Session {
    let session = store
        .sessions()
        .create(NewSession::in_project("p").id("s"))
        .unwrap();
    append(&session, entries);
    session
}

fn append(session: &Session, entries: &[Value]) {
    let entries = entries.iter().map(Value::to_string);
    session
        .messages()
        .append_entries(entries, &AppendOptions::new())
        .unwrap();
}

fn said(kind: &str, uuid: &str, parent: Option<&str>) -> Value {
    json!({"type": kind, "uuid": uuid, "parentUuid": parent, "message": {"role": kind, "content": uuid}})
}

fn conversation(session: &Session) -> Vec<String> {
    let entries = session.conversation("").unwrap().entries;
    entries.into_iter().map(|entry| entry.uuid).collect()
}

/// The conversation of a session's file, read by a store that knows nothing of it.
fn read_again(session: &Session) -> Vec<String> {
    let test = TestStore::new();
    let id = "00000000-0000-4000-8000-000000000000";
    let file = test.path(&format!("{id}.jsonl"));
    let text = String::from_utf8(exported(session, "")).unwrap();
    std::fs::write(&file, text.replace(session.id(), id)).unwrap();
    import(&test.store, &file);
    conversation(&test.only_session())
}

#[test]
fn a_parent_that_arrives_behind_the_cut_changes_no_fork() {
    let test = TestStore::new();
    let source = session(
        &test.store,
        &[
            said("user", "a", None),
            said("assistant", "b", Some("late")),
        ],
    );
    let fork = source.fork(&ForkOptions::new()).unwrap();
    let before = exported(&fork, "");
    append(&source, &[said("user", "late", None)]);
    assert_eq!(exported(&fork, ""), before);
    let cut = source.fork(&ForkOptions::new().up_to("b")).unwrap();
    for fork in [fork, cut] {
        assert_eq!(conversation(&fork).len(), 2);
        assert_eq!(read_again(&fork), conversation(&fork));
    }
}

#[test]
fn a_fork_of_a_broken_transcript_is_read_with_its_whole_history() {
    let test = TestStore::new();
    let source = session(
        &test.store,
        &[
            said("user", "a", None),
            said("assistant", "b", Some("lost")),
        ],
    );
    let fork = source.fork(&ForkOptions::new()).unwrap();
    assert_eq!(conversation(&fork).len(), 2);
    assert_eq!(
        fork.conversation("").unwrap().repaired_links,
        [conversation(&fork)[1].clone()]
    );
    assert_eq!(read_again(&fork), conversation(&fork));
}

#[test]
fn a_line_that_repeats_a_uuid_repeats_it_in_a_fork() {
    let test = TestStore::new();
    let project = test.path("p");
    std::fs::create_dir(&project).unwrap();
    let lines = [
        said("user", "a", None),
        said("assistant", "b", Some("a")),
        said("user", "a", Some("b")),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let file = project.join("00000001-0000-4000-8000-000000000000.jsonl");
    std::fs::write(&file, text).unwrap();
    import(&test.store, &file);
    let fork = test.only_session().fork(&ForkOptions::new()).unwrap();
    let lines = String::from_utf8(exported(&fork, "")).unwrap();
    let uuids: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["uuid"].clone())
        .collect();
    assert_eq!(uuids[0], uuids[2]);
    assert_ne!(uuids[0], "a");
    assert_eq!(read_again(&fork), conversation(&fork));
}

#[test]
fn a_fork_up_to_a_message_that_moves_no_head_ends_with_it_wherever_it_is_read() {
    let test = TestStore::new();
    let note = json!({"type": "attachment", "uuid": "note", "parentUuid": "a", "attachment": {"type": "todo"}});
    let source = session(
        &test.store,
        &[
            said("user", "a", None),
            said("assistant", "b", Some("a")),
            note,
        ],
    );
    let fork = source.fork(&ForkOptions::new().up_to("note")).unwrap();
    assert_eq!(conversation(&fork).len(), 2, "the prompt and the note");
    assert_eq!(read_again(&fork), conversation(&fork));
}

#[test]
fn a_fork_up_to_a_message_of_a_branch_left_behind_ends_with_it_wherever_it_is_read() {
    let test = TestStore::new();
    let source = session(
        &test.store,
        &[
            said("user", "a", None),
            said("assistant", "b", Some("a")),
            said("user", "c", Some("b")),
        ],
    );
    source.switch_to("b").unwrap();
    append(&source, &[said("assistant", "late", Some("c"))]);
    assert_eq!(conversation(&source), ["a", "b"]);
    source.switch_to("c").unwrap();
    let fork = source.fork(&ForkOptions::new().up_to("late")).unwrap();
    assert_eq!(conversation(&fork).len(), 4);
    assert_eq!(read_again(&fork), conversation(&fork));
}

#[test]
fn where_a_fork_began_is_known_when_its_origin_is_deleted() {
    let test = TestStore::new();
    let source = session(
        &test.store,
        &[said("user", "a", None), said("assistant", "b", Some("a"))],
    );
    let middle = source.fork(&ForkOptions::new()).unwrap();
    let at = conversation(&middle)[0].clone();
    let fork = middle.fork(&ForkOptions::new().up_to(&at)).unwrap();
    middle.delete().unwrap();
    assert_eq!(fork.lineage().unwrap().forked_at, Some(at));
}
