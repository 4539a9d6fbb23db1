//! Listing: a page of 20 sessions, newest first, of 1,000 and of 10,000.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use divan::Bencher;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use turnkeep::{Cursor, SessionFilter, Store, TranscriptKey};

use crate::kit::{bare, new_store_to_fill};

const COUNTS: [usize; 2] = [1_000, 10_000];
const PAGE: usize = 20;
const PROJECTS: usize = 50;

static STORES: LazyLock<[Store; 2]> = LazyLock::new(|| COUNTS.map(store_with));

/// A store of sessions that each have a title, a prompt and an answer.
fn store_with(sessions: usize) -> Store {
    let time = AtomicI64::new(1_795_961_337_000);
    let store = new_store_to_fill(move || time.fetch_add(1000, Ordering::Relaxed));
    for number in 0..sessions {
        let project = format!("-srv-project-{}", number % PROJECTS);
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        let title = format!("order {number}, customer {:02}", number % 100);
        let around = format!(
            r#""sessionId":"{id}","cwd":"/srv/project-{}","gitBranch":"main""#,
            number % PROJECTS
        );
        let entries = [
            format!(
                r#"{{"type":"user","uuid":"p","parentUuid":null,{around},"message":{{"role":"user","content":"Note order {number} in orders.txt, then tell the customer when it will be delivered."}}}}"#
            ),
            format!(
                r#"{{"type":"assistant","uuid":"a","parentUuid":"p",{around},"message":{{"role":"assistant","content":"Order {number} is noted."}}}}"#
            ),
            format!(r#"{{"type":"custom-title","customTitle":"{title}","sessionId":"{id}"}}"#),
        ];
        store
            .session_store()
            .append(&TranscriptKey::main(project, id).unwrap(), entries)
            .unwrap();
    }
    store
}

fn store(sessions: usize) -> &'static Store {
    &STORES[COUNTS.iter().position(|count| *count == sessions).unwrap()]
}

fn ours(bencher: Bencher, sessions: usize, filter: SessionFilter, after: Option<Cursor>) {
    let all = store(sessions).sessions();
    assert!(!all.list(&filter, after, PAGE).unwrap().sessions.is_empty());
    bencher.bench_local(|| all.list(&filter, after, PAGE).unwrap());
}

/// The same columns of the same rows; `clause` is the filter.
fn bare_list(bencher: Bencher, sessions: usize, clause: &str, values: Vec<Value>) {
    let conn = bare(store(sessions).path());
    let sql = format!(
        "SELECT session_id, project_key, title, summary, first_prompt, tag, cwd, git_branch, entrypoint,
             created_ms, last_modified_ms, entries, messages, turns, metadata
         FROM sessions
         WHERE deleted_ms IS NULL AND listed = 1 AND {clause}
         ORDER BY last_modified_ms DESC, id DESC LIMIT {PAGE}"
    );
    let found = query(&conn, &sql, &values).len();
    assert!(found > 0);
    bencher.bench_local(|| query(&conn, &sql, &values));
}

fn query(conn: &Connection, sql: &str, values: &[Value]) -> Vec<Vec<Value>> {
    let copied = |row: &Row<'_>| (0..15).map(|column| row.get(column)).collect();
    let mut statement = conn.prepare_cached(sql).unwrap();
    statement
        .query_map(params_from_iter(values), copied)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[divan::bench_group]
mod first_page {
    use super::*;

    #[divan::bench(args = COUNTS)]
    fn ours(bencher: Bencher, sessions: usize) {
        super::ours(bencher, sessions, SessionFilter::new(), None);
    }

    #[divan::bench(args = COUNTS)]
    fn bare(bencher: Bencher, sessions: usize) {
        bare_list(bencher, sessions, "1", vec![]);
    }
}

#[divan::bench_group]
mod page_in_the_middle {
    use super::*;

    fn middle(sessions: usize) -> Cursor {
        let half = store(sessions)
            .sessions()
            .list(&SessionFilter::new(), None, sessions / 2);
        half.unwrap().next.unwrap()
    }

    #[divan::bench(args = COUNTS)]
    fn ours(bencher: Bencher, sessions: usize) {
        super::ours(
            bencher,
            sessions,
            SessionFilter::new(),
            Some(middle(sessions)),
        );
    }

    #[divan::bench(args = COUNTS)]
    fn bare(bencher: Bencher, sessions: usize) {
        let cursor = middle(sessions).to_string();
        let place = cursor
            .split('-')
            .map(|number| Value::Integer(number.parse().unwrap()));
        bare_list(
            bencher,
            sessions,
            "(last_modified_ms, id) < (?, ?)",
            place.collect(),
        );
    }
}

#[divan::bench_group]
mod of_a_project {
    use super::*;

    #[divan::bench(args = COUNTS)]
    fn ours(bencher: Bencher, sessions: usize) {
        super::ours(
            bencher,
            sessions,
            SessionFilter::new().project("-srv-project-7"),
            None,
        );
    }

    #[divan::bench(args = COUNTS)]
    fn bare(bencher: Bencher, sessions: usize) {
        bare_list(
            bencher,
            sessions,
            "project_key = ?",
            vec!["-srv-project-7".to_owned().into()],
        );
    }
}

/// A text that one title in a hundred has.
#[divan::bench_group]
mod with_a_text {
    use super::*;

    const TEXT: &str = "customer 42";

    #[divan::bench(args = COUNTS)]
    fn ours(bencher: Bencher, sessions: usize) {
        super::ours(bencher, sessions, SessionFilter::new().text(TEXT), None);
    }

    #[divan::bench(args = COUNTS)]
    fn bare(bencher: Bencher, sessions: usize) {
        bare_list(
            bencher,
            sessions,
            "summary LIKE ?",
            vec![format!("%{TEXT}%").into()],
        );
    }
}

/// A text that only the oldest session's title has: every title is looked at.
#[divan::bench_group]
mod with_a_rare_text {
    use super::*;

    const TEXT: &str = "order 0,";

    #[divan::bench(args = COUNTS)]
    fn ours(bencher: Bencher, sessions: usize) {
        super::ours(bencher, sessions, SessionFilter::new().text(TEXT), None);
    }

    #[divan::bench(args = COUNTS)]
    fn bare(bencher: Bencher, sessions: usize) {
        bare_list(
            bencher,
            sessions,
            "summary LIKE ?",
            vec![format!("%{TEXT}%").into()],
        );
    }
}
