//! What is left when a change is cut, or fails, at any of its steps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::tests::{TEMP, ground, mode_of, names};
use super::*;
use crate::workspace::parts;

/// Does `work` again and again, cut at its first step, at its second, and so on until it is not cut any
/// more. Answers how many steps it has.
fn cut_at_each_step(mut work: impl FnMut(), mut check: impl FnMut(usize)) -> usize {
    let _alone = fail::FailScenario::setup();
    let own = std::thread::current().id();
    for at in 1.. {
        let steps = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&steps);
        fail::cfg_callback("turnkeep::file", move || {
            let mine = std::thread::current().id() == own;
            if mine && counted.fetch_add(1, Ordering::Relaxed) + 1 == at {
                std::panic::resume_unwind(Box::new("cut"));
            }
        })
        .unwrap();
        let ended = catch_unwind(AssertUnwindSafe(&mut work));
        fail::remove("turnkeep::file");
        check(at);
        if ended.is_ok() {
            return steps.load(Ordering::Relaxed);
        }
    }
    unreachable!("there is always a last step")
}

#[test]
fn a_replacement_cut_at_any_step_is_whole_or_not_begun() {
    let ground = ground();
    let mut seen = [0, 0];
    let steps = cut_at_each_step(
        || {
            drop(fs::remove_file(ground.at(TEMP)));
            fs::write(ground.at("a"), "old").unwrap();
            fs::set_permissions(ground.at("a"), fs::Permissions::from_mode(0o640)).unwrap();
            ground.write("a", b"new", 0o600).unwrap();
        },
        |_| {
            let left = fs::metadata(ground.at(TEMP));
            // Never wider than what it is to become.
            assert!(left.is_err() || mode_of(&ground.at(TEMP)) & !0o600 == 0);
            let found = mode_of(&ground.at("a"));
            match &fs::read(ground.at("a")).unwrap()[..] {
                b"old" => {
                    assert_eq!(found, 0o640);
                    seen[0] += 1;
                }
                b"new" => {
                    assert_eq!(found, 0o600);
                    seen[1] += 1;
                }
                other => panic!("{other:?}"),
            }
        },
    );
    // Creating, writing, mode, sync, rename, sync of the folder: each is passed before and after.
    assert_eq!((steps, seen), (12, [9, 4]));
}

#[test]
fn a_write_that_fails_at_any_step_leaves_nothing_beside() {
    let folder = tempfile::tempdir().unwrap();
    parts::run(folder.path(), "workspace::tree::cuts::part_failing");
}

/// In a process of its own: a fault that is injected is everybody's.
#[test]
#[ignore = "a part of another test"]
fn part_failing() {
    if parts::folder().is_none() {
        return;
    }
    const NO_SPACE: i32 = 28;
    let _alone = fail::FailScenario::setup();
    let ground = ground();
    fs::write(ground.at("a"), "old").unwrap();
    for at in 0..6 {
        let once = format!("{at}*off->1*return({NO_SPACE})->off");
        fail::cfg("turnkeep::file", &once).unwrap();
        let failed = ground.tree.write_beside("a".as_ref(), TEMP, b"new", 0o644);
        fail::remove("turnkeep::file");
        assert!(
            matches!(&failed, Err(Refused::Io(error)) if error.raw_os_error() == Some(NO_SPACE)),
            "{at}: {failed:?}"
        );
        // Right after the creation the fault stands for a call that failed and yet created.
        if at != 1 {
            assert_eq!(names(ground.tree.path()), ["a"], "{at}");
        } else {
            assert!(ground.tree.drop_beside("a".as_ref(), TEMP).unwrap());
        }
    }
    assert_eq!(fs::read(ground.at("a")).unwrap(), b"old");
    ground.write("a", b"new", 0o644).unwrap();
}
