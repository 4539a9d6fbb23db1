//! That a scan covers what it should, and counts what it does not.

use std::fs;

use super::tests::{ALL, ground, in_words};
use super::*;
use crate::workspace::present::file_id;

fn paths(scanned: &Scanned) -> Vec<&str> {
    let entries = scanned.entries().iter();
    entries.map(|(path, _)| path.to_str().unwrap()).collect()
}

#[test]
fn gits_rules_are_kept_and_counted_without_git() {
    let ground = ground();
    for (path, content) in [
        (
            ".gitignore",
            "*.o\n!keep.o\n/build\nnode_modules/\n# no rule\n",
        ),
        ("a.o", ""),
        ("keep.o", ""),
        ("build/x", ""),
        ("sub/build/x", ""),
        ("sub/.gitignore", "!a.o\ntmp\n"),
        ("sub/a.o", ""),
        ("sub/b.o", ""),
        ("sub/tmp/x", ""),
        ("sub/node_modules/x/y", ""),
        ("node_modules", "a file, and no folder"),
    ] {
        ground.write(path, content);
    }
    let covered = [
        ".gitignore",
        "keep.o",
        "node_modules",
        "sub",
        "sub/.gitignore",
        "sub/a.o",
        "sub/build",
        "sub/build/x",
    ];
    let scanned = ground.scan(None);
    assert_eq!(paths(&scanned), covered);
    assert_eq!(scanned.uncovered().ignored, 5);
}

#[test]
fn a_repository_has_its_own_rules_and_its_git_folder_is_never_entered() {
    let ground = ground();
    for (path, content) in [
        (".git/HEAD", "ref"),
        (".git/info/exclude", "local\n"),
        (".gitignore", "*.log\n"),
        ("local", ""),
        ("x.log", ""),
        ("part/deep/x.log", ""),
        ("part/deep/y", ""),
        ("nested/.git/HEAD", "ref"),
        ("nested/x.log", "of another repository"),
        ("module/.git", "gitdir: ../.git/modules/module"),
        ("module/x.log", ""),
    ] {
        ground.write(path, content);
    }
    let scanned = ground.scan(None);
    let covered = [
        ".gitignore",
        "module",
        "module/x.log",
        "nested",
        "nested/x.log",
        "part",
        "part/deep",
        "part/deep/y",
    ];
    assert_eq!(paths(&scanned), covered);
    // In a root below, the rules of the repository hold as well.
    let part = scan(&ground.at("part/deep"), &ground.excludes, ALL, None, &[]).unwrap();
    assert_eq!(paths(&part), ["y"]);
    let part = scan(&ground.at("nested"), &ground.excludes, ALL, None, &[]).unwrap();
    assert_eq!(paths(&part), ["x.log"]);
}

#[test]
fn more_than_may_be_covered_is_said_and_never_taken_for_new() {
    let mut ground = ground();
    for number in 0..20 {
        ground.write(&format!("sub{}/{number}", number % 3), "0123456789");
    }
    ground.limits.files = 7;
    let before = ground.kept(None);
    assert!(before.uncovered().has_more);
    assert!(before.entries().len() <= 7 + 8);
    let mut last_first = before.entries().iter().rev();
    let gone = last_first.find(|(_, entry)| entry.what != What::Folder);
    let gone = gone.map(|(path, _)| path.clone());
    ground.limits.files = 100;
    ground.write("new", "x");
    if let Some(gone) = &gone {
        fs::remove_file(ground.root().join(gone)).unwrap();
    }
    let after = ground.scan(Some(&before));
    let changes = Scanned::changes(&before, &after);
    let told: Vec<PathBuf> = changes
        .list
        .iter()
        .map(|change| change.path.into())
        .collect();
    assert_eq!(told, Vec::from_iter(gone));
    assert!(changes.unsure > 0);
}

#[test]
fn what_is_too_much_to_read_is_counted_and_its_change_is_seen() {
    let mut ground = ground();
    ground.write("a", "0123456789");
    ground.write("b", "0123456789");
    ground.write("c", "0123");
    ground.write("large", &"x".repeat(100));
    ground.limits = ScanLimits {
        bytes: 15,
        file_bytes: 50,
        ..ALL
    };
    let before = ground.kept(None);
    let uncovered = before.uncovered();
    assert_eq!((uncovered.too_large, uncovered.too_much), (1, 1));
    let content = |name: &str| match &before.get(Path::new(name)).unwrap().what {
        What::File(content) => *content,
        other => panic!("{other:?}"),
    };
    assert_eq!(content("large"), Content::TooLarge);
    assert_eq!(content("b"), Content::TooMuch);
    assert!(matches!(content("c"), Content::Kept(_)));
    ground.write("b", "01234567890");
    ground.write("large", "small now");
    let after = ground.scan(Some(&before));
    assert_eq!(
        in_words(&Scanned::changes(&before, &after)),
        ["~ b", "~ large"]
    );
    // The next time the rest is read: what is kept costs nothing.
    let next = ground.kept(Some(&ground.kept(Some(&before))));
    assert_eq!(next.uncovered(), Uncovered::default());
}

#[test]
fn patterns_the_stores_files_and_what_is_no_file_are_left_out_and_counted() {
    let mut ground = ground();
    ground.excludes = Excludes::new([".env", "secrets"]).unwrap();
    for path in ["a", ".env", "sub/.env", "secrets/a/b", "store.db"] {
        ground.write(path, "x");
    }
    let _socket = std::os::unix::net::UnixListener::bind(ground.at("socket")).unwrap();
    let own = file_id(&ground.at("store.db")).unwrap();
    let scanned = scan(ground.root(), &ground.excludes, ALL, None, &[own]).unwrap();
    assert_eq!(paths(&scanned), ["a", "sub"]);
    let right = Uncovered {
        excluded: 3,
        own: 1,
        other: 1,
        ..Uncovered::default()
    };
    assert_eq!(scanned.uncovered(), right);
}

#[test]
fn a_root_that_is_not_there_is_an_error() {
    let ground = ground();
    let gone = scan(&ground.at("gone"), &ground.excludes, ALL, None, &[]);
    assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn only_what_may_have_changed_is_to_be_read_again() {
    let ground = ground();
    for name in ["a", "b", "sub/c"] {
        ground.write(name, name);
    }
    let first = ground.kept(None);
    assert_eq!(first.unread().count(), 0);
    ground.write("b", "longer than it was");
    ground.write("d", "new");
    let second = ground.scan(Some(&first));
    let unread: Vec<_> = second.unread().collect();
    assert_eq!(unread, [Path::new("b"), Path::new("d")]);
    let remembered = Scanned::unpack(ground.root().to_owned(), &first.pack()).unwrap();
    let again = ground.scan(Some(&remembered));
    assert_eq!(again.entries(), second.entries());
    assert_eq!(ground.scan(None).unread().count(), 4);
}
