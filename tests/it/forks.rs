//! Forks, branches, leases and resuming, through the public face.

use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, ErrorKind, ForkOptions, NewMessage, NewSession, ResumeOptions, Session, Store,
};

use crate::kit::{TestStore, all_sessions, exported, import, uuids};

fn talk(store: &Store, turns: usize) -> (Session, Vec<String>) {
    let session = store
        .sessions()
        .create(NewSession::in_project("p").cwd("/srv").titled("talk"))
        .unwrap();
    let mut uuids = Vec::new();
    for turn in 1..=turns {
        uuids.push(
            session
                .messages()
                .append(NewMessage::user(format!("prompt {turn}")))
                .unwrap()
                .uuid,
        );
        uuids.push(
            session
                .messages()
                .append(NewMessage::assistant(format!("answer {turn}")))
                .unwrap()
                .uuid,
        );
    }
    (session, uuids)
}

fn texts(session: &Session) -> Vec<String> {
    let context = session.context("").unwrap();
    context
        .messages
        .iter()
        .map(|message| message.content.get().to_owned())
        .collect()
}

#[test]
fn a_fork_begins_as_its_source_and_goes_on_alone() {
    let test = TestStore::new();
    let (source, uuids) = talk(&test.store, 3);
    let before = exported(&source, "");
    let fork = source
        .fork(&ForkOptions::new().up_to(&uuids[3]).titled("plan B"))
        .unwrap();
    assert_eq!(texts(&fork), texts(&source)[..4]);
    fork.messages()
        .append(NewMessage::user("another way"))
        .unwrap();
    source
        .messages()
        .append(NewMessage::user("the old way"))
        .unwrap();
    assert_eq!(texts(&fork).last().unwrap(), "\"another way\"");
    assert_eq!(texts(&source).last().unwrap(), "\"the old way\"");
    assert!(
        exported(&source, "").starts_with(&before),
        "the source is as it was, and its own append behind"
    );
    let info = fork.info().unwrap();
    assert_eq!(
        (info.title.as_deref(), info.forked_from.as_deref()),
        (Some("plan B"), Some(source.id()))
    );
    assert_eq!((info.messages, info.turns), (5, 3));
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn inherited_entries_name_their_origin_and_nothing_of_the_source() {
    let test = TestStore::new();
    let (source, own) = talk(&test.store, 2);
    let fork = source.fork(&ForkOptions::new()).unwrap();
    let again = fork.fork(&ForkOptions::new()).unwrap();
    for (session, origin) in [(&fork, &source), (&again, &fork)] {
        let there = uuids(origin);
        let entries = session.conversation("").unwrap().entries;
        assert_eq!(entries.len(), 4);
        for ((entry, was), number) in entries.iter().zip(&there).zip(0..) {
            let value: Value = serde_json::from_str(&entry.entry).unwrap();
            assert_eq!(value["uuid"], json!(entry.uuid));
            assert_eq!(value["sessionId"], json!(session.id()));
            assert_eq!(
                value["forkedFrom"],
                json!({"sessionId": origin.id(), "messageUuid": was})
            );
            let parent = if number == 0 {
                Value::Null
            } else {
                json!(entries[number - 1].uuid)
            };
            assert_eq!(value["parentUuid"], parent);
            assert!(!own.contains(&entry.uuid));
        }
    }
    assert_eq!(texts(&again), texts(&source));
}

#[test]
fn a_fork_of_a_fork_of_a_fork_outlives_its_ancestors() {
    let test = TestStore::new();
    let (source, uuids) = talk(&test.store, 2);
    let first = source.fork(&ForkOptions::new().up_to(&uuids[1])).unwrap();
    let second = first.fork(&ForkOptions::new()).unwrap();
    second.messages().append(NewMessage::user("mine")).unwrap();
    let third = second.fork(&ForkOptions::new()).unwrap();
    let shown = exported(&third, "");
    source.delete().unwrap();
    first.delete().unwrap();
    second.delete().unwrap();
    assert_eq!(exported(&third, ""), shown);
    let ancestors = third.lineage().unwrap().ancestors;
    assert_eq!(
        ancestors
            .iter()
            .map(|kin| kin.is_deleted)
            .collect::<Vec<_>>(),
        [true, true, true]
    );
    assert_eq!(ancestors[2].key, *source.key());
    assert_eq!(test.store.verify().unwrap().findings, []);
    third.delete().unwrap();
    assert!(all_sessions(&test.store).is_empty());
}

#[test]
fn a_fork_into_a_taken_id_or_at_a_foreign_message_makes_nothing() {
    let test = TestStore::new();
    let (source, _) = talk(&test.store, 1);
    let (_, foreign) = talk(&test.store, 1);
    let taken = source
        .fork(&ForkOptions::new().id(source.id()))
        .unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Conflict);
    for uuid in [foreign[0].as_str(), "nonsense"] {
        let error = source.fork(&ForkOptions::new().up_to(uuid)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.contains(uuid) && text.contains(source.id()), "{text}");
    }
    for options in [ForkOptions::new().up_to("  "), ForkOptions::new().id(" ")] {
        assert_eq!(
            source.fork(&options).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    assert_eq!(all_sessions(&test.store).len(), 2);
}

#[test]
fn entries_sent_again_to_a_fork_are_duplicates() {
    let test = TestStore::new();
    let (source, _) = talk(&test.store, 2);
    let fork = source.fork(&ForkOptions::new()).unwrap();
    let key = fork.key().transcript("");
    let entries = test.store.session_store().load(&key).unwrap().unwrap();
    let again = test.store.session_store().append(&key, &entries).unwrap();
    assert_eq!(
        (again.duplicates, again.stored),
        (4, 2),
        "titles have no uuid and come again"
    );
    let parent = fork.conversation("").unwrap().entries[3].uuid.clone();
    let own = json!({"type": "user", "uuid": "own", "parentUuid": parent, "message": {"role": "user", "content": "go on"}});
    fork.messages()
        .append_entries([own.to_string()], &AppendOptions::new())
        .unwrap();
    assert_eq!(fork.conversation("").unwrap().entries.len(), 5);
    assert_eq!(
        fork.conversation("").unwrap().repaired_links,
        Vec::<String>::new()
    );
}

#[test]
fn the_head_moves_and_late_messages_of_the_branch_left_behind_do_not_bring_it_back() {
    let test = TestStore::new();
    let (session, uuids) = talk(&test.store, 3);
    session.switch_to(&uuids[1]).unwrap();
    assert_eq!(texts(&session).len(), 2);
    let late = json!({"type": "assistant", "uuid": "late", "parentUuid": uuids[5], "message": {"role": "assistant", "content": "late"}});
    session
        .messages()
        .append_entries([late.to_string()], &AppendOptions::new())
        .unwrap();
    assert_eq!(texts(&session).len(), 2);
    session
        .messages()
        .append(NewMessage::user("new way"))
        .unwrap();
    assert_eq!(texts(&session).len(), 3);
    let branches = session.branches().unwrap();
    assert_eq!(
        branches
            .iter()
            .map(|branch| branch.is_current)
            .collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(branches[1].leaf, "late");
    session.switch_to("late").unwrap();
    assert_eq!(
        texts(&session).last().unwrap(),
        r#"[{"type":"text","text":"answer 3"},{"type":"text","text":"late"}]"#
    );
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn resuming_at_a_message_changes_nothing_until_the_next_append() {
    let test = TestStore::new();
    let (session, uuids) = talk(&test.store, 3);
    let resumed = session
        .resume(&ResumeOptions::new().at(&uuids[3]).drops_turn(&uuids[4]))
        .unwrap();
    assert_eq!(resumed.context.messages.len(), 4);
    assert_eq!(texts(&session).len(), 6);
    let options = AppendOptions::new().hang_from(resumed.head.unwrap());
    session
        .messages()
        .append_with(NewMessage::user("instead"), &options)
        .unwrap();
    assert_eq!(texts(&session).len(), 5);
    let late = json!({"type": "assistant", "uuid": "late", "parentUuid": uuids[5], "message": {"role": "assistant", "content": "late"}});
    session
        .messages()
        .append_entries([late.to_string()], &AppendOptions::new())
        .unwrap();
    assert_eq!(texts(&session).len(), 5);
    for (at, turn) in [
        (&uuids[1], &uuids[4]),
        (&uuids[1], &uuids[2]),
        (&uuids[5], &uuids[4]),
    ] {
        let refused = session
            .resume(&ResumeOptions::new().at(at).drops_turn(turn))
            .unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("Resume rejected by --resume-drops-turn: "),
            "{refused}"
        );
    }
    assert_eq!(
        session
            .resume(&ResumeOptions::new().at("x"))
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_lease_keeps_others_out_and_a_taken_over_one_is_refused() {
    let test = TestStore::new();
    let (session, _) = talk(&test.store, 1);
    let mine = session
        .lease("me", std::time::Duration::from_secs(600))
        .unwrap();
    assert_eq!(
        session
            .messages()
            .append(NewMessage::user("x"))
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict
    );
    assert_eq!(
        session
            .lease("you", std::time::Duration::ZERO)
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict
    );
    session
        .messages()
        .append_with(
            NewMessage::user("y"),
            &AppendOptions::new().with_lease(&mine),
        )
        .unwrap();
    session.release(&mine).unwrap();
    let yours = session
        .lease("you", std::time::Duration::from_secs(600))
        .unwrap();
    assert!(yours.token > mine.token);
    let refused = session.messages().append_with(
        NewMessage::user("z"),
        &AppendOptions::new().with_lease(&mine),
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(texts(&session).len(), 3);
}

#[test]
fn a_fork_behind_a_broken_link_goes_out_and_comes_in_with_what_came_before() {
    let (test, _) = TestStore::with("transcripts/torn_tail");
    let folder = test.path("out");
    let mut compared = 0;
    for session in all_sessions(&test.store) {
        let conversation = session.conversation("").unwrap();
        if conversation.repaired_links.is_empty() {
            continue;
        }
        for entry in &conversation.entries {
            let fork = session
                .fork(&ForkOptions::new().up_to(&entry.uuid))
                .unwrap();
            let out = folder.join(compared.to_string());
            turnkeep::claude_code::export_config_folder(&out, std::slice::from_ref(&fork)).unwrap();
            let again = TestStore::new();
            import(&again.store, &out);
            let copy = again.store.sessions().get(fork.key()).unwrap();
            let (copy, fork) = (copy.context("").unwrap(), fork.context("").unwrap());
            assert_eq!(copy.messages, fork.messages, "up to {}", entry.uuid);
            compared += 1;
        }
    }
    assert!(compared > 0, "no fixture has a broken link");
}
