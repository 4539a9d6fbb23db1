//! What is found in real transcripts is what a naive look at every raw entry finds.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use turnkeep::{SearchQuery, Store};

use crate::kit::{TestStore, all_sessions};

const RUNS: [&str; 9] = [
    "compact_manual",
    "files_raw",
    "parallel",
    "resume_flags",
    "rewind_conversation_seen",
    "subagent_checkpoint",
    "subagent_foreground",
    "resume_at",
    "torn_tail",
];

/// The text of an entry, block by block.
fn texts(entry: &Value) -> Vec<String> {
    let kind = entry["type"].as_str().unwrap_or_default();
    if let Some(title) = entry["customTitle"]
        .as_str()
        .filter(|_| kind == "custom-title")
    {
        return vec![title.to_owned()];
    }
    if kind == "attachment" && entry["attachment"]["type"] == "queued_command" {
        return strings(&entry["attachment"]["prompt"]);
    }
    if !matches!(kind, "user" | "assistant") || kind == "user" && entry["isMeta"] == true {
        return Vec::new();
    }
    let content = &entry["message"]["content"];
    if let Some(text) = content.as_str() {
        return vec![text.to_owned()];
    }
    let blocks = content.as_array().into_iter().flatten();
    let text = |block: &Value| match block["type"].as_str()? {
        "text" => Some(block["text"].as_str()?.to_owned()),
        "tool_use" => {
            let mut all = vec![block["name"].as_str()?.to_owned()];
            all.extend(strings(&block["input"]));
            Some(all.join("\n"))
        }
        "tool_result" => match &block["content"] {
            Value::String(text) => Some(text.clone()),
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                Some(texts.collect::<Vec<_>>().join("\n"))
            }
            _ => None,
        },
        _ => None,
    };
    blocks.filter_map(text).collect()
}

/// All strings and numbers in a value.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Number(number) => vec![number.to_string()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}

fn split(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The words of a text in rows: all of them, and the humps of each identifier.
fn rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![split(text)];
    for word in text.split(|letter: char| !letter.is_alphanumeric()) {
        let letters: Vec<char> = word.chars().collect();
        let mut spaced = String::new();
        for (at, letter) in letters.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| letters[at]);
            let next = letters.get(at + 1);
            let rises = before.is_some_and(|before| !before.is_ascii_uppercase());
            let falls = before.is_some() && next.is_some_and(char::is_ascii_lowercase);
            if letter.is_ascii_uppercase() && (rises || falls) {
                spaced.push(' ');
            }
            spaced.push(*letter);
        }
        let humps = split(&spaced);
        if humps.len() > 1 {
            rows.push(humps);
        }
    }
    rows
}

struct Raw {
    /// The uuid of the message, of a copy that of its original.
    key: String,
    rows: Vec<Vec<String>>,
}

/// Every entry of a store with text in it.
fn raw(store: &Store) -> Vec<Raw> {
    let mut entries: Vec<Value> = Vec::new();
    for session in all_sessions(store) {
        for subpath in [vec![String::new()], session.subpaths().unwrap()].concat() {
            let Ok(lines) = session.transcript(&subpath) else {
                continue;
            };
            let texts = lines.iter().filter_map(|line| line.entry.as_deref());
            entries.extend(texts.map(|entry| serde_json::from_str::<Value>(entry).unwrap()));
        }
    }
    let uuids: HashSet<String> = entries
        .iter()
        .filter_map(|entry| entry["uuid"].as_str().map(String::from))
        .collect();
    let key = |entry: &Value| {
        let named = entry["forkedFrom"]["messageUuid"].as_str();
        let named = named.filter(|uuid| uuids.contains(*uuid));
        named.or(entry["uuid"].as_str()).map(String::from)
    };
    entries
        .iter()
        .filter_map(|entry| {
            let rows: Vec<_> = texts(entry).iter().flat_map(|text| rows(text)).collect();
            Some(Raw {
                key: key(entry)?,
                rows,
            })
        })
        .filter(|raw| raw.rows.iter().any(|row| !row.is_empty()))
        .collect()
}

/// All pages of what is found.
fn found(store: &Store, text: &str) -> Vec<String> {
    let mut query = SearchQuery::new(text).limit(13);
    let mut all = Vec::new();
    loop {
        let page = store.search(&query).unwrap();
        let uuids = page.hits.iter().map(|hit| hit.uuid.clone());
        all.extend(uuids.map(|uuid| uuid.unwrap_or_else(|| format!("no uuid for {text}"))));
        match page.next {
            Some(next) => query = query.after(next),
            None => return all,
        }
    }
}

#[test]
fn real_transcripts_are_found_as_by_looking_at_every_entry() {
    let mut asked = 0;
    for run in RUNS {
        let (test, _) = TestStore::with(&format!("transcripts/{run}"));
        let raw = raw(&test.store);
        let mut queries: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (number, row) in raw.iter().flat_map(|raw| &raw.rows).enumerate() {
            for (at, word) in row
                .iter()
                .enumerate()
                .filter(|(at, _)| (at + number) % 7 == 0)
            {
                queries.insert(word.clone(), vec![word.clone()]);
                let phrase = &row[at..row.len().min(at + 3)];
                queries.insert(format!("\"{}\"", phrase.join(" ")), phrase.to_vec());
            }
        }
        let step = (queries.len() / 60).max(1);
        for (text, words) in queries.iter().step_by(step) {
            let holds = |row: &Vec<String>| row.windows(words.len()).any(|there| there == words);
            let expected: BTreeSet<String> = raw
                .iter()
                .filter(|raw| raw.rows.iter().any(holds))
                .map(|raw| raw.key.clone())
                .collect();
            let mut found = found(&test.store, text);
            found.sort();
            let expected: Vec<String> = expected.into_iter().collect();
            assert_eq!(found, expected, "{run}: {text}");
            asked += 1;
        }
    }
    assert!(asked > 300, "{asked} queries");
}

#[test]
fn a_clients_copy_is_found_once_with_where_else_it_is() {
    for (run, origin) in [("resume_flags", "d68c4f87"), ("compact_manual", "63ee4573")] {
        let (test, _) = TestStore::with(&format!("transcripts/{run}"));
        let find = |name: &str| {
            test.store
                .sessions()
                .resolve(name, &Default::default())
                .unwrap()
        };
        let origin = find(origin);
        let page = test
            .store
            .search(&SearchQuery::new("TURN").limit(1000))
            .unwrap();
        let of_origin: Vec<_> = page
            .hits
            .iter()
            .filter(|hit| hit.session == *origin.key() && !hit.also_in.is_empty())
            .collect();
        assert!(!of_origin.is_empty(), "{run}");
        for hit in of_origin {
            for copy in &hit.also_in {
                let query = SearchQuery::new("TURN").session(copy.clone()).limit(1000);
                let there = test.store.search(&query).unwrap().hits;
                let shows = |there: &turnkeep::SearchHit| there.snippet == hit.snippet;
                assert!(there.iter().any(shows), "{run}: {copy}");
                assert!(there.iter().all(|hit| hit.session == *copy));
            }
        }
        // Once the original is gone, a copy stands for it.
        let before = page.hits.len();
        origin.delete().unwrap();
        let left = test
            .store
            .search(&SearchQuery::new("TURN").limit(1000))
            .unwrap()
            .hits;
        assert!(!left.is_empty() && left.len() <= before, "{run}");
        let mut uuids: Vec<_> = left.iter().map(|hit| &hit.uuid).collect();
        uuids.sort();
        uuids.dedup();
        assert_eq!(uuids.len(), left.len(), "{run}");
        assert!(left.iter().all(|hit| hit.session != *origin.key()));
    }
}
