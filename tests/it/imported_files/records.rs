//! What the client's checkpoint records say, and what they may not say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use turnkeep::claude_code::export_config_folder;
use turnkeep::{
    FileAction, FileOutcome, ForkOptions, NewMessage, NewSession, Restore, RewindOptions,
    RewindReport, Store,
};

use super::{ID, Moved, prompts, rewind, transcripts_below};
use crate::case::{self, copy_folder};
use crate::kit::{TestStore, import, tree};

fn outcomes(report: &RewindReport) -> BTreeMap<String, (FileAction, FileOutcome)> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = report.files.iter();
    files
        .map(|file| (name(&file.path), (file.action, file.outcome)))
        .collect()
}

/// How many rows a query counts.
fn count(store: &Store, sql: &str) -> i64 {
    let file = rusqlite::Connection::open(store.path()).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

const BLOBS: &str = "SELECT count(*) FROM blobs";

#[test]
fn backups_come_along_into_a_fork_and_outlive_the_source_b57() {
    let moved = Moved::of("cases/B57", "/srv/demo");
    let expect = case::expect("B57");
    let report = moved.import();
    assert_eq!((report.file_backups, report.file_changes), (2, 2));
    assert!(!report.partial, "{report:?}");
    let source = moved.test.only_session();
    let u1 = crate::kit::uuids(&source)[0].clone();
    let blobs = count(&moved.test.store, BLOBS);
    let up_to = expect["fork_up_to"].as_str().unwrap();
    let fork = source.fork(&ForkOptions::new().up_to(up_to)).unwrap();
    assert_eq!(count(&moved.test.store, BLOBS), blobs, "blobs are shared");
    let child = crate::kit::uuids(&fork)[0].clone();
    assert_ne!(child, u1);
    let refused = fork.plan_rewind(&RewindOptions::to(&u1).restore(Restore::Files));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.starts_with("No file checkpoint found for this message"),
        "{refused}"
    );

    let before = expect["rewind_in_fork"]["a.txt"].as_str().unwrap();
    for source_is_there in [true, false] {
        moved.write("a.txt", "content after turn 2\n");
        if !source_is_there {
            source.delete().unwrap();
        }
        let report = rewind(&fork, &child);
        assert_eq!(moved.read("a.txt").as_deref(), Some(before), "{report:?}");
        fork.undo(None).unwrap();
        let back = moved.read("a.txt");
        assert_eq!(back.as_deref(), Some("content after turn 2\n"));
    }
    assert_eq!(moved.test.store.verify().unwrap().findings, []);
}

#[test]
fn a_first_edit_is_found_in_its_delta_and_in_an_older_clients_second_snapshot_b87() {
    let expect = case::expect("B87");
    let rewinds = expect["rewind_to"].as_object().unwrap();
    assert_eq!(rewinds.len(), 3);
    for (prompt, files) in rewinds {
        let moved = Moved::of("cases/B87", "/srv/demo");
        // Both sessions changed the same file: each is looked at alone.
        let named = |path: &PathBuf| fs::read_to_string(path).unwrap().contains(prompt);
        let transcript = transcripts_below(&moved.config).into_iter().find(named);
        let report = import(&moved.test.store, &transcript.unwrap());
        assert!(!report.partial && report.notes.is_empty(), "{report:?}");
        moved.write("a.txt", "as the last turn left it\n");
        moved.write("born.txt", "born\n");
        let report = rewind(&moved.test.only_session(), prompt);
        for (name, content) in files.as_object().unwrap() {
            let there = moved.read(name);
            assert_eq!(there.as_deref(), content.as_str(), "{prompt} {report:?}");
        }
    }
}

#[test]
fn two_imported_sessions_do_not_undo_each_other_b87() {
    let moved = Moved::of("cases/B87", "/srv/demo");
    moved.import();
    moved.write("a.txt", "as the newer session left it\n");
    let older = moved.session("05e6479d");
    let report = rewind(&older, &prompts(&older)[0]);
    assert_eq!(report.conflicts, [moved.work.join("a.txt")]);
    let there = moved.read("a.txt");
    assert_eq!(there.as_deref(), Some("as the newer session left it\n"));
}

#[test]
fn records_that_lead_elsewhere_are_refused_and_good_names_are_not_b129() {
    let moved = Moved::of("cases/B129", "/srv/demo");
    let backups = moved.config.join("file-history");
    let backups = fs::read_dir(backups)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    #[cfg(unix)]
    {
        let linked = backups.join("fedcba9876543210@v1");
        fs::remove_file(&linked).ok();
        std::os::unix::fs::symlink("/etc/hostname", &linked).unwrap();
        let transcript = case::transcript_in(&moved.config);
        let text = fs::read_to_string(&transcript).unwrap();
        let more =
            r#""trackedFileBackups":{"linked.txt":{"backupFileName":"fedcba9876543210@v1"},"#;
        fs::write(&transcript, text.replace(r#""trackedFileBackups":{"#, more)).unwrap();
    }
    let outside = moved.work.join("../../outside.txt");
    assert!(!outside.exists());
    let report = moved.import();
    let said: Vec<&str> = report
        .problems
        .iter()
        .map(|problem| &*problem.what)
        .collect();
    for name in [
        "`../../outside.txt`",
        "`../../../etc/passwd`",
        "`/etc/passwd`",
    ] {
        assert_eq!(
            said.iter().filter(|what| what.contains(name)).count(),
            1,
            "{said:?}"
        );
    }
    assert!(said.iter().any(|what| what.contains("link")), "{said:?}");
    let expect = case::expect("B129");
    let session = moved.test.only_session();
    let report = rewind(&session, &prompts(&session)[0]);
    for name in case::strings(&expect["restorable"])
        .into_iter()
        .chain(case::strings(&expect["literal_names"]))
    {
        assert_eq!(
            moved.read(name).as_deref(),
            Some("backup bytes\n"),
            "{report:?}"
        );
    }
    let found = outcomes(&report);
    let left = |action| (action, FileOutcome::Left);
    assert_eq!(found["evil.txt"], left(FileAction::Refused));
    for name in ["ok.txt", "ok2.txt", "linked.txt"] {
        assert_eq!(found[name], left(FileAction::NotCovered), "{name}");
        assert_eq!(moved.read(name), None);
    }
    assert!(!found.contains_key("outside.txt"));
    assert!(!outside.exists() && !Path::new("/etc/evil.txt").exists());
}

#[test]
fn a_backup_that_is_missing_is_no_absence_and_may_come_later_b78() {
    let moved = Moved::of("cases/B57", "/srv/demo");
    let aside = moved.test.path("aside");
    fs::rename(moved.config.join("file-history"), &aside).unwrap();
    let report = moved.import();
    assert_eq!((report.file_changes, report.partial), (2, false));
    let notes: Vec<&str> = report.notes.iter().map(|note| &*note.what).collect();
    let says = "2 backup(s) of the checkpoints are missing: those states cannot be restored";
    assert_eq!(notes, [says]);
    moved.write("a.txt", "content after turn 2\n");
    let session = moved.test.only_session();
    let first = &prompts(&session)[0];
    let report = rewind(&session, first);
    assert_eq!(report.files[0].action, FileAction::NotCovered);
    let why = report.files[0].reason.as_deref();
    assert_eq!(why, Some("what it was is not kept: backup missing"));
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("content after turn 2\n")
    );

    fs::rename(&aside, moved.config.join("file-history")).unwrap();
    let report = moved.import();
    assert_eq!((report.file_changes, report.new_entries), (0, 0));
    assert_eq!(report.notes, []);
    rewind(&session, first);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("content before turn 1\n")
    );
}

#[test]
fn a_clients_fork_and_its_origin_are_not_in_each_others_way() {
    for of_the_fork in [true, false] {
        let moved = Moved::of("cases/B57", "/srv/demo");
        // The client copies entries and records with their uuids, under another session's id.
        let source = case::transcript_in(&moved.config);
        let id = source.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&source).unwrap().replace(&id, ID);
        fs::write(source.with_file_name(format!("{ID}.jsonl")), text).unwrap();
        let backups = moved.config.join("file-history");
        copy_folder(&backups.join(&id), &backups.join(ID));
        moved.import();
        moved.write("a.txt", "content after turn 2\n");
        let session = moved.session(if of_the_fork { ID } else { &id });
        let report = rewind(&session, &prompts(&session)[0]);
        let there = moved.read("a.txt");
        assert_eq!(
            there.as_deref(),
            Some("content before turn 1\n"),
            "{report:?}"
        );
    }
}

#[test]
fn an_exported_fork_brings_its_checkpoints_into_another_store_b57() {
    let moved = Moved::of("cases/B57", "/srv/demo");
    moved.import();
    let up_to = case::expect("B57")["fork_up_to"].clone();
    let up_to = ForkOptions::new().up_to(up_to.as_str().unwrap());
    let fork = moved.test.only_session().fork(&up_to).unwrap();
    let out = moved.test.path("exported");
    export_config_folder(&out, std::slice::from_ref(&fork)).unwrap();
    let other = TestStore::new();
    let report = import(&other.store, &out);
    assert_eq!(
        (report.file_backups, report.file_changes),
        (2, 2),
        "{report:?}"
    );
    moved.write("a.txt", "content after turn 2\n");
    let there = other.only_session();
    rewind(&there, &prompts(&fork)[0]);
    assert_eq!(
        moved.read("a.txt").as_deref(),
        Some("content before turn 1\n")
    );
}

#[test]
fn what_was_captured_here_is_not_told_again_by_its_own_export() {
    let moved = Moved::empty();
    let new = NewSession::in_project("p")
        .id(ID)
        .cwd(moved.work.to_str().unwrap());
    let session = moved.test.store.sessions().create(new).unwrap();
    let prompt = session
        .messages()
        .append(NewMessage::user("do it"))
        .unwrap();
    session.files().before("t1", ["a.txt"]).unwrap();
    moved.write("a.txt", "made\n");
    session.files().after("t1", ["a.txt"]).unwrap();
    let out = moved.test.path("exported");
    export_config_folder(&out, std::slice::from_ref(&session)).unwrap();
    let report = import(&moved.test.store, &out);
    assert_eq!(
        (report.file_changes, report.notes.len()),
        (0, 0),
        "{report:?}"
    );
    rewind(&session, &prompt.uuid);
    assert_eq!(moved.read("a.txt"), None);
    // A transcript that was read from a file comes out as that file from then on.
    let again = moved.test.path("again");
    export_config_folder(&again, std::slice::from_ref(&session)).unwrap();
    assert_eq!(tree(&again), tree(&out));
}
