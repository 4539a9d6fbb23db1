//! Search over 1,000,000 messages of prose: the newest 20 hits and the best 20 of the newest 10,000,
//! beside the bare index; how fast the index catches up, and how large it is.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;
use turnkeep::{SearchQuery, Store, TranscriptKey};

use crate::kit::{self, print_beside, quartiles, time};

/// How many messages, and in how many sessions. `TURNKEEP_BENCH_MESSAGES` makes it another number.
const MESSAGES: usize = 1_000_000;
const PER_SESSION: usize = 2_000;
/// How many different words there are, the most frequent one first (Zipf's law).
const VOCABULARY: usize = 60_000;
const WORDS: usize = 60;

pub struct Filled {
    pub store: Store,
    pub text_bytes: u64,
    pub entry_bytes: u64,
    pub messages: usize,
}

/// The store, without its index. Other benches of as many messages share it.
pub static FILLED: LazyLock<Filled> = LazyLock::new(|| {
    let messages = std::env::var("TURNKEEP_BENCH_MESSAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(MESSAGES);
    let store = kit::new_store_to_fill(|| 1_795_961_337_000);
    let mut prose = Prose(0x2545_f491_4f6c_dd1d);
    let mut filled = Filled {
        store,
        text_bytes: 0,
        entry_bytes: 0,
        messages,
    };
    for session in 0..messages.div_ceil(PER_SESSION) {
        let id = format!("{session:08x}-0000-4000-8000-000000000000");
        let key = TranscriptKey::main(format!("-srv-project-{}", session % 50), &id).unwrap();
        let mut parent = None;
        let mut entries = Vec::with_capacity(500);
        for number in 0..PER_SESSION.min(messages - session * PER_SESSION) {
            let at = session * PER_SESSION + number;
            let text = prose.text(at);
            filled.text_bytes += text.len() as u64;
            let entry = entry(&id, at, parent.as_deref(), &text);
            filled.entry_bytes += entry.len() as u64;
            parent = Some(uuid(at));
            entries.push(entry);
            if entries.len() == 500 {
                let batch = std::mem::take(&mut entries);
                filled.store.session_store().append(&key, batch).unwrap();
            }
        }
        filled.store.session_store().append(&key, entries).unwrap();
    }
    filled
});

fn uuid(number: usize) -> String {
    let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!(
        "{:08x}-{:04x}-4000-8000-{number:012x}",
        spread >> 32,
        spread >> 16 & 0xffff
    )
}

/// Prompts and answers in turn; an answer takes two lines, as the client writes one, with the usage
/// on each.
fn entry(session: &str, at: usize, parent: Option<&str>, text: &str) -> String {
    let minute = at as i64 * 5;
    let time = chrono_like(1_760_000_000 + minute);
    let mut message = json!({"role": "user", "content": text});
    let kind = if at.is_multiple_of(3) {
        "user"
    } else {
        "assistant"
    };
    if kind == "assistant" {
        message = json!({
            "id": format!("msg_{}", at / 3), "role": "assistant", "model": format!("model-{}", at / 3 % 3),
            "content": [{"type": "text", "text": text}],
            "usage": {"input_tokens": 12, "output_tokens": at % 3 * 100, "cache_read_input_tokens": 6789, "cache_creation_input_tokens": 7},
        });
    }
    json!({
        "parentUuid": parent, "isSidechain": false, "type": kind, "message": message, "uuid": uuid(at),
        "timestamp": time, "sessionId": session, "cwd": "/srv/shop",
    })
    .to_string()
}

/// Seconds since the epoch as the client writes a time.
fn chrono_like(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant's civil_from_days.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (
        doy - (153 * mp + 2) / 5 + 1,
        if mp < 10 { mp + 3 } else { mp - 9 },
    );
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.000Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// Made-up prose: words by Zipf's law, so that a few stand nearly everywhere and most are rare.
struct Prose(u64);

impl Prose {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn text(&mut self, at: usize) -> String {
        let mut text = String::with_capacity(WORDS * 8);
        for place in 0..WORDS {
            let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
            // The inverse of Zipf's distribution, near enough.
            let rank = ((VOCABULARY as f64).powf(share) - 1.0) as u64;
            text.push_str(&word(rank));
            text.push(if place % 12 == 11 { '\n' } else { ' ' });
        }
        if at.is_multiple_of(1000) {
            text.push_str("getOrderNumber rare::needle");
        }
        text
    }
}

/// A word that can be spoken, the shorter the more frequent.
pub fn word(mut rank: u64) -> String {
    const SYLLABLES: [&str; 20] = [
        "ta", "ne", "ri", "so", "lu", "ka", "me", "di", "po", "wu", "sha", "ven", "rin", "tol",
        "mur", "gar", "bel", "fin", "ros", "jun",
    ];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[(rank % 20) as usize]);
        rank /= 20;
        if rank == 0 {
            return word;
        }
    }
}

/// All of it, in one run: the index is built once.
pub fn run() {
    let filled = &*FILLED;
    let store = &filled.store;
    let before = size(store);
    let mut steps = Vec::new();
    let begun = Instant::now();
    loop {
        let begun = Instant::now();
        let step = store.index_search(Duration::ZERO).unwrap();
        steps.push(begun.elapsed().as_secs_f64());
        if step.unindexed == 0 {
            break;
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let index = size(store) - before;
    let longest = steps.iter().copied().fold(0.0, f64::max);
    let [low, median, high] = quartiles(&mut steps).map(|seconds| seconds * 1000.0);
    println!(
        "search::index: {} messages, {:.0} MB of text, in {took:.1} s, {:.1} MB/s",
        filled.messages,
        filled.text_bytes as f64 / 1e6,
        filled.text_bytes as f64 / 1e6 / took
    );
    println!(
        "    {} steps: {median:.0} ms ({low:.0} to {high:.0}), the longest {:.0} ms",
        steps.len(),
        longest * 1000.0
    );
    println!(
        "    size: {:.1} MB, {:.2} x the text, {:.2} x the JSONL",
        index as f64 / 1e6,
        index as f64 / filled.text_bytes as f64,
        index as f64 / filled.entry_bytes as f64
    );
    let conn = kit::bare(store.path());
    let (common, second, rare) = (word(0), word(5), word(40_000));
    let queries = [
        (
            "a word in most messages",
            common.clone(),
            format!("\"{common}\""),
        ),
        (
            "a word in one of 100",
            word(700),
            format!("\"{}\"", word(700)),
        ),
        ("a rare word", rare.clone(), format!("\"{rare}\"")),
        (
            "rare::needle",
            "rare::needle".to_owned(),
            "\"rare needle\"".to_owned(),
        ),
        (
            "an identifier's hump",
            "order".to_owned(),
            "\"order\"".to_owned(),
        ),
        (
            "two frequent words",
            format!("{common} {second}"),
            format!("\"{common}\" AND \"{second}\""),
        ),
        (
            "a phrase of frequent words",
            format!("\"{common} {second} {common}\""),
            format!("\"{common} {second} {common}\""),
        ),
        (
            "a beginning of 2 letters",
            "ta*".to_owned(),
            "\"ta\" *".to_owned(),
        ),
        (
            "a beginning of 4 letters",
            "tane*".to_owned(),
            "\"tane\" *".to_owned(),
        ),
        ("nothing", "absent".to_owned(), "\"absent\"".to_owned()),
    ];
    for (name, text, expression) in &queries {
        let query = SearchQuery::new(text.as_str());
        let hits = store.search(&query).unwrap().hits.len();
        print_beside(
            &format!("search::newest, {name} ({hits} hits)"),
            15,
            (hits.max(1) as f64, "hits"),
            || time(|| store.search(&query).unwrap()),
            || time(|| bare_newest(&conn, expression)),
        );
    }
    for (name, text, expression) in &queries {
        let query = SearchQuery::new(text.as_str()).ranked();
        let hits = store.search(&query).unwrap().hits.len();
        print_beside(
            &format!("search::ranked, {name} ({hits} hits)"),
            9,
            (hits.max(1) as f64, "hits"),
            || time(|| store.search(&query).unwrap()),
            || time(|| bare_ranked(&conn, expression)),
        );
    }
    let filtered = SearchQuery::new(common.as_str()).project("-srv-project-7");
    let old = SearchQuery::new(common.as_str()).until_ms(1_760_100_000_000);
    for (name, query) in [("one project of 50", filtered), ("the oldest ones", old)] {
        let mut times: Vec<f64> = (0..15)
            .map(|_| time(|| store.search(&query).unwrap()).as_secs_f64())
            .collect();
        let [low, median, high] = quartiles(&mut times).map(|seconds| seconds * 1000.0);
        println!("search::newest, {name}: {median:.2} ms ({low:.2} to {high:.2})");
    }
}

fn size(store: &Store) -> u64 {
    let conn = kit::bare(store.path());
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    std::fs::metadata(store.path()).unwrap().len()
}

fn bare_newest(conn: &Connection, expression: &str) -> Vec<(i64, String)> {
    conn.prepare_cached(
        "SELECT m.id, m.entry FROM search s JOIN messages m ON m.id = s.rowid
         WHERE s.search MATCH ?1 ORDER BY s.rowid DESC LIMIT 20",
    )
    .unwrap()
    .query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))
    .unwrap()
    .collect::<Result<_, _>>()
    .unwrap()
}

fn bare_ranked(conn: &Connection, expression: &str) -> Vec<(i64, f64)> {
    conn.prepare_cached(
        "SELECT rowid, score FROM
             (SELECT rowid, bm25(search) AS score FROM search WHERE search MATCH ?1
              ORDER BY rowid DESC LIMIT 10000)
         ORDER BY score LIMIT 20",
    )
    .unwrap()
    .query_map([expression], |row| Ok((row.get(0)?, row.get(1)?)))
    .unwrap()
    .collect::<Result<_, _>>()
    .unwrap()
}
