//! Changes that clients' copies of a session tell of too: each is told once, of the session that made it.

use std::path::Path;

use turnkeep::claude_code::ImportOptions;
use turnkeep::{Change, ChangeFilter, LineOrigin, NewsCursor, Session, Store};

use crate::kit::{TestStore, fixture_path, import};

const FILE: &str = "/home/dev/shop/f.txt";
const RUN: &str = "transcripts/compact_manual";

fn session(store: &Store, id: &str) -> Session {
    store.sessions().resolve(id, &Default::default()).unwrap()
}

fn changes(store: &Store, filter: &ChangeFilter) -> Vec<Change> {
    let mut changes = store.audit().changes(filter, None, 100).unwrap().changes;
    changes.reverse();
    changes
}

/// The prompts that changes are of, by their texts.
fn prompts(changes: &[Change]) -> Vec<String> {
    let texts = changes.iter().map(|change| change.prompt.clone());
    texts
        .map(|prompt| prompt.unwrap().text.unwrap_or_default())
        .collect()
}

/// The run, its sessions imported in one go, or a copy first and the origin at last.
fn stores() -> [TestStore; 2] {
    let (whole, _) = TestStore::with(RUN);
    let late = TestStore::new();
    let go_on = &mut |_: turnkeep::claude_code::Progress<'_>| std::ops::ControlFlow::Continue(());
    let projects = fixture_path(RUN).join("projects/-home-dev-shop");
    for id in [
        "42dc97dc-a4d2-400a-a049-cd8809bfd7e0",
        "b1323dae-0887-4329-a55a-800bcdeb68c7",
    ] {
        let file = projects.join(format!("{id}.jsonl"));
        turnkeep::claude_code::import(&late.store, &file, &ImportOptions::new(), go_on).unwrap();
    }
    // Where the origin is not here the first copy stands for it.
    assert_eq!(changes(&late.store, &ChangeFilter::new()).len(), 3);
    import(&late.store, &fixture_path(RUN));
    [whole, late]
}

#[test]
fn a_copied_change_is_its_origins_and_told_once() {
    for test in stores() {
        let store = &test.store;
        let origin = session(store, "63ee");
        let turns = ["TURN-1", "TURN-2", "TURN-3"];
        for filter in [
            ChangeFilter::new(),
            ChangeFilter::new().path(FILE),
            ChangeFilter::new().session(origin.key()),
        ] {
            let told = changes(store, &filter);
            assert_eq!(prompts(&told), turns);
            assert!(told.iter().all(|change| change.session == *origin.key()));
            assert!(told.iter().all(|change| !change.is_inherited));
        }
        let sessions = store.audit().sessions_of(FILE).unwrap();
        let counts: Vec<_> = sessions
            .iter()
            .map(|of| (of.session.clone(), of.changes))
            .collect();
        assert_eq!(counts, [(origin.key().clone(), 3)]);
        // Page by page the same.
        let (mut after, mut pages) = (None, Vec::new());
        loop {
            let page = store
                .audit()
                .changes(&ChangeFilter::new(), after, 1)
                .unwrap();
            pages.extend(page.changes);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        pages.reverse();
        assert_eq!(pages, changes(store, &ChangeFilter::new()));
    }
}

#[test]
fn a_copy_shows_the_changes_of_its_origin_as_inherited() {
    for test in stores() {
        let store = &test.store;
        let origin = session(store, "63ee");
        let of_origin = changes(store, &ChangeFilter::new().session(origin.key()));
        for (copy, count) in [("42dc", 3), ("b132", 1)] {
            let copy = session(store, copy);
            let told = changes(store, &ChangeFilter::new().session(copy.key()));
            assert_eq!(told.len(), count);
            for (change, original) in told.iter().zip(&of_origin) {
                assert_eq!((change.id, &change.session), (original.id, origin.key()));
                assert!(change.is_inherited);
                // Under the uuid that the copy has for the prompt.
                let prompt = change.prompt.as_ref().unwrap();
                let lines = copy.transcript("").unwrap();
                let has_it = |entry: &str| entry.contains(&format!("\"uuid\":\"{}\"", prompt.uuid));
                assert!(
                    lines
                        .iter()
                        .any(|line| line.entry.as_deref().is_some_and(has_it))
                );
                assert_ne!(prompt.uuid, original.prompt.as_ref().unwrap().uuid);
                let turn = ChangeFilter::new().session(copy.key()).turn(&prompt.uuid);
                let of_turn = changes(store, &turn);
                assert_eq!(of_turn, std::slice::from_ref(change));
                let alone = changes(store, &ChangeFilter::new().turn(&prompt.uuid));
                assert_eq!(alone[0].id, original.id);
                let files = store
                    .audit()
                    .files_of_turn(copy.key(), &prompt.uuid)
                    .unwrap();
                assert_eq!((files.len(), files[0].changes), (1, 1));
            }
        }
    }
}

#[test]
fn blame_names_who_wrote_a_line_and_not_the_copy() {
    for test in stores() {
        let origin = session(&test.store, "63ee");
        let blame = test.store.audit().blame(Path::new(FILE)).unwrap();
        let lines: Vec<_> = blame
            .lines
            .iter()
            .map(|line| line.content.clone())
            .collect();
        assert_eq!(lines.concat(), b"v3\n");
        let [LineOrigin::Change { change }] = blame.origins.as_slice() else {
            panic!("{:?}", blame.origins);
        };
        assert_eq!(change.session, *origin.key());
        assert_eq!(prompts(std::slice::from_ref(change)), ["TURN-3"]);
    }
}

#[test]
fn news_tell_a_copied_change_once() {
    let (test, _) = TestStore::with(RUN);
    let news = test
        .store
        .audit()
        .news(&NewsCursor::default(), &ChangeFilter::new(), 100)
        .unwrap();
    assert_eq!(prompts(&news.changes), ["TURN-1", "TURN-2", "TURN-3"]);
    // The origin's changes are there before those of its copies.
    let owners: Vec<String> = rusqlite::Connection::open(test.store.path())
        .unwrap()
        .prepare("SELECT s.session_id FROM file_changes f JOIN sessions s ON s.id = f.session ORDER BY f.id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let first_copy = owners
        .iter()
        .position(|id| !id.starts_with("63ee"))
        .unwrap();
    assert_eq!(first_copy, 3, "{owners:?}");
}

#[test]
fn comparing_finds_what_was_copied_wherever_it_stands() {
    let (test, _) = TestStore::with(RUN);
    let id = |id| session(&test.store, id);
    for (one, two, common, own) in [
        ("63ee", "42dc", 20, (0, 0)),
        // Compacted away in the one.
        ("63ee", "b132", 14, (20, 0)),
        ("b132", "42dc", 14, (0, 20)),
        // Forked across a compaction.
        ("63ee", "359d", 13, (8, 7)),
    ] {
        for (one, two, own) in [(one, two, own), (two, one, (own.1, own.0))] {
            let found = id(one).compare(&id(two)).unwrap();
            assert_eq!(found.common, common, "{one} {two}");
            assert_eq!((found.left.len(), found.right.len()), own, "{one} {two}");
            assert!(found.last_common.is_some(), "{one} {two}");
        }
    }
    assert_eq!(id("63ee").compare(&id("42dc")).unwrap().files, []);
    let files = id("b132").compare(&id("42dc")).unwrap().files;
    assert_eq!(files.len(), 1);
    assert_eq!(
        (files[0].changed_left, files[0].changed_right),
        (false, true)
    );
    assert_eq!(files[0].diff.insertions, Some(1));
}

#[test]
fn a_copy_made_behind_all_edits_differs_in_no_file() {
    // Sub-agents made them, whose transcripts the copy does not have.
    let (test, _) = TestStore::with("transcripts/subagent_foreground");
    let (origin, copy) = (session(&test.store, "fdde"), session(&test.store, "b627"));
    let found = origin.compare(&copy).unwrap();
    assert_eq!((found.common, found.files.len()), (23, 0));
    assert_eq!((found.left.len(), found.right.len()), (0, 2));
}

#[cfg(feature = "cli")]
#[test]
fn a_file_whose_end_is_not_known_is_not_said_to_be_no_text() {
    let desk = super::cli::Desk::new();
    let fork = desk
        .session("a")
        .fork(&turnkeep::ForkOptions::new().id("b"))
        .unwrap();
    // A call that is not over.
    let path = desk.program.folder.path().canonicalize().unwrap();
    fork.files()
        .before("open", [path.join("list.txt")])
        .unwrap();
    let told = desk.run(&["compare", "a", "b"]).out;
    assert!(told.contains("list.txt  not known  changed by b"), "{told}");
    let end = desk.run(&["compare", "b", "a"]).out;
    assert!(end.contains("list.txt  not known"), "{end}");
}
