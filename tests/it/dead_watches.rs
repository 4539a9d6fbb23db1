//! Watches and captures whose process died: whoever finishes them, perhaps with other options, keeps
//! nothing that they left out.

use std::fs;

use rusqlite::Connection;
use turnkeep::{
    FileAction, FileOptions, Restore, RewindOptions, Session, Settle, Store, ToolRef, WatchOptions,
};

use crate::file_watch::{Desk, desk};
use crate::kit::Turnkeep;

/// A secret, and one more than a limit allows.
const SECRETS: [(&str, &[u8]); 4] = [
    ("key.pem", b"a key\n"),
    ("sub/new.pem", b"a new key\n"),
    (".env", b"TOKEN=1\n"),
    ("large.bin", &[7; 3000]),
];

/// Whether a content is in a store.
fn keeps(sql: &Connection, content: &[u8]) -> bool {
    let hash = blake3::hash(content);
    sql.query_row(
        "SELECT count(*) FROM blobs WHERE hash = ?1",
        [hash.as_bytes()],
        |row| row.get::<_, i64>(0),
    )
    .unwrap()
        > 0
}

fn sql(desk: &Desk) -> Connection {
    Connection::open(desk.store.path()).unwrap()
}

/// The desk's session through a handle on the store that has no options, as another process has it.
fn by_another(desk: &Desk) -> Session {
    let store = Store::open(desk.store.path()).unwrap();
    store.sessions().get(desk.session.key()).unwrap()
}

#[test]
fn what_a_dead_watch_left_out_is_kept_by_nobody_who_finishes_it() {
    type Way = (&'static str, fn(&Session));
    let ways: [Way; 3] = [
        ("watched again", |session| {
            let again = session.files().watch(
                "toolu_1",
                &WatchOptions::new().exclude("*.pem").exclude(".env"),
            );
            drop(again.unwrap());
        }),
        ("finished", |session| {
            assert_eq!(session.files().finish_watches().unwrap(), 1);
        }),
        ("settled", |session| {
            let settled = session.tools().settle("toolu_1", &Settle::Interrupted);
            assert!(settled.unwrap().stored);
        }),
    ];
    for (way, finish) in ways {
        let desk = desk();
        fs::write(desk.path("key.pem"), "old key\n").unwrap();
        // Some is left out by the watch, some by the handle that began it.
        let files = FileOptions::new().exclude(".env").max_file_bytes(1000);
        let store = Store::open(desk.store.path()).unwrap().with_files(files);
        let session = store.sessions().get(desk.session.key()).unwrap();
        let options = WatchOptions::new().exclude("*.pem");
        drop(session.files().watch("toolu_1", &options).unwrap());
        for (name, content) in SECRETS {
            fs::write(desk.path(name), content).unwrap();
        }
        fs::write(desk.path("a.txt"), "changed\n").unwrap();
        finish(&by_another(&desk));
        let sql = sql(&desk);
        for (name, content) in SECRETS {
            // The second watch has a limit of its own.
            let is_large = name == "large.bin" && way == "watched again";
            assert!(is_large || !keeps(&sql, content), "{way}: {name} is kept");
        }
        assert!(keeps(&sql, b"changed\n"), "{way}");
        let open: i64 = sql
            .query_row(
                "SELECT count(*) FROM watched_calls WHERE scan IS NULL AND options IS NULL",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(open, 1, "{way}");
    }
}

#[test]
fn the_limit_of_a_dead_watch_holds_for_who_finishes_it() {
    let desk = desk();
    let options = WatchOptions::new().max_file_bytes(1000);
    drop(desk.session.files().watch("toolu_1", &options).unwrap());
    fs::write(desk.path("a.txt"), [1; 3000]).unwrap();
    fs::write(desk.path("sub/b.txt"), [2; 900]).unwrap();
    by_another(&desk).files().finish_watches().unwrap();
    assert!(!keeps(&sql(&desk), &[1; 3000]));
    assert!(keeps(&sql(&desk), &[2; 900]));
}

#[test]
fn what_is_not_to_be_kept_is_not_kept_late_either_b93() {
    let files = FileOptions::new().exclude(".env").max_file_bytes(1000);
    for by_another in [false, true] {
        let desk = desk();
        let store = Store::open(desk.store.path()).unwrap();
        let store = store.with_files(files.clone());
        let session = store.sessions().get(desk.session.key()).unwrap();
        fs::write(desk.path(".env"), "TOKEN=1\n").unwrap();
        session
            .files()
            .before("toolu_1", [".env", "a.txt"])
            .unwrap();
        fs::write(desk.path(".env"), "TOKEN=2\n").unwrap();
        fs::write(desk.path("a.txt"), "changed\n").unwrap();
        // The tool never said what it left.
        let session = if by_another { &desk.session } else { &session };
        let settled = session.tools().settle("toolu_1", &Settle::Interrupted);
        assert!(settled.unwrap().stored);
        let sql = sql(&desk);
        assert!(!keeps(&sql, b"TOKEN=2\n"), "by another: {by_another}");
        assert!(keeps(&sql, b"changed\n"));
    }
}

#[test]
fn a_watch_that_an_earlier_release_began_is_finished_by_the_defaults() {
    let desk = desk();
    let files = FileOptions::new().exclude("*.pem");
    let store = Store::open(desk.store.path()).unwrap().with_files(files);
    let session = store.sessions().get(desk.session.key()).unwrap();
    let options = WatchOptions::new().exclude("*.txt");
    drop(session.files().watch("toolu_1", &options).unwrap());
    sql(&desk)
        .execute("UPDATE watched_calls SET options = NULL", [])
        .unwrap();
    fs::write(desk.path("new.txt"), "new\n").unwrap();
    fs::write(desk.path("key.pem"), "key\n").unwrap();
    assert_eq!(session.files().finish_watches().unwrap(), 1);
    assert!(keeps(&sql(&desk), b"new\n"));
    assert!(!keeps(&sql(&desk), b"key\n"));
}

#[test]
fn what_a_dead_watch_left_is_of_the_agent_and_the_prompt_that_it_named() {
    let desk = desk();
    let call = ToolRef::new("toolu_9").by_agent("a1").in_prompt("p1");
    drop(
        desk.session
            .files()
            .watch(call, &WatchOptions::new())
            .unwrap(),
    );
    fs::write(desk.path("a.txt"), "changed\n").unwrap();
    by_another(&desk).files().finish_watches().unwrap();
    let named: (Option<String>, Option<String>) = sql(&desk)
        .query_row("SELECT agent, prompt_id FROM file_changes", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(named, (Some("a1".to_owned()), Some("p1".to_owned())));
}

#[test]
fn what_a_killed_program_was_told_to_leave_out_of_a_watch_is_not_kept() {
    let program = Turnkeep::new();
    let at = |name: &str| program.folder.path().join(name);
    fs::create_dir(at("work")).unwrap();
    fs::write(at("work/a.txt"), "before\n").unwrap();
    let script = "cd work; echo secret > k.pem; head -c 3000 /dev/zero > large; echo after > a.txt; kill -9 $PPID";
    let watch = [
        &["track", "s1", "watch", "--tool", "t1", "--project", "shop"][..],
        &["--exclude", "*.pem", "--max-file-bytes", "1000"],
        &["--root", "work", "--", "sh", "-c", script],
    ];
    assert_eq!(program.run(&watch.concat()).code, -1);
    let rewind = ["rewind", "s1", "--to", "t1", "--restore", "files", "--yes"];
    let ran = program.run(&rewind);
    assert_eq!(
        fs::read(at("work/a.txt")).unwrap(),
        b"before\n",
        "{}",
        ran.err
    );
    let sql = Connection::open(at("store.db")).unwrap();
    assert!(!keeps(&sql, b"secret\n"));
    assert!(!keeps(&sql, &[0; 3000]));
    assert!(keeps(&sql, b"after\n"));
}

#[test]
fn a_call_that_watches_several_roots_ends_none_of_its_own_watches() {
    let desk = desk();
    let other = desk.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("o.txt"), "o\n").unwrap();
    let options = WatchOptions::new().root(desk.path("")).root(&other);
    let files = desk.session.files();
    drop(files.watch("toolu_1", &options).unwrap());
    fs::write(desk.path("a.txt"), "first\n").unwrap();
    // Run again, and dead again: the first run is recorded, and the second is watched in both roots.
    drop(files.watch("toolu_1", &options).unwrap());
    fs::write(desk.path("a.txt"), "second\n").unwrap();
    fs::write(other.join("o.txt"), "second\n").unwrap();
    assert_eq!(files.finish_watches().unwrap(), 1);
    let sql = sql(&desk);
    let mut statement = sql
        .prepare("SELECT path FROM file_changes WHERE source = 'watch' ORDER BY id")
        .unwrap();
    let rows = statement.query_map([], |row| row.get::<_, String>(0));
    let changed: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
    let names: Vec<&str> = changed
        .iter()
        .map(|path| path.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["a.txt", "a.txt", "o.txt"]);
}

#[test]
fn a_rewind_keeps_no_secret_for_its_undo_and_touches_none() {
    let desk = desk();
    let store = Store::open(desk.store.path()).unwrap();
    let store = store.with_files(FileOptions::new().exclude(".env"));
    let session = store.sessions().get(desk.session.key()).unwrap();
    let point = desk.point.clone();
    // A new one, one whose call never ended, and one that was there: nothing of them is known.
    fs::write(desk.path("sub/.env"), "OLD=1\n").unwrap();
    let files = session.files();
    files.before("toolu_1", [".env", "sub/.env"]).unwrap();
    fs::write(desk.path(".env"), "TOKEN=1\n").unwrap();
    fs::write(desk.path("sub/.env"), "NEW=1\n").unwrap();
    files.after("toolu_1", [".env", "sub/.env"]).unwrap();
    for session in [session, by_another(&desk)] {
        let options = RewindOptions::to(&point)
            .restore(Restore::Files)
            .force(true)
            .while_pending(true);
        let plan = session.plan_rewind(&options).unwrap();
        for file in &plan.report().files {
            let left = [FileAction::Refused, FileAction::NotCovered];
            assert!(left.contains(&file.action), "{file:?}");
        }
        let mut reasons = plan.report().files.iter();
        let said = reasons.any(|file| file.reason.as_deref().unwrap().contains("it is excluded"));
        assert!(said, "{:?}", plan.report().files);
        session.rewind(&plan).unwrap();
        assert_eq!(fs::read(desk.path(".env")).unwrap(), b"TOKEN=1\n");
        let sql = sql(&desk);
        for content in [&b"TOKEN=1\n"[..], b"OLD=1\n", b"NEW=1\n"] {
            assert!(!keeps(&sql, content));
        }
    }
}
