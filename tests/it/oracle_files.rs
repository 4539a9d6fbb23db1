//! Rewinds beside the real client's own: of what was exported, it makes the same tree.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::json;
use turnkeep::claude_code::export_config_folder;
use turnkeep::{ForkOptions, Session};

use crate::imported_files::{Moved, prompts, rewind};
use crate::kit::tree;
use crate::sdk::ask;

/// A tree as files by name.
type Files = &'static [(&'static str, &'static str)];

/// Real runs with checkpoints, and the tree as it is when the rewinds begin.
const RUNS: [(&str, &str, Files); 3] = [
    (
        "files_sdk",
        "7bcb77cc",
        &[
            ("new.txt", "what it came to\n"),
            ("existing.txt", "and this\n"),
            ("other.txt", "o\n"),
        ],
    ),
    (
        "parallel",
        "3fbd77ca",
        &[("a.txt", "last\n"), ("b.txt", "last\n")],
    ),
    ("kill_in_tool", "ea2cf951", &[("one.txt", "last\n")]),
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
    for prompt in prompts(session) {
        lay(moved, files);
        let before = tree(&moved.work);
        let report = rewind(session, &prompt);
        let ours = tree(&moved.work);
        assert_ne!(ours, before, "{prompt} {report:?}");
        session.undo(None).unwrap();
        assert_eq!(tree(&moved.work), before, "{prompt}");
        rewound_by_the_client(&out, &moved.work, session, &prompt);
        assert_eq!(tree(&moved.work), ours, "{prompt} {report:?}");
    }
}
