//! Usage: each response counted once, by what it is summed up, and what it costs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use turnkeep::{
    ForkOptions, NewSession, PriceTable, Session, Store, UsageBy, UsageQuery, UsageReport, Used,
};

use crate::case::Case;
use crate::kit::{TestStore, all_sessions, fixture_path, import};

fn report(store: &Store, by: UsageBy) -> UsageReport {
    store.usage(&UsageQuery::by(by)).unwrap()
}

fn counts(used: &Used) -> [u64; 5] {
    [
        used.responses,
        used.input,
        used.output,
        used.cache_read,
        used.cache_write,
    ]
}

fn groups(report: &UsageReport) -> Vec<(Option<&str>, [u64; 5])> {
    let rows = report.rows.iter();
    rows.map(|row| (row.group.as_deref(), counts(&row.used)))
        .collect()
}

/// The same as the views of the schema say.
fn viewed(store: &Store, sql: &str) -> [u64; 5] {
    let conn = rusqlite::Connection::open(store.path()).unwrap();
    conn.query_row(sql, [], |row| {
        let number = |at| {
            row.get::<_, i64>(at)
                .map(|count| u64::try_from(count).unwrap())
        };
        Ok([number(0)?, number(1)?, number(2)?, number(3)?, number(4)?])
    })
    .unwrap()
}

const OF_RESPONSES: &str =
    "SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
    coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_write_tokens), 0) FROM usage_view";
const BY_DAY: &str = "SELECT coalesce(sum(responses), 0), coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),
    coalesce(sum(cache_read_tokens), 0), coalesce(sum(cache_write_tokens), 0) FROM usage_by_day";

/// An entry of a response.
fn line(uuid: &str, response: Option<&str>, time: &str, output: u64) -> String {
    let mut entry = json!({
        "type": "assistant", "uuid": uuid, "timestamp": time,
        "message": {"role": "assistant", "model": "model-x", "content": [{"type": "text", "text": uuid}],
            "usage": {"input_tokens": 10, "output_tokens": output}}
    });
    if let Some(response) = response {
        entry["message"]["id"] = json!(response);
    }
    entry.to_string()
}

fn append(session: &Session, entries: &[String]) {
    session
        .write(|tx| tx.append_entries(entries, &Default::default()))
        .unwrap();
}

#[test]
fn the_usage_of_real_runs_is_that_of_a_naive_recomputation() {
    let mut responses = 0;
    for run in [
        "compact_manual",
        "files_raw",
        "files_sdk",
        "git",
        "kill_in_tool",
        "parallel",
        "plain_stream",
        "resume_at",
        "resume_flags",
        "rewind_conversation_seen",
        "subagent_checkpoint",
        "subagent_foreground",
        "torn_tail",
    ] {
        let (test, _) = TestStore::with(&format!("transcripts/{run}"));
        // The last line of each response in the session that holds its first one, by hand.
        let mut last: BTreeMap<(String, String), BTreeMap<String, Value>> = BTreeMap::new();
        let mut copies: BTreeSet<String> = BTreeSet::new();
        for session in all_sessions(&test.store) {
            if session.info().unwrap().forked_from.is_some() {
                copies.insert(session.id().to_owned());
            }
            for subpath in [vec![String::new()], session.subpaths().unwrap()].concat() {
                for line in session.transcript(&subpath).unwrap_or_default() {
                    let entry: Value =
                        serde_json::from_str(line.entry.as_deref().unwrap_or("null")).unwrap();
                    let message = &entry["message"];
                    if entry["type"] != "assistant"
                        || message["model"] == "<synthetic>"
                        || !message["usage"].is_object()
                    {
                        continue;
                    }
                    let id = message["id"].as_str().unwrap().to_owned();
                    let model = message["model"].as_str().unwrap().to_owned();
                    let of = last.entry((id, model)).or_default();
                    of.insert(session.id().to_owned(), message["usage"].clone());
                }
            }
        }
        let mut expected = [0; 5];
        for of in last.values() {
            let original = of.iter().find(|(session, _)| !copies.contains(*session));
            let usage = original.or(of.iter().next()).unwrap().1;
            expected[0] += 1;
            for (at, name) in [
                "input_tokens",
                "output_tokens",
                "cache_read_input_tokens",
                "cache_creation_input_tokens",
            ]
            .iter()
            .enumerate()
            {
                expected[at + 1] += usage[name].as_u64().unwrap_or(0);
            }
        }
        responses += expected[0];
        assert_eq!(
            counts(&report(&test.store, UsageBy::Day).total),
            expected,
            "{run}"
        );
        assert_eq!(viewed(&test.store, OF_RESPONSES), expected, "{run}");
        assert_eq!(viewed(&test.store, BY_DAY), expected, "{run}");
        // Every way to sum up comes to the same, also after another import of the same files.
        import(&test.store, &fixture_path(&format!("transcripts/{run}")));
        for by in [
            UsageBy::Session,
            UsageBy::Model,
            UsageBy::Project,
            UsageBy::Turn,
            UsageBy::Response,
        ] {
            let report = report(&test.store, by);
            let mut sum = [0; 5];
            for (_, counts) in groups(&report) {
                sum.iter_mut()
                    .zip(counts)
                    .for_each(|(sum, count)| *sum += count);
            }
            assert_eq!(
                (sum, counts(&report.total)),
                (expected, expected),
                "{run} {by:?}"
            );
        }
    }
    assert!(responses > 100, "{responses} responses");
}

#[test]
fn b125_a_response_on_several_lines_counts_its_last_one() {
    let case = Case::import("B125");
    let expected = [
        &case.expect["messages"],
        &case.expect["input_tokens"],
        &case.expect["output_tokens"],
        &case.expect["cache_read"],
        &case.expect["cache_creation"],
    ]
    .map(|count| count.as_u64().unwrap());
    let report = report(&case.test.store, UsageBy::Response);
    assert_eq!(counts(&report.total), expected);
    let ids: Vec<_> = groups(&report)
        .into_iter()
        .map(|(group, _)| group)
        .collect();
    assert_eq!(ids, [Some("msg_1"), Some("msg_2")]);
    assert_eq!(viewed(&case.test.store, OF_RESPONSES), expected);
}

#[test]
fn b127_running_totals_are_stored_and_never_summed() {
    let test = TestStore::new();
    let session = test.session();
    append(
        &session,
        &[line("a", Some("msg_1"), "2026-01-01T00:00:00Z", 5)],
    );
    let mut totals = Vec::new();
    for (process, total) in [(1, 0.25), (1, 0.28), (2, 0.03), (3, 0.31), (3, 0.33)] {
        totals.push(
            json!({"type": "cost-state", "startTime": process, "totalCostUSD": total,
                "modelUsage": {"model-x": {"inputTokens": 999, "outputTokens": 999}}})
            .to_string(),
        );
    }
    append(&session, &totals);
    assert_eq!(
        counts(&report(&test.store, UsageBy::Session).total),
        [1, 10, 5, 0, 0]
    );
    let stored = session.transcript("").unwrap();
    let kept: Vec<_> = stored
        .iter()
        .filter_map(|line| line.entry.clone())
        .skip(1)
        .collect();
    assert_eq!(kept, totals);
}

#[test]
fn forks_and_copies_without_a_known_origin_count_once() {
    let test = TestStore::new();
    let make = |id: &str| {
        let new = NewSession::in_project("p").id(id);
        test.store.sessions().create(new).unwrap()
    };
    let (one, copy, other) = (make("one"), make("copy"), make("other"));
    append(
        &one,
        &[
            line("a", Some("msg_1"), "2026-01-01T23:59:59Z", 1),
            line("b", Some("msg_1"), "2026-01-02T00:00:01Z", 7),
        ],
    );
    let fork = one.fork(&ForkOptions::new()).unwrap();
    append(
        &fork,
        &[line("c", Some("msg_2"), "2026-01-03T00:00:00Z", 2)],
    );
    append(
        &copy,
        &[line("a", Some("msg_1"), "2026-01-01T23:59:59Z", 1)],
    );
    // An id that a gateway uses again in a session of its own, and responses without any.
    append(
        &other,
        &[
            line("d", Some("msg_1"), "2026-01-04T00:00:00Z", 100),
            line("e", None, "2026-01-04T00:00:01Z", 1000),
            line("f", None, "2026-01-04T00:00:01Z", 1000),
        ],
    );
    let synthetic =
        line("g", Some("x"), "2026-01-04T00:00:02Z", 9).replace("model-x", "<synthetic>");
    append(&other, &[synthetic]);
    let by_day = report(&test.store, UsageBy::Day);
    assert_eq!(
        groups(&by_day),
        [
            (Some("2026-01-01"), [1, 10, 7, 0, 0]),
            (Some("2026-01-03"), [1, 10, 2, 0, 0]),
            (Some("2026-01-04"), [3, 30, 2100, 0, 0]),
        ]
    );
    assert_eq!(viewed(&test.store, OF_RESPONSES), counts(&by_day.total));
    let by_session = report(&test.store, UsageBy::Session);
    let names: Vec<_> = by_session
        .rows
        .iter()
        .map(|row| row.session.clone().unwrap())
        .collect();
    assert_eq!(
        names,
        [one.key().clone(), other.key().clone(), fork.key().clone()]
    );
    let day = 86_400_000;
    let begin = 1_767_225_600_000;
    let filtered = |query: UsageQuery| test.store.usage(&query).unwrap().total.responses;
    assert_eq!(
        filtered(UsageQuery::by(UsageBy::Day).session(fork.key().clone())),
        1
    );
    assert_eq!(
        filtered(
            UsageQuery::by(UsageBy::Day)
                .since_ms(begin + day)
                .until_ms(begin + 3 * day)
        ),
        1
    );
    assert_eq!(filtered(UsageQuery::by(UsageBy::Day).model("model-y")), 0);
    assert_eq!(filtered(UsageQuery::by(UsageBy::Day).project("q")), 0);
    let gone = turnkeep::SessionKey::new("p", "none").unwrap();
    assert!(
        test.store
            .usage(&UsageQuery::by(UsageBy::Day).session(gone))
            .is_err()
    );
}

#[test]
fn a_cost_is_told_with_what_it_leaves_out() {
    let test = TestStore::new();
    let session = test.session();
    append(
        &session,
        &[
            line("a", Some("msg_1"), "2026-01-01T00:00:00Z", 5),
            line("b", Some("msg_2"), "2026-01-01T00:00:01Z", 5).replace("model-x", "model-y"),
        ],
    );
    let prices = r#"{"source": "a list", "currency": "EUR", "per": 1, "models": {"model-x": {"input": 1, "output": 2}}}"#;
    let query = UsageQuery::by(UsageBy::Model).prices(PriceTable::from_json(prices).unwrap());
    let priced = test.store.usage(&query).unwrap();
    let told: Vec<_> = priced
        .rows
        .iter()
        .map(|row| (row.used.cost, row.used.unpriced))
        .collect();
    assert_eq!(told, [(Some(20.0), 0), (None, 1)]);
    assert_eq!((priced.total.cost, priced.total.unpriced), (Some(20.0), 1));
    assert_eq!(priced.unpriced, ["model-y"]);
    assert_eq!(report(&test.store, UsageBy::Day).total.cost, None);
}

#[cfg(feature = "cli")]
#[test]
fn the_program_tells_usage_and_names_the_source_of_prices() {
    use crate::kit::Turnkeep;
    let program = Turnkeep::with("transcripts/parallel");
    std::fs::write(
        program.folder.path().join("prices.json"),
        r#"{"source": "list of May", "currency": "USD", "models": {"claude-*": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}}"#,
    )
    .unwrap();
    for by in ["day", "session", "model", "project", "turn", "response"] {
        let told = program
            .run(&["usage", "--by", by, "--prices", "prices.json", "--json"])
            .json();
        assert_eq!(told["by"], json!(by));
        assert_eq!(
            told["prices"],
            json!({"source": "list of May", "currency": "USD"})
        );
        assert!(told["total"]["cost"].as_f64().unwrap() > 0.0);
        assert!(told["rows"][0].get(by).is_some());
        let shown = program
            .run(&["usage", "--by", by, "--prices", "prices.json"])
            .out;
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
        assert!(shown.contains("prices: list of May"), "{shown}");
    }
    assert_eq!(program.run(&["usage", "--prices", "none.json"]).code, 2);
    assert_eq!(
        program.run(&["usage", "--project", "none"]).out,
        "no responses\n"
    );
}

#[cfg(feature = "cli")]
fn with_lines(lines: &[String]) -> crate::kit::Turnkeep {
    let program = crate::kit::Turnkeep::new();
    let args = ["append", "s", "--project", "p", "--create"];
    assert_eq!(program.run_with(&args, &lines.join("\n")).code, 0);
    program
}

#[cfg(feature = "cli")]
#[test]
fn large_numbers_and_models_without_a_name_are_read_at_80_columns() {
    let large = line("a", Some("msg_1"), "2026-01-01T00:00:00Z", 123_456_789_012_345)
        .replace("\"input_tokens\":10", "\"input_tokens\":987654321098765,\"cache_read_input_tokens\":987654321098765,\"cache_creation_input_tokens\":987654321098765");
    let unnamed =
        line("b", Some("msg_2"), "2026-01-02T00:00:00Z", 5).replace("\"model\":\"model-x\",", "");
    let program = with_lines(&[large, unnamed]);
    let prices = r#"{"source": "a list", "currency": "Euro of the old kind", "models": {"model-x":
        {"input": 3, "output": 15, "cache_read": 3, "cache_write": 3}}}"#;
    std::fs::write(program.folder.path().join("prices.json"), prices).unwrap();
    for by in ["day", "session", "model", "project", "turn", "response"] {
        for more in [&[][..], &["--prices", "prices.json"]] {
            let ran = program.run(&[&["usage", "--by", by], more].concat());
            let is_whole = ran.out.lines().all(|line| line.chars().count() <= 80);
            assert!(is_whole && ran.code == 0, "{}{}", ran.out, ran.err);
            assert!(ran.out.contains("987.7T") || more.is_empty(), "{}", ran.out);
        }
    }
    let shown = program
        .run(&["usage", "--by", "day", "--prices", "prices.json"])
        .out;
    assert!(shown.contains("2026-01-02 "), "{shown}");
    assert!(
        shown.contains("no price for 1 response of: a model that is not named\n"),
        "{shown}"
    );
}

#[cfg(feature = "cli")]
#[test]
fn a_date_alone_is_the_day_in_utc_as_the_rows_have_it() {
    let program = with_lines(&[
        line("a", Some("msg_1"), "2026-01-30T23:59:59Z", 1),
        line("b", Some("msg_2"), "2026-01-31T00:00:00Z", 1),
        line("c", Some("msg_3"), "2026-01-31T23:09:30Z", 1),
        line("d", Some("msg_4"), "2026-02-01T00:00:00Z", 1),
    ]);
    for zone in ["UTC", "XXX+11", "XXX-13"] {
        let count = |args: &[&str]| {
            let args = [&["usage", "--json"], args].concat();
            let ran = program.command(&args).env("TZ", zone).output().unwrap();
            let told: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
            told["total"]["responses"].as_u64().unwrap()
        };
        assert_eq!(
            count(&["--since", "2026-01-31", "--until", "2026-02-01"]),
            2,
            "{zone}"
        );
        assert_eq!(count(&["--since", "2026-01-31T23:09Z"]), 2, "{zone}");
        assert_eq!(count(&["--until", "2026-01-31T23:09Z"]), 2, "{zone}");
    }
}
