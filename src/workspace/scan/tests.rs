//! That a scan finds what a command did, and never takes for new or gone what it had not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use proptest::prelude::*;

use super::changes::Kind;
use super::*;
use crate::workspace::parts;

pub(super) const ALL: ScanLimits = ScanLimits {
    files: 10_000,
    bytes: 1 << 30,
    file_bytes: 1 << 20,
};

pub(super) struct Ground {
    folder: tempfile::TempDir,
    pub(super) excludes: Excludes,
    pub(super) limits: ScanLimits,
}

pub(super) fn ground() -> Ground {
    Ground {
        folder: tempfile::tempdir().unwrap(),
        excludes: Excludes::default(),
        limits: ALL,
    }
}

impl Ground {
    pub(super) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(super) fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    pub(super) fn scan(&self, cache: Option<&Scanned>) -> Scanned {
        scan(self.root(), &self.excludes, self.limits, cache, &[]).unwrap()
    }

    /// A scan whose contents are all kept, as a caller keeps them.
    pub(super) fn kept(&self, cache: Option<&Scanned>) -> Scanned {
        let mut scanned = self.scan(cache);
        let unread: Vec<PathBuf> = scanned.unread().map(Path::to_owned).collect();
        for path in unread {
            if let Present::File { bytes, .. } = look(&self.at(path.to_str().unwrap()), 1 << 20) {
                scanned.note_kept(&path, *blake3::hash(&bytes).as_bytes());
            }
        }
        scanned
    }

    /// What `command` did, in words, and of how much that is not known.
    fn run(&self, command: impl FnOnce()) -> (Vec<String>, u64) {
        let before = self.kept(None);
        command();
        let after = self.scan(Some(&before));
        let changes = Scanned::changes(&before, &after);
        for change in &changes.list {
            assert_eq!(change.before, before.get(change.path));
            assert_eq!(change.after, after.get(change.path));
        }
        (in_words(&changes), changes.unsure)
    }
}

pub(super) fn in_words(changes: &changes::Changes<'_>) -> Vec<String> {
    let words = |change: &changes::Change<'_>| {
        let path = change.path.display();
        match change.kind {
            Kind::Created { from: None } => format!("+ {path}"),
            Kind::Created { from: Some(from) } => format!("+ {path} from {}", from.display()),
            Kind::Changed => format!("~ {path}"),
            Kind::Deleted { to: None } => format!("- {path}"),
            Kind::Deleted { to: Some(to) } => format!("- {path} to {}", to.display()),
        }
    };
    changes.list.iter().map(words).collect()
}

#[test]
fn what_a_command_did_is_told_by_path() {
    let ground = ground();
    for name in [
        "changed", "deleted", "moved", "mode", "same", "sub/kept", "gone/a",
    ] {
        ground.write(name, name);
    }
    symlink("same", ground.at("link")).unwrap();
    symlink("same", ground.at("link_kept")).unwrap();
    let (done, unsure) = ground.run(|| {
        ground.write("changed", "CHANGED");
        fs::remove_file(ground.at("deleted")).unwrap();
        fs::rename(ground.at("moved"), ground.at("sub/moved")).unwrap();
        fs::set_permissions(ground.at("mode"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(ground.at("link")).unwrap();
        symlink("sub", ground.at("link")).unwrap();
        fs::remove_dir_all(ground.at("gone")).unwrap();
        ground.write("new/folder/file", "x");
        ground.write(".hidden", "x");
    });
    let right = [
        "+ .hidden",
        "~ changed",
        "- deleted",
        "- gone",
        "- gone/a",
        "~ link",
        "~ mode",
        "- moved to sub/moved",
        "+ new",
        "+ new/folder",
        "+ new/folder/file",
        "+ sub/moved from moved",
    ];
    assert_eq!((&done[..], unsure), (&right.map(String::from)[..], 0));
}

#[test]
fn what_was_touched_and_is_the_same_is_no_change() {
    let ground = ground();
    ground.write("a", "content");
    ground.write("b", "content");
    let (done, unsure) = ground.run(|| {
        // Written anew, replaced by a copy, its mode there and back.
        ground.write("a", "content");
        fs::copy(ground.at("b"), ground.at("c")).unwrap();
        fs::rename(ground.at("c"), ground.at("b")).unwrap();
        fs::set_permissions(ground.at("a"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(ground.at("a"), fs::Permissions::from_mode(0o644)).unwrap();
    });
    assert_eq!((done.len(), unsure), (0, 0), "{done:?}");
}

#[test]
fn a_change_that_hides_itself_is_found() {
    let ground = ground();
    ground.write("a", "one");
    ground.write("b", "one");
    let time = fs::metadata(ground.at("a")).unwrap().modified().unwrap();
    // As long as it was, at once, in place, and with its old time.
    let (done, _) = ground.run(|| {
        ground.write("a", "two");
        let file = fs::File::options()
            .write(true)
            .open(ground.at("a"))
            .unwrap();
        file.set_modified(time).unwrap();
    });
    assert_eq!(done, ["~ a"]);
}

#[test]
fn a_new_file_with_the_number_of_one_that_is_gone_has_not_moved() {
    let ground = ground();
    ground.write("a", "a long content");
    let (done, _) = ground.run(|| {
        fs::remove_file(ground.at("a")).unwrap();
        ground.write("b", "short");
    });
    assert_eq!(done, ["- a", "+ b"]);
}

#[test]
fn what_came_into_sight_is_not_new_and_what_went_out_of_it_is_not_gone() {
    let ground = ground();
    ground.write(".gitignore", "ignored\nlogs/\n");
    ground.write("ignored", "the user's");
    ground.write("logs/a", "the user's");
    ground.write("seen", "x");
    let (done, unsure) = ground.run(|| {
        ground.write(".gitignore", "seen\n");
    });
    // `seen` is still watched; the folder `logs`, its file and `ignored` were never seen before.
    assert_eq!((&done[..], unsure), (&["~ .gitignore".to_owned()][..], 3));
    ground.write("logs/a", "changed");
    let (done, unsure) = ground.run(|| fs::remove_file(ground.at("logs/a")).unwrap());
    assert_eq!((&done[..], unsure), (&["- logs/a".to_owned()][..], 0));
}

#[test]
fn nothing_is_seen_through_a_link_in_place_of_a_folder() {
    let ground = ground();
    ground.write("sub/a", "x");
    symlink("/etc", ground.at("etc")).unwrap();
    let (done, unsure) = ground.run(|| {
        fs::rename(ground.at("sub"), ground.at("other")).unwrap();
        symlink("other", ground.at("sub")).unwrap();
    });
    let right = [
        "+ other",
        "+ other/a from sub/a",
        "~ sub",
        "- sub/a to other/a",
    ];
    assert_eq!((&done[..], unsure), (&right.map(String::from)[..], 0));
}

#[test]
fn a_folder_that_may_not_be_read_is_counted_and_is_not_gone() {
    let folder = tempfile::tempdir().unwrap();
    parts::run_unprivileged(folder.path(), "workspace::scan::tests::part_unreadable");
}

#[test]
#[ignore = "a part of another test"]
fn part_unreadable() {
    if parts::folder().is_none() {
        return;
    }
    let ground = ground();
    ground.write("dark/a", "x");
    ground.write("b", "x");
    let rights = |mode| {
        fs::set_permissions(ground.at("dark"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let (done, unsure) = ground.run(|| rights(0o000));
    assert_eq!((done.len(), unsure), (0, 1), "{done:?}");
    let (done, unsure) = ground.run(|| rights(0o700));
    assert_eq!((done.len(), unsure), (0, 1), "{done:?}");
}

/// All files of a tree with their contents and modes, as a plain walk finds them.
fn picture(root: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                let below = path.strip_prefix(root).unwrap().to_owned();
                files.insert(below, (fs::read(&path).unwrap(), mode));
            }
        }
    }
    files
}

/// Does one thing to a file; what cannot be done is left undone.
fn act(ground: &Ground, (what, path, other): &(u8, String, String)) {
    let (path, other) = (ground.at(path), ground.at(other));
    match what {
        0..=2 => drop(
            fs::create_dir_all(path.parent().unwrap()).and_then(|()| fs::write(path, [*what; 3])),
        ),
        3 => drop(fs::remove_file(path)),
        4 => drop(fs::rename(path, other)),
        5 => drop(fs::remove_dir_all(path)),
        _ => drop(fs::set_permissions(path, fs::Permissions::from_mode(0o700))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_told_is_what_is_different(
        made in proptest::collection::vec((0u8..3, "[ab](/[ab]){0,2}", "[ab]"), 0..12),
        done in proptest::collection::vec((0u8..7, "[ab](/[ab]){0,2}", "[ab](/[ab]){0,2}"), 0..12),
    ) {
        let ground = ground();
        made.iter().for_each(|deed| act(&ground, deed));
        let (before, old) = (ground.kept(None), picture(ground.root()));
        done.iter().for_each(|deed| act(&ground, deed));
        let (after, new) = (ground.scan(Some(&before)), picture(ground.root()));
        let changes = Scanned::changes(&before, &after);
        prop_assert_eq!(changes.unsure, 0);
        let is_folder = |entry: Option<&Entry>| entry.is_none_or(|entry| entry.what == What::Folder);
        let told: BTreeSet<&Path> = changes
            .list
            .iter()
            .filter(|change| !(is_folder(change.before) && is_folder(change.after)))
            .map(|change| change.path)
            .collect();
        let paths = old.keys().chain(new.keys());
        let right: BTreeSet<&Path> = paths
            .filter(|path| old.get(*path) != new.get(*path))
            .map(PathBuf::as_path)
            .collect();
        prop_assert_eq!(told, right);
    }
}
