//! Trials with several processes: racing first opens, contended writes, kills at random moments, foreign users.
//!
//! Each process is this test binary, run again for the one ignored test [`child`], with its task in the environment.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::schema::Schema;
use super::schema::tests::extended;
use super::{Database, OpenOptions};
use crate::error::{Error, Result};

const TASK: &str = "TURNKEEP_TRIAL_TASK";
const STORE: &str = "TURNKEEP_TRIAL_STORE";

/// A newer schema with enough work in it to be killed in the middle.
fn newer() -> Schema {
    let fill = "INSERT INTO one (body) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) SELECT printf('%0200d', i) FROM n;";
    extended(&[
        (
            "one",
            &format!("CREATE TABLE one (id INTEGER PRIMARY KEY, body TEXT) STRICT; {fill}"),
        ),
        (
            "two",
            &format!("CREATE TABLE two (id INTEGER PRIMARY KEY) STRICT; {fill}"),
        ),
        ("three", "CREATE INDEX three ON one (body)"),
    ])
}

fn open(path: &Path) -> Result<Database> {
    Database::open(path, &OpenOptions::new())
}

fn write_one(db: &Database) -> Result<()> {
    db.write(|tx| Ok(tx.execute_batch("INSERT INTO scratch (body) VALUES ('x')")?))
}

#[test]
#[ignore = "one process of a trial"]
fn child() {
    let Ok(task) = env::var(TASK) else { return };
    let path = PathBuf::from(env::var(STORE).unwrap());
    match task.as_str() {
        "open" => drop(open(&path).unwrap()),
        "use" => {
            let db = open(&path).unwrap();
            db.write(|tx| Ok(tx.execute_batch("CREATE TABLE IF NOT EXISTS scratch (body TEXT); INSERT INTO scratch VALUES ('x')")?))
                .unwrap();
        }
        "migrate" => drop(Database::open_with(&path, &OpenOptions::new(), newer(), None).unwrap()),
        "write 200" => {
            let db = open(&path).unwrap();
            let mut longest = Duration::ZERO;
            for _ in 0..200 {
                let began = Instant::now();
                write_one(&db).unwrap();
                longest = longest.max(began.elapsed());
            }
            println!("longest wait {longest:?}");
        }
        "write for ever" => {
            let db = open(&path).unwrap();
            loop {
                write_one(&db).unwrap();
            }
        }
        "create, stat all" => {
            let db = open(&path).unwrap();
            db.write(|tx| {
                tx.execute_batch("CREATE TABLE scratch (body TEXT)")?;
                assert_private(path.parent().unwrap());
                Ok(())
            })
            .unwrap();
            assert_private(path.parent().unwrap());
            drop(db);
            drop(Database::open_with(&path, &OpenOptions::new(), newer(), None).unwrap());
            let rolled = path.with_file_name("rolled.db");
            let options = OpenOptions::new().journal(Some(super::Journal::Rollback));
            let db = Database::open(&rolled, &options).unwrap();
            db.write(|tx| {
                tx.execute_batch("CREATE TABLE scratch (body TEXT)")?;
                assert!(rolled.with_file_name("rolled.db-journal").exists());
                assert_private(path.parent().unwrap());
                Ok(())
            })
            .unwrap();
            assert_private(path.parent().unwrap());
        }
        "read without rights" => read_without_rights(&path),
        other => panic!("no task {other}"),
    }
}

fn command(task: &str, path: &Path) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    in_trial(&mut command, task, path);
    command
}

fn in_trial(command: &mut Command, task: &str, path: &Path) {
    command
        .args([
            "--exact",
            "db::trials::child",
            "--ignored",
            "--nocapture",
            "--test-threads",
            "1",
        ])
        .env(TASK, task)
        .env(STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
}

fn all_succeed(children: Vec<Child>) -> Vec<String> {
    children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let text = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
            text
        })
        .collect()
}

fn is_whole(path: &Path) -> bool {
    let conn = Connection::open(path).unwrap();
    conn.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
        .unwrap()
        == "ok"
}

/// Moments between now and `span`, spread by a fixed generator, so that a failure can be repeated.
fn moments(count: u64, span: Duration) -> impl Iterator<Item = Duration> {
    (1..=count).map(move |n| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        span.mul_f64(mixed as f64 / (1u64 << 24) as f64)
    })
}

#[test]
fn eight_processes_open_one_new_store_twenty_times_over() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = folder.path().join(format!("round-{round}/store.db"));
        let task = if round % 2 == 0 { "open" } else { "use" };
        all_succeed(
            (0..8)
                .map(|_| command(task, &path).spawn().unwrap())
                .collect(),
        );
        // Of two that close at the same moment, each may take the other for still open and leave the log to it.
        let left_over = |name: &str| !["store.db", "store.db-wal", "store.db-shm"].contains(&name);
        for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!left_over(&name), "round {round}: {name}");
        }
        assert!(is_whole(&path), "round {round}");
    }
}

#[test]
fn eight_processes_migrate_one_store_ten_times_over() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..10 {
        let path = folder.path().join(format!("{round}.db"));
        drop(open(&path).unwrap());
        all_succeed(
            (0..8)
                .map(|_| command("migrate", &path).spawn().unwrap())
                .collect(),
        );
        assert!(is_whole(&path));
    }
}

/// A store with the table that the writers of these trials fill.
fn with_scratch(path: &Path) -> Database {
    let db = open(path).unwrap();
    db.write(
        |tx| Ok(tx.execute_batch("CREATE TABLE scratch (id INTEGER PRIMARY KEY, body TEXT)")?),
    )
    .unwrap();
    db
}

/// Starts a part and kills it after a while; whether that ended it, and not its own end.
fn kill_after(part: &str, path: &Path, moment: Duration) -> bool {
    let mut child = command(part, path).spawn().unwrap();
    thread::sleep(moment);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

#[test]
fn eight_processes_write_two_hundred_times_each_and_none_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let db = with_scratch(&path);
    let began = Instant::now();
    let outputs = all_succeed(
        (0..8)
            .map(|_| command("write 200", &path).spawn().unwrap())
            .collect(),
    );
    println!("1,600 durable writes by 8 processes: {:?}", began.elapsed());
    for output in outputs {
        println!(
            "{}",
            output
                .lines()
                .find(|line| line.contains("longest wait"))
                .unwrap_or_default()
        );
    }
    let count: i64 = db
        .read(|conn| Ok(conn.query_row("SELECT count(*) FROM scratch", [], |row| row.get(0))?))
        .unwrap();
    assert_eq!(count, 1600);
}

#[test]
fn a_creation_killed_at_any_moment_leaves_nothing_or_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = 0;
    for (round, moment) in moments(120, Duration::from_millis(30)).enumerate() {
        let path = folder.path().join(format!("{round}/store.db"));
        killed += usize::from(kill_after("open", &path, moment));
        open(&path).unwrap();
        assert!(is_whole(&path), "round {round}");
    }
    println!("{killed} of 120 creations killed");
    assert!(killed > 10);
}

#[test]
fn a_migration_killed_at_any_moment_leaves_the_old_schema_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (mut killed, mut left_old) = (0, 0);
    for (round, moment) in moments(80, Duration::from_millis(120)).enumerate() {
        let path = folder.path().join(format!("{round}.db"));
        drop(open(&path).unwrap());
        killed += usize::from(kill_after("migrate", &path, moment));
        match open(&path) {
            Ok(db) => {
                left_old += 1;
                let one: i64 = db
                    .read(|conn| {
                        Ok(conn.query_row(
                            "SELECT count(*) FROM sqlite_schema WHERE name = 'one'",
                            [],
                            |row| row.get(0),
                        )?)
                    })
                    .unwrap();
                assert_eq!(one, 0, "round {round}: a part of the new schema");
            }
            Err(error) => assert!(
                matches!(error, Error::NewerSchema { .. }),
                "round {round}: {error}"
            ),
        }
        let db = Database::open_with(&path, &OpenOptions::new(), newer(), None).unwrap();
        let rows: i64 = db
            .read(|conn| Ok(conn.query_row("SELECT count(*) FROM one", [], |row| row.get(0))?))
            .unwrap();
        assert_eq!(rows, 16_000, "round {round}");
        drop(db);
        assert!(is_whole(&path), "round {round}");
        fs::remove_file(&path).unwrap();
    }
    println!("{killed} of 80 migrations killed, {left_old} of them before the commit");
    assert!(killed > 10 && left_old > 5);
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let db = with_scratch(&path);
    for moment in moments(30, Duration::from_millis(150)) {
        kill_after("write for ever", &path, moment);
        write_one(&db).unwrap();
    }
    drop(db);
    assert!(is_whole(&path));
}

#[cfg(unix)]
fn assert_private(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder), 0o700);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[cfg(unix)]
#[test]
fn every_file_is_private_whatever_the_umask() {
    let folder = tempfile::tempdir().unwrap();
    for umask in ["000", "022", "077", "277"] {
        let path = folder.path().join(umask).join("store.db");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "umask $0; exec \"$@\"", umask])
            .arg(env::current_exe().unwrap());
        in_trial(&mut shell, "create, stat all", &path);
        all_succeed(vec![shell.spawn().unwrap()]);
    }
}

/// What a user without the right to write finds in a folder that [`a_folder_that_may_not_be_written_can_be_read`] made.
fn read_without_rights(folder: &Path) {
    let reading = OpenOptions::new().read_only(true);
    let count = |db: &Database| {
        db.read(|conn| {
            Ok(conn.query_row("SELECT count(*) FROM scratch", [], |row| {
                row.get::<_, i64>(0)
            })?)
        })
    };
    let closed = folder.join("closed.db");
    let db = Database::open(&closed, &reading).unwrap();
    assert_eq!(count(&db).unwrap(), 1);
    assert!(
        db.notes().iter().any(|note| note.contains("without locks")),
        "{:?}",
        db.notes()
    );

    let error = Database::open(&closed, &OpenOptions::new()).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");

    let crashed = folder.join("crashed.db");
    match Database::open(&crashed, &reading) {
        Ok(db) => assert_eq!(count(&db).unwrap(), 2, "the log was not read"),
        Err(error) => assert!(
            matches!(&error, Error::Invalid { why, .. } if why.contains("log")),
            "{error}"
        ),
    }

    let error = Database::open(&folder.join("secret.db"), &reading).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let error = Database::open(&folder.join("new.db"), &OpenOptions::new()).unwrap_err();
    assert!(
        matches!(error, Error::Io { .. } | Error::ReadOnly { .. }),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn a_folder_that_may_not_be_written_can_be_read() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let closed = open(&at("closed.db")).unwrap();
    closed
        .write(|tx| {
            Ok(tx.execute_batch(
                "CREATE TABLE scratch (body TEXT); INSERT INTO scratch VALUES ('x')",
            )?)
        })
        .unwrap();
    drop(closed);
    fs::copy(at("closed.db"), at("secret.db")).unwrap();
    let crashed = open(&at("closed.db")).unwrap();
    write_one(&crashed).unwrap();
    fs::copy(at("closed.db"), at("crashed.db")).unwrap();
    fs::copy(at("closed.db-wal"), at("crashed.db-wal")).unwrap();
    crashed
        .write(|tx| Ok(tx.execute_batch("DELETE FROM scratch WHERE rowid > 1")?))
        .unwrap();
    drop(crashed);

    let mode =
        |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    mode("secret.db", 0o000);
    for name in ["closed.db", "crashed.db", "crashed.db-wal"] {
        mode(name, 0o444);
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = command("read without rights", folder.path());
    // Root may write anything, so a run by root becomes nobody.
    if chown(at("secret.db"), Some(0), None).is_ok() {
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let child = command.spawn().unwrap();
    all_succeed(vec![child]);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
}
