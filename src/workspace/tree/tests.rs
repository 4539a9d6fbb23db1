//! That a rewind's hands reach every kind of file below the root, and nothing else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::workspace::parts;

const MUCH: u64 = 1 << 20;
pub(super) const TEMP: &str = ".turnkeep-1";

pub(super) struct Ground {
    folder: tempfile::TempDir,
    pub(super) tree: Tree,
}

/// A root named `root`, with a folder `outside` beside it.
pub(super) fn ground() -> Ground {
    let folder = tempfile::tempdir().unwrap();
    for name in ["root", "outside"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let tree = Tree::open(&folder.path().join("root")).unwrap();
    Ground { folder, tree }
}

impl Ground {
    pub(super) fn at(&self, rel: &str) -> PathBuf {
        self.tree.path().join(rel)
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub(super) fn write(&self, rel: &str, bytes: &[u8], mode: u32) -> Result<(), Refused> {
        self.tree.write_beside(rel.as_ref(), TEMP, bytes, mode)?;
        self.tree.sync_beside(rel.as_ref(), TEMP)?;
        self.tree.put(rel.as_ref(), TEMP)?;
        self.tree.sync_folder(rel.as_ref())
    }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn files_are_written_replaced_and_removed_with_exactly_their_mode() {
    let ground = ground();
    for (bytes, mode) in [
        (&b"one"[..], 0o644),
        (b"two", 0o600),
        (b"", 0o4755),
        (b"r", 0o400),
        (b"none", 0o000),
        (b"all", 0o777),
    ] {
        ground.write("a", bytes, mode).unwrap();
        assert_eq!(fs::read(ground.at("a")).unwrap(), bytes);
        assert_eq!(mode_of(&ground.at("a")), mode);
    }
    assert_eq!(names(ground.tree.path()), ["a"]);
    ground.tree.remove("a".as_ref()).unwrap();
    assert_eq!(names(ground.tree.path()), Vec::<String>::new());
    let gone = ground.tree.remove("a".as_ref()).unwrap_err();
    assert!(matches!(gone, Refused::Io(error) if error.kind() == io::ErrorKind::NotFound));
}

#[test]
fn links_stay_links_and_their_targets_are_left_alone() {
    let ground = ground();
    fs::write(ground.at("target"), "kept").unwrap();
    symlink("target", ground.at("link")).unwrap();
    let looked = ground.tree.look("link".as_ref(), MUCH).unwrap();
    let target = PathBuf::from("target");
    assert_eq!(looked, Present::Symlink { target });
    let mode = ground.tree.set_mode("link".as_ref(), 0o600);
    assert!(mode.is_err());
    // A file replaces a link, a link a file, and a link is removed; what it names stays.
    ground.write("link", b"a file", 0o644).unwrap();
    assert!(fs::symlink_metadata(ground.at("link")).unwrap().is_file());
    let absolute = ground.outside().join("no/such");
    ground
        .tree
        .link_beside("link".as_ref(), TEMP, &absolute)
        .unwrap();
    ground.tree.put("link".as_ref(), TEMP).unwrap();
    assert_eq!(fs::read_link(ground.at("link")).unwrap(), absolute);
    ground.tree.remove("link".as_ref()).unwrap();
    assert_eq!(fs::read(ground.at("target")).unwrap(), b"kept");
    assert_eq!(names(ground.tree.path()), ["target"]);
}

#[test]
fn folders_are_made_one_by_one_and_removed_when_empty() {
    let ground = ground();
    let rel = Path::new("a/b/c/file");
    let missing = ground.tree.missing_folders(rel).unwrap();
    assert_eq!(missing, ["a", "a/b", "a/b/c"].map(PathBuf::from));
    for folder in &missing {
        assert!(ground.tree.make_folder(folder).unwrap());
        assert!(!ground.tree.make_folder(folder).unwrap());
    }
    assert_eq!(ground.tree.missing_folders(rel).unwrap().len(), 0);
    ground.write("a/b/c/file", b"x", 0o644).unwrap();
    assert!(!ground.tree.remove_empty_folder("a/b/c".as_ref()).unwrap());
    ground.tree.remove(rel).unwrap();
    for folder in missing.iter().rev() {
        assert!(ground.tree.remove_empty_folder(folder).unwrap());
        assert!(!ground.tree.remove_empty_folder(folder).unwrap());
    }
    fs::write(ground.at("file"), "x").unwrap();
    assert!(!ground.tree.remove_empty_folder("file".as_ref()).unwrap());
    let below = ground.tree.missing_folders("file/x/y".as_ref());
    assert!(
        matches!(below, Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotADirectory)
    );
    let looked = ground.tree.look("file/x/y".as_ref(), MUCH).unwrap();
    assert_eq!(looked, Present::Absent);
}

#[test]
fn a_folder_is_never_replaced_or_removed_as_a_file() {
    let ground = ground();
    fs::create_dir(ground.at("dir")).unwrap();
    assert!(ground.write("dir", b"x", 0o644).is_err());
    assert!(ground.tree.remove("dir".as_ref()).is_err());
    assert!(ground.tree.set_mode("dir".as_ref(), 0o600).is_err());
    assert!(ground.tree.drop_beside("dir".as_ref(), TEMP).unwrap());
    assert!(!ground.tree.drop_beside("dir".as_ref(), TEMP).unwrap());
    assert!(!ground.tree.drop_beside("no/x".as_ref(), TEMP).unwrap());
    assert_eq!(names(ground.tree.path()), ["dir"]);
}

#[test]
fn a_file_beside_that_is_there_already_is_left_as_it_is() {
    let ground = ground();
    symlink(ground.outside().join("x"), ground.at(TEMP)).unwrap();
    let there = ground.write("a", b"x", 0o644).unwrap_err();
    assert!(matches!(there, Refused::Io(error) if error.kind() == io::ErrorKind::AlreadyExists));
    assert_eq!(names(ground.tree.path()), [TEMP]);
    assert_eq!(names(&ground.outside()).len(), 0);
}

type Hand = fn(&Tree, &Path) -> Result<(), Refused>;

/// Everything that touches what a path names.
const HANDS: [(&str, Hand); 10] = [
    ("look", |tree, rel| tree.look(rel, MUCH).map(drop)),
    ("missing", |tree, rel| tree.missing_folders(rel).map(drop)),
    ("folder", |tree, rel| tree.make_folder(rel).map(drop)),
    ("write", |tree, rel| {
        tree.write_beside(rel, TEMP, b"x", 0o644)
    }),
    ("link", |tree, rel| tree.link_beside(rel, TEMP, rel)),
    ("put", |tree, rel| tree.put(rel, "theirs")),
    ("drop", |tree, rel| {
        tree.drop_beside(rel, "theirs").map(drop)
    }),
    ("remove", |tree, rel| tree.remove(rel)),
    ("rmdir", |tree, rel| tree.remove_empty_folder(rel).map(drop)),
    ("mode", |tree, rel| tree.set_mode(rel, 0o600)),
];

#[test]
fn nothing_is_done_through_a_parent_that_is_a_link_or_outside_the_root() {
    let ground = ground();
    for name in ["a", "theirs"] {
        fs::write(ground.outside().join(name), "kept").unwrap();
    }
    fs::create_dir(ground.outside().join("sub")).unwrap();
    fs::create_dir(ground.at("real")).unwrap();
    symlink("../outside", ground.at("link")).unwrap();
    symlink("real", ground.at("inner")).unwrap();
    symlink(ground.outside(), ground.at("real/link")).unwrap();
    for (what, hand) in HANDS {
        for (rel, link) in [
            ("link/a", "link"),
            ("link/sub", "link"),
            ("link/sub/x", "link"),
            ("inner/a", "inner"),
            ("real/link/a", "real/link"),
        ] {
            match hand(&ground.tree, rel.as_ref()) {
                Err(Refused::ParentIsLink(path)) => assert_eq!(path, ground.at(link)),
                other => panic!("{what} {rel}: {other:?}"),
            }
        }
        let outside = ground.outside().join("a");
        for rel in [
            "../outside/a",
            "real/../../outside/a",
            "",
            ".",
            "..",
            outside.to_str().unwrap(),
        ] {
            let refused = hand(&ground.tree, rel.as_ref());
            assert!(matches!(refused, Err(Refused::Outside)), "{what} {rel}");
        }
    }
    for temp in ["../x", "real/x", "", "..", "x/"] {
        let refused = ground.tree.write_beside("a".as_ref(), temp, b"x", 0o644);
        assert!(matches!(refused, Err(Refused::Outside)), "{temp}");
    }
    assert_eq!(names(&ground.outside()), ["a", "sub", "theirs"]);
    assert_eq!(names(ground.tree.path()), ["inner", "link", "real"]);
    assert_eq!(names(&ground.at("real")), ["link"]);
}

#[test]
fn a_link_swapped_in_at_any_moment_leads_nowhere() {
    let ground = ground();
    fs::create_dir(ground.at("sub")).unwrap();
    fs::write(ground.outside().join("a"), "kept").unwrap();
    symlink(ground.outside(), ground.at("link")).unwrap();
    let (stop, start) = (AtomicBool::new(false), Barrier::new(2));
    let (mut refused, mut done) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            while !stop.load(Ordering::Relaxed) {
                // Exchanges the folder and the link: the name `sub` is always one of them.
                rustix::fs::renameat_with(
                    rustix::fs::CWD,
                    ground.at("sub"),
                    rustix::fs::CWD,
                    ground.at("link"),
                    rustix::fs::RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        });
        start.wait();
        let mut round = 0;
        while round < 300 || refused == 0 || done == 0 {
            round += 1;
            for (_, hand) in HANDS {
                match hand(&ground.tree, "sub/a".as_ref()) {
                    Err(Refused::ParentIsLink(_)) => refused += 1,
                    _ => done += 1,
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(names(&ground.outside()), ["a"]);
    assert_eq!(fs::read(ground.outside().join("a")).unwrap(), b"kept");
}

#[test]
fn the_root_stays_the_folder_that_was_opened() {
    let ground = ground();
    let moved = ground.folder.path().join("moved");
    fs::rename(ground.tree.path(), &moved).unwrap();
    symlink(ground.outside(), ground.tree.path()).unwrap();
    ground.write("a", b"x", 0o644).unwrap();
    assert_eq!(names(&ground.outside()).len(), 0);
    assert_eq!(names(&moved), ["a"]);
    let other = Tree::open(ground.tree.path()).unwrap();
    assert_ne!(other.id(), ground.tree.id());
    assert_eq!(Tree::open(&moved).unwrap().id(), ground.tree.id());
    assert!(Tree::open(&moved.join("a")).is_err());
}

#[test]
fn a_file_that_replaces_one_keeps_its_owner() {
    if !rustix::process::geteuid().is_root() {
        // Only root may have files that others own; everybody else's stay their own.
        return;
    }
    let ground = ground();
    fs::write(ground.at("a"), "x").unwrap();
    std::os::unix::fs::chown(ground.at("a"), Some(1234), Some(2345)).unwrap();
    ground.write("a", b"y", 0o4750).unwrap();
    let found = fs::metadata(ground.at("a")).unwrap();
    assert_eq!((found.uid(), found.gid()), (1234, 2345));
    assert_eq!(mode_of(&ground.at("a")), 0o4750);
}

#[test]
fn who_owns_a_file_sets_its_mode_whatever_it_was() {
    let folder = tempfile::tempdir().unwrap();
    parts::run_unprivileged(folder.path(), "workspace::tree::tests::part_modes");
}

#[test]
#[ignore = "a part of another test"]
fn part_modes() {
    let Some(folder) = parts::folder() else {
        return;
    };
    let tree = Tree::open(&folder).unwrap();
    fs::write(folder.join("a"), "x").unwrap();
    for mode in [0o000, 0o444, 0o200, 0o000, 0o4755, 0o600] {
        tree.set_mode("a".as_ref(), mode).unwrap();
        assert_eq!(mode_of(&folder.join("a")), mode);
    }
    // A folder that may be written and not be listed still takes files.
    fs::create_dir(folder.join("dark")).unwrap();
    fs::set_permissions(folder.join("dark"), fs::Permissions::from_mode(0o300)).unwrap();
    tree.write_beside("dark/a".as_ref(), TEMP, b"x", 0o644)
        .unwrap();
    tree.put("dark/a".as_ref(), TEMP).unwrap();
    assert_eq!(fs::read(folder.join("dark/a")).unwrap(), b"x");
    // One that may not be written refuses, and leaves what it has.
    fs::set_permissions(folder.join("dark"), fs::Permissions::from_mode(0o500)).unwrap();
    for refused in [
        tree.write_beside("dark/a".as_ref(), TEMP, b"y", 0o644),
        tree.remove("dark/a".as_ref()),
        tree.make_folder("dark/b".as_ref()).map(drop),
    ] {
        assert!(
            matches!(&refused, Err(Refused::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied),
            "{refused:?}"
        );
    }
    assert_eq!(names(&folder.join("dark")), ["a"]);
    fs::set_permissions(folder.join("dark"), fs::Permissions::from_mode(0o700)).unwrap();
}

proptest! {
    #[test]
    fn what_is_put_is_what_is_seen(
        name in "[^/\0]{1,40}".prop_filter("a name", |name| name != "." && name != ".."),
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        mode in 0u32..0o10000,
    ) {
        let ground = ground();
        ground.write(&name, &bytes, mode).unwrap();
        match ground.tree.look(name.as_ref(), MUCH).unwrap() {
            Present::File { bytes: seen, mode: kept, .. } => {
                prop_assert_eq!(seen, bytes);
                prop_assert_eq!(kept, mode);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        let by_path = present::look(&ground.at(&name), MUCH);
        prop_assert_eq!(by_path, ground.tree.look(name.as_ref(), MUCH).unwrap());
    }
}
