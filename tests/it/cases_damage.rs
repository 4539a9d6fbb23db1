//! Reported faults of damaged files: named, left as they are, and never the wrong session.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use turnkeep::{Error, ErrorKind, NewMessage, NewSession, OpenOptions, SessionKey, Store};

use crate::case::{field, uuids};
use crate::children;

#[test]
fn a_file_that_is_no_store_is_named_and_left_alone_b111() {
    let made = Made::new();
    let whole = fs::read(&made.path).unwrap();
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        bytes
    };
    let inputs = [
        ("overwritten header", with(&|bytes| bytes[..100].fill(0x5a))),
        ("zeroed header", with(&|bytes| bytes[..100].fill(0))),
        ("zeroed first page", with(&|bytes| bytes[..8192].fill(0))),
        ("other application", with(&|bytes| bytes[68..72].fill(7))),
        ("first half", with(&|bytes| bytes.truncate(bytes.len() / 2))),
        ("first page", with(&|bytes| bytes.truncate(8192))),
        ("a few bytes", with(&|bytes| bytes.truncate(60))),
        ("zero bytes", Vec::new()),
        ("text", b"Dear diary, this is no database.\n".repeat(300)),
        ("short text", b"x".to_vec()),
        ("zeros", vec![0; 65536]),
    ];
    for (what, bytes) in inputs {
        fs::write(&made.path, &bytes).unwrap();
        for options in [OpenOptions::new(), OpenOptions::new().read_only(true)] {
            let error = Store::open_with(&made.path, &options).unwrap_err();
            let kind = error.kind();
            assert!(
                matches!(kind, ErrorKind::Damaged | ErrorKind::NotAStore),
                "{what}: {error:?}"
            );
            assert_names_file_and_remedy(&error, &made.path, what);
            assert!(fs::read(&made.path).unwrap() == bytes, "{what}: changed");
        }
        for file in fs::read_dir(made.folder.path()).unwrap() {
            let left = file.unwrap().path();
            if left == made.path {
                continue;
            }
            // To look into a file that keeps a log makes an empty one.
            let empty = left.ends_with("store.db-shm") || fs::metadata(&left).unwrap().len() == 0;
            assert!(empty, "{what}: left {left:?}");
            fs::remove_file(left).unwrap();
        }
    }
    // Put back, it is as it was.
    fs::write(&made.path, &whole).unwrap();
    let store = Store::open(&made.path).unwrap();
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn flipped_bytes_in_an_index_are_found_b111() {
    let made = Made::new();
    let whole = fs::read(&made.path).unwrap();
    let indexes = roots(
        &made.path,
        "SELECT name, rootpage FROM sqlite_schema WHERE type = 'index' AND rootpage > 0",
    );
    assert!(indexes.len() > 10, "{indexes:?}");
    for (index, page) in indexes {
        let used = used_bytes(&whole, page);
        if used.is_empty() {
            continue;
        }
        for at in used.clone().step_by(used.len() / 3 + 1) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            fs::write(&made.path, &bytes).unwrap();
            let found = match Store::open(&made.path).and_then(|store| store.verify()) {
                Ok(verified) => !verified.findings.is_empty(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{index}: {error:?}");
                    assert_names_file_and_remedy(&error, &made.path, &index);
                    true
                }
            };
            assert!(found, "{index}: byte {at} of the file was flipped");
            made.assert_no_wrong_session();
            assert!(fs::read(&made.path).unwrap() == bytes, "{index}: changed");
        }
    }
}

#[test]
fn an_index_that_leads_elsewhere_gives_no_other_session_b111() {
    let made = Made::new();
    let mut bytes = fs::read(&made.path).unwrap();
    let (_, page) = roots(
        &made.path,
        "SELECT name, rootpage FROM sqlite_schema WHERE name = 'sessions_key'",
    )
    .remove(0);
    // In the index, session 20 now answers to a name that sorts to the same place.
    let used = used_bytes(&bytes, page);
    let name = b"session 20";
    let at = used
        .clone()
        .find(|at| bytes[*at..].starts_with(name))
        .unwrap();
    bytes[at + name.len() - 1] = b'/';
    fs::write(&made.path, &bytes).unwrap();
    let store = Store::open(&made.path).unwrap();
    let find = |id: &str| {
        let key = SessionKey::new("project", id).unwrap();
        store.sessions().find(&key)
    };
    let error = find("session 2/").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error:?}");
    assert_names_file_and_remedy(&error, &made.path, "wrong row");
    let new = NewSession::in_project("project").id("session 2/");
    assert_eq!(
        store.sessions().create(new).unwrap_err().kind(),
        ErrorKind::Damaged
    );
    assert!(find("session 21").unwrap().is_some());
    let findings = store.verify().unwrap().findings;
    assert!(
        findings
            .iter()
            .any(|found| found.what.contains("sessions_key")),
        "{findings:?}"
    );
}

#[test]
fn a_line_found_through_a_damaged_index_is_never_another_sessions_b111() {
    let made = Made::new();
    for index in ["messages_seq", "messages_line"] {
        let whole = fs::read(&made.path).unwrap();
        let mut bytes = whole.clone();
        let query = format!("SELECT name, rootpage FROM sqlite_schema WHERE name = '{index}'");
        let (_, page) = roots(&made.path, &query).remove(0);
        // The newest record lies first. Its last bytes are the row it leads to: now one of the
        // session before.
        let record = used_bytes(&bytes, page).start;
        let last = record + usize::from(bytes[record]);
        bytes[last] -= 9;
        fs::write(&made.path, &bytes).unwrap();
        let store = Store::open(&made.path).unwrap();
        let session = store
            .sessions()
            .resolve("session 49", &Default::default())
            .unwrap();
        let error = match index {
            "messages_seq" => session.transcript("").unwrap_err(),
            _ => session.conversation("").unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Damaged, "{index}: {error:?}");
        drop((store, session));
        fs::write(&made.path, &whole).unwrap();
    }
}

#[test]
fn a_log_deleted_after_a_crash_leaves_an_older_whole_b111() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let arguments = json!({"store": path, "session": "s", "name": "w"});
    let mut child = children::start("crash::part_appends_batches", &arguments);
    let (mut batches, log) = (0, folder.path().join("store.db-wal"));
    // Until the log was folded in at least once.
    loop {
        child.hear().unwrap();
        batches += 1;
        if fs::metadata(&path).unwrap().len() > 1 << 20 {
            break;
        }
    }
    batches += child.kill().len();
    assert!(fs::metadata(&log).unwrap().len() > 0);
    fs::remove_file(&log).unwrap();
    match Store::open(&path) {
        Ok(store) => {
            assert_eq!(store.verify().unwrap().findings, []);
            let found = store.sessions().resolve("s", &Default::default()).unwrap();
            let stored = uuids(&found, "");
            assert!(!stored.is_empty() && stored.len() <= 3 * (batches + 1));
            assert_eq!(stored.len() % 3, 0, "half a batch");
            found.messages().append(NewMessage::user("on")).unwrap();
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged);
            assert_names_file_and_remedy(&error, &path, "log");
        }
    }
}

/// A store with forty sessions, closed.
struct Made {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = Store::open(&path).unwrap();
        for at in 10..50 {
            let new = NewSession::in_project("project")
                .id(format!("session {at}"))
                .cwd(format!("/srv/{at}"))
                .tagged("tag")
                .titled(format!("title {at}"));
            let session = store.sessions().create(new).unwrap();
            session
                .write(|tx| {
                    tx.append(NewMessage::user(format!("of {at}")))?;
                    let call = crate::case::call(&format!("t{at}"));
                    tx.append(NewMessage::assistant(json!([call])))?;
                    tx.append(NewMessage::tool_result(format!("t{at}"), "done"))
                })
                .unwrap();
        }
        Self { folder, path }
    }

    /// Whatever is asked for, the answer is that session, none, or an error.
    fn assert_no_wrong_session(&self) {
        let Ok(store) = Store::open(&self.path) else {
            return;
        };
        for at in 10..50 {
            let id = format!("session {at}");
            let key = SessionKey::new("project", &id).unwrap();
            let Ok(Some(session)) = store.sessions().find(&key) else {
                continue;
            };
            assert_eq!(session.id(), id);
            if let Ok(info) = session.info() {
                assert_eq!(info.session_id, id);
            }
            for line in session.transcript("").unwrap_or_default() {
                let entry = line.entry.unwrap();
                if let Some(named) = field(&entry, "sessionId") {
                    assert_eq!(named, id, "a line of another session");
                }
            }
        }
    }
}

fn assert_names_file_and_remedy(error: &Error, path: &Path, what: &str) {
    let text = error.to_string();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(text.contains(name), "{what}: {text}");
    assert!(error.hint().is_some(), "{what}: {text}");
}

/// The first pages of some of the file's trees, by name.
fn roots(path: &Path, sql: &str) -> Vec<(String, usize)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(path, flags).unwrap();
    let mut rows = file.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get::<_, u32>(1)? as usize)));
    rows.unwrap().map(|row| row.unwrap()).collect()
}

/// Where the file has the records of a page: from the first cell's content to the page's end.
fn used_bytes(file: &[u8], page: usize) -> std::ops::Range<usize> {
    let start = (page - 1) * 8192;
    let cells = u16::from_be_bytes([file[start + 3], file[start + 4]]);
    let content = usize::from(u16::from_be_bytes([file[start + 5], file[start + 6]]));
    if cells == 0 {
        return start..start;
    }
    start + content..start + 8192
}
