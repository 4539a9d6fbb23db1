//! The real client, resuming what was exported.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnkeep::claude_code::{self, ImportOptions, export_config_folder, project_key_for};
use turnkeep::{Session, SessionKey, Store};

use super::folders::long_paths;
use crate::kit::{TestStore, exported, fixture_path, import};
use crate::sdk::ask;

const PLAIN: (&str, &str) = ("plain_stream", "1a7d9357-97f2-4289-8da3-68238d17e1ca");
const COMPACTED: (&str, &str) = ("compact_manual", "63ee4573-f34b-4e65-840e-bc2fdc275b32");

const PROMPT: &str = "Say one word more.";

#[test]
fn the_client_resumes_an_exported_session_and_an_import_takes_what_it_adds() {
    resume_and_import(PLAIN, &["turn one", "Answer to two.", "Answer to three."]);
}

#[test]
fn the_client_resumes_a_compacted_session_as_our_context_shows_it() {
    resume_and_import(
        COMPACTED,
        &["This session is being continued", "Answer 2.", "Answer 3."],
    );
}

/// Exports a fixture's session, lets the client go on with it, and imports what came of it.
fn resume_and_import(of: (&str, &str), holds: &[&str]) {
    let test = TestStore::new();
    let cwd = folder(&test.path("work"));
    let session = session_for(&test.store, of, &cwd);
    let config = test.path("config");
    export_config_folder(&config, std::slice::from_ref(&session)).unwrap();
    let before = exported(&session, "");
    let history = context_texts(&session);
    for text in holds {
        let there = |shown: &&String| shown.starts_with(text);
        assert_eq!(history.iter().filter(there).count(), 1, "{text}");
    }

    let answer = resume(&config, &cwd, of.1);
    let request = answer["requests"].as_array().unwrap().last().unwrap();
    let sent = texts(request);
    let mut rest = sent.iter();
    for text in &history {
        assert!(
            rest.any(|sent| sent == text),
            "not in the request, or not there: {text}\n{sent:#?}"
        );
    }
    assert!(
        rest.any(|sent| sent == PROMPT),
        "the prompt is not behind the history"
    );

    let file = transcript(&config, session.key());
    let after = fs::read(&file).unwrap();
    let added = after.strip_prefix(&before[..]).unwrap();
    let added = added.split(|byte| *byte == b'\n').count() - 1;
    assert!(added > 1, "the client added {added} lines");
    let report = import(&test.store, &config);
    assert_eq!(report.new_entries, added as u64, "{report:?}");
    assert_eq!((report.sessions, report.partial), (1, false), "{report:?}");
    assert!(exported(&session, "") == after);
    let spoken = session.conversation("").unwrap();
    assert!(
        spoken
            .visible()
            .last()
            .is_some_and(|last| last.entry.contains("Resumed."))
    );
    assert_eq!(test.store.verify().unwrap().findings, []);
}

/// A fixture's session under the key of `cwd`.
fn session_for(store: &Store, (fixture, id): (&str, &str), cwd: &str) -> Session {
    let source = fixture_path(&format!(
        "transcripts/{fixture}/projects/-home-dev-shop/{id}.jsonl"
    ));
    let key = SessionKey::new(project_key_for(cwd), id).unwrap();
    let options = ImportOptions::new().into_project(&key.project_key);
    let report = claude_code::import(store, &source, &options, &mut |_| ControlFlow::Continue(()));
    let report = report.unwrap();
    assert!(!report.partial, "{report:?}");
    store.sessions().get(&key).unwrap()
}

/// Makes a folder and returns its real path.
fn folder(path: &Path) -> String {
    fs::create_dir_all(path).unwrap();
    let real = fs::canonicalize(path).unwrap();
    real.to_str().unwrap().to_owned()
}

/// Lets the client go on with a session; it must end well.
fn resume(config: &Path, cwd: &str, id: &str) -> Value {
    let arguments = [
        config.as_os_str(),
        cwd.as_ref(),
        id.as_ref(),
        PROMPT.as_ref(),
    ];
    let answer = ask("client_resume.py", &arguments, b"");
    assert_eq!(answer["exit"], 0, "{answer}");
    answer
}

fn transcript(config: &Path, key: &SessionKey) -> PathBuf {
    let project = config.join("projects").join(&key.project_key);
    project.join(format!("{}.jsonl", key.session_id))
}

/// The texts of our context, in order.
fn context_texts(session: &Session) -> Vec<String> {
    let messages = session.context("").unwrap().messages;
    texts(&serde_json::to_value(messages).unwrap())
}

/// The texts of messages, in order. The client ends some with a line feed where it joins them.
fn texts(messages: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    for message in messages.as_array().unwrap() {
        match &message["content"] {
            Value::String(text) => texts.push(text.trim_end().to_owned()),
            content => texts.extend(
                content
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter_map(|block| Some(block["text"].as_str()?.trim_end().to_owned())),
            ),
        }
    }
    texts
}

/// The keys that client 2.1.332 gave the paths of B64: what it put behind the first 200 units.
const SEEN: [(&str, &str); 6] = [
    ("astral.0", "-j3huja"),
    ("len200.0", ""),
    ("len201.0", "-b6ymvl"),
    ("len262.0", "-fz751n"),
    ("same_first_200.0", "-dpp1dq"),
    ("same_first_200.1", "-dpp1dp"),
];

#[test]
fn project_keys_of_long_paths_are_those_the_client_gave() {
    let paths = long_paths();
    assert_eq!(paths.len(), SEEN.len());
    for (name, hash) in SEEN {
        let key = project_key_for(&paths[name]);
        assert_eq!(&key[200..], hash, "{name}");
    }
    assert!(project_key_for(&paths["astral.0"]).starts_with("-srv---bbb"));
}

#[test]
fn the_client_finds_a_session_under_the_project_key_of_a_long_or_astral_path() {
    let test = TestStore::new();
    let scratch = folder(&test.path("w"));
    for (name, path) in long_paths() {
        let cwd = folder(Path::new(&moved_below(&scratch, &path)));
        let session = session_for(&test.store, PLAIN, &cwd);
        let config = test.path(&name);
        export_config_folder(&config, std::slice::from_ref(&session)).unwrap();
        resume(&config, &cwd, session.id());
        let projects = fs::read_dir(config.join("projects")).unwrap();
        let names: Vec<_> = projects.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [session.key().project_key.as_str()], "{name}: {cwd}");
        let grown = fs::read(transcript(&config, session.key())).unwrap();
        assert!(grown.len() > exported(&session, "").len(), "{name}: {cwd}");
    }
}

/// A path below `scratch` that is as long as `path` and holds the same unusual characters.
fn moved_below(scratch: &str, path: &str) -> String {
    let units = |text: &str| text.encode_utf16().count();
    let (plain, wide): (String, String) = path.chars().partition(char::is_ascii);
    let room = units(path) - units(scratch) - 1 - units(&wide);
    let tail = &plain[plain.len() - room..];
    format!("{scratch}/{wide}{tail}")
}
