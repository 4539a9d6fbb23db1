//! Reported faults of identity and listing: the right session, once, where it belongs.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OpenFlags};
use turnkeep::claude_code::project_key_for;
use turnkeep::{
    AppendOptions, ErrorKind, NewMessage, NewSession, Scope, SessionFilter, SessionInfo, Store,
};

use crate::case::{
    Case, assistant, copy_folder, expect, field, folder, spoken, strings, transcript_in, user,
};
use crate::kit::{TestStore, import, tree};

#[test]
fn continuing_goes_by_the_last_message_and_not_by_file_times_b60() {
    let expected = expect("B60");
    let test = TestStore::new();
    let config = test.path("config");
    copy_folder(&folder("B60"), &config);
    let mine = expected["resume_stored_id"].as_str().unwrap();
    let sessions = strings(&expected["sessions"]);
    let peer = sessions.iter().find(|id| **id != mine).unwrap();
    let project = config.join("projects/-srv-demo");
    // The peer's file and the sub-agents' are the newest.
    let hours =
        |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_326_400 + hours * 3600);
    touch(&project.join(format!("{mine}.jsonl")), hours(0));
    for newest in [
        format!("{peer}.jsonl"),
        format!("{mine}/subagents/agent-a0ff1ce.jsonl"),
        "agent-0badf00d.jsonl".to_owned(),
    ] {
        touch(&project.join(newest), hours(20));
    }
    assert_eq!(expected["mtime_ignored"], true);
    import(&test.store, &config);
    let mut listed: Vec<String> = list(&test.store, &SessionFilter::new())
        .into_iter()
        .map(|info| info.session_id)
        .collect();
    listed.sort();
    assert_eq!(listed, sessions);
    let last = |scope: &Scope| {
        let found = test.store.sessions().resolve("@last", scope).unwrap();
        found.id().to_owned()
    };
    let here = Scope {
        project_key: Some("-srv-demo".to_owned()),
        cwd: None,
    };
    // Both end at the same time: the one stored last is the newer one.
    assert_eq!(last(&here), mine);
    // An id that was kept is that session, whatever is fresher.
    for id in [mine, peer] {
        let found = test.store.sessions().resolve(id, &here).unwrap();
        assert_eq!(found.id(), id);
    }
    // Bookkeeping and sub-agents do not make a session newer; a message does.
    let peer = test.store.sessions().resolve(peer, &here).unwrap();
    peer.messages().append(NewMessage::user("hello")).unwrap();
    assert_eq!(last(&here), peer.id());
    let mine = test.store.sessions().resolve(mine, &here).unwrap();
    let aside = AppendOptions::new().to_subpath("subagents/agent-x");
    let entry = user("x1", None, "aside");
    mine.messages().append_entries([entry], &aside).unwrap();
    assert_eq!(last(&here), peer.id());
    let other = Scope {
        project_key: Some("-srv-other".to_owned()),
        cwd: None,
    };
    let none = test.store.sessions().resolve("@last", &other);
    assert_eq!(none.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn continuing_finds_a_session_of_any_entry_point_and_makes_none_b61() {
    let test = TestStore::new();
    let sessions = test.store.sessions();
    let none = sessions.resolve("@last", &Scope::default()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound);
    let count = || list(&test.store, &SessionFilter::new().all()).len();
    assert_eq!(count(), 0);
    let key = turnkeep::TranscriptKey::main("p", "made-by-sdk").unwrap();
    let entry = user("u1", None, "hi")
        .replace(r#""type":"user""#, r#""type":"user","entrypoint":"sdk-py""#);
    test.store.session_store().append(&key, [entry]).unwrap();
    let found = sessions.resolve("@last", &Scope::default()).unwrap();
    assert_eq!(found.id(), "made-by-sdk");
    assert_eq!(found.info().unwrap().entrypoint.as_deref(), Some("sdk-py"));
    for missing in ["no-such-id", "p/no-such-id", "no such title"] {
        let outcome = sessions.resolve(missing, &Scope::default());
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(count(), 1);
}

#[test]
fn folders_that_share_a_key_keep_their_sessions_apart_b62() {
    let case = Case::import("B62");
    let by_cwd = case.expect["list_by_cwd"].as_object().unwrap();
    let in_folder = |cwd: &str| list(&case.test.store, &SessionFilter::new().cwd(cwd));
    for (cwd, count) in by_cwd {
        let found = in_folder(cwd);
        assert_eq!(*count, found.len(), "{cwd}");
        assert_eq!(found[0].cwd.as_deref(), Some(&cwd[..]));
        let scope = Scope {
            project_key: None,
            cwd: Some(cwd.clone()),
        };
        let last = case.test.store.sessions().resolve("@last", &scope).unwrap();
        assert_eq!(last.id(), found[0].session_id);
    }
    // What is done to one is not done to the others of its key.
    let (first, _) = by_cwd.iter().next().unwrap();
    let gone = in_folder(first).remove(0);
    let session = case.test.store.sessions().get(&gone.key()).unwrap();
    session.delete().unwrap();
    for (cwd, count) in by_cwd {
        let left = if cwd == first {
            0
        } else {
            count.as_u64().unwrap()
        };
        assert_eq!(in_folder(cwd).len() as u64, left, "{cwd}");
    }
    assert_eq!(case.test.store.verify().unwrap().findings, []);
}

#[test]
fn long_paths_have_keys_of_their_own_b64() {
    let expected = expect("B64");
    let text = fs::read_to_string(folder("B64").join("paths.json")).unwrap();
    let paths: serde_json::Value = serde_json::from_str(&text).unwrap();
    let key = |name: &str| project_key_for(paths[name].as_str().unwrap());
    assert_eq!(key("len200").len(), 200);
    let differs = key("len201") != key("len200");
    assert_eq!(expected["len201_differs_from_len200"], differs);
    assert!(key("len201").len() > 201 && key("len262").len() > 201);
    // A character outside the BMP counts as two.
    assert!(key("astral").starts_with("-srv---bbb"));
    let twins = strings(&paths["same_first_200"]);
    let keys: Vec<String> = twins.iter().map(|path| project_key_for(path)).collect();
    assert_eq!(keys[0][..200], keys[1][..200]);
    assert_eq!(expected["same_first_200_are_two_projects"], true);
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn a_long_path_is_found_by_what_the_entries_say_b64() {
    let text = fs::read_to_string(folder("B64").join("paths.json")).unwrap();
    let paths: serde_json::Value = serde_json::from_str(&text).unwrap();
    let test = TestStore::new();
    let mut all: Vec<&str> = ["len200", "len201", "len262", "astral"]
        .iter()
        .map(|name| paths[*name].as_str().unwrap())
        .collect();
    all.extend(strings(&paths["same_first_200"]));
    for (at, path) in all.iter().enumerate() {
        // Under a name that says nothing of the path, as other clients' folders have.
        let project = test.path(&format!("config/projects/folder-{at}"));
        fs::create_dir_all(&project).unwrap();
        let id = format!("b64b64b6-0000-4000-8000-{at:012}");
        let entry = user("u1", None, "hi").replace("/srv/demo", path);
        fs::write(project.join(format!("{id}.jsonl")), entry + "\n").unwrap();
    }
    import(&test.store, &test.path("config"));
    for (at, path) in all.iter().enumerate() {
        let found = list(&test.store, &SessionFilter::new().cwd(*path));
        let ids: Vec<&str> = found.iter().map(|info| &info.session_id[..]).collect();
        assert_eq!(ids, [format!("b64b64b6-0000-4000-8000-{at:012}")], "{path}");
    }
}

#[test]
fn sub_agents_transcripts_are_no_sessions_b65() {
    let case = Case::import("B65");
    let session = case.session();
    assert_eq!([session.id()][..], strings(&case.expect["sessions"])[..]);
    let entries = session.info().unwrap().entries;
    assert_eq!(case.expect["main_entries"], entries);
    let subpaths = session.subpaths().unwrap();
    assert_eq!(subpaths, strings(&case.expect["subkeys"]));
    let door = case.test.store.session_store();
    assert_eq!(door.list_subkeys(session.key()).unwrap(), subpaths);
    for subpath in &subpaths {
        let conversation = session.conversation(subpath).unwrap();
        assert_eq!(case.expect["sub_entries"], spoken(&conversation).len());
    }
    let main = session.conversation("").unwrap();
    assert_eq!(spoken(&main).len(), 4);
    // One of them, imported by itself, goes to the same place.
    let agent = folder("B65").join("projects/-srv-demo").join(session.id());
    let again = import(&case.test.store, &agent.join("subagents/agent-a1.jsonl"));
    assert_eq!(again.new_entries, 0);
    assert_eq!(case.session().subpaths().unwrap(), subpaths);
}

#[test]
fn a_stale_index_beside_the_transcripts_is_not_believed_b67() {
    let test = TestStore::new();
    let config = test.path("config");
    copy_folder(&folder("B01"), &config);
    let project = transcript_in(&config).parent().unwrap().to_owned();
    let stale = serde_json::json!({"version": 1, "entries": [
        {"sessionId": "00000000-0000-4000-8000-000000000067", "fullPath": "/gone.jsonl",
         "messageCount": 9000, "summary": "of a session that is not there"},
    ]});
    fs::write(project.join("sessions-index.json"), stale.to_string()).unwrap();
    let report = import(&test.store, &config);
    assert!(!report.partial, "{:?}", report.problems);
    let session = test.only_session();
    let id = transcript_in(&config);
    assert_eq!(session.id(), id.file_stem().unwrap().to_str().unwrap());
    let info = session.info().unwrap();
    assert_eq!((info.entries, info.messages), (6, 6));
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn opening_and_reading_rewrites_nothing_b72() {
    let (test, _) = TestStore::with("transcripts/subagent_foreground");
    let sources = [folder("B62"), folder("B05"), folder("B21")];
    for source in &sources {
        import(&test.store, source);
    }
    let path = test.store.path().to_owned();
    let listed = list(&test.store, &SessionFilter::new().all());
    let folder = test.folder;
    drop(test.store);
    let bytes = tree(folder.path());
    let rows = dump(&path);
    for _ in 0..2 {
        let store = Store::open(&path).unwrap();
        assert_eq!(list(&store, &SessionFilter::new().all()), listed);
        for info in &listed {
            let session = store.sessions().get(&info.key()).unwrap();
            assert_eq!(session.info().unwrap(), *info);
            session.transcript("").unwrap();
            session.conversation("").unwrap();
            session.context("").unwrap();
            let new = NewSession::with_key(info.key());
            store.sessions().get_or_create(new).unwrap();
        }
        assert_eq!(store.notes(), [] as [String; 0]);
        drop(store);
        assert!(tree(folder.path()) == bytes, "a file was changed");
    }
    assert_eq!(dump(&path), rows);
}

#[test]
fn of_two_writers_at_one_leaf_the_second_is_told_b74() {
    let test = TestStore::new();
    let other = Store::open(test.store.path()).unwrap();
    let new = || NewSession::in_project("p").id("s");
    let mine = test.store.sessions().create(new()).unwrap();
    let theirs = other.sessions().get_or_create(new()).unwrap();
    let leaf = mine.messages().append(NewMessage::user("begin")).unwrap();
    let at_leaf = AppendOptions::new().expect_head(&leaf.uuid);

    let first = NewMessage::assistant("mine").uuid("a1");
    mine.messages().append_with(first, &at_leaf).unwrap();
    let second = NewMessage::assistant("theirs").uuid("b1");
    let refused = theirs.messages().append_with(second, &at_leaf).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("`a1`"), "{refused}");
    assert_eq!(mine.info().unwrap().entries, 2, "nothing was stored");
    // The same through the raw door, where a half turn is refused as a whole.
    let turn = [
        assistant("b1", Some(&leaf.uuid), "theirs"),
        user("b2", Some("b1"), "more"),
    ];
    let refused = theirs.messages().append_entries(&turn, &at_leaf);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(mine.info().unwrap().entries, 2, "nothing was stored");
    // Without an expectation both are kept, as branches that are whole.
    let stored = theirs
        .messages()
        .append_entries(&turn, &AppendOptions::new())
        .unwrap();
    assert_eq!((stored.stored, stored.head.as_deref()), (2, Some("b2")));
    let conversation = mine.conversation("").unwrap();
    assert_eq!(spoken(&conversation), [&leaf.uuid[..], "b1", "b2"]);
    let all: Vec<String> = mine
        .transcript("")
        .unwrap()
        .iter()
        .filter_map(|line| field(line.entry.as_deref()?, "uuid"))
        .collect();
    assert_eq!(all, [&leaf.uuid[..], "a1", "b1", "b2"]);
    let empty = AppendOptions::new().expect_empty();
    let late = mine.messages().append_with(NewMessage::user("x"), &empty);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
}

fn list(store: &Store, filter: &SessionFilter) -> Vec<SessionInfo> {
    let page = store.sessions().list(filter, None, 1000).unwrap();
    assert!(page.next.is_none());
    page.sessions
}

fn touch(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// Every column of every session's row.
fn dump(path: &Path) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let file = Connection::open_with_flags(path, flags).unwrap();
    let mut rows = file.prepare("SELECT * FROM sessions ORDER BY id").unwrap();
    let columns = rows.column_count();
    let rows = rows.query_map([], |row| {
        let values = (0..columns).map(|at| row.get_ref(at).map(|value| format!("{value:?}")));
        Ok(values.collect::<Result<Vec<_>, _>>()?.join("|"))
    });
    rows.unwrap().map(|row| row.unwrap()).collect()
}
