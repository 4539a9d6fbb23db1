//! The program: `blame` of what lies on the disk, also where that is no file of text.

use std::fs;

use serde_json::{Value, json};

use super::cli::Desk;

#[test]
fn what_is_no_file_any_more_has_no_lines() {
    let desk = Desk::new();
    let file = desk.program.folder.path().join("list.txt");
    let assert_told = |what: &str, kind: &str| {
        let shown = desk.run(&["blame", "list.txt"]).out;
        assert_eq!(shown, format!("list.txt {what}\n"));
        let told = desk.run(&["blame", "list.txt", "--json"]).json();
        assert_eq!(told["state"]["kind"], json!(kind));
        assert_eq!(told["state"]["hash"], Value::Null);
        assert_eq!((&told["lines"], &told["origins"]), (&json!([]), &json!([])));
        assert_eq!(told["is_text"], json!(false));
        let line = desk.program.run(&["blame", "list.txt:1"]);
        assert_eq!(line.code, 2);
        assert!(
            line.err.contains(&format!("list.txt {what}")),
            "{}",
            line.err
        );
        let recorded = desk.run(&["blame", "list.txt", "--recorded"]).out;
        assert_eq!(recorded.lines().count(), 3, "{recorded}");
    };
    fs::remove_file(&file).unwrap();
    assert_told("is gone", "absent");
    fs::create_dir(&file).unwrap();
    assert_told("is a folder", "directory");
    fs::remove_dir(&file).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("store.db", &file).unwrap();
        assert_told("is a link to store.db", "symlink");
        fs::remove_file(&file).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.unwrap().success());
        assert_told("is not known: it is no file, folder or link", "not_kept");
    }
    assert_eq!(desk.program.run(&["blame", "other.txt"]).code, 3);
}

#[test]
fn what_is_not_text_has_one_origin_and_no_lines() {
    let desk = Desk::new();
    desk.write("a", "mt2", "t3", "bin", "a\0b\nc\n");
    for recorded in [&[][..], &["--recorded"]] {
        let args = |first: &[&'static str]| [first, recorded].concat();
        let shown = desk.run(&args(&["blame", "bin"])).out;
        assert_eq!(shown, "bin is not text: 6 bytes\n");
        let told = desk.run(&args(&["blame", "bin", "--json"])).json();
        assert_eq!(
            (&told["is_text"], &told["lines"]),
            (&json!(false), &json!([]))
        );
        assert_eq!(told["origins"].as_array().unwrap().len(), 1);
        assert_eq!(told["origins"][0]["change"]["call"]["id"], json!("t3"));
        for args in [
            args(&["blame", "bin:1"]),
            args(&["blame", "bin:1", "--json"]),
        ] {
            let line = desk.program.run(&args);
            assert_eq!((line.code, line.out.as_str()), (2, ""));
            assert!(line.err.contains("is not text"), "{}", line.err);
        }
    }
    let text = desk.run(&["blame", "list.txt", "--json"]).json();
    assert_eq!(text["is_text"], json!(true));
}

#[test]
fn a_line_of_no_file_is_a_wrong_use() {
    let desk = Desk::new();
    let ran = desk.program.run(&["blame", ":1"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("`:1` names no file"), "{}", ran.err);
    assert_eq!(desk.program.run(&["blame", ""]).code, 2);
}

#[cfg(unix)]
#[test]
fn a_fifo_is_not_waited_for_and_a_link_is_told_for_itself() {
    let desk = Desk::new();
    let at = |name: &str| desk.program.folder.path().join(name);
    let store = desk.store();
    let session = desk.session("a");
    let paths = [at("pipe"), at("link")];
    session.files().before("t3", &paths).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(at("pipe"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("list.txt", at("link")).unwrap();
    session.files().after("t3", &paths).unwrap();
    drop((session, store));
    for recorded in [&[][..], &["--recorded"]] {
        let args = |name: &'static str| [&["blame", name][..], recorded].concat();
        let pipe = desk.run(&args("pipe")).out;
        assert!(pipe.starts_with("pipe is not known: "), "{pipe}");
        assert_eq!(desk.run(&args("link")).out, "link is a link to list.txt\n");
    }
    let told = desk.run(&["blame", "link", "--json"]).json();
    assert_eq!(told["state"]["target"], json!("list.txt"));
}
