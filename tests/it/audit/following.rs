//! What is listed first, and what a follower of a store is told.

use turnkeep::{ChangeFilter, ForkOptions, NewsCursor};

use super::small::Desk;
use crate::kit::{TestStore, fixture_path, import};

#[test]
fn imported_changes_stand_where_they_were_made_and_not_where_they_were_stored() {
    let test = TestStore::new();
    // The first one imported is the last one run.
    for run in ["subagent_foreground", "files_sdk", "files_raw", "resume_at"] {
        import(&test.store, &fixture_path(&format!("transcripts/{run}")));
    }
    let audit = test.store.audit();
    let filter = ChangeFilter::new();
    let all = audit.changes(&filter, None, 1_000).unwrap().changes;
    assert!(all.len() > 8, "{}", all.len());
    assert!(all.is_sorted_by_key(|change| std::cmp::Reverse((change.at_ms, change.id))));
    assert!(!all.is_sorted_by_key(|change| std::cmp::Reverse(change.id)));
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = audit.changes(&filter, after, 3).unwrap();
        paged.extend(page.changes);
        after = page.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
}

#[test]
fn a_follower_hears_of_titles_forks_rewinds_and_deletions() {
    let desk = Desk::new();
    let audit = desk.store.audit();
    let filter = ChangeFilter::new();
    let mut cursor = audit.now().unwrap();
    let mut look = |filter: &ChangeFilter| {
        let news = audit.news(&cursor, filter, 100).unwrap();
        cursor = news.cursor.to_string().parse::<NewsCursor>().unwrap();
        assert!(!news.has_more);
        news
    };
    let session = desk.session("a");
    let prompt = desk.prompt(&session, "go");
    let told = look(&filter);
    let kinds = |news: &turnkeep::News| -> Vec<(String, String)> {
        let operations = news.operations.iter().flatten();
        operations
            .map(|new| (new.session.session_id.clone(), new.operation.kind.clone()))
            .collect()
    };
    assert_eq!(kinds(&told), [("a".to_owned(), "create".to_owned())]);
    assert_eq!(told.entries.unwrap()[0].uuid.as_deref(), Some(&*prompt));

    session.rename("the desk").unwrap();
    let fork = session.fork(&ForkOptions::new()).unwrap();
    let told = look(&filter);
    let titles: Vec<_> = told
        .entries
        .iter()
        .flatten()
        .map(|new| &*new.kind)
        .collect();
    assert!(titles.contains(&"custom-title"), "{titles:?}");
    assert!(told.entries.iter().flatten().all(|new| new.uuid.is_none()));
    assert!(kinds(&told).contains(&(fork.id().to_owned(), "fork".to_owned())));

    fork.delete().unwrap();
    let told = look(&filter);
    assert_eq!(kinds(&told), [(fork.id().to_owned(), "delete".to_owned())]);
    assert_eq!(told.entries.unwrap(), []);

    // Nothing again; and of another time, or of a path, nothing that is not asked for.
    assert_eq!(kinds(&look(&filter)), []);
    desk.prompt(&session, "more");
    let before = audit.now().unwrap();
    let old = ChangeFilter::new().until_ms(1_000);
    let of_then = audit.news(&cursor, &old, 100).unwrap();
    assert_eq!(
        (of_then.entries.unwrap(), of_then.operations.unwrap()),
        (vec![], vec![])
    );
    let of_path = ChangeFilter::new().path(desk.path("f"));
    let of_path = audit.news(&cursor, &of_path, 100).unwrap();
    assert_eq!((of_path.entries, of_path.operations), (None, None));
    assert_eq!((of_then.cursor, of_path.cursor), (before.clone(), before));
}

#[test]
fn a_follower_of_one_tool_hears_of_captures_that_came_before_their_call() {
    let desk = Desk::new();
    let audit = desk.store.audit();
    let session = desk.session("a");
    let of = |tool: &str| ChangeFilter::new().tool(tool);
    let start = audit.now().unwrap();
    // One that is not over, and one that is, ahead of both calls.
    for id in ["one", "two"] {
        session.files().before(id, [desk.path(id)]).unwrap();
    }
    std::fs::write(desk.path("two"), "2\n").unwrap();
    session.files().after("two", [desk.path("two")]).unwrap();
    let first = audit.news(&start, &of("Write"), 9).unwrap();
    assert_eq!(first.changes, []);
    let blocks = serde_json::json!([
        {"type": "tool_use", "id": "one", "name": "Write", "input": {}},
        {"type": "tool_use", "id": "two", "name": "Edit", "input": {}},
    ]);
    session
        .messages()
        .append(turnkeep::NewMessage::assistant(blocks))
        .unwrap();
    std::fs::write(desk.path("one"), "1\n").unwrap();
    session.files().after("one", [desk.path("one")]).unwrap();
    let names = |tool: &str| -> Vec<String> {
        let told = audit.news(&first.cursor, &of(tool), 9).unwrap().changes;
        told.iter()
            .map(|change| change.call.as_ref().unwrap().id.clone())
            .collect()
    };
    assert_eq!(names("Write"), ["one"]);
    assert_eq!(names("Edit"), ["two"]);
    assert_eq!(names("Bash"), Vec::<String>::new());
    let forged: NewsCursor = "c2-m1-p1-o1.1.2.2".parse().unwrap();
    let told = audit
        .news(&forged, &ChangeFilter::new(), 9)
        .unwrap()
        .changes;
    assert_eq!(told.len(), 2);
}
