//! Commands that name no path: what they did below the session's roots is found, and what lay
//! outside the bounds is told.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;
use turnkeep::{
    FileOptions, NewMessage, NewSession, Restore, RewindOptions, Session, Settle, Store,
    WatchOptions,
};

pub struct Desk {
    pub folder: tempfile::TempDir,
    pub store: Store,
    pub session: Session,
    pub point: String,
}

pub fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    fs::create_dir_all(work.join("sub")).unwrap();
    fs::write(work.join("a.txt"), "a\n").unwrap();
    fs::write(work.join("sub/b.txt"), "b\n").unwrap();
    fs::write(work.join("old.txt"), "moved along\n").unwrap();
    fs::write(work.join(".gitignore"), "target/\n").unwrap();
    let store = Store::open(folder.path().join("store.db")).unwrap();
    let new = NewSession::in_project("p").cwd(work.to_str().unwrap());
    let session = store.sessions().create(new).unwrap();
    let point = session
        .messages()
        .append(NewMessage::user("tidy up"))
        .unwrap()
        .uuid;
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]);
    session
        .messages()
        .append(NewMessage::assistant(call))
        .unwrap();
    Desk {
        folder,
        store,
        session,
        point,
    }
}

impl Desk {
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    pub fn tree(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        crate::kit::tree(&self.path(""))
    }

    /// What a command does: it creates, changes, moves, links and deletes.
    fn command(&self) {
        fs::write(self.path("a.txt"), "changed\n").unwrap();
        fs::remove_file(self.path("sub/b.txt")).unwrap();
        fs::rename(self.path("old.txt"), self.path("new.txt")).unwrap();
        fs::create_dir_all(self.path("made/deep")).unwrap();
        fs::write(self.path("made/deep/c.txt"), "c\n").unwrap();
        fs::create_dir(self.path("target")).unwrap();
        fs::write(self.path("target/out"), "built\n").unwrap();
        symlink("a.txt", self.path("link")).unwrap();
    }

    pub fn rewind(&self) -> turnkeep::RewindReport {
        let options = RewindOptions::to(&self.point).restore(Restore::Files);
        let plan = self
            .session
            .plan_rewind(&options.while_pending(true))
            .unwrap();
        self.session.rewind(&plan).unwrap()
    }
}

#[test]
fn a_watched_command_is_rewound() {
    let desk = desk();
    let before = desk.tree();
    let watch = desk
        .session
        .files()
        .watch("toolu_1", &WatchOptions::new())
        .unwrap();
    desk.command();
    let watched = watch.finish().unwrap();
    let names: Vec<String> = watched
        .changed
        .iter()
        .map(|path| {
            let work = desk.path("").canonicalize().unwrap();
            path.strip_prefix(work).unwrap().display().to_string()
        })
        .collect();
    let changed = [
        "a.txt",
        "link",
        "made/deep/c.txt",
        "new.txt",
        "old.txt",
        "sub/b.txt",
    ];
    assert_eq!(names, changed);
    let ignored = watched
        .not_covered
        .iter()
        .find(|one| one.reason.contains("git"));
    assert_eq!(ignored.unwrap().count, 1);
    desk.session
        .messages()
        .append(NewMessage::tool_result("toolu_1", "ok"))
        .unwrap();
    let report = desk.rewind();
    assert!(!report.is_partial(), "{report:#?}");
    let mut now = desk.tree();
    assert_eq!(now.remove("target/out").as_deref(), Some(&b"built\n"[..]));
    assert_eq!(now, before);
    assert!(!desk.path("made").exists());
    // The command itself, and what it left in ignored folders, is told.
    assert!(
        report
            .not_covered
            .iter()
            .any(|one| one.what == "watched commands")
    );
    assert!(
        report
            .not_covered
            .iter()
            .any(|one| one.reason.contains("git"))
    );
    desk.session.undo(report.operation).unwrap();
    assert!(desk.path("made/deep/c.txt").exists());
    assert!(desk.path("link").is_symlink());
}

#[test]
fn a_command_whose_watcher_died_is_compared_when_its_call_is_settled() {
    let desk = desk();
    let before = desk.tree();
    drop(
        desk.session
            .files()
            .watch("toolu_1", &WatchOptions::new())
            .unwrap(),
    );
    desk.command();
    let settled = desk
        .session
        .tools()
        .settle("toolu_1", &Settle::Interrupted)
        .unwrap();
    assert!(settled.stored);
    desk.rewind();
    let mut now = desk.tree();
    now.remove("target/out");
    assert_eq!(now, before);
}

#[test]
fn what_lies_over_the_limits_is_told_and_left() {
    let desk = desk();
    fs::write(desk.path("large.bin"), vec![1; 3000]).unwrap();
    fs::write(desk.path("secret.pem"), "key\n").unwrap();
    let options = WatchOptions::new().max_file_bytes(1000).exclude("*.pem");
    let watch = desk.session.files().watch("toolu_1", &options).unwrap();
    fs::write(desk.path("large.bin"), vec![2; 3000]).unwrap();
    fs::write(desk.path("secret.pem"), "other key\n").unwrap();
    let watched = watch.finish().unwrap();
    let reasons: Vec<&str> = watched
        .not_covered
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert!(reasons.contains(&"too large for a scan"), "{reasons:?}");
    assert!(reasons.contains(&"excluded"), "{reasons:?}");
    let report = desk.rewind();
    assert!(report.is_partial());
    assert_eq!(fs::read(desk.path("large.bin")).unwrap(), vec![2; 3000]);
    assert_eq!(fs::read(desk.path("secret.pem")).unwrap(), b"other key\n");
}

#[test]
fn the_second_scan_reads_only_what_changed() {
    let desk = desk();
    for round in 0..3 {
        let call = format!("toolu_{}", round + 2);
        let watch = desk
            .session
            .files()
            .watch(call, &WatchOptions::new())
            .unwrap();
        fs::write(desk.path("a.txt"), format!("round {round}\n")).unwrap();
        assert_eq!(watch.finish().unwrap().changed.len(), 1);
    }
    let blobs = rusqlite::Connection::open(desk.store.path()).unwrap();
    let count: i64 = blobs
        .query_row("SELECT count(*) FROM blobs", [], |row| row.get(0))
        .unwrap();
    // Four files at first, and three rounds of one.
    assert_eq!(count, 7);
}

#[test]
fn the_stores_own_files_are_never_kept_b94() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&path).unwrap();
    let new = NewSession::in_project("p").cwd(folder.path().to_str().unwrap());
    let session = store.sessions().create(new).unwrap();
    session
        .messages()
        .append(NewMessage::user("hello"))
        .unwrap();
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        let captured = session
            .files()
            .before("toolu_1", [folder.path().join(name)])
            .unwrap();
        assert!(captured.kept.is_empty());
        assert_eq!(captured.not_kept[0].reason, "it is the store's own file");
    }
    let watch = session
        .files()
        .watch("toolu_2", &WatchOptions::new())
        .unwrap();
    session.messages().append(NewMessage::user("more")).unwrap();
    assert!(watch.finish().unwrap().changed.is_empty());
    // The store is as usable as before: nothing dropped its locks.
    assert!(store.verify().unwrap().findings.is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_capture_of_the_stores_own_files_drops_no_lock_b94() {
    use std::os::unix::fs::MetadataExt;

    let desk = desk();
    let shm = desk.folder.path().join("store.db-shm");
    let inode = format!(":{} ", fs::metadata(&shm).unwrap().ino());
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        all.lines().filter(|line| line.contains(&inode)).count()
    };
    let held = desk.session.write(|tx| {
        let held = locks();
        tx.before("toolu_1", [&shm])?;
        tx.after("toolu_1", [&shm])?;
        Ok((held, locks()))
    });
    let (before, after) = held.unwrap();
    assert!(before > 0);
    assert_eq!(before, after);
}

#[test]
fn limits_and_secrets_are_told_before_the_edit_b93() {
    let desk = desk();
    let limited = FileOptions::new().max_file_bytes(1000).exclude(".env");
    let store = Store::open(desk.store.path()).unwrap().with_files(limited);
    let session = store.sessions().get(desk.session.key()).unwrap();
    fs::write(desk.path("large.bin"), vec![1; 3000]).unwrap();
    fs::write(desk.path(".env"), "TOKEN=1\n").unwrap();
    let captured = session
        .files()
        .before("toolu_1", ["large.bin", ".env", "a.txt"])
        .unwrap();
    assert_eq!(captured.kept.len(), 1);
    let reasons: Vec<&str> = captured
        .not_kept
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert_eq!(reasons, ["too large: 3000 bytes", "excluded"]);
    let full = FileOptions::new().max_store_bytes(1);
    let store = Store::open(desk.store.path()).unwrap().with_files(full);
    let session = store.sessions().get(desk.session.key()).unwrap();
    let captured = session
        .files()
        .before("toolu_2", ["a.txt", "absent.txt"])
        .unwrap();
    assert!(
        captured.not_kept[0].reason.contains("limit"),
        "{captured:?}"
    );
    assert_eq!(captured.kept.len(), 1);
}

#[test]
fn what_is_no_file_is_told_before_the_edit() {
    let desk = desk();
    fs::create_dir(desk.path("dir")).unwrap();
    fs::write(desk.path("dir/f"), "f\n").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("socket")).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(desk.path("fifo"))
        .status();
    assert!(fifo.unwrap().success());
    let files = desk.session.files();
    let told = [
        "a folder: name the files in it, or watch the command",
        "it is a socket",
        "it is a FIFO",
    ];
    // The second time the first state stands, and is told in the same words.
    for _ in 0..2 {
        let captured = files.before("toolu_1", ["dir", "socket", "fifo", "dir/f"]);
        let captured = captured.unwrap();
        assert_eq!(captured.kept, [desk.path("dir/f")]);
        let reasons: Vec<&str> = captured.not_kept.iter().map(|one| &*one.reason).collect();
        assert_eq!(reasons, told);
    }
    let captured = files.after("toolu_1", ["dir", "dir/f"]).unwrap();
    assert_eq!(captured.kept, [desk.path("dir/f")]);
    assert_eq!(captured.not_kept[0].reason, told[0]);
}

#[test]
fn a_thousand_edits_with_three_contents_keep_three_b93() {
    let desk = desk();
    for round in 0..1000 {
        let call = format!("call-{round}");
        desk.session
            .write(|tx| {
                tx.before(call.as_str(), ["a.txt"])?;
                fs::write(desk.path("a.txt"), format!("content {}\n", round % 3)).unwrap();
                tx.after(call.as_str(), ["a.txt"])
            })
            .unwrap();
    }
    let sql = rusqlite::Connection::open(desk.store.path()).unwrap();
    let count: i64 = sql
        .query_row("SELECT count(*) FROM blobs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 4);
    assert!(desk.session.files().stored_bytes().unwrap() < 100);
    // What only this session used goes with it.
    desk.session.delete().unwrap();
    let count: i64 = sql
        .query_row("SELECT count(*) FROM blobs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 0);
}

#[test]
fn another_session_at_work_below_the_same_folder_is_told() {
    let desk = desk();
    let captured = desk.session.files().before("toolu_1", ["a.txt"]).unwrap();
    assert!(captured.warnings.is_empty());
    let work = desk.path("");
    let new = NewSession::in_project("p").cwd(work.to_str().unwrap());
    let other = desk.store.sessions().create(new).unwrap();
    let captured = other.files().before("toolu_1", ["sub/b.txt"]).unwrap();
    assert_eq!(captured.warnings.len(), 1, "{captured:?}");
    assert!(captured.warnings[0].contains(&desk.session.key().to_string()));
}

#[test]
fn a_command_that_removes_its_folder_is_rewound() {
    let desk = desk();
    let before = desk.tree();
    let watch = desk
        .session
        .files()
        .watch("toolu_1", &WatchOptions::new())
        .unwrap();
    fs::remove_dir_all(desk.path("")).unwrap();
    assert_eq!(watch.finish().unwrap().changed.len(), before.len());
    let report = desk.rewind();
    assert!(!report.is_partial(), "{report:#?}");
    assert_eq!(desk.tree(), before);
}

#[test]
fn a_file_comes_back_although_its_folder_is_gone() {
    let desk = desk();
    desk.session
        .files()
        .before("toolu_1", ["a.txt", "absent.txt"])
        .unwrap();
    fs::remove_dir_all(desk.path("")).unwrap();
    let report = desk.rewind();
    assert!(!report.is_partial(), "{report:#?}");
    assert_eq!(fs::read(desk.path("a.txt")).unwrap(), b"a\n");
}

#[test]
fn what_a_killed_watcher_saw_begin_is_taken_back_and_its_second_run_too() {
    let desk = desk();
    let before = desk.tree();
    let files = desk.session.files();
    drop(files.watch("toolu_1", &WatchOptions::new()).unwrap());
    fs::write(desk.path("a.txt"), "bad\n").unwrap();
    // The same call is run again, and this time watched to its end.
    let again = files.watch("toolu_1", &WatchOptions::new()).unwrap();
    fs::write(desk.path("sub/b.txt"), "bad too\n").unwrap();
    again.finish().unwrap();
    assert_eq!(files.finish_watches().unwrap(), 0);
    desk.rewind();
    assert_eq!(desk.tree(), before);
    // One that is taken for over while it runs: the rest is recorded when it is.
    let watch = files.watch("toolu_2", &WatchOptions::new()).unwrap();
    fs::write(desk.path("a.txt"), "first\n").unwrap();
    assert_eq!(files.finish_watches().unwrap(), 1);
    fs::write(desk.path("sub/b.txt"), "then\n").unwrap();
    assert_eq!(watch.finish().unwrap().changed.len(), 1);
    desk.rewind();
    assert_eq!(desk.tree(), before);
}

#[test]
fn a_capture_done_again_says_again_what_is_not_kept() {
    let desk = desk();
    let limited = FileOptions::new().exclude("*.pem");
    let store = Store::open(desk.store.path()).unwrap().with_files(limited);
    let session = store.sessions().get(desk.session.key()).unwrap();
    fs::write(desk.path("k.pem"), "secret\n").unwrap();
    for session in [&session, &session, &desk.session] {
        let captured = session.files().before("toolu_1", ["k.pem"]).unwrap();
        assert!(captured.kept.is_empty());
        assert_eq!(captured.not_kept[0].reason, "excluded");
    }
}
