//! The audit: pages of 20 of 100,000 changes of 1,000 files, and blame of a file with 100 of them.

use std::path::PathBuf;
use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use turnkeep::{ChangeFilter, NewSession, Store};

use crate::kit::{bare, new_store, print_beside, time};

const CHANGES: i64 = 100_000;
const FILES: i64 = 1_000;
const SESSIONS: i64 = 100;
const PAGE: usize = 20;
const ROUNDS: usize = 200;

static STORE: LazyLock<Store> = LazyLock::new(filled);

fn path(file: i64) -> String {
    format!("/srv/shop/part{}/file{file}.rs", file % 50)
}

/// A text of 40 lines, of which each version changes one.
fn text(file: i64, version: i64) -> String {
    let lines = (0..40).map(|line| {
        let last = version - (version - line).rem_euclid(40);
        format!("let line_{line} = {file} * {};\n", last.max(0))
    });
    lines.collect()
}

/// Rows as the captures write them; only quicker.
fn filled() -> Store {
    let store = new_store();
    for number in 0..SESSIONS {
        let new = NewSession::in_project("shop").id(format!("s{number}"));
        store.sessions().create(new.cwd("/srv/shop")).unwrap();
    }
    let conn = bare(store.path());
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    for change in 0..CHANGES {
        let (file, version) = (change % FILES, change / FILES);
        let blobs = [version, version + 1].map(|version| blob(&conn, &text(file, version)));
        conn.prepare_cached(
            "INSERT INTO file_changes (session, source, tool_use_id, seen_message, path, before_state, before_blob,
                 before_mode, after_state, after_blob, after_mode, after_seen, before_ms, after_ms)
             VALUES (?1, 'tool', ?2, 0, ?3, 'file', ?4, 420, 'file', ?5, 420, 'tool', ?6, ?6)",
        )
        .unwrap()
        .execute(params![
            change % SESSIONS + 1,
            format!("toolu_{change}"),
            path(file),
            blobs[0],
            blobs[1],
            1_795_961_337_000 + change,
        ])
        .unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    store
}

fn blob(conn: &Connection, text: &str) -> i64 {
    let hash = blake3::hash(text.as_bytes());
    conn.prepare_cached(
        "INSERT OR IGNORE INTO blobs (hash, bytes, encoding, content) VALUES (?1, ?2, 'plain', ?3)",
    )
    .unwrap()
    .execute(params![
        &hash.as_bytes()[..],
        text.len() as i64,
        text.as_bytes()
    ])
    .unwrap();
    conn.prepare_cached("SELECT id FROM blobs WHERE hash = ?1")
        .unwrap()
        .query_row([&hash.as_bytes()[..]], |row| row.get(0))
        .unwrap()
}

/// The same rows with their hashes, and nothing else.
fn bare_page(conn: &Connection, clause: &str, values: Vec<Value>) -> Vec<Vec<Value>> {
    let sql = format!(
        "SELECT f.id, f.session, f.source, f.tool_use_id, f.agent, f.path, f.before_state, f.before_mode, b.hash, b.bytes,
             f.after_state, f.after_mode, a.hash, a.bytes, f.before_ms, f.after_ms, s.project_key, s.session_id
         FROM file_changes f JOIN sessions s ON s.id = f.session
         LEFT JOIN blobs b ON b.id = f.before_blob LEFT JOIN blobs a ON a.id = f.after_blob
         WHERE {clause} ORDER BY f.id DESC LIMIT {PAGE}"
    );
    let mut statement = conn.prepare_cached(&sql).unwrap();
    let copied = |row: &rusqlite::Row<'_>| (0..18).map(|column| row.get(column)).collect();
    statement
        .query_map(params_from_iter(values), copied)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Pages by path, folder, session and of all, with lines and effects and without.
pub fn pages() {
    let conn = bare(STORE.path());
    let file = PathBuf::from(path(7));
    let session = STORE
        .sessions()
        .resolve("s7", &turnkeep::Scope::default())
        .unwrap();
    let of_path = ("f.path = ?", vec![Value::from(path(7))]);
    let of_folder = (
        "f.path >= ? AND f.path < ?",
        vec![
            Value::from("/srv/shop/part7/".to_owned()),
            Value::from("/srv/shop/part70".to_owned()),
        ],
    );
    for (name, filter, (clause, values)) in [
        ("by path", ChangeFilter::new().path(&file), of_path.clone()),
        (
            "by path, brief",
            ChangeFilter::new().path(&file).brief(),
            of_path,
        ),
        (
            "by folder",
            ChangeFilter::new().path("/srv/shop/part7"),
            of_folder,
        ),
        (
            "by session",
            ChangeFilter::new().session(session.key()),
            ("f.session = ?", vec![Value::from(8)]),
        ),
        ("newest", ChangeFilter::new(), ("1", vec![])),
        ("newest, brief", ChangeFilter::new().brief(), ("1", vec![])),
    ] {
        let ours = || time(|| STORE.audit().changes(&filter, None, PAGE).unwrap());
        assert_eq!(
            STORE
                .audit()
                .changes(&filter, None, PAGE)
                .unwrap()
                .changes
                .len(),
            PAGE
        );
        print_beside(
            &format!("audit: a page of {CHANGES} changes, {name}"),
            ROUNDS,
            (PAGE as f64, "changes"),
            ours,
            || time(|| bare_page(&conn, clause, values.clone())),
        );
    }
}

/// Blame of a file of 40 lines with 100 changes, beside reading its 100 versions.
pub fn blame() {
    let conn = bare(STORE.path());
    let file = path(7);
    print_beside(
        "audit: blame of a file with 100 changes",
        ROUNDS,
        (40.0, "lines"),
        || time(|| STORE.audit().blame(&file).unwrap()),
        || {
            time(|| {
                let mut statement = conn
                    .prepare_cached(
                        "SELECT content FROM file_changes JOIN blobs ON blobs.id = after_blob
                         WHERE path = ?1 ORDER BY file_changes.id",
                    )
                    .unwrap();
                let contents = statement.query_map([&file], |row| row.get::<_, Vec<u8>>(0));
                contents.unwrap().map(Result::unwrap).collect::<Vec<_>>()
            })
        },
    );
}
