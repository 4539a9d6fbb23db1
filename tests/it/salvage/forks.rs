//! Forks: what they inherit is kept with them, or the loss is told.

use serde_json::json;

use super::*;
use crate::kit::uuids;

fn append(session: &Session, text: &str) {
    session.messages().append(NewMessage::user(text)).unwrap();
}

/// Forks of forks of a deleted session and of a live one, moved heads, turns left behind, a lease and a call in flight.
pub(super) fn family(store: &Store) {
    let source = desk(store, 11, 12);
    source.scratchpad().set("plan", "a").unwrap();
    source.scratchpad().set("mood", ["well"]).unwrap();
    append(&source, "with a plan");
    let there = uuids(&source);
    let first = source
        .fork(&ForkOptions::new().up_to(&there[36]).titled("first"))
        .unwrap();
    append(&first, "another way");
    let second = first.fork(&ForkOptions::new().titled("second")).unwrap();
    second.scratchpad().set("plan", "b").unwrap();
    append(&second, "a third way");
    second.scratchpad().set("plan", "c").unwrap();
    second
        .fork(&ForkOptions::new().up_to(&uuids(&second)[7]))
        .unwrap();
    second
        .lease("me", std::time::Duration::from_secs(600))
        .unwrap();
    source
        .messages()
        .append(NewMessage::user("goes on"))
        .unwrap();
    first.delete().unwrap();
    source.delete().unwrap();

    let live = desk(store, 13, 10);
    let there = uuids(&live);
    live.switch_to(&there[7]).unwrap();
    // What still arrives of a turn that was left does not bring it back.
    let late = json!({"type": "assistant", "uuid": "late", "parentUuid": there[20], "message": {"role": "assistant", "content": "late"}});
    live.messages()
        .append_entries([late.to_string()], &AppendOptions::new())
        .unwrap();
    append(&live, "from there");
    let fork = live.fork(&ForkOptions::new().cwd("/elsewhere")).unwrap();
    let call = json!([{"type": "tool_use", "id": "toolu_open", "name": "Read", "input": {"n": 1}}]);
    fork.messages().append(NewMessage::assistant(call)).unwrap();
    fork.tools()
        .note_input("toolu_open", &json!({"n": 2}))
        .unwrap();
    let again = fork.fork(&ForkOptions::new()).unwrap();
    again
        .messages()
        .append(NewMessage::tool_result("toolu_open", "read"))
        .unwrap();
    append(&live, "and on");
    import(store, &fixture_path("transcripts/rewind_conversation_seen"));
    for session in all_sessions(store) {
        if session.key().project_key == "-home-dev-shop" {
            let fork = session.fork(&ForkOptions::new()).unwrap();
            append(&fork, "on top of a real run");
        }
    }
}

fn changed(victim: &Victim, sql: &str) -> Damaged {
    let damaged = victim.damaged(|_| {});
    let conn = Connection::open(damaged.from()).unwrap();
    conn.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}"))
        .unwrap();
    damaged
}

fn number(path: &Path, sql: &str) -> i64 {
    numbers(path, sql)[0]
}

fn numbers(path: &Path, sql: &str) -> Vec<i64> {
    let conn = reading(path);
    let mut statement = conn.prepare(sql).unwrap();
    let numbers = statement.query_map([], |row| row.get(0)).unwrap();
    numbers.collect::<Result<_, _>>().unwrap()
}

fn told(salvaged: &Salvaged, what: &str) -> bool {
    salvaged.lost.iter().any(|lost| lost.contains(what))
}

#[test]
fn the_family_is_worth_its_name() {
    let victim = Victim::with(family);
    let count = |sql| number(&victim.path(), sql);
    for sql in [
        "SELECT count(*) FROM lineage l JOIN sessions s ON s.id = l.base WHERE s.deleted_ms IS NOT NULL",
        "SELECT count(*) FROM lineage l JOIN lineage b ON b.session = l.base",
        "SELECT count(*) FROM left_turns",
        "SELECT count(*) FROM leases",
        "SELECT count(*) FROM listing_marks",
        "SELECT count(*) FROM tool_attempts",
        "SELECT count(*) FROM scratchpad n JOIN scratchpad p ON p.id = n.previous WHERE p.session <> n.session",
        "SELECT count(*) FROM tool_results r JOIN tool_calls c ON c.id = r.call WHERE c.session <> r.session",
        "SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session WHERE s.deleted_ms IS NOT NULL",
    ] {
        assert!(count(sql) > 0, "{sql}");
    }
}

#[test]
fn forks_of_deleted_and_of_live_sessions_salvage_to_equal_ones() {
    let victim = Victim::with(family);
    let damaged = victim.damaged(|_| {});
    let (salvaged, saved) = damaged.salvage();
    assert_eq!(salvaged.lost, [""; 0]);
    assert!(saved == victim.picture);
    let (before, after) = (rows(&victim.path()), rows(&damaged.to()));
    for (table, rows) in &before {
        assert_eq!(rows, &after[table], "{table}");
    }
    // The new store goes on as the old one would have.
    for path in [victim.path(), damaged.to()] {
        let store = Store::open(&path).unwrap();
        for session in all_sessions(&store) {
            let fork = session.fork(&ForkOptions::new().id(format!("{}-again", session.id())));
            assert!(!exported(&fork.unwrap(), "").is_empty());
        }
        assert_eq!(store.verify().unwrap().findings, []);
    }
}

#[test]
fn numbers_that_forks_name_are_never_given_again() {
    let victim = Victim::with(family);
    // What was noted of the numbers is gone, and rows that are gone too are named by forks alone.
    let damaged = changed(
        &victim,
        "DELETE FROM sqlite_sequence;
         UPDATE sessions SET forked_at = 100000, forked_from = id + 500 WHERE fork_kind = 'own' AND id % 2 = 0;
         INSERT INTO left_turns (session, turn) SELECT min(id), 200000 FROM sessions WHERE deleted_ms IS NULL;",
    );
    damaged.salvage();
    let last = |table: &str| {
        number(
            &damaged.to(),
            &format!("SELECT seq FROM sqlite_sequence WHERE name = '{table}'"),
        )
    };
    assert!(last("messages") >= 200_000);
    assert!(last("sessions") >= 500);
}

#[test]
fn a_cut_is_never_grown_over() {
    let victim = Victim::with(|store| {
        let source = desk(store, 1, 4);
        source.fork(&ForkOptions::new()).unwrap();
    });
    let damaged = changed(
        &victim,
        "DELETE FROM messages WHERE session = 1 AND seq > 6; DELETE FROM transcripts;",
    );
    let (salvaged, _) = damaged.salvage();
    assert!(told(&salvaged, "and in its forks"), "{:?}", salvaged.lost);
    let store = Store::open(damaged.to()).unwrap();
    let is_fork = |session: &Session| session.info().unwrap().forked_from.is_some();
    let (forks, sources): (Vec<_>, Vec<_>) = all_sessions(&store).into_iter().partition(is_fork);
    let (fork, source) = (&forks[0], &sources[0]);
    let before = exported(fork, "");
    append(source, "goes on");
    append(source, "and on");
    assert_eq!(exported(fork, ""), before);
    assert_eq!(store.verify().unwrap().findings, []);
}

#[test]
fn lost_beginnings_are_found_again() {
    let victim = Victim::with(family);
    let damaged = changed(&victim, "DELETE FROM lineage");
    let (salvaged, saved) = damaged.salvage();
    assert!(told(&salvaged, "was found again"), "{:?}", salvaged.lost);
    assert!(saved == victim.picture);
    let (before, after) = (rows(&victim.path()), rows(&damaged.to()));
    for (table, rows) in &before {
        assert_eq!(rows, &after[table], "{table}");
    }
}

#[test]
fn a_beginning_that_cannot_be_found_again_is_told_and_the_forks_own_is_kept() {
    let victim = Victim::with(family);
    for sql in [
        // The first own row is gone too: where the fork was cut cannot be told.
        "DELETE FROM messages WHERE kind = 'custom-title' AND session IN (SELECT session FROM lineage);
         DELETE FROM lineage;",
        // A fork of itself, and one of a younger session.
        "UPDATE lineage SET base = session; UPDATE sessions SET forked_from = NULL, forked_at = NULL;",
        "UPDATE lineage SET last_seq = last_seq + 1000; UPDATE sessions SET forked_from = NULL, forked_at = NULL;",
    ] {
        let damaged = changed(&victim, sql);
        let (salvaged, saved) = damaged.salvage();
        assert!(
            told(&salvaged, "inherited as a fork is lost"),
            "{sql}: {:?}",
            salvaged.lost
        );
        compare(sql, &victim.picture, &salvaged, &saved);
        assert_eq!(saved.keys, victim.picture.keys);
        let gone = victim.picture.stored.keys().filter(|place| !saved.stored.contains_key(place));
        assert!(gone.count() < 10, "{sql}: rows of deleted sessions stay");
    }
}

#[test]
fn lost_rows_of_what_a_fork_is_of_are_told_and_the_forks_own_are_kept() {
    let victim = Victim::with(family);
    for (sql, what) in [
        (
            "DELETE FROM messages WHERE session IN (SELECT id FROM sessions WHERE deleted_ms IS NOT NULL)",
            "and in its forks",
        ),
        (
            "DELETE FROM messages WHERE session NOT IN (SELECT session FROM lineage) AND seq BETWEEN 5 AND 9",
            "lines 5 to 9 are missing",
        ),
        (
            "DELETE FROM messages WHERE session NOT IN (SELECT session FROM lineage);
             DELETE FROM sessions WHERE id NOT IN (SELECT session FROM lineage)",
            "of sessions that are lost",
        ),
    ] {
        let damaged = changed(&victim, sql);
        let (salvaged, saved) = damaged.salvage();
        assert!(told(&salvaged, what), "{what}: {:?}", salvaged.lost);
        compare(sql, &victim.picture, &salvaged, &saved);
        // Forks of what was saved are right as well: the marks agree with the rows.
        let store = Store::open(damaged.to()).unwrap();
        for session in all_sessions(&store) {
            for uuid in uuids(&session) {
                session.fork(&ForkOptions::new().up_to(uuid)).unwrap();
            }
        }
        assert_eq!(store.verify().unwrap().findings, []);
    }
}

#[test]
fn a_fork_without_its_row_shows_what_it_inherits_under_the_same_uuids() {
    let victim = Victim::with(family);
    let damaged = changed(
        &victim,
        "DELETE FROM sessions WHERE fork_prefix IS NOT NULL AND deleted_ms IS NULL",
    );
    let (_, saved) = damaged.salvage();
    // One whose own messages hang from none that it inherits does not say under which uuids it showed them.
    let says = numbers(
        &damaged.to(),
        "SELECT DISTINCT m.session FROM messages m JOIN messages p ON p.id = m.parent WHERE p.session <> m.session",
    );
    let mut same = 0;
    for (number, shown) in &saved.sessions {
        let before = &victim.picture.sessions[number];
        assert_eq!(shown.lines.len(), before.lines.len(), "{number}");
        if shown.info.project_key == "salvaged" && says.contains(number) {
            assert_eq!(shown.conversation, before.conversation, "{number}");
            same += 1;
        }
    }
    assert!(same > 2, "{same}");
}

#[test]
fn marks_left_turns_and_heads_are_made_anew_from_the_entries() {
    let victim = Victim::with(family);
    let damaged = changed(
        &victim,
        "DELETE FROM listing_marks; UPDATE transcripts SET head = 999999 WHERE session % 2 = 0;
         DELETE FROM transcripts WHERE session % 2 = 1;
         UPDATE sessions SET conversed_ms = NULL WHERE id % 2 = 0;",
    );
    let (_, saved) = damaged.salvage();
    assert!(saved == victim.picture);
    let live = "SELECT count(*) FROM left_turns UNION ALL SELECT sum(head) FROM transcripts
         WHERE session IN (SELECT id FROM sessions WHERE deleted_ms IS NULL)
         UNION ALL SELECT count(conversed_ms) FROM sessions WHERE deleted_ms IS NULL
         UNION ALL SELECT count(*) FROM listing_marks
         UNION ALL SELECT sum(json_extract(listing, '$.entries')) FROM listing_marks";
    assert_eq!(numbers(&victim.path(), live), numbers(&damaged.to(), live));
}

#[test]
fn notes_that_followed_a_lost_one_follow_the_one_before_it() {
    let victim = Victim::with(family);
    let damaged = changed(
        &victim,
        "DELETE FROM scratchpad WHERE value = '\"b\"'; UPDATE scratchpad SET previous = id WHERE previous IS NULL;",
    );
    let (salvaged, saved) = damaged.salvage();
    assert!(told(&salvaged, "scratchpad: "), "{:?}", salvaged.lost);
    for (number, notes) in &saved.notes {
        let before = &victim.picture.notes[number];
        assert_eq!(notes.get("mood"), before.get("mood"));
        assert_eq!(notes.contains_key("plan"), before.contains_key("plan"));
    }
    assert!(saved.notes.values().any(|notes| notes.len() == 2));
    let numbers = "SELECT seq FROM sqlite_sequence WHERE name = 'scratchpad'";
    assert_eq!(
        number(&damaged.to(), numbers),
        number(&victim.path(), numbers)
    );
}
