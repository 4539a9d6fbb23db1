//! Reported faults of the chain: which messages the conversation is made of.

use turnkeep::{AppendOptions, NewMessage, Session};

use crate::case::{Case, assistant, checked, field, spoken, strings, user, uuids};
use crate::kit::{TestStore, exported};

#[test]
fn a_parent_never_written_is_bridged_b01() {
    let case = Case::import("B01");
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    let repaired = case.expect["repaired_links"].as_u64().unwrap();
    assert_eq!(conversation.repaired_links.len() as u64, repaired);
    assert_eq!(case.report.repaired_links, repaired);
    assert_eq!(exported(&session, ""), case.source());
    let texts = case.expect["active"].as_array().unwrap().len();
    assert_eq!(checked(&session.context("").unwrap()).len(), texts);
}

#[test]
fn a_parent_that_comes_late_mends_its_link_b01() {
    let (_test, session) = empty();
    append(
        &session,
        &[
            user("u1", None, "one"),
            assistant("a2", Some("u2"), "early"),
        ],
    );
    let before = session.conversation("").unwrap();
    assert_eq!(spoken(&before), ["u1", "a2"]);
    assert_eq!(before.repaired_links, ["a2"]);
    append(&session, &[user("u2", Some("u1"), "two")]);
    append(&session, &[assistant("a3", Some("a2"), "three")]);
    let after = session.conversation("").unwrap();
    assert_eq!(spoken(&after), ["u1", "u2", "a2", "a3"]);
    assert!(after.repaired_links.is_empty());
}

#[test]
fn a_parent_that_is_a_sub_agents_is_bridged_b01() {
    let (_test, session) = empty();
    let sidechain = assistant("s1", None, "aside").replace(
        r#""isSidechain":false"#,
        r#""isSidechain":true,"agentId":"x""#,
    );
    append(
        &session,
        &[
            user("u1", None, "one"),
            assistant("a1", Some("u1"), "two"),
            sidechain,
            user("u2", Some("s1"), "three"),
        ],
    );
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), ["u1", "a1", "u2"]);
    assert_eq!(conversation.repaired_links, ["u2"]);
}

#[test]
fn links_in_a_circle_end_b01() {
    let (_test, session) = empty();
    append(
        &session,
        &[
            user("u1", Some("a1"), "one"),
            assistant("a1", Some("u1"), "two"),
        ],
    );
    let conversation = session.conversation("").unwrap();
    assert!(conversation.has_cycle);
    assert_eq!(spoken(&conversation), ["u1", "a1"]);
    assert_eq!(checked(&session.context("").unwrap()).len(), 2);
}

#[test]
fn bookkeeping_lines_are_links_and_never_the_leaf_b02() {
    let case = Case::import("B02");
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    let stored = case.expect["stored_entries"].as_u64().unwrap();
    assert_eq!(case.report.new_entries, stored);
    assert_eq!(session.info().unwrap().entries, stored);
    checked(&session.context("").unwrap());
    assert_next_hangs_from(&session, strings(&case.expect["active"])[3]);
}

#[test]
fn bookkeeping_lines_are_links_in_sub_agents_transcripts_too_b02() {
    let case = Case::import("B02");
    let source = String::from_utf8(case.source()).unwrap();
    let sidechain = source.replace(r#""isSidechain":false"#, r#""isSidechain":true"#);
    let session = case.session();
    let options = AppendOptions::new().to_subpath("subagents/agent-x");
    session
        .messages()
        .append_entries(sidechain.lines(), &options)
        .unwrap();
    let conversation = session.conversation("subagents/agent-x").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    checked(&session.context("subagents/agent-x").unwrap());
}

#[test]
fn parallel_calls_keep_every_result_b03() {
    let case = Case::import("B03");
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    let mut active = spoken(&conversation);
    active.sort_unstable();
    let mut expected = strings(&case.expect["active_set"]);
    expected.sort_unstable();
    assert_eq!(active, expected);
    let context = session.context("").unwrap();
    let answered: Vec<String> = checked(&context)
        .iter()
        .flat_map(|(_, content)| crate::case::blocks(content, "tool_result", "tool_use_id"))
        .collect();
    assert_eq!(answered, strings(&case.expect["pairs"]));
    let unpaired = context.open_calls.len() + context.orphan_results.len();
    assert_eq!(unpaired as u64, case.expect["unpaired"].as_u64().unwrap());
}

#[test]
fn the_last_line_need_not_be_the_leaf_b05() {
    let case = Case::import("B05");
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    let leaf = case.expect["leaf"].as_str().unwrap();
    assert_eq!(conversation.entries.last().unwrap().uuid, leaf);
    assert_next_hangs_from(&session, leaf);
}

#[test]
fn the_first_message_after_a_compaction_may_name_a_lost_parent_b07() {
    let case = Case::import("B07");
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    let newest = case.expect["newest"].as_str().unwrap();
    assert_eq!(conversation.entries.last().unwrap().uuid, newest);
    let context = checked(&session.context("").unwrap());
    let text = serde_json::to_string(&context.iter().map(|(_, said)| said).collect::<Vec<_>>());
    let text = text.unwrap();
    assert!(text.contains("SUMMARY OF 1-2") && text.contains("newest answer"));
    assert!(!text.contains("prompt 1 of main"), "{text}");
    // What was compacted away can still be read.
    let all = uuids(&session, "");
    for uuid in strings(&case.expect["full_history"]) {
        assert!(all.iter().any(|there| there == uuid), "{uuid}");
    }
}

#[test]
fn an_ancestor_in_a_session_that_is_gone_is_noted_b08() {
    let case = Case::import("B08");
    assert!(case.expect["error"].is_null());
    let session = case.session();
    let conversation = session.conversation("").unwrap();
    assert_eq!(spoken(&conversation), strings(&case.expect["active"]));
    let noted = case.expect["missing_ancestor"].as_bool().unwrap();
    assert_eq!(conversation.missing_ancestor.is_some(), noted);
    let context = session.context("").unwrap();
    assert_eq!(context.missing_ancestor, conversation.missing_ancestor);
    checked(&context);
}

#[test]
fn a_limit_keeps_the_newest_messages_b11() {
    let case = Case::import("B11");
    let conversation = case.session().conversation("").unwrap();
    let limit = case.expect["load_limit"].as_u64().unwrap();
    let newest = conversation.newest(usize::try_from(limit).unwrap());
    let newest: Vec<&str> = newest.iter().map(|entry| entry.uuid.as_str()).collect();
    assert_eq!(newest, strings(&case.expect["returns"]));
    assert_eq!(conversation.newest(usize::MAX), conversation.entries);
}

fn empty() -> (TestStore, Session) {
    let test = TestStore::new();
    let session = test.session();
    (test, session)
}

fn append(session: &Session, entries: &[String]) {
    let appended = session
        .messages()
        .append_entries(entries, &AppendOptions::new())
        .unwrap();
    assert_eq!(appended.stored, entries.len() as u64);
}

/// What is appended now goes on from this message.
fn assert_next_hangs_from(session: &Session, uuid: &str) {
    let next = session.messages().append(NewMessage::user("next")).unwrap();
    let lines = session.transcript("").unwrap();
    let entry = lines.last().unwrap().entry.clone().unwrap();
    assert_eq!(field(&entry, "uuid"), Some(next.uuid));
    assert_eq!(field(&entry, "parentUuid").as_deref(), Some(uuid));
}
