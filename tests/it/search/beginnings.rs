//! Beginnings of a few letters are looked for in the newest messages themselves, and in the index only
//! where too few of these answer: what is found is the same.

use serde_json::json;
use turnkeep::{NewSession, SearchQuery, SearchRole, Store};

use crate::kit::TestStore;

const COUNT: usize = 2_400;

struct Said {
    uuid: String,
    session: usize,
    is_prompt: bool,
    text: String,
    /// In seconds.
    time: usize,
}

/// Three sessions, stored one after another, of one time: ids tell nothing of that.
fn fill(store: &Store) -> Vec<Said> {
    let mut all = Vec::new();
    for session in 0..3 {
        let new = NewSession::in_project(format!("p{session}")).id(format!("s{session}"));
        let desk = store.sessions().create(new).unwrap();
        for number in 0..COUNT / 3 {
            let at = session * COUNT / 3 + number;
            let text = match number {
                // One in two, one in eight, one in two hundred, and once.
                _ if at % 200 == 7 => format!("the zebra {at}"),
                _ if at % 8 == 3 => format!("a myValue of {at}"),
                5 if session == 0 => "quokka".to_owned(),
                _ if at.is_multiple_of(2) => format!("order {at} Ördnung"),
                _ => format!("plain {at}"),
            };
            all.push(Said {
                uuid: format!("u{at}"),
                session,
                is_prompt: !at.is_multiple_of(3),
                text,
                time: number * 3 + session,
            });
        }
        let own = all.iter().filter(|said| said.session == session);
        let entries: Vec<String> = own.map(entry).collect();
        desk.write(|tx| tx.append_entries(&entries, &Default::default()))
            .unwrap();
    }
    store
        .index_search(std::time::Duration::from_secs(60))
        .unwrap();
    all.sort_by_key(|said| std::cmp::Reverse(said.time));
    all
}

fn entry(said: &Said) -> String {
    let (minute, second) = (said.time / 60, said.time % 60);
    let time = format!(
        "2026-01-01T{:02}:{:02}:{second:02}Z",
        minute / 60,
        minute % 60
    );
    let role = if said.is_prompt { "user" } else { "assistant" };
    json!({
        "type": role, "uuid": said.uuid, "timestamp": time,
        "message": {"role": role, "content": [{"type": "text", "text": said.text}]},
    })
    .to_string()
}

#[test]
fn any_number_of_hits_may_be_asked_for() {
    let test = TestStore::new();
    let all = fill(&test.store);
    let plain = all.iter().filter(|said| said.text.starts_with("plain"));
    let count = plain.count();
    for text in ["plain", "pl*"] {
        for query in [SearchQuery::new(text), SearchQuery::new(text).ranked()] {
            let found = |limit: usize| {
                let page = test.store.search(&query.clone().limit(limit)).unwrap();
                (page.hits.len(), page.next.is_some())
            };
            assert_eq!(found(usize::MAX), (count, false), "{text}");
            assert_eq!(found(usize::MAX - 1), (count, false), "{text}");
            assert_eq!(found(0), (1, true), "{text}");
        }
    }
}

/// All pages of what is found, of 30 hits each.
fn pages(store: &Store, query: impl Fn() -> SearchQuery) -> Vec<String> {
    let (mut all, mut next) = (Vec::new(), None);
    loop {
        let mut query = query().limit(30);
        if let Some(cursor) = next {
            query = query.after(cursor);
        }
        let page = store.search(&query).unwrap();
        all.extend(page.hits.into_iter().map(|hit| hit.uuid.unwrap()));
        next = page.next;
        if next.is_none() {
            return all;
        }
    }
}

#[test]
fn they_are_found_wherever_they_are_looked_for() {
    let test = TestStore::new();
    let all = fill(&test.store);
    let uuids = |means: &dyn Fn(&Said) -> bool| -> Vec<String> {
        let meant = all.iter().filter(|said| means(said));
        meant.map(|said| said.uuid.clone()).collect()
    };
    for (text, begins) in [
        ("or*", "order"),
        ("o*", "o"),
        ("ord*", "ord"),
        ("örd*", "order"),
        ("ze*", "zebra"),
        ("q*", "quokka"),
        ("val*", "myValue"),
        ("myV*", "myValue"),
        ("\"order 1\"*", "order 1"),
        ("no*", "nothing"),
    ] {
        let holds = |said: &Said| {
            said.text.starts_with(begins) || said.text.contains(&format!(" {begins}"))
        };
        let query = || SearchQuery::new(text);
        assert_eq!(pages(&test.store, query), uuids(&holds), "{text}");
        let sorted = |mut uuids: Vec<String>| {
            uuids.sort();
            uuids
        };
        let ranked = pages(&test.store, || query().ranked());
        assert_eq!(sorted(ranked), sorted(uuids(&holds)), "{text} ranked");
        let of_project = || query().project("p1");
        let wanted = uuids(&|said| said.session == 1 && holds(said));
        assert_eq!(pages(&test.store, of_project), wanted, "{text} of p1");
        let of_role = || query().role(SearchRole::Assistant);
        let wanted = uuids(&|said| !said.is_prompt && holds(said));
        assert_eq!(pages(&test.store, of_role), wanted, "{text} of answers");
        // With another word that only the index knows of.
        let both = format!("{text} 1207");
        let wanted = uuids(&|said| said.text.contains("1207") && holds(said));
        let both = || SearchQuery::new(both.as_str());
        assert_eq!(pages(&test.store, both), wanted, "{text} and more");
    }
}

#[test]
fn the_best_of_an_old_time_are_found_however_many_are_newer() {
    let test = TestStore::new();
    let session = test.session();
    let said = |number: usize| Said {
        uuid: format!("u{number}"),
        session: 0,
        is_prompt: true,
        text: match number {
            50 => "order order order".to_owned(),
            _ => format!("one order more than {number}"),
        },
        time: number,
    };
    let entries: Vec<String> = (0..11_500).map(|number| entry(&said(number))).collect();
    session
        .write(|tx| tx.append_entries(&entries, &Default::default()))
        .unwrap();
    let store = &test.store;
    store
        .index_search(std::time::Duration::from_secs(60))
        .unwrap();
    for text in ["order", "or*"] {
        let query = || SearchQuery::new(text).ranked();
        // 2026-01-01T00:01:40Z: the first hundred.
        let old = store.search(&query().until_ms(1_767_225_700_000)).unwrap();
        assert_eq!(old.hits[0].uuid.as_deref(), Some("u50"), "{text}");
        assert_eq!(old.hits.len(), 20);
        let new = store.search(&query()).unwrap();
        assert!(
            new.hits
                .iter()
                .all(|hit| hit.uuid.as_deref() != Some("u50"))
        );
    }
}
