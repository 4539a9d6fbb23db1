//! The program on a terminal: it asks before a rewind, and shows what it would do in colours.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::cli_files::Desk;

/// Runs the program on a terminal of its own, at which `answer` is typed; answers what it shows,
/// and its exit code.
fn on_a_terminal(desk: &Desk, args: &[&str], answer: &str) -> (String, i32) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let terminal = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let mut person = File::from(person);
    person.write_all(answer.as_bytes()).unwrap();
    let mut child = {
        let mut command = desk.program.command(args);
        command
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal)
            .stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut shown = Vec::new();
    let mut part = [0; 4096];
    // Once nobody has the other end any more, reading fails.
    while let Ok(read) = person.read(&mut part) {
        if read == 0 {
            break;
        }
        shown.extend_from_slice(&part[..read]);
    }
    let code = child.wait().unwrap().code().unwrap();
    (String::from_utf8(shown).unwrap(), code)
}

#[test]
fn a_rewind_asks_before_it_writes() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    let rewind = ["rewind", "s1", "--to", &point];
    for answer in ["n\n", "\n", "\u{4}"] {
        let (shown, code) = on_a_terminal(&desk, &rewind, answer);
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("go on? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was changed"), "{shown}");
        assert!(shown.contains("\u{1b}[31m-1\u{1b}[0m"), "{shown}");
        assert!(shown.contains("\u{1b}[32m+0\u{1b}[0m"), "{shown}");
        assert_eq!(desk.read("a.txt"), "1\n");
    }
    let (shown, code) = on_a_terminal(&desk, &rewind, "y\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("undo with: turnkeep undo s1"), "{shown}");
    assert_eq!(desk.read("a.txt"), "0\n");
    let (shown, code) = on_a_terminal(&desk, &["undo", "s1", "--yes"], "");
    assert_eq!(code, 0, "{shown}");
    assert!(!shown.contains("go on?"), "{shown}");
    assert_eq!(desk.read("a.txt"), "1\n");
}

#[test]
fn a_rewind_that_cannot_begin_does_not_ask() {
    let desk = Desk::new();
    fs::write(desk.path("a.txt"), "0\n").unwrap();
    let point = desk.prompt("go");
    desk.write("toolu_1", "a.txt", "1\n");
    fs::write(desk.path("a.txt"), "by the user\n").unwrap();
    let (shown, code) = on_a_terminal(&desk, &["rewind", "s1", "--to", &point], "");
    assert_eq!(code, 4, "{shown}");
    assert!(!shown.contains("go on?"), "{shown}");
    // A part is accepted: there is something to ask about.
    let part = ["rewind", "s1", "--to", &point, "--accept-part"];
    let (shown, code) = on_a_terminal(&desk, &part, "n\n");
    assert_eq!(code, 0, "{shown}");
    assert!(shown.contains("go on?"), "{shown}");
}
