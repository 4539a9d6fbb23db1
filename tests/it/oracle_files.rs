//! Rewinds beside the real client's own: of what was exported, it makes the same tree.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;
use turnkeep::claude_code::export_config_folder;
use turnkeep::{ForkOptions, NewMessage, NewSession, Session};

use crate::imported_files::{Moved, prompts, rewind};
use crate::kit::tree;
use crate::sdk::ask;

/// A tree as files by name.
type Files = &'static [(&'static str, &'static str)];

/// Real runs with checkpoints, and the tree as they left it.
const RUNS: [(&str, &str, Files); 3] = [
    (
        "files_sdk",
        "7bcb77cc",
        &[
            ("new.txt", "new line ONE\n"),
            ("existing.txt", "ALPHA\nBETA\nGAMMA\nby bash\n"),
            ("other.txt", "o\n"),
        ],
    ),
    (
        "parallel",
        "3fbd77ca",
        &[("a.txt", "A1\nA2\nA3\n"), ("b.txt", "B1\n")],
    ),
    ("kill_in_tool", "ea2cf951", &[("one.txt", "1\n")]),
];

fn lay(moved: &Moved, files: Files) {
    std::fs::remove_dir_all(&moved.work).unwrap();
    std::fs::create_dir(&moved.work).unwrap();
    for (name, text) in files {
        moved.write(name, text);
    }
}

/// Rewinds with the client what `config` holds of a session.
fn rewound_by_the_client(config: &Path, work: &Path, session: &Session, to: &str) {
    let arguments: [&OsStr; 4] = [
        config.as_os_str(),
        work.as_os_str(),
        session.id().as_ref(),
        to.as_ref(),
    ];
    let answer = ask("client_rewind.py", &arguments, b"");
    assert_eq!(answer["exit"], json!(0), "{answer}");
    assert!(answer.to_string().contains("rewound to state"), "{answer}");
}

#[test]
fn the_client_rewinds_an_exported_session_to_the_same_tree() {
    for (run, id, files) in RUNS {
        let moved = Moved::of(&format!("transcripts/{run}"), "/home/dev/shop");
        moved.import();
        compare(&moved, &moved.session(id), files);
    }
}

#[test]
fn the_client_rewinds_an_exported_fork_to_the_same_tree() {
    let (run, id, files) = RUNS[0];
    let moved = Moved::of(&format!("transcripts/{run}"), "/home/dev/shop");
    moved.import();
    let fork = moved.session(id).fork(&ForkOptions::new()).unwrap();
    compare(&moved, &fork, files);
}

/// Rewinds to each prompt, here and with the client.
fn compare(moved: &Moved, session: &Session, files: Files) {
    let out = moved.test.path("exported");
    export_config_folder(&out, std::slice::from_ref(session)).unwrap();
    let mut changed = 0;
    for prompt in prompts(session) {
        lay(moved, files);
        let before = tree(&moved.work);
        let report = rewind(session, &prompt);
        let ours = tree(&moved.work);
        assert_eq!(report.conflicts, Vec::<std::path::PathBuf>::new());
        if report.operation.is_some() {
            changed += usize::from(ours != before);
            session.undo(None).unwrap();
        }
        assert_eq!(tree(&moved.work), before, "{prompt}");
        rewound_by_the_client(&out, &moved.work, session, &prompt);
        assert_eq!(tree(&moved.work), ours, "{prompt} {report:?}");
    }
    assert!(changed > 0);
}

#[test]
fn the_client_rewinds_a_fork_whose_origins_records_lie_behind_the_cut_and_is_gone_b57() {
    let moved = Moved::of("cases/B57", "/srv/demo");
    moved.import();
    let source = moved.test.only_session();
    let up_to = crate::case::expect("B57")["fork_up_to"].clone();
    let fork = source
        .fork(&ForkOptions::new().up_to(up_to.as_str().unwrap()))
        .unwrap();
    source.delete().unwrap();
    compare(&moved, &fork, &[("a.txt", "content after turn 2\n")]);
}

#[test]
fn the_client_rewinds_what_was_captured_here() {
    let moved = Moved::empty();
    let session = moved
        .test
        .store
        .sessions()
        .create(NewSession::in_project("p").cwd(moved.work.to_str().unwrap()))
        .unwrap();
    let write = |name: &str, text: &str| {
        let id = format!("toolu_{text}");
        let block = json!([{"type": "tool_use", "id": id, "name": "Write", "input": {}}]);
        session
            .messages()
            .append(NewMessage::assistant(block))
            .unwrap();
        session.files().before(id.as_str(), [name]).unwrap();
        moved.write(name, text);
        session.files().after(id.as_str(), [name]).unwrap();
        session
            .messages()
            .append(NewMessage::tool_result(id, "done"))
            .unwrap();
    };
    moved.write("sub/old.txt", "before");
    for (prompt, work) in [
        ("one", vec![("sub/old.txt", "first"), ("new.txt", "made")]),
        ("two", vec![("sub/old.txt", "second")]),
        ("three", vec![("last.txt", "last")]),
    ] {
        session.messages().append(NewMessage::user(prompt)).unwrap();
        for (name, text) in work {
            write(name, text);
        }
        session
            .messages()
            .append(NewMessage::assistant("done"))
            .unwrap();
    }
    let files = &[
        ("sub/old.txt", "second"),
        ("new.txt", "made"),
        ("last.txt", "last"),
    ];
    compare(&moved, &session, files);
}
