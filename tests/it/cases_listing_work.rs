//! Reported faults of a list's cost: it follows the page, not the store.

use std::collections::HashSet;

use turnkeep::{
    Cursor, Durability, NewMessage, NewSession, OpenOptions, SessionFilter, SessionInfo, Store,
};

#[cfg(target_os = "linux")]
#[test]
fn the_cost_of_a_page_does_not_grow_with_the_store_b68() {
    use crate::cases_size::bytes_read;
    let cost = |sessions: usize| -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        fill(&path, sessions);
        let last = {
            let store = Store::open(&path).unwrap();
            pages(&store, &SessionFilter::new(), 100).1
        };
        let filters = [
            (SessionFilter::new(), None),
            (SessionFilter::new(), last),
            (SessionFilter::new().project("project 3"), None),
            (SessionFilter::new().cwd("/srv/3"), None),
            (
                SessionFilter::new().project("project 3").text("title"),
                None,
            ),
        ];
        let mut costs = Vec::new();
        for (filter, after) in filters {
            // A store opened anew has nothing in its memory.
            let store = Store::open(&path).unwrap();
            costs.push(bytes_read(|| {
                let page = store.sessions().list(&filter, after, 20).unwrap();
                assert_eq!(page.sessions.len(), 20);
            }));
        }
        costs
    };
    let (small, large) = (cost(300), cost(3000));
    for (small, large) in small.iter().zip(&large) {
        assert!(*large < small * 2, "{small} bytes became {large}");
    }
}

#[test]
fn pages_are_whole_and_stable_while_others_append_b68() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = fill(&path, 400);
    let (all, _) = pages(&store, &SessionFilter::new(), 400);
    assert_eq!(all.len(), 400);
    let newest = |infos: &[SessionInfo]| {
        let times: Vec<i64> = infos.iter().map(|info| info.last_modified_ms).collect();
        times.is_sorted_by(|one, next| one >= next)
    };
    assert!(newest(&all));

    let other = Store::open(&path).unwrap();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.sessions().list(&SessionFilter::new(), after, 20);
        let page = page.unwrap();
        seen.extend(page.sessions);
        // Sessions already seen become the newest ones, and a new one appears.
        let again = other.sessions().get(&seen[seen.len() - 1].key()).unwrap();
        again.messages().append(NewMessage::user("more")).unwrap();
        let new = NewSession::in_project("new").titled("new");
        other.sessions().create(new).unwrap();
        after = page.next;
        if after.is_none() {
            break;
        }
        // A cursor is text for whoever pages over a wire.
        after = Some(after.unwrap().to_string().parse().unwrap());
    }
    let keys: Vec<_> = seen.iter().map(SessionInfo::key).collect();
    let distinct: HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "none twice");
    let missing = all.iter().filter(|info| !distinct.contains(&info.key()));
    assert_eq!(missing.count(), 0, "none skipped");
}

#[test]
fn filters_find_what_they_name_and_no_more_b68() {
    let folder = tempfile::tempdir().unwrap();
    let store = fill(&folder.path().join("store.db"), 100);
    let count = |filter: &SessionFilter| pages(&store, filter, 7).0.len();
    assert_eq!(count(&SessionFilter::new().project("project 3")), 10);
    assert_eq!(count(&SessionFilter::new().project("project")), 0);
    assert_eq!(count(&SessionFilter::new().cwd("/srv/3")), 10);
    assert_eq!(count(&SessionFilter::new().text("TITLE 42")), 1);
    assert_eq!(count(&SessionFilter::new().text("title 4_")), 0);
    assert_eq!(count(&SessionFilter::new().text("%")), 0);
    assert_eq!(count(&SessionFilter::new().tag("even")), 50);
    let times: Vec<i64> = pages(&store, &SessionFilter::new(), 100)
        .0
        .iter()
        .map(|info| info.last_modified_ms)
        .collect();
    let since = SessionFilter::new().since_ms(times[10]);
    let until = SessionFilter::new().until_ms(times[10]);
    assert_eq!(count(&since) + count(&until), 100);
}

/// A store with sessions of ten projects, each with some messages.
fn fill(path: &std::path::Path, sessions: usize) -> Store {
    let options = OpenOptions::new().durability(Durability::Normal);
    let store = Store::open_with(path, &options).unwrap();
    for at in 0..sessions {
        let project = at % 10;
        let mut new = NewSession::in_project(format!("project {project}"))
            .id(format!("session {at}"))
            .cwd(format!("/srv/{project}"))
            .titled(format!("title {at} of many"));
        if at % 2 == 0 {
            new = new.tagged("even");
        }
        let session = store.sessions().create(new).unwrap();
        let text = "long ".repeat(200);
        session.messages().append(NewMessage::user(text)).unwrap();
    }
    store
}

/// All pages of a list, and where the last one began.
fn pages(store: &Store, filter: &SessionFilter, size: usize) -> (Vec<SessionInfo>, Option<Cursor>) {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = store.sessions().list(filter, after, size).unwrap();
        assert!(page.sessions.len() <= size);
        all.extend(page.sessions);
        if page.next.is_none() {
            return (all, after);
        }
        after = page.next;
    }
}
