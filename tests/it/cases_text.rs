//! Reported faults of text: line breaks that are none, half characters, NUL characters.

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use turnkeep::{NewMessage, NewSession, SessionFilter, TranscriptKey};

use crate::case::{Case, checked, strings, uuids};
use crate::kit::{TestStore, exported};

#[test]
fn unicode_line_breaks_do_not_end_a_line_b20() {
    let case = Case::import("B20");
    let session = case.session();
    assert_eq!(uuids(&session, ""), strings(&case.expect["imported"]));
    let skipped = case.expect["skipped_lines"].as_array().unwrap().len();
    assert_eq!(case.report.malformed_lines, skipped as u64);
    assert!(!case.report.partial);
    let first = &checked(&session.context("").unwrap())[0].1;
    assert_eq!(*first, case.expect["text_u1"]);
    assert!(exported(&session, "") == case.source());
}

#[test]
fn unicode_line_breaks_pass_every_door_b20() {
    let text = crate::case::expect("B20")["text_u1"].clone();
    let entry = json!({"type": "user", "uuid": "u1", "message": {"role": "user", "content": text}});
    let entry = entry.to_string();
    let test = TestStore::new();
    let door = test.store.session_store();
    let key = TranscriptKey::main("p", "s").unwrap();
    door.append(&key, [&entry]).unwrap();
    assert_eq!(door.load(&key).unwrap().unwrap(), [entry.as_str()]);
    let session = test.store.sessions().get(&key.session).unwrap();
    let exported = exported(&session, "");
    assert_eq!(exported, format!("{entry}\n").into_bytes());
}

#[test]
fn half_a_surrogate_pair_is_kept_and_not_sent_b21() {
    let case = Case::import("B21");
    assert_eq!(case.report.malformed_lines, 0);
    assert!(!case.report.partial, "{:?}", case.report.problems);
    let session = case.session();
    assert_eq!(uuids_as_bytes(&session), strings(&case.expect["imported"]));
    assert_eq!(case.expect["raw_bytes_kept"], true);
    assert!(exported(&session, "") == case.source());
    assert_eq!(case.expect["to_model_has_no_lone_surrogate"], true);
    // `checked` reads the context as JSON, which refuses lone surrogates.
    let messages = checked(&session.context("").unwrap());
    let prompt = messages[0].1.as_str().unwrap();
    assert_eq!(prompt, "emoji cut here: \u{fffd}\u{2026}");
    let input = messages[1].1[0]["input"]["content"].as_str().unwrap();
    let pair = case.expect["valid_pair_kept"].as_str().unwrap();
    assert_eq!(input, format!("\u{fffd} then {pair} ok"));
}

#[test]
fn half_a_surrogate_pair_in_a_title_does_not_break_the_list_b21() {
    let case = Case::import("B21");
    let page = case.test.store.sessions();
    let page = page.list(&SessionFilter::new(), None, 10).unwrap();
    assert_eq!(page.sessions[0].title.as_deref(), Some("title \u{fffd}"));
    let shown = serde_json::to_string(&page.sessions).unwrap();
    assert!(serde_json::from_str::<Value>(&shown).is_ok());
    assert_eq!(case.test.store.verify().unwrap().findings, []);
}

#[test]
fn our_own_cuts_are_at_character_borders_b21() {
    let test = TestStore::new();
    for pad in 0..4 {
        let session = test.session();
        // Characters of four bytes and two UTF-16 units at every place where a cut may fall.
        let text = "x".repeat(pad) + &"😀".repeat(400);
        session.messages().append(NewMessage::user(text)).unwrap();
        let info = session.info().unwrap();
        for shown in [info.first_prompt.unwrap(), info.summary.unwrap()] {
            let body = shown.strip_suffix('…').unwrap();
            assert_eq!(body.trim_start_matches('x').replace('😀', ""), "");
            assert_eq!(body.chars().count(), 200);
        }
    }
}

#[test]
fn nul_characters_are_not_the_end_of_a_text_b22() {
    let case = Case::import("B22");
    let session = case.session();
    let expected = case.expect["text_r1"].as_str().unwrap();
    let length = case.expect["length_r1"].as_u64().unwrap();
    assert_eq!(expected.chars().count() as u64, length);
    assert_eq!(case.expect["not_truncated"], true);

    assert!(exported(&session, "") == case.source());
    let context = checked(&session.context("").unwrap());
    assert_eq!(context[2].1[0]["content"], expected);
    let of = |entry: &str| -> Value {
        let entry: Value = serde_json::from_str(entry).unwrap();
        entry["message"]["content"][0]["content"].clone()
    };
    let lines = session.transcript("").unwrap();
    assert_eq!(of(lines[2].entry.as_deref().unwrap()), expected);
    let key = session.key().transcript("");
    let loaded = case.test.store.session_store().load(&key).unwrap().unwrap();
    assert_eq!(of(&loaded[2]), expected);

    // What a person who queries the file sees.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let shell = Connection::open_with_flags(case.test.store.path(), flags).unwrap();
    let text: String = shell
        .query_row(
            "SELECT json_extract(entry, '$.message.content[0].content') FROM transcript_view WHERE seq = 3",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(text, expected);
}

#[test]
fn nul_characters_pass_the_typed_door_b22() {
    let test = TestStore::new();
    let text = crate::case::expect("B22")["text_r1"].clone();
    let text = text.as_str().unwrap();
    let new = NewSession::in_project(text).id(text).cwd(text).titled(text);
    let session = test.store.sessions().create(new).unwrap();
    session.messages().append(NewMessage::user(text)).unwrap();
    let found = test.store.sessions().get(session.key()).unwrap();
    assert_eq!(checked(&found.context("").unwrap())[0].1, text);
    let info = found.info().unwrap();
    for kept in [&info.title, &info.first_prompt, &info.cwd] {
        assert_eq!(kept.as_deref(), Some(text));
    }
    assert_eq!((&info.project_key[..], &info.session_id[..]), (text, text));
    let by_cwd = SessionFilter::new().project(text).cwd(text);
    let page = test.store.sessions().list(&by_cwd, None, 9).unwrap();
    assert_eq!(page.sessions.len(), 1);
}

/// The uuids of entries that a strict reader of JSON refuses.
fn uuids_as_bytes(session: &turnkeep::Session) -> Vec<String> {
    let mut found = Vec::new();
    for line in session.transcript("").unwrap() {
        let entry = line.entry.unwrap();
        if let Some((_, rest)) = entry.split_once("\"uuid\":\"") {
            found.push(rest[..36].to_owned());
        }
    }
    found
}
