//! Unified diffs, applied by those who are to take them: `patch -p1` and `git apply`.

#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use turnkeep::DiffOptions;

use super::small::Desk;

/// What is at a path: a content, and whether it may be run.
type State = Option<(&'static [u8], bool)>;

const TEXT: State = Some((b"one\ntwo\nthree\n", false));
const OTHER: State = Some((b"one\nzwei\r\nthree\nend", false));
const TO_RUN: State = Some((b"one\ntwo\nthree\n", true));
const EMPTY: State = Some((b"", false));

/// One state after another, each a diff from the one before.
const COURSE: [State; 14] = [
    None, TEXT, OTHER, TO_RUN, TEXT, EMPTY, TEXT, None, EMPTY, TO_RUN, EMPTY, None, TO_RUN, None,
];

const NAMES: [&[u8]; 9] = [
    b"f",
    b"my file.txt",
    b"end ",
    b"a  b c",
    b"tab\tand\nline",
    b"a \"b\" \\c\\ \x01\x7f",
    "größe 1".as_bytes(),
    b"caf\xe9 au lait",
    b"a folder/with a file",
];

fn put(path: &Path, state: State) {
    match state {
        None => {
            let _ = fs::remove_file(path);
        }
        Some((content, to_run)) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
            let mode = if to_run { 0o755 } else { 0o644 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

fn found(path: &Path) -> Option<(Vec<u8>, bool)> {
    let content = fs::read(path).ok()?;
    let mode = fs::metadata(path).unwrap().permissions().mode();
    Some((content, mode & 0o100 != 0))
}

/// Whether a program is there; if not, it is said.
fn is_there(program: &str) -> bool {
    let ran = Command::new(program).arg("--version").output();
    let told = ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned());
    let told = told.unwrap_or_default();
    let is_it = told.starts_with("GNU patch") || told.starts_with("git version");
    if !is_it {
        println!("skipped: no GNU {program} here");
    }
    is_it
}

fn apply(command: &[&str], folder: &Path, unified: &str) {
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .current_dir(folder)
        .env("GIT_CEILING_DIRECTORIES", folder.parent().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    use std::io::Write;
    let written = child.stdin.take().unwrap().write_all(unified.as_bytes());
    written.unwrap();
    let ran = child.wait_with_output().unwrap();
    assert!(ran.status.success(), "{command:?}: {ran:?}\n{unified}");
}

#[test]
fn every_unified_diff_is_taken_by_patch_and_by_git() {
    let commands: [&[&str]; 2] = [
        &["patch", "-p1", "--no-backup-if-mismatch"],
        &["git", "apply"],
    ];
    let commands: Vec<_> = commands
        .into_iter()
        .filter(|all| is_there(all[0]))
        .collect();
    let desk = Desk::new();
    for (number, name) in NAMES.into_iter().enumerate() {
        let session = desk.session(&format!("s{number}"));
        let name = OsStr::from_bytes(name);
        let path = desk.path("").join(name);
        let mut points = Vec::new();
        for state in COURSE {
            points.push(desk.prompt(&session, "next"));
            desk.call(&session, std::slice::from_ref(&path), || put(&path, state));
        }
        points.push(desk.prompt(&session, "end"));
        for at in 1..COURSE.len() {
            let (old, new) = (COURSE[at - 1], COURSE[at]);
            let options = DiffOptions::between(&points[at], &points[at + 1]);
            let diffs = session.files().diff(&options).unwrap();
            let unified = diffs[0].unified.as_deref().unwrap();
            for command in &commands {
                let scratch = tempfile::tempdir().unwrap();
                put(&scratch.path().join(name), old);
                apply(command, scratch.path(), unified);
                let wanted = new.map(|(content, to_run)| (content.to_vec(), to_run));
                assert_eq!(
                    found(&scratch.path().join(name)),
                    wanted,
                    "{command:?}\n{unified}"
                );
                let left = fs::read_dir(scratch.path()).unwrap().count();
                assert!(left <= 1, "{command:?} left other files\n{unified}");
            }
        }
    }
}

#[test]
fn what_text_cannot_hold_has_no_unified_diff() {
    let desk = Desk::new();
    let session = desk.session("a");
    let unified = |old: &[u8], new: &[u8]| {
        desk.write(&session, &[("f", Some(old))]);
        let point = desk.prompt(&session, "next");
        desk.write(&session, &[("f", Some(new))]);
        let mut found = session.files().diff(&DiffOptions::since(&point)).unwrap();
        let found = found.pop().unwrap();
        (found.unified.is_some(), found.hunks.len())
    };
    assert_eq!(unified(b"caf\xe9\n", b"caf\xe9s\n"), (false, 1));
    assert_eq!(unified(b"caf\n", b"caf\xe9\n"), (false, 1));
    assert_eq!(unified(b"caf\xe9\n", b"caf\n"), (false, 1));
    // Far from what differs it does not matter.
    let far = b"1\n2\n3\n4\n5\n6\n7\n8\ncaf\xe9\n";
    assert_eq!(unified(far, &[b"0\n", &far[..]].concat()), (true, 1));
    let near = b"1\n2\ncaf\xe9\n";
    assert_eq!(unified(near, &[b"0\n", &near[..]].concat()), (false, 1));
}
