//! Reported cases of forks among forks, and of forks made beside others' work.

use std::collections::HashSet;
use std::thread;

use serde_json::json;
use turnkeep::{Durability, ErrorKind, ForkOptions, NewMessage, OpenOptions, Session, Store};

use crate::cases_forks::{context, expected, messages};
use crate::kit::{TestStore, all_sessions, exported, import, uuids};

#[test]
fn a_fork_of_a_fork_knows_its_ancestors_also_after_renaming_and_importing_again_b50() {
    let (test, _) = TestStore::with("cases/B46");
    let a = test.only_session();
    let at_a = uuids(&a)[3].clone();
    let b = a
        .fork(&ForkOptions::new().up_to(&at_a).titled("B"))
        .unwrap();
    let at_b = uuids(&b)[1].clone();
    let c = b.fork(&ForkOptions::new().up_to(&at_b)).unwrap();
    for step in ["as made", "renamed", "imported again"] {
        let lineage = c.lineage().unwrap();
        let keys: Vec<_> = lineage.ancestors.iter().map(|kin| &kin.key).collect();
        assert_eq!(keys, [b.key(), a.key()], "{step}");
        assert_eq!(lineage.forked_at.as_ref(), Some(&at_b), "{step}");
        assert_eq!(
            lineage.ancestors[0].forked_at.as_ref(),
            Some(&at_a),
            "{step}"
        );
        let children = a.lineage().unwrap().children;
        let keys: Vec<_> = children.iter().map(|kin| &kin.key).collect();
        assert_eq!(keys, [b.key()], "{step}");
        for session in [&a, &b, &c] {
            let ancestors = session.lineage().unwrap().ancestors;
            assert!(ancestors.iter().all(|kin| kin.key != *session.key()));
            let depths: Vec<_> = session
                .family()
                .unwrap()
                .iter()
                .map(|kin| kin.depth)
                .collect();
            assert_eq!(depths, [0, 1, 2], "{step}");
        }
        if step == "as made" {
            a.rename("A, renamed").unwrap();
            b.rename("B, renamed").unwrap();
            c.rename("C, renamed").unwrap();
        } else {
            let out = test.path("out");
            let all = [a.clone(), b.clone(), c.clone()];
            turnkeep::claude_code::export_config_folder(&out, &all).unwrap();
            assert_eq!(import(&test.store, &out).new_entries, 0);
        }
    }
    assert_eq!(
        b.info().unwrap().forked_from.as_deref(),
        Some(a.id()),
        "a list tells it"
    );
    assert_eq!(all_sessions(&test.store).len(), 3);
}

#[test]
fn a_fork_into_a_taken_id_changes_neither_side_b51() {
    let sequence = expected("B51", "sequence.json");
    let (test, _) = TestStore::with("cases/B46");
    let source = test.only_session();
    let call = |options: &ForkOptions| source.fork(options);
    let first = call(&ForkOptions::new().id("F")).unwrap();
    let before = (exported(&source, ""), exported(&first, ""));
    for (number, id) in [(1, "F"), (2, source.id())] {
        assert_eq!(sequence["calls"][number]["call"], "fork");
        let error = call(&ForkOptions::new().id(id)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("exists"), "{error}");
    }
    let repeat = sequence["calls"][3]["repeat"].as_u64().unwrap();
    for blank in ["", " ", "\t\n"] {
        let error = call(&ForkOptions::new().id(blank)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let clock = OpenOptions::new()
        .clock(|| 1_795_961_337_000)
        .durability(Durability::Normal);
    let store = Store::open_with(test.path("store.db"), &clock).unwrap();
    let source = store.sessions().get(source.key()).unwrap();
    let ids: HashSet<String> = (0..repeat)
        .map(|_| source.fork(&ForkOptions::new()).unwrap().id().to_owned())
        .collect();
    assert_eq!(ids.len() as u64, repeat);
    assert_eq!((exported(&source, ""), exported(&first, "")), before);
    assert_eq!(all_sessions(&store).len() as u64, repeat + 2);
}

#[test]
fn a_fork_taken_while_the_source_is_written_is_an_exact_prefix_b55() {
    const ENTRIES: usize = 1000;
    const FORKS: usize = 50;
    let test = TestStore::new();
    let source = test.session();
    let path = test.path("store.db");
    let options = OpenOptions::new().durability(Durability::Normal);
    let writing = Store::open_with(&path, &options).unwrap();
    let forks = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let messages = writing.sessions().get(source.key()).unwrap().messages();
            for number in 0..ENTRIES {
                let id = format!("toolu_{}", number / 4);
                let call = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {}}]);
                let message = match number % 4 {
                    0 => NewMessage::user(format!("prompt {number}")),
                    1 => NewMessage::assistant(call),
                    2 => NewMessage::tool_result(id, "done"),
                    _ => NewMessage::assistant(format!("answer {number}")),
                };
                messages.append(message).unwrap();
            }
        });
        let forks: Vec<Session> = (0..FORKS)
            .map(|_| source.fork(&ForkOptions::new()).unwrap())
            .collect();
        writer.join().unwrap();
        forks
    });
    let written = messages(&source);
    assert_eq!(written.len(), ENTRIES);
    let at_a_call = source
        .fork(&ForkOptions::new().up_to(written[5]["uuid"].as_str().unwrap()))
        .unwrap();
    for fork in forks.iter().chain([&at_a_call]) {
        let lines = fork.transcript("").unwrap();
        assert!(lines.iter().all(|line| line.entry.is_some()));
        let shown = messages(fork);
        assert_eq!(
            lines.len(),
            shown.len() + 1,
            "its title is the only line of its own"
        );
        for (entry, was) in shown.iter().zip(&written) {
            assert_eq!(entry["message"], was["message"]);
            assert_eq!(entry["forkedFrom"]["messageUuid"], was["uuid"]);
        }
        let open = fork.context("").unwrap().open_calls;
        let expected = (shown.len() % 4 == 2).then(|| format!("toolu_{}", shown.len() / 4));
        assert_eq!(open, Vec::from_iter(expected));
        assert_eq!(uuids(fork).len(), shown.len());
    }
    assert_eq!(at_a_call.context("").unwrap().open_calls, ["toolu_1"]);
    at_a_call
        .messages()
        .append(NewMessage::tool_result("toolu_1", "late"))
        .unwrap();
    assert!(at_a_call.context("").unwrap().open_calls.is_empty());
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn a_fork_of_a_fresh_fork_outlives_both_b58() {
    let (test, _) = TestStore::with("cases/B46");
    let a = test.only_session();
    let b = a.fork(&ForkOptions::new()).unwrap();
    let c = b.fork(&ForkOptions::new()).unwrap();
    let (sent, shown) = (context(&a), exported(&c, ""));
    let key = c.key().transcript("");
    let loaded = test.store.session_store().load(&key).unwrap().unwrap();
    assert_eq!(loaded.len(), 12, "ten messages, the title of B and its own");
    a.delete().unwrap();
    b.delete().unwrap();
    assert_eq!(context(&c), sent);
    assert_eq!(exported(&c, ""), shown);
    assert_eq!(
        test.store.session_store().load(&key).unwrap().unwrap(),
        loaded
    );
    let ancestors = c.lineage().unwrap().ancestors;
    let told: Vec<_> = ancestors
        .iter()
        .map(|kin| (&kin.key, kin.is_deleted))
        .collect();
    assert_eq!(told, [(b.key(), true), (a.key(), true)]);
    assert_eq!(test.store.verify().unwrap().findings, []);
}
