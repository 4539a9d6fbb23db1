//! Forks that a client made, recognised when they are imported.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use turnkeep::{Session, Store};

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
