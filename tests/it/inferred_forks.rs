//! Forks that a client made, recognised when they are imported.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use turnkeep::claude_code::ImportOptions;
use turnkeep::{Session, Store, UsageBy, UsageQuery};

use crate::kit::{TestStore, all_sessions, exported, fixture_path, import};

fn session(store: &Store, id: &str) -> Session {
    store.sessions().resolve(id, &Default::default()).unwrap()
}

fn entries(session: &Session) -> Vec<Value> {
    let text = String::from_utf8(exported(session, "")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The last message of the origin that a copy holds: by its uuid, or by the name it was copied under.
fn last_copied(copy: &Session, origin: &Session) -> Option<String> {
    let there: HashSet<String> = entries(origin)
        .iter()
        .filter_map(|entry| entry["uuid"].as_str().map(String::from))
        .collect();
    let known = |uuid: &Value| {
        uuid.as_str()
            .filter(|uuid| there.contains(*uuid))
            .map(String::from)
    };
    let named = entries(copy);
    let mut named = named
        .iter()
        .filter(|entry| entry["message"].is_object())
        .filter_map(|entry| known(&entry["uuid"]).or(known(&entry["forkedFrom"]["messageUuid"])));
    named.next_back()
}

#[test]
fn the_origin_of_a_clients_fork_is_inferred() {
    let origins = HashMap::from([
        (
            "transcripts/resume_flags",
            ("d68c4f87", ["7fbe6913", "bf6ca328"].as_slice()),
        ),
        (
            "transcripts/compact_manual",
            ("63ee4573", &["359d07be", "42dc97dc", "b1323dae"]),
        ),
    ]);
    for (run, (origin, copies)) in origins {
        let (test, _) = TestStore::with(run);
        let origin = session(&test.store, origin);
        for step in ["imported", "imported again"] {
            for copy in copies {
                let copy = session(&test.store, copy);
                let lineage = copy.lineage().unwrap();
                let ancestors: Vec<_> = lineage.ancestors.iter().map(|kin| &kin.key).collect();
                assert_eq!(ancestors, [origin.key()], "{step}");
                assert!(lineage.forked_at.is_some(), "{step}: {}", copy.id());
                assert_eq!(
                    lineage.forked_at,
                    last_copied(&copy, &origin),
                    "{step}: {}",
                    copy.id()
                );
                assert_eq!(
                    copy.info().unwrap().forked_from.as_deref(),
                    Some(origin.id())
                );
            }
            let children = origin.lineage().unwrap().children;
            assert_eq!(children.len(), copies.len(), "{step}");
            assert!(
                children
                    .iter()
                    .all(|kin| kin.is_inferred && !kin.is_deleted)
            );
            assert!(origin.lineage().unwrap().ancestors.is_empty());
            import(&test.store, &fixture_path(run));
        }
        let shown: Vec<_> = copies
            .iter()
            .map(|copy| exported(&session(&test.store, copy), ""))
            .collect();
        origin.delete().unwrap();
        for (copy, shown) in copies.iter().zip(shown) {
            let copy = session(&test.store, copy);
            assert_eq!(exported(&copy, ""), shown, "a copy is whole by itself");
            assert!(copy.lineage().unwrap().ancestors[0].is_deleted);
        }
        for session in all_sessions(&test.store) {
            session.delete().unwrap();
        }
        assert_eq!(test.store.verify().unwrap().findings, []);
    }
}

#[cfg(feature = "cli")]
#[test]
fn a_clients_fork_is_listed_as_made_by_the_client() {
    let (test, _) = TestStore::with("transcripts/resume_flags");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_turnkeep"))
        .args(["lineage", "d68c4f87", "--store"])
        .arg(test.path("store.db"))
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for (id, is_fork) in [("d68c4f87", false), ("7fbe6913", true), ("bf6ca328", true)] {
        let line = told.lines().find(|line| line.contains(id)).unwrap();
        assert_eq!(line.contains("made by the client"), is_fork, "{told}");
    }
}

const COMPACT: &str = "transcripts/compact_manual/projects/-home-dev-shop";

/// The files of a run of which these are the beginnings, imported one after another.
fn imported_in_order(order: &[&str]) -> TestStore {
    let test = TestStore::new();
    for id in order {
        import_one(&test, id, None);
    }
    test
}

fn import_one(test: &TestStore, id: &str, project: Option<&str>) {
    let folder = fixture_path(COMPACT);
    let files = std::fs::read_dir(&folder).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let file = files
        .find(|file| file.file_name().unwrap().to_string_lossy().starts_with(id))
        .unwrap();
    let options = match project {
        Some(project) => ImportOptions::new().into_project(project),
        None => ImportOptions::new(),
    };
    let go_on = &mut |_: turnkeep::claude_code::Progress<'_>| std::ops::ControlFlow::Continue(());
    turnkeep::claude_code::import(&test.store, &file, &options, go_on).unwrap();
}

/// What is told of usage: responses and input tokens of each session.
fn used(store: &Store) -> Vec<(String, u64, u64)> {
    let report = store.usage(&UsageQuery::by(UsageBy::Session)).unwrap();
    let rows = report.rows.iter().map(|row| {
        let id = row.session.as_ref().unwrap().session_id[..4].to_owned();
        (id, row.used.responses, row.used.input)
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    let viewed: (u64, u64) = rusqlite::Connection::open(store.path())
        .unwrap()
        .query_row(
            "SELECT count(*), sum(input_tokens) FROM usage_view",
            [],
            |row| {
                let number = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
                Ok((number(0)?, number(1)?))
            },
        )
        .unwrap();
    assert_eq!((report.total.responses, report.total.input), viewed);
    rows
}

#[test]
fn a_copy_is_known_and_counted_once_in_any_order_of_import() {
    let told = |id: &str, responses, input| (id.to_owned(), responses, input);
    let all = ["359d", "42dc", "63ee", "b132"];
    let whole = [told("359d", 1, 13062), told("63ee", 6, 76901)];
    for order in [
        ["42dc", "63ee", "b132", "359d"],
        ["b132", "359d", "42dc", "63ee"],
        ["63ee", "42dc", "b132", "359d"],
        ["359d", "63ee", "b132", "42dc"],
    ] {
        let test = imported_in_order(&order);
        assert_eq!(used(&test.store), whole, "{order:?}");
        let origin = session(&test.store, "63ee");
        for id in all.iter().filter(|id| **id != "63ee") {
            let lineage = session(&test.store, id).lineage().unwrap();
            let ancestors: Vec<_> = lineage.ancestors.iter().map(|kin| &kin.key).collect();
            assert_eq!(ancestors, [origin.key()], "{order:?} {id}");
            assert!(lineage.forked_at.is_some(), "{order:?} {id}");
        }
        // Whatever is imported once more.
        import(&test.store, &fixture_path("transcripts/compact_manual"));
        assert_eq!(used(&test.store), whole, "{order:?}");
        // The origin goes and comes back.
        origin.delete().unwrap();
        import_one(&test, "63ee", None);
        assert_eq!(used(&test.store), whole, "{order:?}");
        let again = session(&test.store, "42dc").lineage().unwrap();
        assert!(!again.ancestors[0].is_deleted, "{order:?}");
        assert_eq!(test.store.verify().unwrap().findings, []);
    }
    // In another project, and first.
    let test = TestStore::new();
    import_one(&test, "42dc", Some("a"));
    import_one(&test, "63ee", Some("b"));
    assert_eq!(used(&test.store), [told("63ee", 6, 76901)]);
}

#[test]
fn copies_without_their_origin_count_once_among_them() {
    let sums: Vec<(u64, u64)> = [["42dc", "b132"], ["b132", "42dc"]]
        .iter()
        .map(|order| {
            let rows = used(&imported_in_order(order).store);
            rows.iter()
                .fold((0, 0), |sum, row| (sum.0 + row.1, sum.1 + row.2))
        })
        .collect();
    assert_eq!(sums, [(6, 76901), (6, 76901)]);
}

#[test]
fn a_store_of_an_earlier_release_learns_the_origins_with_the_next_import() {
    let test = imported_in_order(&["42dc", "63ee"]);
    // As an earlier release left it.
    let conn = rusqlite::Connection::open(test.store.path()).unwrap();
    conn.execute_batch(
        "UPDATE sessions SET claimed_origin = '', forked_from = NULL, forked_at = NULL, fork_kind = NULL",
    )
    .unwrap();
    assert_eq!(used(&test.store).len(), 2);
    import_one(&test, "63ee", None);
    assert_eq!(used(&test.store), [("63ee".to_owned(), 6, 76901)]);
    let claims: Vec<Option<String>> = conn
        .prepare("SELECT claimed_origin FROM sessions ORDER BY session_id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let origin = session(&test.store, "63ee");
    assert_eq!(claims, [Some(origin.id().to_owned()), None]);
}

#[test]
fn a_hit_in_a_copy_imported_first_is_found_once() {
    let test = imported_in_order(&["42dc", "63ee"]);
    let query = turnkeep::SearchQuery::new("f.txt");
    let found = test.store.search(&query).unwrap();
    let keys: HashSet<_> = found
        .hits
        .iter()
        .map(|hit| hit.session.session_id[..4].to_owned())
        .collect();
    assert_eq!(keys, HashSet::from(["63ee".to_owned()]));
}
