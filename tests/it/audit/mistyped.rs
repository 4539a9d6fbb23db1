//! The program: words that name nothing are no empty answers.

use std::fs;

use super::cli::Desk;

#[test]
fn a_mistyped_moment_or_path_of_a_diff_is_not_found() {
    let desk = Desk::new();
    let begins_as_a_moment = desk.program.run(&["diff", "a", "@start", "@nosuch"]);
    assert_eq!(begins_as_a_moment.code, 2);
    assert!(begins_as_a_moment.err.contains("@nosuch"));
    for args in [
        &["diff", "a", "@start", "nope"][..],
        &["diff", "a", "@start", "now", "nope"],
        &["diff", "a", "@start", "list.txt", "nope", "--json"],
    ] {
        let ran = desk.program.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{args:?}");
        assert!(ran.err.contains("`nope` is no moment"), "{}", ran.err);
        assert!(ran.err.contains("turnkeep points ID"), "{}", ran.err);
    }
    // What is there is a path, and so is what the session changed, also above it.
    fs::write(desk.program.folder.path().join("other.txt"), "").unwrap();
    let other = desk.run(&["diff", "a", "@start", "other.txt"]).out;
    assert_eq!(other, "no differences\n");
    fs::create_dir(desk.program.folder.path().join("sub")).unwrap();
    desk.write("a", "mt2", "t3", "sub/f", "1\n");
    fs::remove_dir_all(desk.program.folder.path().join("sub")).unwrap();
    for path in ["sub", "sub/f", "./sub/../sub/f"] {
        let shown = desk.run(&["diff", "a", "@start", path]).out;
        assert_eq!(shown, "no differences\n", "{path}");
        let shown = desk.run(&["diff", "a", "t3", "@last", path]);
        assert_eq!(shown.code, 0);
    }
}

#[test]
fn a_path_of_a_diff_is_seen_from_the_sessions_folder_from_elsewhere() {
    let desk = Desk::new();
    let folder = desk.program.folder.path().canonicalize().unwrap();
    let sub = folder.join("sub");
    fs::create_dir(&sub).unwrap();
    let entry = serde_json::json!({"type": "user", "uuid": "q1", "cwd": sub,
        "message": {"role": "user", "content": "a file"}});
    desk.say("b", &entry.to_string());
    desk.write("b", "q1", "t9", "sub/f", "1\n");
    for path in ["f", "sub/f", "sub", sub.join("f").to_str().unwrap()] {
        let shown = desk.run(&["diff", "b", "@start", path]).out;
        assert!(shown.contains("added +1 -0"), "{path}: {shown}");
    }
    assert_eq!(desk.program.run(&["diff", "b", "@start", "g"]).code, 3);
}

#[test]
fn a_mistyped_turn_of_changes_is_not_found() {
    let desk = Desk::new();
    for args in [
        &["changes", "--turn", "nope"][..],
        &["changes", "--turn", "nope", "--session", "a"],
        &["changes", "--turn", "nope", "--since", "c0-m0-p0"],
    ] {
        let ran = desk.program.run(args);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{args:?}");
        assert!(ran.err.contains("no turn `nope`"), "{}", ran.err);
        assert!(ran.err.contains("hint: a turn is named by"), "{}", ran.err);
    }
    // One without changes is there.
    desk.say("a", r#"{"type":"user","uuid":"p3","parentUuid":"mt2","message":{"role":"user","content":"and?"}}"#);
    assert_eq!(desk.run(&["changes", "--turn", "p3"]).out, "no changes\n");
}

#[test]
fn sessions_are_asked_of_a_path_alone() {
    let desk = Desk::new();
    for more in [
        &[][..],
        &["list.txt", "--tool", "Write"],
        &["list.txt", "--session", "a"],
    ] {
        let args = [&["changes", "--sessions"], more].concat();
        assert_eq!(desk.program.run(&args).code, 2, "{args:?}");
    }
}

#[test]
fn with_no_rewind_to_undo_it_is_said_of_which_session() {
    let desk = Desk::new();
    let ran = desk.program.run(&["undo", "a"]);
    assert_eq!(ran.code, 3);
    let wanted = "error: no rewind to undo in session `p/a`\n\
        hint: `turnkeep operations ID` lists what was done to a session\n";
    assert_eq!(ran.err, wanted);
    let ran = desk.program.run(&["undo", "a", "--operation", "77"]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.err.contains("no rewind or undo with the number `77`"),
        "{}",
        ran.err
    );
}
