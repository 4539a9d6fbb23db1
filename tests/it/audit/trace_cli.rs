//! The program: `trace`.

use std::fs;

use serde_json::json;

use super::cli::Desk;
use super::trace_form::Record;

#[test]
fn a_trace_is_one_line_that_other_tools_read() {
    let desk = Desk::new();
    let sha = "0123456789abcdef0123456789abcdef01234567";
    let revision = format!("git:{sha}");
    let ran = desk.run(&["trace", "--revision", &revision]);
    assert_eq!((ran.out.lines().count(), ran.err.as_str()), (1, ""));
    let record = Record::read(&ran.out);
    let vcs = record.vcs.as_ref().unwrap();
    assert_eq!((&*vcs.r#type, &*vcs.revision), ("git", sha));
    assert_eq!(record.files[0].path, "list.txt");
    record.files[0].assert_holds(b"milk\neggs\nbread\n");
    let told = desk.run(&["trace", "--json"]).json();
    assert_eq!(told.get("vcs"), None);
    assert_eq!(
        told["files"][0]["conversations"][1],
        json!({
            "url": "turnkeep:sessions/p/a",
            "contributor": {"type": "ai"},
            "ranges": [{
                "start_line": 2,
                "end_line": 2,
                "content_hash": format!("blake3:{}", blake3::hash(b"eggs\n").to_hex()),
            }],
            "related": [
                {"type": "prompt", "url": "turnkeep:sessions/p/a/messages/p2"},
                {"type": "tool_call", "url": "turnkeep:sessions/p/a/tool-calls/t2"},
            ],
        })
    );
    // As it lies on the disk, or as it was recorded last; the root may be another folder.
    let file = desk.program.folder.path().join("list.txt");
    fs::write(&file, "by hand\n").unwrap();
    let files = |args: &[&str]| Record::read(&desk.run(&[&["trace"], args].concat()).out).files;
    files(&["list.txt"])[0].assert_holds(b"by hand\n");
    files(&["--recorded", "."])[0].assert_holds(b"milk\neggs\nbread\n");
    fs::create_dir(desk.program.folder.path().join("sub")).unwrap();
    assert!(files(&["--root", "sub"]).is_empty());
    let above = desk.program.folder.path().canonicalize().unwrap();
    let name = above.file_name().unwrap().to_str().unwrap().to_owned();
    let above = above.parent().unwrap().to_str().unwrap();
    let told = files(&["--root", above, "list.txt"]);
    assert_eq!(told[0].path, format!("{name}/list.txt"));
}

#[test]
fn what_a_trace_cannot_be_of_is_refused_with_the_next_step() {
    let desk = Desk::new();
    for revision in ["cvs:1.2", "abc", "git:", "git:HEAD", ""] {
        let ran = desk.program.run(&["trace", "--revision", revision]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{revision}");
        assert!(ran.err.contains("hint: write it as git:SHA"), "{}", ran.err);
    }
    let missing = desk.program.run(&["trace", "other.txt", "--json"]);
    let blamed = desk.program.run(&["blame", "other.txt", "--json"]);
    assert_eq!((missing.code, missing.error()), (3, blamed.error()));
    assert!(
        missing.error()["hint"]
            .as_str()
            .unwrap()
            .contains("changes")
    );
    let outside = desk.program.run(&["trace", "--root", "/usr", "list.txt"]);
    assert_eq!(outside.code, 2);
    assert!(
        outside.err.contains("name a root that holds it"),
        "{}",
        outside.err
    );
    let nowhere = desk.program.run(&["trace", "--root", "nowhere"]);
    assert_eq!(nowhere.code, 2);
    assert!(
        nowhere.err.contains("nowhere is no folder"),
        "{}",
        nowhere.err
    );
}

#[test]
fn a_trace_that_hides_lines_is_done_in_part() {
    let desk = Desk::new();
    let folder = desk.program.folder.path();
    desk.write("a", "mt2", "t3", "photo", "a\0b");
    // A file without lines hides none.
    let told = desk.run(&["trace"]).json();
    let left_out = |told: &serde_json::Value| told["metadata"]["turnkeep"]["left_out"].clone();
    assert_eq!(
        left_out(&told),
        json!([{"path": "photo", "kind": "not_text", "reason": "it is not text"}])
    );
    fs::write(folder.join("list.txt"), vec![b'x'; (8 << 20) + 1]).unwrap();
    let ran = desk.program.run(&["trace"]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.err.starts_with("note: list.txt is left out: "),
        "{}",
        ran.err
    );
    assert!(Record::read(&ran.out).files.is_empty());
    assert_eq!(left_out(&ran.json())[0]["kind"], json!("too_large"));
}
