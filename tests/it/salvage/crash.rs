//! A writer that was killed, and its log.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Writes until it is killed: a child of the tests below.
#[test]
#[ignore = "run by other tests, which kill it"]
fn a_writer_to_be_killed() {
    let Some(path) = std::env::var_os("TURNKEEP_TEST_STORE") else {
        return;
    };
    let store = Store::open(PathBuf::from(path)).unwrap();
    let desk = store
        .sessions()
        .create(NewSession::in_project("shop").titled("desk"))
        .unwrap();
    for number in 0.. {
        desk.messages()
            .append(NewMessage::user(format!("order {number}")))
            .unwrap();
        println!("stored");
    }
}

/// A store whose writer was killed after so many messages: its log is still there.
fn killed(messages: usize) -> Damaged {
    let damaged = Damaged {
        folder: tempfile::tempdir().unwrap(),
    };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "salvage::crash::a_writer_to_be_killed",
            "--ignored",
            "--nocapture",
        ])
        .env("TURNKEEP_TEST_STORE", damaged.from())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let stored = out
        .lines()
        .filter(|line| line.as_ref().unwrap().ends_with("stored"));
    assert_eq!(stored.take(messages).count(), messages);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        fs::metadata(damaged.folder.path().join("store.db-wal"))
            .unwrap()
            .len()
            > 0
    );
    damaged
}

#[test]
fn the_log_of_a_killed_writer_is_read() {
    let damaged = killed(50);
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved.entries() >= 51, "{}", saved.entries());
}

#[test]
fn a_log_that_was_deleted_after_a_crash_is_told() {
    let damaged = killed(50);
    fs::remove_file(damaged.folder.path().join("store.db-wal")).unwrap();
    let (salvaged, _) = damaged.salvage();
    assert!(
        salvaged.lost[0].contains("write-ahead log"),
        "{:?}",
        salvaged.lost
    );
}

#[test]
fn a_damaged_log_costs_little_and_is_told() {
    let damaged = killed(40);
    let log = damaged.folder.path().join("store.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::write(&log, bytes).unwrap();
    let (salvaged, saved) = damaged.salvage();
    assert!(
        salvaged
            .lost
            .iter()
            .any(|what| what.contains("write-ahead log")),
        "{:?}",
        salvaged.lost
    );
    assert!(
        saved.entries() > 35,
        "{}: {:?}",
        saved.entries(),
        salvaged.lost
    );
    let store = Store::open(damaged.to()).unwrap();
    let listed = store
        .sessions()
        .list(&SessionFilter::new(), None, 9)
        .unwrap();
    assert_eq!(listed.sessions[0].title.as_deref(), Some("desk"));
}
