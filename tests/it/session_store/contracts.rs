//! The SDK's contracts, in its order.

use serde_json::{Value, json};
use turnkeep::{SdkSummary, SummaryUpdate, TranscriptKey};

use super::{Desk, agent_key, main_key};
use crate::sdk::ask;

const N: &str = r#""n":1"#;

fn key() -> TranscriptKey {
    main_key("proj", "sess")
}

fn agent(number: u8) -> TranscriptKey {
    agent_key("proj", "sess", &format!("subagents/agent-{number}"))
}

#[test]
fn load_gives_back_what_was_appended_in_its_order() {
    let desk = Desk::new();
    let bodies = [r#""uuid":"b","n":1"#, r#""uuid":"a","n":2"#];
    desk.append(&key(), &bodies);
    desk.expect(&key(), &bodies);
}

#[test]
fn load_of_what_was_never_written_is_none() {
    let desk = Desk::new();
    assert_eq!(desk.load(&main_key("proj", "nope")), None);
    desk.append(&key(), &[r#""uuid":"x","n":1"#]);
    assert_eq!(desk.load(&agent_key("proj", "sess", "nope")), None);
}

#[test]
fn several_appends_keep_the_order_of_the_calls() {
    let desk = Desk::new();
    let bodies = [
        r#""uuid":"z","n":1"#,
        r#""uuid":"a","n":2"#,
        r#""uuid":"m","n":3"#,
        r#""uuid":"b","n":4"#,
    ];
    desk.append(&key(), &bodies[..1]);
    desk.append(&key(), &bodies[1..3]);
    desk.append(&key(), &bodies[3..]);
    desk.expect(&key(), &bodies);
}

#[test]
fn an_append_of_nothing_changes_nothing() {
    let desk = Desk::new();
    desk.append(&key(), &[r#""uuid":"a","n":1"#]);
    desk.append(&key(), &[]);
    desk.expect(&key(), &[r#""uuid":"a","n":1"#]);
    desk.append(&main_key("proj", "other"), &[]);
    assert_eq!(desk.load(&main_key("proj", "other")), None);
    assert_eq!(desk.ids("proj"), ["sess"]);
}

#[test]
fn a_sub_agents_transcript_is_apart_from_the_main_one() {
    let desk = Desk::new();
    desk.append(&key(), &[r#""uuid":"m","n":1"#]);
    desk.append(&agent(1), &[r#""uuid":"s","n":1"#]);
    desk.expect(&key(), &[r#""uuid":"m","n":1"#]);
    desk.expect(&agent(1), &[r#""uuid":"s","n":1"#]);
}

#[test]
fn one_session_id_in_two_projects_is_two_sessions() {
    let desk = Desk::new();
    let (a, b) = (main_key("A", "s1"), main_key("B", "s1"));
    desk.append(&a, &[r#""from":"A""#]);
    desk.append(&b, &[r#""from":"B""#]);
    desk.expect(&a, &[r#""from":"A""#]);
    desk.expect(&b, &[r#""from":"B""#]);
    assert_eq!(
        (desk.ids("A"), desk.ids("B")),
        (desk.ids("B"), desk.ids("A"))
    );
    assert_eq!(desk.ids("A"), ["s1"]);
}

#[test]
fn list_sessions_names_a_projects_sessions_with_their_time_in_milliseconds() {
    let desk = Desk::new();
    for (project, session) in [("proj", "a"), ("proj", "b"), ("other", "c")] {
        desk.append(&main_key(project, session), &[N]);
    }
    assert_eq!(desk.ids("proj"), ["a", "b"]);
    let listed = desk.store.list_sessions("proj").unwrap();
    assert!(listed.iter().all(|entry| entry.mtime > 1_000_000_000_000));
    assert_eq!(
        desk.store.list_sessions("never-appended-project").unwrap(),
        []
    );
}

#[test]
fn list_sessions_leaves_sub_agents_out() {
    let desk = Desk::new();
    desk.append(&main_key("proj", "main"), &[N]);
    desk.append(&agent_key("proj", "main", "subagents/agent-1"), &[N]);
    assert_eq!(desk.ids("proj"), ["main"]);
}

#[test]
fn load_after_a_delete_is_none() {
    let desk = Desk::new();
    desk.store
        .delete(&main_key("proj", "never-written"))
        .unwrap();
    desk.append(&key(), &[N]);
    desk.store.delete(&key()).unwrap();
    assert_eq!(desk.load(&key()), None);
}

#[test]
fn deleting_a_session_takes_its_sub_agents_along_and_nothing_else() {
    let desk = Desk::new();
    let (other, elsewhere) = (main_key("proj", "sess2"), main_key("other-proj", "sess"));
    for key in [&key(), &agent(1), &agent(2), &other, &elsewhere] {
        desk.append(key, &[N]);
    }
    desk.store.delete(&key()).unwrap();
    for gone in [key(), agent(1), agent(2)] {
        assert_eq!(desk.load(&gone), None, "{gone:?}");
    }
    desk.expect(&other, &[N]);
    desk.expect(&elsewhere, &[N]);
    assert_eq!(desk.store.list_subkeys(&key().session).unwrap(), [""; 0]);
    assert_eq!(desk.ids("proj"), ["sess2"]);
}

#[test]
fn deleting_a_sub_agents_transcript_leaves_the_others() {
    let desk = Desk::new();
    for key in [key(), agent(1), agent(2)] {
        desk.append(&key, &[N]);
    }
    desk.store.delete(&agent(1)).unwrap();
    assert_eq!(desk.load(&agent(1)), None);
    desk.expect(&agent(2), &[N]);
    desk.expect(&key(), &[N]);
    assert_eq!(
        desk.store.list_subkeys(&key().session).unwrap(),
        ["subagents/agent-2"]
    );
}

#[test]
fn list_subkeys_names_the_sub_agents_of_one_session() {
    let desk = Desk::new();
    let elsewhere = agent_key("proj", "other-sess", "subagents/agent-x");
    for key in [key(), agent(2), agent(1), elsewhere] {
        desk.append(&key, &[N]);
    }
    assert_eq!(
        desk.store.list_subkeys(&key().session).unwrap(),
        ["subagents/agent-1", "subagents/agent-2"]
    );
}

#[test]
fn list_subkeys_leaves_the_main_transcript_out() {
    let desk = Desk::new();
    desk.append(&key(), &[N]);
    assert_eq!(desk.store.list_subkeys(&key().session).unwrap(), [""; 0]);
    let never = main_key("proj", "never-appended").session;
    assert_eq!(desk.store.list_subkeys(&never).unwrap(), [""; 0]);
}

#[test]
fn summaries_are_kept_as_the_sdk_folded_them() {
    let desk = Desk::new();
    let key = main_key("proj", "summ-sess");
    let first = r#""timestamp":"2024-01-01T00:00:00.000Z","customTitle":"first""#;
    let second = r#""timestamp":"2024-01-01T00:00:02.000Z","customTitle":"second""#;
    let folded = fold(&[&[first], &[first, second]]);
    assert_eq!(folded[1]["custom_title"], "second");
    append_folded(&desk, &key, first, &folded[0], 0);
    append_folded(&desk, &key, second, &folded[1], 1);
    let elsewhere = main_key("other", "elsewhere");
    append_folded(&desk, &elsewhere, first, &folded[0], 0);

    let kept = only_summary(&desk);
    assert_eq!(
        (kept.session_id.as_str(), &kept.data),
        ("summ-sess", &folded[1])
    );
    let listed = desk.store.list_sessions("proj").unwrap();
    assert!(kept.mtime > 1_000_000_000_000);
    assert_eq!(kept.mtime, listed[0].mtime, "one clock");

    let agents = agent_key("proj", "summ-sess", "subagents/agent-1");
    desk.append(&agents, &[second]);
    assert_eq!(only_summary(&desk), kept, "sub-agents do not count");
    let none = desk.store.list_session_summaries("never-appended-project");
    assert_eq!(none.unwrap(), []);
    desk.store.delete(&key).unwrap();
    assert_eq!(desk.store.list_session_summaries("proj").unwrap(), []);
}

/// What the SDK folds from each transcript, given as bodies of entries.
fn fold(transcripts: &[&[&str]]) -> Vec<Value> {
    let mut lines = String::new();
    for bodies in transcripts {
        let parse = |body: &&str| serde_json::from_str(&super::entry(body)).unwrap();
        let entries: Vec<Value> = bodies.iter().map(parse).collect();
        lines.push_str(&json!({ "entries": entries }).to_string());
        lines.push('\n');
    }
    serde_json::from_value(ask("sdk_fold.py", &[], lines.as_bytes())).unwrap()
}

fn append_folded(desk: &Desk, key: &TranscriptKey, body: &str, data: &Value, from_version: i64) {
    let summary = SummaryUpdate {
        data: data.clone(),
        from_version,
    };
    desk.store
        .append_with_summary(key, [super::entry(body)], Some(summary))
        .unwrap();
}

fn only_summary(desk: &Desk) -> SdkSummary {
    let mut summaries = desk.store.list_session_summaries("proj").unwrap();
    assert_eq!(summaries.len(), 1);
    summaries.remove(0)
}
