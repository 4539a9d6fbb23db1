//! Config folders, read by the SDK and by this library.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use turnkeep::claude_code::{export_config_folder, project_key_for};
use turnkeep::{Session, SessionFilter, SessionInfo};

use crate::context_rules::assert_valid;
use crate::kit::{TestStore, all_sessions, fixture_path, import, tree};
use crate::sdk::{ask, names, read_folder};

/// Fixtures whose conversation must hold something else than what the SDK reads: why, and the field
/// of `expect.json` that says what it holds (`None`: the SDK's messages are its end).
const DIFFER: [(&str, &str, Option<&str>); 7] = [
    (
        "torn_tail",
        "the kill took the entry that the next prompt names as its parent: the SDK loses what was before",
        None,
    ),
    (
        "B01",
        "links to entries that were never written are bridged; the SDK stops at the first",
        Some("active"),
    ),
    (
        "B07",
        "a link into what a compaction left behind goes to the summary",
        Some("active"),
    ),
    (
        "B44",
        "a link to a message that the compaction kept puts it behind the summary; the SDK goes back past the boundary",
        Some("source_context"),
    ),
    (
        "B17",
        "a record padded with NUL bytes counts; the SDK cannot read its line",
        Some("active"),
    ),
    (
        "B18",
        "a record glued behind half of another counts; the SDK cannot read its line",
        Some("imported"),
    ),
    (
        "B28",
        "a record behind a byte-order mark counts; the SDK cannot read its line",
        Some("imported"),
    ),
];

/// The only one of these whose unread line holds what a list shows.
const LISTED_DIFFERENTLY: &str = "B28";

/// Every fixture's transcripts in one config folder, so that the SDK is started once.
struct Fixtures {
    folder: TempDir,
    /// The fixture that a session comes from, by `project key/session id`.
    by_session: BTreeMap<String, String>,
}

impl Fixtures {
    fn gather() -> Self {
        let mut all = Self {
            folder: tempfile::tempdir().unwrap(),
            by_session: BTreeMap::new(),
        };
        for group in ["transcripts", "cases"] {
            for entry in fs::read_dir(fixture_path(group)).unwrap() {
                let fixture = entry.unwrap().path();
                if fixture.join("projects").is_dir() {
                    all.add(&fixture);
                }
            }
        }
        assert!(all.by_session.len() >= 50, "{:?}", all.by_session);
        all
    }

    fn add(&mut self, fixture: &Path) {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        for (path, bytes) in tree(fixture) {
            if !path.starts_with("projects/") && !path.starts_with("file-history/") {
                continue;
            }
            let to = self.path().join(&path);
            assert!(!to.exists(), "{name}: another fixture has {path} too");
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::write(to, bytes).unwrap();
            let session = path
                .strip_prefix("projects/")
                .and_then(|path| path.strip_suffix(".jsonl"))
                .filter(|path| path.split('/').count() == 2);
            if let Some(session) = session {
                self.by_session.insert(session.to_owned(), name.to_owned());
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn of(&self, session: &str) -> &str {
        self.by_session.get(session).map_or("", String::as_str)
    }
}

fn visible(session: &Session) -> Vec<String> {
    let conversation = session.conversation("").unwrap();
    conversation
        .visible()
        .map(|entry| entry.uuid.clone())
        .collect()
}

#[test]
fn conversations_hold_what_the_sdk_reads_in_its_order() {
    let fixtures = Fixtures::gather();
    let theirs = read_folder(fixtures.path());
    assert_eq!(theirs["unreadable"], serde_json::json!({}));
    let test = TestStore::new();
    import(&test.store, fixtures.path());
    let mut compared = 0;
    let mut differ = Vec::new();
    for session in all_sessions(&test.store) {
        let key = session.key().to_string();
        let fixture = fixtures.of(&key);
        let ours = visible(&session);
        let messages = &theirs["messages"][&key];
        if messages.is_null() {
            // Known only by a sub-agent's transcript.
            assert_eq!(ours, [""; 0], "{fixture}: {key}");
            continue;
        }
        let theirs = names(messages, "uuid");
        compared += 1;
        match DIFFER.iter().find(|(name, ..)| *name == fixture) {
            None => assert_eq!(ours, theirs, "{fixture}: {key}"),
            Some((_, why, field)) => {
                assert_ne!(ours, theirs, "{fixture} no longer differs: {why}");
                match field {
                    Some(field) => assert_eq!(ours, expected(fixture, field), "{fixture}: {why}"),
                    None => assert!(ours.ends_with(&theirs), "{fixture}: {why}"),
                }
                differ.push(fixture.to_owned());
            }
        }
    }
    assert_eq!(compared, theirs["messages"].as_object().unwrap().len());
    assert_eq!(differ.len(), DIFFER.len(), "{differ:?}");
}

/// A list of uuids in a case's `expect.json`.
fn expected(case: &str, field: &str) -> Vec<String> {
    let path = fixture_path(&format!("cases/{case}/expect.json"));
    let expected: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    serde_json::from_value(expected[field].clone()).unwrap()
}

#[test]
fn contexts_of_all_fixtures_are_what_a_model_takes() {
    let fixtures = Fixtures::gather();
    let test = TestStore::new();
    import(&test.store, fixtures.path());
    let mut agents = 0;
    for session in all_sessions(&test.store) {
        let subpaths = session.subpaths().unwrap();
        agents += subpaths.len();
        for subpath in subpaths.iter().map(String::as_str).chain([""]) {
            let name = format!("{} {subpath}", session.key());
            assert_valid(&session.context(subpath).unwrap(), &name);
        }
    }
    assert!(agents > 0);
}

#[test]
fn lists_show_what_the_sdk_lists() {
    let fixtures = Fixtures::gather();
    let theirs = read_folder(fixtures.path());
    let test = TestStore::new();
    import(&test.store, fixtures.path());
    let page = test
        .store
        .sessions()
        .list(&SessionFilter::new(), None, 1000)
        .unwrap();
    let mut listed: BTreeMap<&str, &Value> = BTreeMap::new();
    for session in theirs["sessions"].as_array().unwrap() {
        listed.insert(session["session_id"].as_str().unwrap(), session);
    }
    for info in &page.sessions {
        let Some(theirs) = listed.remove(info.session_id.as_str()) else {
            panic!("the SDK does not list {info:?}");
        };
        let fixture = fixtures.of(&info.key().to_string());
        let same = shown(info) == their_row(theirs);
        assert!(
            same != (fixture == LISTED_DIFFERENTLY),
            "{fixture}: {info:?}\n{theirs}"
        );
    }
    assert!(listed.is_empty(), "only the SDK lists {listed:?}");
}

/// What both show of a session.
type Row<'a> = ([Option<&'a str>; 6], Option<i64>);

fn shown(info: &SessionInfo) -> Row<'_> {
    let texts = [
        &info.title,
        &info.summary,
        &info.first_prompt,
        &info.tag,
        &info.cwd,
        &info.git_branch,
    ];
    (texts.map(Option::as_deref), Some(info.created_at_ms))
}

fn their_row(session: &Value) -> Row<'_> {
    let texts = [
        "custom_title",
        "summary",
        "first_prompt",
        "tag",
        "cwd",
        "git_branch",
    ];
    (
        texts.map(|name| session[name].as_str()),
        session["created_at"].as_i64(),
    )
}

#[test]
fn an_exported_folder_gives_the_sdk_the_same_answers() {
    let fixtures = Fixtures::gather();
    let before = read_folder(fixtures.path());
    let test = TestStore::new();
    import(&test.store, fixtures.path());
    let out = test.path("out");
    export_config_folder(&out, &all_sessions(&test.store)).unwrap();
    let after = read_folder(&out);
    assert_eq!(rows_by_id(&before), rows_by_id(&after));
    assert_eq!(after["unreadable"], before["unreadable"]);
    for (session, messages) in after["messages"].as_object().unwrap() {
        // A session known only by a sub-agent's transcript gets an empty main one.
        let expected = before["messages"].get(session);
        let none = Value::Array(Vec::new());
        assert_eq!(messages, expected.unwrap_or(&none), "{session}");
    }
    for session in before["messages"].as_object().unwrap().keys() {
        assert!(after["messages"].get(session).is_some(), "{session}");
    }
}

fn rows_by_id(answer: &Value) -> BTreeMap<&str, Row<'_>> {
    let sessions = answer["sessions"].as_array().unwrap();
    let row = |session| (session_id(session), their_row(session));
    sessions.iter().map(row).collect()
}

fn session_id(session: &Value) -> &str {
    session["session_id"].as_str().unwrap()
}

#[test]
fn project_keys_are_the_sdks_for_paths_in_the_basic_plane() {
    let paths = long_paths();
    let plain: Vec<&String> = paths.values().filter(|path| path.is_ascii()).collect();
    assert_eq!((plain.len(), paths.len()), (5, 6));
    let mut plain: Vec<&str> = plain.into_iter().map(String::as_str).collect();
    plain.extend(["/", "/srv/data_app.é", "/srv/測試/app", "/home/Ж Z-9"]);
    let input = serde_json::to_vec(&plain).unwrap();
    let theirs: Vec<String> =
        serde_json::from_value(ask("sdk_project_keys.py", &[], &input)).unwrap();
    let ours: Vec<String> = plain.iter().map(|path| project_key_for(path)).collect();
    assert_eq!(ours, theirs);
}

/// The paths of B64, by name.
pub fn long_paths() -> BTreeMap<String, String> {
    let file = fs::read(fixture_path("cases/B64/paths.json")).unwrap();
    let named: BTreeMap<String, Value> = serde_json::from_slice(&file).unwrap();
    let mut paths = BTreeMap::new();
    for (name, value) in named {
        let values = match &value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for (number, path) in values.iter().enumerate() {
            paths.insert(
                format!("{name}.{number}"),
                path.as_str().unwrap().to_owned(),
            );
        }
    }
    paths
}
