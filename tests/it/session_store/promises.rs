//! What an append keeps beyond the SDK's contracts.

use serde_json::json;
use turnkeep::{ErrorKind, SummaryUpdate};

use super::{Desk, agent_key, entry, main_key};
use crate::kit::fixture_path;

const A: &str = r#""uuid":"a","n":1"#;
const B: &str = r#""uuid":"b","n":2"#;

#[test]
fn an_append_is_idempotent_by_uuid_and_the_first_one_stays() {
    let desk = Desk::new();
    let key = main_key("proj", "sess");
    desk.append(&key, &[A]);
    // The same value in other bytes is a duplicate; another value is not.
    let again = desk.append(
        &key,
        &[A, r#""n" : 1 , "uuid":"a""#, B, r#""uuid":"a","n":3"#],
    );
    assert_eq!((again.stored, again.duplicates, again.differing), (1, 2, 1));
    desk.expect(&key, &[A, B]);
    let within = desk.append(&main_key("proj", "new"), &[A, A]);
    assert_eq!((within.stored, within.duplicates), (1, 1));
}

#[test]
fn entries_without_a_uuid_are_stored_as_often_as_they_come() {
    let desk = Desk::new();
    let key = main_key("proj", "sess");
    desk.append(&key, &[r#""n":1"#, r#""n":1"#]);
    desk.append(&key, &[r#""n":1"#]);
    desk.expect(&key, &[r#""n":1"#; 3]);
}

#[test]
fn one_uuid_in_two_transcripts_is_two_entries() {
    let desk = Desk::new();
    let (main, agent) = (
        main_key("proj", "sess"),
        agent_key("proj", "sess", "subagents/agent-1"),
    );
    desk.append(&main, &[A]);
    assert_eq!(desk.append(&agent, &[A]).stored, 1);
    desk.expect(&agent, &[A]);
}

#[test]
fn an_append_with_a_line_that_is_no_object_stores_nothing() {
    let desk = Desk::new();
    let key = main_key("proj", "sess");
    for bad in [
        "[1]",
        "{\"type\":",
        "",
        "{\"a\":1} {\"b\":2}",
        "{\"a\":\n1}",
    ] {
        let error = desk
            .store
            .append(&key, [entry(A).as_str(), bad])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}: {error}");
        assert!(error.to_string().contains("entry 2"), "{bad}: {error}");
        assert_eq!(desk.load(&key), None, "{bad}");
    }
}

#[test]
fn a_summary_folded_from_an_older_one_is_a_conflict_and_stores_nothing() {
    let desk = Desk::new();
    let key = main_key("proj", "sess");
    let set = |body: &str, title: &str, from_version| {
        let summary = SummaryUpdate {
            data: json!({ "custom_title": title }),
            from_version,
        };
        desk.store
            .append_with_summary(&key, [entry(body)], Some(summary))
    };
    let summaries = || desk.store.list_session_summaries("proj").unwrap();
    let early = set(A, "never", 1).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Conflict, "{early}");
    assert_eq!((desk.load(&key), desk.ids("proj").len()), (None, 0));

    set(A, "first", 0).unwrap();
    let before = summaries();
    assert_eq!(before[0].version, 1);
    let late = set(B, "second", 0).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
    desk.expect(&key, &[A]);
    assert_eq!(summaries(), before);

    set(B, "second", 1).unwrap();
    desk.expect(&key, &[A, B]);
    assert_eq!(summaries()[0].data, json!({ "custom_title": "second" }));
}

#[test]
fn a_sub_agents_transcript_has_no_summary() {
    let desk = Desk::new();
    let agent = agent_key("proj", "sess", "subagents/agent-1");
    let summary = SummaryUpdate {
        data: json!({}),
        from_version: 0,
    };
    let error = desk
        .store
        .append_with_summary(&agent, [entry(A)], Some(summary))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(desk.load(&agent), None);
}

#[test]
fn an_append_after_a_delete_makes_a_new_session_and_revives_nothing() {
    let desk = Desk::new();
    let (main, agent) = (
        main_key("proj", "sess"),
        agent_key("proj", "sess", "subagents/agent-1"),
    );
    let summary = SummaryUpdate {
        data: json!({ "custom_title": "old" }),
        from_version: 0,
    };
    desk.store
        .append_with_summary(&main, [entry(A)], Some(summary))
        .unwrap();
    desk.append(&agent, &[A]);
    let old = desk.test.store.sessions().get(&main.session).unwrap();
    desk.store.delete(&main).unwrap();

    assert_eq!(desk.append(&main, &[B, A]).stored, 2, "known no more");
    desk.expect(&main, &[B, A]);
    assert_eq!(desk.load(&agent), None);
    assert_eq!(desk.store.list_subkeys(&main.session).unwrap(), [""; 0]);
    assert_eq!(desk.store.list_session_summaries("proj").unwrap(), []);
    assert_eq!(old.info().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(desk.test.store.verify().unwrap().findings, []);
}

#[test]
fn any_non_empty_strings_are_keys_and_stay_apart() {
    let desk = Desk::new();
    let file = std::fs::read(fixture_path("cases/B128/ids.json")).unwrap();
    let ids: Vec<String> = serde_json::from_slice(&file).unwrap();
    let (empty, mut ids): (Vec<String>, Vec<String>) = ids.into_iter().partition(String::is_empty);
    assert_eq!(empty.len(), 1);
    // Compared as bytes: no folding of case, no trimming, no numbers.
    ids.extend(["1", "01", "1.0", "a", "A", " a", "é", "e\u{301}"].map(String::from));
    let keys: Vec<_> = ids
        .iter()
        .flat_map(|id| {
            [
                main_key(id, id),
                main_key("proj", id),
                agent_key("proj", "sess", id),
            ]
        })
        .collect();
    for (number, key) in keys.iter().enumerate() {
        desk.append(key, &[&format!(r#""n":{number}"#)]);
    }
    for (number, key) in keys.iter().enumerate() {
        desk.expect(key, &[&format!(r#""n":{number}"#)]);
    }
    let mut sorted = ids.clone();
    sorted.sort();
    assert_eq!(desk.ids("proj"), sorted);
    let session = main_key("proj", "sess").session;
    assert_eq!(desk.store.list_subkeys(&session).unwrap(), sorted);
    let beside: Vec<String> = crate::kit::tree(desk.test.folder.path())
        .into_keys()
        .collect();
    assert!(
        beside.iter().all(|name| name.starts_with("store.db")),
        "{beside:?}"
    );
}

#[test]
fn an_empty_project_key_or_session_id_is_refused() {
    let desk = Desk::new();
    for (project, session) in [("", "s"), ("p", "")] {
        let mut key = main_key("p", "s");
        project.clone_into(&mut key.session.project_key);
        session.clone_into(&mut key.session.session_id);
        let error = desk.store.append(&key, [entry(A)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(desk.load(&key), None);
    }
}

#[test]
fn a_sub_agent_may_be_written_before_its_session() {
    let desk = Desk::new();
    let (main, agent) = (
        main_key("proj", "sess"),
        agent_key("proj", "sess", "subagents/agent-1"),
    );
    desk.append(&agent, &[A]);
    assert_eq!(desk.load(&main), None, "the main one was never written");
    assert_eq!(desk.ids("proj"), [""; 0]);
    assert_eq!(
        desk.store.list_subkeys(&main.session).unwrap(),
        ["subagents/agent-1"]
    );
    desk.append(&main, &[B]);
    desk.expect(&main, &[B]);
    desk.expect(&agent, &[A]);
    assert_eq!(desk.ids("proj"), ["sess"]);
}

#[test]
fn a_load_gives_back_the_bytes_that_were_appended() {
    let desk = Desk::new();
    let key = main_key("proj", "sess");
    let odd = r#"{ "type":"x","n":1e400,"m":1.0, "k":1,"k":2, "s":"\ud83d \u0000 é" }"#;
    desk.store.append(&key, [odd]).unwrap();
    assert_eq!(desk.store.load(&key).unwrap().unwrap(), [odd]);
}
