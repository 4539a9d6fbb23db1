//! Nothing is damaged: the new store equals the old one.

use super::*;

#[test]
fn a_healthy_store_salvages_to_an_equal_one() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved == victim.picture);
    assert!(salvaged.files > 0);
    let (before, after) = (rows(&victim.path()), rows(&damaged.to()));
    for (table, rows) in &before {
        assert_eq!(rows, &after[table], "{table}");
    }
    // What imports know is kept as well: nothing is new.
    let store = Store::open(damaged.to()).unwrap();
    for run in RUNS {
        let report = import(&store, &fixture_path(&format!("transcripts/{run}")));
        assert_eq!(report.new_entries, 0, "{run}");
    }
}

#[test]
fn every_real_run_salvages_to_an_equal_store() {
    for entry in fs::read_dir(fixture_path("transcripts")).unwrap() {
        let run = entry.unwrap().path();
        let victim = Victim::with(|store| drop(import(store, &run)));
        let damaged = victim.damaged(|_| {});
        let (salvaged, saved) = damaged.salvage();
        assert_eq!(salvaged.lost, [""; 0], "{}", run.display());
        assert!(saved == victim.picture);
        assert_eq!(rows(&victim.path()), rows(&damaged.to()));
    }
}

#[test]
fn the_new_store_is_private_and_counts_on_from_the_old_one() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    damaged.salvage();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(damaged.to()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let last = |path: &Path| -> i64 {
        let sql = "SELECT max(id) FROM messages";
        reading(path).query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let before = last(&victim.path());
    let store = Store::open(damaged.to()).unwrap();
    desk(&store, 9, 1);
    assert!(last(&damaged.to()) > before);
}

#[test]
fn a_store_of_an_earlier_release_has_lost_nothing_that_it_did_not_have() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute_batch(
        "DROP TABLE tool_attempts; DELETE FROM refinery_schema_history WHERE version > 2;",
    )
    .unwrap();
    drop(conn);
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved == victim.picture);
}

#[test]
fn half_a_line_that_was_stored_whole_under_another_number_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder
        .path()
        .join("0b422282-0000-4000-8000-000000000000.jsonl");
    let victim = Victim::with(|store| {
        let lines = ["u1", "u2"].map(|uuid| {
            format!("{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"message\":{{\"role\":\"user\",\"content\":\"x\"}}}}\n")
        });
        fs::write(&file, format!("{}{}", lines[0], &lines[1][..30])).unwrap();
        import(store, folder.path());
        let session = all_sessions(store).remove(0);
        session.rename("my name").unwrap();
        session.fork(&ForkOptions::new()).unwrap();
        fs::write(&file, lines.concat()).unwrap();
        import(store, folder.path());
    });
    let damaged = victim.damaged(|_| {});
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved == victim.picture);
}
