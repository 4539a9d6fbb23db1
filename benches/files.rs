//! Backups before edits, the scan around a command, and rewinds.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::params;
use turnkeep::{NewMessage, NewSession, Restore, RewindOptions, Session, WatchOptions};

use crate::kit::{bare, new_folder, new_store, print_beside, quartiles, time};

/// A session in a new store, its empty cwd, and the store's file.
fn at_work() -> (Session, PathBuf, PathBuf) {
    let store = new_store();
    let work = new_folder();
    let new = NewSession::in_project("shop").cwd(work.to_str().unwrap());
    let session = store.sessions().create(new).unwrap();
    session.messages().append(NewMessage::user("go")).unwrap();
    let path = store.path().to_owned();
    (session, work, path)
}

/// Bytes that look like a source file and differ with `seed`.
fn text(bytes: usize, seed: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 80);
    let mut number = seed as u64 | 1;
    while text.len() < bytes {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        writeln!(
            text,
            "    let value_{} = compute({}, \"{number:x}\");",
            number % 977,
            number % 31
        )
        .unwrap();
    }
    text.truncate(bytes);
    text
}

/// The backup of one file of 10 KiB before an edit, durable, in a work tree of one file; beside a
/// durable insert of as many bytes.
pub fn backup() {
    backup_in("files::backup", 1);
}

/// The same in a work tree of 50,000 files: it makes no difference.
pub fn backup_in_a_large_tree() {
    backup_in("files::backup_in_a_large_tree", 50_000);
}

fn backup_in(name: &str, files: usize) {
    let (session, work, _) = at_work();
    for number in 0..files {
        fs::write(work.join(format!("f{number}")), "x").unwrap();
    }
    let path = work.join("f0");
    let mut round = 0;
    let ours = || {
        round += 1;
        fs::write(&path, text(10 << 10, round)).unwrap();
        let call = format!("toolu_{round}");
        time(|| session.files().before(call, [&path]).unwrap())
    };
    let conn = bare(new_store().path());
    let mut number = 0;
    let bare = || {
        number += 1;
        let content = text(10 << 10, number);
        let hash = number.to_le_bytes();
        time(|| {
            conn.execute(
                "INSERT INTO blobs (hash, bytes, encoding, content) VALUES (?1, 10240, 'plain', ?2)",
                params![hash, content],
            )
            .unwrap()
        })
    };
    print_beside(name, 200, (1.0, "files"), ours, bare);
    let shadow = Shadow::of(&work);
    let mut round = 1_000_000;
    let mut commits: Vec<f64> = (0..7)
        .map(|_| {
            round += 1;
            fs::write(&path, text(10 << 10, round)).unwrap();
            time(|| shadow.commit()).as_secs_f64() * 1000.0
        })
        .collect();
    print_times("a shadow repository's commit", &mut commits);
}

/// A git repository beside a work tree, as some agents keep one for going back.
struct Shadow {
    folder: PathBuf,
    work: PathBuf,
}

impl Shadow {
    fn of(work: &Path) -> Self {
        let shadow = Self {
            folder: new_folder(),
            work: work.to_owned(),
        };
        shadow.git(&["init", "-q"]);
        shadow.commit();
        shadow
    }

    fn git(&self, args: &[&str]) {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=b",
                "-c",
                "user.email=b@b",
                "-c",
                "gc.auto=0",
            ])
            .args(args)
            .env("GIT_DIR", self.folder.join(".git"))
            .env("GIT_WORK_TREE", &self.work)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }

    fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "x", "--allow-empty"]);
    }

    fn bytes(&self) -> u64 {
        let listed = Command::new("du")
            .args(["-sb"])
            .arg(self.folder.join(".git"))
            .output()
            .unwrap();
        let text = String::from_utf8(listed.stdout).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
}

fn print_times(side: &str, times: &mut [f64]) {
    let [low, median, high] = quartiles(times);
    println!("    {side}: {median:.1} ms ({low:.1} to {high:.1})");
}

/// Both scans around a command in a work tree of 50,000 files, of which it changes 10; beside the
/// walk of `find` that only lists them.
pub fn scan() {
    let (session, work, _) = at_work();
    for folder in 0..500 {
        let folder = work.join(format!("d{folder}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("f{file}")), format!("{file}\n")).unwrap();
        }
    }
    let mut round = 0;
    let mut watched = || {
        round += 1;
        let files = session.files();
        let mut watch = None;
        let before = time(|| {
            watch = Some(
                files
                    .watch(format!("toolu_{round}"), &WatchOptions::new())
                    .unwrap(),
            );
        });
        for file in 0..10 {
            fs::write(
                work.join(format!("d{file}/f{round}")),
                format!("{round} {file}!\n"),
            )
            .unwrap();
        }
        let mut changed = 0;
        let after = time(|| changed = watch.take().unwrap().finish().unwrap().changed.len());
        assert_eq!(changed, 10);
        (before, after)
    };
    let first = watched();
    println!(
        "files::scan: the first one, which keeps 50,000 contents: {:.1} s",
        first.0.as_secs_f64()
    );
    let (mut before, mut after, mut find) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        let times = watched();
        before.push(times.0.as_secs_f64() * 1000.0);
        after.push(times.1.as_secs_f64() * 1000.0);
        let list = || {
            Command::new("find")
                .arg(&work)
                .args(["-printf", "%s %T@"])
                .output()
                .unwrap()
        };
        find.push(time(list).as_secs_f64() * 1000.0);
    }
    for (side, times) in [
        ("before", &mut before),
        ("after", &mut after),
        ("find", &mut find),
    ] {
        let [low, median, high] = quartiles(times);
        println!("    {side:<6} {median:>8.1} ms ({low:.1} to {high:.1})");
    }
}

/// A rewind of 1,000 files of 8 KiB; beside copying them, each file synced.
pub fn rewind() {
    let (session, work, _) = at_work();
    let names: Vec<PathBuf> = (0..1000)
        .map(|number| work.join(format!("d{}/f{number}", number % 20)))
        .collect();
    for (number, name) in names.iter().enumerate() {
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(name, text(8 << 10, number)).unwrap();
    }
    let mut round = 0;
    let ours = || {
        round += 1;
        let prompt = session
            .messages()
            .append(NewMessage::user("change all"))
            .unwrap()
            .uuid;
        let call = format!("toolu_{round}");
        session.files().before(call.as_str(), &names).unwrap();
        for (number, name) in names.iter().enumerate() {
            fs::write(name, text(8 << 10, number + round * 1000)).unwrap();
        }
        session.files().after(call.as_str(), &names).unwrap();
        let options = RewindOptions::to(prompt).restore(Restore::Files);
        time(|| {
            let plan = session.plan_rewind(&options).unwrap();
            assert!(!session.rewind(&plan).unwrap().is_partial());
        })
    };
    let bare = || {
        let target = new_folder();
        time(|| {
            for (number, name) in names.iter().enumerate() {
                copy_synced(name, &target.join(number.to_string()));
            }
        })
    };
    print_beside("files::rewind", 5, (1000.0, "files"), ours, bare);
    let shadow = Shadow::of(&work);
    let mut restores: Vec<f64> = (0..3)
        .map(|round| {
            for (number, name) in names.iter().enumerate() {
                fs::write(name, text(8 << 10, number + (round + 90) * 1000)).unwrap();
            }
            time(|| shadow.git(&["restore", "."])).as_secs_f64() * 1000.0
        })
        .collect();
    print_times(
        "a shadow repository's restore, which syncs nothing",
        &mut restores,
    );
}

/// A rewind over 1,000 turns that changed 10 files again and again, in a work tree of 50,000 files.
pub fn rewind_over_1_000_turns() {
    let (session, work, _) = at_work();
    for number in 0..50_000 {
        fs::write(work.join(format!("other{number}")), "x").unwrap();
    }
    let name = |number: usize| work.join(format!("f{number}"));
    let first = session
        .messages()
        .append(NewMessage::user("turn 0"))
        .unwrap()
        .uuid;
    for turn in 0..1000 {
        let call = format!("toolu_{turn}");
        let path = name(turn % 10);
        session
            .write(|tx| {
                tx.append(NewMessage::user(format!("turn {turn}")))?;
                tx.before(call.as_str(), [&path])?;
                fs::write(&path, text(8 << 10, turn)).unwrap();
                tx.after(call.as_str(), [&path])
            })
            .unwrap();
    }
    let options = RewindOptions::to(first).restore(Restore::Files);
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let mut operation = None;
            let took = time(|| {
                let plan = session.plan_rewind(&options).unwrap();
                operation = session.rewind(&plan).unwrap().operation;
            });
            session.undo(operation).unwrap();
            took.as_secs_f64() * 1000.0
        })
        .collect();
    println!("files::rewind_over_1_000_turns");
    print_times("10 files", &mut times);
    let shadow = Shadow::of(&work);
    let mut restores: Vec<f64> = (0..3)
        .map(|_| {
            (0..10).for_each(|number| fs::write(name(number), "gone").unwrap());
            time(|| shadow.git(&["restore", "."])).as_secs_f64() * 1000.0
        })
        .collect();
    print_times("a shadow repository's restore", &mut restores);
}

fn copy_synced(from: &Path, to: &Path) {
    let bytes = fs::read(from).unwrap();
    let mut file = File::create(to).unwrap();
    file.write_all(&bytes).unwrap();
    file.sync_all().unwrap();
}

/// How much 1,000 small edits of a file add to the store.
pub fn size() {
    for (bytes, name) in [(100 << 10, "100 KiB"), (10 << 20, "10 MiB")] {
        let (session, work, store) = at_work();
        let path = work.join("edited.rs");
        let mut content = text(bytes, 7);
        fs::write(&path, &content).unwrap();
        session.files().before("toolu_first", [&path]).unwrap();
        let size = || {
            let sql = bare(&store);
            sql.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
                .unwrap();
            fs::metadata(&store).unwrap().len()
        };
        let begun = size();
        for edit in 0..1000 {
            let at = (edit * 7919) % (content.len() - 20);
            content[at..at + 10].copy_from_slice(format!("edit {edit:05}").as_bytes());
            let call = format!("toolu_{edit}");
            session.files().before(call.as_str(), [&path]).unwrap();
            fs::write(&path, &content).unwrap();
            session.files().after(call.as_str(), [&path]).unwrap();
        }
        let grown = size() - begun;
        println!(
            "files::size: 1,000 edits of a file of {name} add {:.1} MB, {:.2} % of 1,000 copies",
            grown as f64 / 1e6,
            grown as f64 / (bytes as f64 * 1000.0) * 100.0
        );
        if bytes < 1 << 20 {
            let shadow = Shadow::of(&work);
            let begun = shadow.bytes();
            for edit in 0..200 {
                let at = (edit * 7919) % (content.len() - 20);
                content[at..at + 10].copy_from_slice(format!("edit {edit:05}").as_bytes());
                fs::write(&path, &content).unwrap();
                shadow.commit();
            }
            let each = (shadow.bytes() - begun) as f64 / 200.0;
            println!(
                "    a shadow repository grows by {:.1} KB an edit",
                each / 1000.0
            );
        }
    }
}
