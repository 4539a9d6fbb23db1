//! Rows that are gone or wrong in a file that reads well.

use super::*;

#[test]
fn a_session_without_its_row_keeps_its_entries() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    let changed = conn
        .execute("PRAGMA foreign_keys = OFF", [])
        .and_then(|_| conn.execute("DELETE FROM sessions WHERE custom_title = 'desk 3'", []));
    assert_eq!(changed.unwrap(), 1);
    drop(conn);
    let (salvaged, saved) = damaged.salvage();
    let (number, shown) = saved
        .sessions
        .iter()
        .find(|(_, shown)| shown.info.project_key == "salvaged")
        .unwrap();
    let before = &victim.picture.sessions[number];
    assert_eq!(shown.lines, before.lines);
    assert_eq!(shown.conversation, before.conversation);
    assert_eq!(shown.info.title, before.info.title);
    assert_eq!(shown.info.session_id, format!("session-{number}"));
    assert!(
        salvaged
            .lost
            .iter()
            .any(|what| what.contains("salvaged/session-"))
    );
}

#[test]
fn a_damaged_blob_is_left_out_with_the_file_that_named_it() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    let path: String = conn
        .query_row("SELECT path FROM session_files LIMIT 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    let changed = conn.execute(
        "UPDATE blobs SET content = zeroblob(length(content))
         WHERE id = (SELECT blob FROM session_files WHERE path = ?1)",
        [&path],
    );
    assert_eq!(changed.unwrap(), 1);
    drop(conn);
    let files = rows(&victim.path())["session_files"].len();
    let (salvaged, saved) = damaged.salvage();
    assert!(salvaged.files < files as u64);
    assert!(saved == victim.picture);
    assert!(
        salvaged
            .lost
            .iter()
            .any(|what| what.starts_with("blobs: row"))
    );
    assert!(
        salvaged.lost.iter().any(|what| what.contains(&path)),
        "{:?}",
        salvaged.lost
    );
}

#[test]
fn calls_and_results_are_written_anew_from_the_messages() {
    let victim = Victim::new();
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute_batch(
        "DELETE FROM tool_calls WHERE id % 3 = 0; DELETE FROM tool_results WHERE id % 5 = 0;
         UPDATE tool_calls SET tool_use_id = 'x' WHERE id % 7 = 1;",
    )
    .unwrap();
    drop(conn);
    damaged.salvage();
    let ledger = |path: &Path, sql: &str| -> Vec<Vec<Value>> {
        let conn = reading(path);
        let mut statement = conn.prepare(sql).unwrap();
        let columns = statement.column_count();
        statement
            .query_map([], |row| (0..columns).map(|at| row.get(at)).collect())
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    for sql in [
        "SELECT session, message, tool_use_id, name, input_at, input_bytes, agent, turn, started_ms
         FROM tool_calls ORDER BY message, tool_use_id",
        "SELECT r.session, r.message, c.message, r.tool_use_id, r.outcome, r.stored_ms
         FROM tool_results r LEFT JOIN tool_calls c ON c.id = r.call ORDER BY r.message, r.tool_use_id",
    ] {
        assert_eq!(ledger(&victim.path(), sql), ledger(&damaged.to(), sql));
    }
}

#[test]
fn what_an_import_lost_comes_back_with_the_next_one() {
    let run = fixture_path("transcripts/files_raw");
    let victim = Victim::with(|store| drop(import(store, &run)));
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute_batch("DELETE FROM messages WHERE seq IN (4, 5)")
        .unwrap();
    drop(conn);
    let (salvaged, saved) = damaged.salvage();
    assert!(
        salvaged
            .lost
            .iter()
            .any(|what| what.contains("lines 4 to 5 are missing in the main transcript")),
        "{:?}",
        salvaged.lost
    );
    compare("gap", &victim.picture, &salvaged, &saved);
    let store = Store::open(damaged.to()).unwrap();
    let report = import(&store, &run);
    assert_eq!(report.new_entries, 2, "{report:?}");
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn an_open_watch_is_saved_with_what_it_leaves_out_or_not_at_all() {
    let work = tempfile::tempdir().unwrap();
    let victim = Victim::with(|store| {
        let session = desk(store, 1, 1);
        for call in ["toolu_1", "toolu_2"] {
            let options = WatchOptions::new().root(work.path()).exclude("*.pem");
            drop(session.files().watch(call, &options).unwrap());
        }
    });
    let options = "SELECT tool_use_id, json_extract(options, '$.exclude[0]') FROM watched_calls";
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute(
        "UPDATE watched_calls SET options = replace(options, 'exclude', 'exclud1')
         WHERE tool_use_id = 'toolu_2'",
        [],
    )
    .unwrap();
    drop(conn);
    let (salvaged, _) = damaged.salvage();
    assert_eq!(salvaged.lost.len(), 1, "{:?}", salvaged.lost);
    assert!(salvaged.lost[0].starts_with("watched_calls: row"));
    let saved: (String, String) = reading(&damaged.to())
        .query_row(options, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(saved, ("toolu_1".to_owned(), "*.pem".to_owned()));
}
