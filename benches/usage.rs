//! Usage by day over as many messages as search has, beside one bare sum over their lines, which
//! counts a response as often as it has lines; and the view.

use rusqlite::Connection;
use turnkeep::{UsageBy, UsageQuery};

use crate::kit::{self, print_beside, time};
use crate::search::FILLED;

pub fn by_day() {
    let filled = &*FILLED;
    let store = &filled.store;
    let conn = kit::bare(store.path());
    let query = UsageQuery::by(UsageBy::Day);
    let days = store.usage(&query).unwrap().rows.len();
    assert_eq!(
        days,
        count(&conn, "SELECT count(DISTINCT day) FROM usage_by_day")
    );
    print_beside(
        "usage::by_day",
        5,
        (filled.messages as f64, "messages"),
        || time(|| store.usage(&query).unwrap()),
        || {
            time(|| {
                count(
                    &conn,
                    "SELECT count(*) FROM (SELECT date(timestamp_ms / 1000, 'unixepoch') AS day, sum(input_tokens),
                         sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens)
                     FROM messages WHERE kind = 'assistant' GROUP BY day)",
                )
            })
        },
    );
    let view = time(|| count(&conn, "SELECT count(*) FROM usage_by_day"));
    println!("    view  {:>9.3} ms", view.as_secs_f64() * 1000.0);
}

fn count(conn: &Connection, sql: &str) -> usize {
    let count: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
    usize::try_from(count).unwrap()
}
