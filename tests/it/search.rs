//! Search: what is found, by whom it was said, in which order, and what a wrong index does.

mod beginnings;
mod brute;
mod damage;
mod index;

use std::time::Duration;

use serde_json::json;
use turnkeep::{
    ForkOptions, NewMessage, NewSession, SearchHit, SearchQuery, SearchRole, Session, Store,
};

use crate::kit::TestStore;

/// What was found, by its snippet with the places marked.
fn marked(hit: &SearchHit) -> String {
    let mut shown = String::new();
    let mut at = 0;
    for mark in &hit.snippet.marks {
        shown += &hit.snippet.text[at..mark.start];
        shown += &format!("[{}]", &hit.snippet.text[mark.clone()]);
        at = mark.end;
    }
    shown + &hit.snippet.text[at..]
}

fn search(store: &Store, query: &SearchQuery) -> Vec<SearchHit> {
    store.index_search(Duration::from_secs(60)).unwrap();
    let page = store.search(query).unwrap();
    assert_eq!(page.unindexed, 0);
    page.hits
}

fn found(store: &Store, text: &str) -> Vec<String> {
    search(store, &SearchQuery::new(text))
        .iter()
        .map(marked)
        .collect()
}

fn uuids(hits: &[SearchHit]) -> Vec<&str> {
    hits.iter()
        .map(|hit| hit.uuid.as_deref().unwrap())
        .collect()
}

fn say(session: &Session, text: &str) -> String {
    session
        .messages()
        .append(NewMessage::user(text))
        .unwrap()
        .uuid
}

/// A turn in which a tool is used.
fn use_tool(session: &Session, name: &str, input: serde_json::Value, output: &str) {
    let id = format!("toolu_{}", session.info().unwrap().entries);
    session
        .messages()
        .append(NewMessage::assistant(json!([
            {"type": "thinking", "thinking": "a secret thought", "signature": "s"},
            {"type": "tool_use", "id": id, "name": name, "input": input}
        ])))
        .unwrap();
    session
        .messages()
        .append(NewMessage::tool_result(&id, output))
        .unwrap();
}

#[test]
fn words_phrases_and_beginnings_are_found_and_marked() {
    let test = TestStore::new();
    let session = test.session();
    say(&session, "Note order A17 in orders.txt, then order paper.");
    say(&session, "The desk has an order.");
    assert_eq!(
        found(&test.store, "ORDER"),
        [
            "The desk has an [order].",
            "Note [order] A17 in orders.txt, then [order] paper."
        ]
    );
    assert_eq!(found(&test.store, "desk order").len(), 1);
    assert!(found(&test.store, "\"desk order\"").is_empty());
    assert_eq!(
        found(&test.store, "\"order a17\""),
        ["Note [order A17] in orders.txt, then order paper."]
    );
    assert_eq!(found(&test.store, "ord*").len(), 2);
    assert_eq!(
        found(&test.store, "orders.t*"),
        ["Note order A17 in [orders.txt], then order paper."]
    );
    assert!(found(&test.store, "secret").is_empty());
}

#[test]
fn identifiers_and_text_without_spaces_are_found() {
    let test = TestStore::new();
    let session = test.session();
    say(
        &session,
        "see std::fs::read_dir and getUserName in src/store/feed.rs",
    );
    say(&session, "受注番号A17を確認してください。");
    say(&session, "배포가 끝났습니다 🚀");
    say(&session, "Die Straße nach Łódź, café");
    for (text, mark) in [
        ("read_dir", "read_dir"),
        ("fs::read_dir", "fs::read_dir"),
        ("dir", "dir"),
        ("getUserName", "getUserName"),
        ("username", ""),
        ("user_name", "getUserName"),
        ("userName", "getUserName"),
        ("user*", "getUserName"),
        ("store/feed.rs", "store/feed.rs"),
        ("注番", "注番"),
        ("確認", "確認"),
        ("A17", "A17"),
        ("号A17を", "号A17を"),
        ("배포", "배포"),
        ("🚀", "🚀"),
        ("lodz CAFE\u{301}", "Łódź"),
    ] {
        let hits = search(&test.store, &SearchQuery::new(text));
        let marks: Vec<&str> = hits
            .iter()
            .map(|hit| &hit.snippet.text[hit.snippet.marks[0].clone()])
            .collect();
        let expected: Vec<&str> = [mark].into_iter().filter(|mark| !mark.is_empty()).collect();
        assert_eq!(marks, expected, "{text}");
    }
}

#[test]
fn no_text_is_a_mistake_but_one_without_words() {
    let test = TestStore::new();
    let session = test.session();
    for text in [
        "a\"b",
        "(",
        "NOT",
        "a AND",
        "x:y",
        "^x",
        "-x",
        "*",
        "\"",
        "'; DROP TABLE messages; --",
        "NEAR(a b)",
        "{text}: x",
        "\u{0}a",
        "%_",
        "a + b",
        "\u{feff}x",
    ] {
        say(&session, text);
        match test.store.search(&SearchQuery::new(text)) {
            Ok(page) => assert!(!page.hits.is_empty(), "{text}"),
            Err(error) => assert!(!text.chars().any(char::is_alphanumeric), "{text}: {error}"),
        }
    }
    let long = "word1 ".repeat(20) + &(0..2000).map(|n| format!("w{n} ")).collect::<String>();
    say(&session, &long);
    assert_eq!(found(&test.store, &long).len(), 1);
    assert_eq!(
        test.store
            .search(&SearchQuery::new(" "))
            .unwrap_err()
            .kind(),
        turnkeep::ErrorKind::Invalid
    );
}

#[test]
fn filters_narrow_what_is_found() {
    let test = TestStore::new();
    let make = |project: &str, cwd: &str| {
        let new = NewSession::in_project(project)
            .cwd(cwd)
            .titled(format!("needle of {project}"));
        test.store.sessions().create(new).unwrap()
    };
    let (one, two) = (make("one", "/srv/one"), make("two", "/srv/two"));
    say(&one, "needle asked");
    use_tool(
        &one,
        "Edit",
        json!({"file_path": "/srv/one/src/lib.rs", "new": "needle in"}),
        "needle out",
    );
    use_tool(
        &one,
        "Bash",
        json!({"command": "grep needle"}),
        "no such thing",
    );
    one.messages()
        .append(NewMessage::assistant("needle answered"))
        .unwrap();
    say(&two, "needle elsewhere");
    let all = |query: SearchQuery| -> Vec<String> {
        let hits = search(&test.store, &query);
        let shown = hits.iter().map(|hit| {
            format!(
                "{} {} {}",
                hit.session.project_key,
                hit.role.as_str(),
                hit.tool.as_deref().unwrap_or("-")
            )
        });
        shown.collect()
    };
    let needle = || SearchQuery::new("needle");
    let of_tools = ["one input Bash", "one output Edit", "one input Edit"];
    assert_eq!(all(needle()).len(), 8);
    assert_eq!(all(needle().project("two")), ["two user -", "two title -"]);
    assert_eq!(all(needle().cwd("/srv/two")), ["two user -", "two title -"]);
    assert!(all(needle().cwd("/srv")).is_empty() && all(needle().project("none")).is_empty());
    assert_eq!(all(needle().session(two.key().clone())).len(), 2);
    assert_eq!(
        all(needle().role(SearchRole::User)),
        ["two user -", "one user -"]
    );
    assert_eq!(
        all(needle().role(SearchRole::Assistant)),
        ["one assistant -"]
    );
    assert_eq!(
        all(needle().role(SearchRole::Title)),
        ["two title -", "one title -"]
    );
    assert_eq!(
        all(needle()
            .role(SearchRole::ToolInput)
            .role(SearchRole::ToolOutput)),
        of_tools
    );
    assert_eq!(all(needle().tool("Edit")), of_tools[1..]);
    assert_eq!(
        all(needle().tool("Edit").role(SearchRole::ToolInput)),
        of_tools[2..]
    );
    for path in ["/srv/one/src/lib.rs", "lib.rs", "src/lib.rs", "/srv/one"] {
        assert_eq!(all(needle().path(path)), of_tools[1..], "{path}");
    }
    for path in [
        "b.rs",
        "rs",
        "lib",
        "src/main.rs",
        "one/lib.rs",
        "one/src",
        "Lib.rs",
    ] {
        assert_eq!(all(needle().path(path)).len(), 0, "{path}");
    }
    let wrong = needle().tool("Edit").role(SearchRole::User);
    assert_eq!(
        test.store.search(&wrong).unwrap_err().kind(),
        turnkeep::ErrorKind::Invalid
    );
    let gone = needle().session(turnkeep::SessionKey::new("one", "none").unwrap());
    assert_eq!(
        test.store.search(&gone).unwrap_err().kind(),
        turnkeep::ErrorKind::NotFound
    );
}

#[test]
fn all_that_is_looked_for_stands_where_it_is_asked_for() {
    let test = TestStore::new();
    let session = test.session();
    session
        .messages()
        .append(NewMessage::assistant(json!([
            {"type": "text", "text": "I look for the needle."},
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "grep hay"}}
        ])))
        .unwrap();
    let query = || SearchQuery::new("needle hay");
    assert_eq!(search(&test.store, &query()).len(), 1);
    assert!(search(&test.store, &query().role(SearchRole::Assistant)).is_empty());
    assert!(search(&test.store, &SearchQuery::new("needle").tool("Bash")).is_empty());
}

/// An entry said at a time.
fn at(uuid: &str, time: &str, text: &str) -> String {
    json!({"type": "user", "uuid": uuid, "timestamp": time, "message": {"role": "user", "content": text}}).to_string()
}

#[test]
fn the_newest_come_first_by_when_they_were_said_and_pages_fit_together() {
    let test = TestStore::new();
    let session = test.session();
    // Stored in another order than they were said, over several spans of ids.
    let count = 3000;
    let said: Vec<usize> = (0..count).map(|n| n * 1021 % count).collect();
    let time = |n: usize| {
        format!(
            "2026-01-{:02}T{:02}:{:02}:00Z",
            1 + n / 1440,
            n / 60 % 24,
            n % 60
        )
    };
    let entries = said
        .iter()
        .map(|n| at(&format!("u{n}"), &time(*n), "needle"));
    let entries: Vec<String> = entries.collect();
    session
        .write(|tx| tx.append_entries(&entries, &Default::default()))
        .unwrap();
    let query = || SearchQuery::new("needle");
    let first = search(&test.store, &query());
    let expected: Vec<String> = (0..20).map(|n| format!("u{}", count - 1 - n)).collect();
    assert_eq!(uuids(&first), expected);
    let mut all: Vec<String> = Vec::new();
    let mut next = None;
    loop {
        let mut query = query().limit(170);
        if let Some(cursor) = next {
            query = query.after(cursor);
        }
        let page = test.store.search(&query).unwrap();
        all.extend(page.hits.iter().map(|hit| hit.uuid.clone().unwrap()));
        // What is said meanwhile makes no page repeat or skip anything.
        say(&session, "needle again");
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..count).rev().map(|n| format!("u{n}")).collect();
    assert_eq!(all, expected);
    let begun = chrono_ms("2026-01-01T10:00:00Z");
    let hits = search(
        &test.store,
        &query().since_ms(begun).until_ms(begun + 180_000),
    );
    assert_eq!(uuids(&hits), ["u602", "u601", "u600"]);
}

fn chrono_ms(time: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(time)
        .unwrap()
        .timestamp_millis()
}

#[test]
fn the_best_come_first_if_asked_for_and_their_pages_fit_together() {
    let test = TestStore::new();
    let session = test.session();
    let best = say(&session, "needle needle needle");
    for n in 0..30 {
        say(&session, &format!("a needle in a lot of hay, number {n}"));
    }
    let mut query = SearchQuery::new("needle").ranked().limit(7);
    let mut all = Vec::new();
    loop {
        let page = test.store.search(&query).unwrap();
        assert!(page.hits.windows(2).all(|two| two[0].score <= two[1].score));
        all.extend(page.hits.iter().map(|hit| hit.uuid.clone().unwrap()));
        say(&session, "needle needle needle needle");
        match page.next {
            Some(next) => query = query.after(next),
            None => break,
        }
    }
    assert_eq!(all[0], best);
    assert_eq!(all.len(), 31);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 31);
    let mixed = SearchQuery::new("needle").after("best-1-1".parse().unwrap());
    assert_eq!(
        test.store.search(&mixed).unwrap_err().kind(),
        turnkeep::ErrorKind::Invalid
    );
}

#[test]
fn forks_do_not_multiply_what_is_found_b59() {
    let test = TestStore::new();
    let session = test.session();
    let prompt = say(&session, "needle in the origin");
    say(&session, "later");
    let fork = session.fork(&ForkOptions::new().up_to(&prompt)).unwrap();
    let second = fork.fork(&ForkOptions::new()).unwrap();
    let other = session.fork(&ForkOptions::new().up_to(&prompt)).unwrap();
    say(&fork, "needle in the fork");
    // Not in their titles, which are made of the first prompt.
    let needle = || SearchQuery::new("needle").role(SearchRole::User);
    let hits = search(&test.store, &needle());
    assert_eq!(hits.len(), 2);
    assert_eq!(hits[1].session, *session.key());
    let mut also: Vec<_> = hits[1].also_in.clone();
    also.sort();
    let mut forks = vec![
        fork.key().clone(),
        second.key().clone(),
        other.key().clone(),
    ];
    forks.sort();
    assert_eq!(also, forks);
    assert_eq!(hits[0].session, *fork.key());
    // Asked of a fork, what it inherits is found under the uuids it shows.
    let own = search(&test.store, &needle().session(fork.key().clone()));
    let shown = crate::kit::uuids(&fork);
    assert_eq!(uuids(&own), [shown[1].as_str(), shown[0].as_str()]);
    assert_eq!(own[1].also_in.len(), 3);
    let cut = search(
        &test.store,
        &SearchQuery::new("later").session(fork.key().clone()),
    );
    assert!(cut.is_empty());
    // What a fork shows of a deleted session is found there.
    session.delete().unwrap();
    let hits = search(
        &test.store,
        &SearchQuery::new("origin").role(SearchRole::User),
    );
    assert_eq!((hits.len(), &hits[0].session), (1, fork.key()));
    assert_eq!(hits[0].uuid.as_deref(), Some(shown[0].as_str()));
    assert!(search(&test.store, &SearchQuery::new("later")).is_empty());
    for fork in [fork, second, other] {
        fork.delete().unwrap();
    }
    assert!(search(&test.store, &SearchQuery::new("needle")).is_empty());
}

#[test]
fn what_left_the_conversation_is_left_out_if_asked_for() {
    let test = TestStore::new();
    let session = test.session();
    let first = say(&session, "needle first");
    let left = say(&session, "needle left");
    session.switch_to(&first).unwrap();
    let last = say(&session, "needle last");
    let active = search(&test.store, &SearchQuery::new("needle").active());
    assert_eq!(uuids(&active), [&last, &first]);
    let all = search(&test.store, &SearchQuery::new("needle"));
    assert!(uuids(&all).contains(&left.as_str()));
}

#[test]
fn a_title_given_again_is_found_once() {
    let test = TestStore::new();
    let session = test.session();
    for title in ["needle desk", "other", "needle desk", "needle desk two"] {
        session.rename(title).unwrap();
    }
    let titles: Vec<String> = found(&test.store, "needle");
    assert_eq!(titles, ["[needle] desk two", "[needle] desk"]);
}
