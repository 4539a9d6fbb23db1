//! Reported faults of storage: journals, logs, deletion, order.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;
use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, Durability, ErrorKind, Journal, NewMessage, NewSession, OpenOptions,
    SessionFilter, Store, TranscriptKey,
};

use crate::case::{assistant, folder, spoken, user, uuids};
use crate::children::{self, Child};
use crate::kit::TestStore;

#[test]
fn a_rollback_journal_serves_two_processes_b109() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new().journal(Some(Journal::Rollback));
    let store = Store::open_with(&path, &options).unwrap();
    assert_eq!(store.journal(), Journal::Rollback);
    let mut children: Vec<Child> = (0..2)
        .map(|process| {
            let arguments = json!({
                "store": path, "session": "s", "process": process, "journal": "rollback",
                "appends": 100,
            });
            children::start("processes::part_appends", &arguments)
        })
        .collect();
    for child in &mut children {
        assert_eq!(child.hear().as_deref(), Some("ready"));
        child.tell("go");
    }
    // A reader of this process looks on meanwhile.
    let session = NewSession::in_project("p").id("s");
    let session = store.sessions().get_or_create(session).unwrap();
    let mut seen = 0;
    while seen < 200 {
        let now = session.info().unwrap().entries;
        assert!(now >= seen);
        seen = now;
        assert!(!beside(&path, "-wal").exists(), "there is a log");
        assert!(!beside(&path, "-shm").exists(), "there is a log");
    }
    for child in children {
        assert_eq!(child.finish().last().map(String::as_str), Some("done"));
    }
    assert_eq!(spoken(&session.conversation("").unwrap()).len(), 200);
    assert_eq!(store.verify().unwrap().findings, []);
    let file = Connection::open(&path).unwrap();
    let mode: String = file
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_ne!(mode, "wal");
}

#[test]
fn the_log_is_small_again_once_a_long_reader_ends_b110() {
    const LIMIT: u64 = 64 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new().durability(Durability::Normal);
    let store = Store::open_with(&path, &options).unwrap();
    let session = store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    let log = || fs::metadata(beside(&path, "-wal")).map_or(0, |log| log.len());

    let reader = Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN").unwrap();
    let count = |reader: &Connection| -> i64 {
        let sql = "SELECT count(*) FROM messages";
        reader.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&reader), 0);
    let text = "x".repeat(1 << 20);
    for at in 0..100 {
        let entry = assistant(&format!("a{at}"), None, text.clone());
        let appended = session
            .messages()
            .append_entries([entry], &AppendOptions::new());
        appended.unwrap();
    }
    assert_eq!(count(&reader), 0, "the reader kept its snapshot");
    println!("the log grew to {} bytes", log());
    assert!(log() > LIMIT, "the log grew to {} bytes", log());
    reader.execute_batch("COMMIT").unwrap();
    session
        .messages()
        .append(NewMessage::user("one more"))
        .unwrap();
    assert!(log() <= LIMIT, "the log still has {} bytes", log());
    assert_eq!(session.info().unwrap().entries, 101);
}

#[test]
fn our_own_reads_do_not_keep_the_log_b110() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new().durability(Durability::Normal);
    let store = Store::open_with(&path, &options).unwrap();
    for at in 0..30 {
        let new = NewSession::in_project("p").id(format!("s{at}"));
        let session = store.sessions().create(new).unwrap();
        session.messages().append(NewMessage::user("hi")).unwrap();
    }
    // A list and a transcript are being paged through, and an export waits for its reader, while
    // another handle writes.
    let other = Store::open_with(&path, &options).unwrap();
    let writer = other
        .sessions()
        .resolve("p/s0", &Default::default())
        .unwrap();
    let text = "x".repeat(1 << 20);
    let append = || {
        writer
            .messages()
            .append(NewMessage::user(&text[..]))
            .unwrap();
    };
    let page = store
        .sessions()
        .list(&SessionFilter::new(), None, 5)
        .unwrap();
    let reader = store.sessions().get(writer.key()).unwrap();
    reader.transcript_page("", 0, 1).unwrap();
    for _ in 0..24 {
        append();
    }
    store
        .sessions()
        .list(&SessionFilter::new(), page.next, 5)
        .unwrap();
    struct Slow<F: FnMut()>(F);
    impl<F: FnMut()> std::io::Write for Slow<F> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            (self.0)();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut left = 8;
    let mut slow = Slow(|| {
        if left > 0 {
            left -= 1;
            append();
        }
    });
    turnkeep::export_jsonl(&reader, "", &mut slow).unwrap();
    // Folded in every 1,000 pages of 8 KiB; never more than a few transactions beyond.
    let log = fs::metadata(beside(&path, "-wal")).unwrap().len();
    assert!(log < 20 << 20, "the log has {log} bytes");
}

#[test]
fn a_late_writer_does_not_revive_a_deleted_session_b114() {
    let text = fs::read_to_string(folder("B114").join("sequence.json")).unwrap();
    let sequence: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(sequence["expect"]["append"], "error: deleted");
    let test = TestStore::new();
    let key = TranscriptKey::main("p", "S").unwrap();
    let new = NewSession::with_key(key.session.clone());
    let writer = test.store.sessions().create(new).unwrap();
    writer.messages().append(NewMessage::user("old")).unwrap();
    let other = Store::open(test.store.path()).unwrap();
    other
        .sessions()
        .get(&key.session)
        .unwrap()
        .delete()
        .unwrap();

    let late = || writer.messages().append(NewMessage::user("late"));
    let refused = late().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.to_string().contains("deleted"), "{refused}");
    let listed = || {
        let all = SessionFilter::new().all();
        let page = test.store.sessions().list(&all, None, 10).unwrap();
        page.sessions.len()
    };
    assert_eq!(sequence["expect"]["S_listed"], listed() != 0);
    assert_eq!(writer.rename("x").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(writer.delete().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        writer.transcript("").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // The SDK's door makes a new session under the key, and the old handle does not reach it.
    let door = other.session_store();
    assert_eq!(door.load(&key).unwrap(), None);
    door.append(&key, [user("new", None, "new")]).unwrap();
    assert_eq!(listed(), 1);
    assert_eq!(late().unwrap_err().kind(), ErrorKind::NotFound);
    let fresh = test.store.sessions().get(&key.session).unwrap();
    assert_eq!(uuids(&fresh, ""), ["new"]);
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn order_is_the_order_of_storing_and_never_a_clock_b116() {
    static NOW: AtomicI64 = AtomicI64::new(1_900_000_000_000);
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions::new()
        .clock(|| NOW.load(Ordering::Relaxed))
        .durability(Durability::Normal);
    let store = Store::open_with(folder.path().join("store.db"), &options).unwrap();
    let session = store
        .sessions()
        .create(NewSession::in_project("p"))
        .unwrap();
    let mut dice = crate::crash::Dice::new();
    let mut given: Vec<String> = Vec::new();
    for at in 0..300 {
        // Our clock jumps both ways, the client's times are ten minutes off, ids are no order.
        NOW.store(
            1_900_000_000_000 + dice.below(10_000_000) as i64,
            Ordering::Relaxed,
        );
        let uuid = format!("{:08x}-{at}", dice.below(u64::from(u32::MAX)));
        let seconds = dice.below(60);
        let entry = user(&uuid, given.last().map(String::as_str), format!("{at}"));
        let time = format!("2026-01-02T03:{}:{seconds:02}", dice.below(60) % 50 + 10);
        let entry = entry.replace("2026-01-02T03:04:05", &time);
        session
            .messages()
            .append_entries([entry], &AppendOptions::new())
            .unwrap();
        given.push(uuid);
    }
    // A thousand in the same millisecond, in one call.
    let many: Vec<String> = (0..1000)
        .map(|at| format!("{:08x}-m{at}", dice.below(u64::from(u32::MAX))))
        .collect();
    let mut parent = given.last().cloned();
    let entries: Vec<String> = many
        .iter()
        .map(|uuid| {
            let entry = user(uuid, parent.as_deref(), "same");
            parent = Some(uuid.clone());
            entry
        })
        .collect();
    session
        .messages()
        .append_entries(&entries, &AppendOptions::new())
        .unwrap();
    given.extend(many);
    assert_eq!(uuids(&session, ""), given);
    assert_eq!(spoken(&session.conversation("").unwrap()), given);
    let door = store.session_store();
    let loaded = door.load(&session.key().transcript("")).unwrap().unwrap();
    assert_eq!(loaded.len(), given.len());
    assert!(
        given
            .iter()
            .zip(&loaded)
            .all(|(uuid, entry)| entry.contains(uuid))
    );
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
