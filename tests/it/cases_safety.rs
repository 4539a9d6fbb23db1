//! Reported faults of safety: an id is data, and never leads to a file.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use turnkeep::claude_code::export_config_folder;
use turnkeep::{AppendOptions, ErrorKind, NewMessage, NewSession, SessionKey, Store};

use crate::case::{checked, copy_folder, expect, folder, strings, transcript_in, user};
use crate::kit::{TestStore, import, tree};

#[test]
fn any_id_is_plain_data_or_refused_b128() {
    let test = TestStore::new();
    let files = |test: &TestStore| {
        let names = fs::read_dir(test.folder.path()).unwrap();
        let mut names: Vec<_> = names.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files(&test);
    let ids = ids();
    for id in &ids {
        let plain = |project: &str, session: &str| round_trip(&test.store, project, session);
        let outcomes = [plain(id, "session"), plain("project", id), plain(id, id)];
        for outcome in outcomes {
            assert_eq!(outcome.is_ok(), !id.is_empty(), "{id:?}: {outcome:?}");
            if let Err(refused) = outcome {
                assert_eq!(refused.kind(), ErrorKind::Invalid);
            }
        }
    }
    // Ids that differ in anything are different ids.
    let all = turnkeep::SessionFilter::new().all();
    let listed = test.store.sessions().list(&all, None, 1000).unwrap();
    assert_eq!(listed.sessions.len(), 3 * (ids.len() - 1));
    assert_eq!(files(&test), before, "a file was made");
    assert_eq!(test.store.verify().unwrap().findings, []);
}

/// Uses an id everywhere one can stand, and finds it as it was.
fn round_trip(store: &Store, project: &str, session: &str) -> turnkeep::Result<()> {
    let key = SessionKey::new(project, session)?;
    let new = NewSession::in_project(project).id(session);
    let made = store.sessions().create(new)?;
    let id = if session == "session" {
        project
    } else {
        session
    };
    made.write(|tx| {
        tx.append(NewMessage::user(id).uuid(id))?;
        let call = json!({"type": "tool_use", "id": id, "name": id, "input": {"path": id}});
        tx.append(NewMessage::assistant(json!([call])))?;
        tx.append(NewMessage::tool_result(id, id))
    })?;
    let entry = user(id, None, id).replace(
        r#""type":"user""#,
        &format!(r#""type":"user","agentId":{}"#, json!(id)),
    );
    let subpath = AppendOptions::new().to_subpath(id);
    made.messages().append_entries([&entry], &subpath)?;
    let found = store.sessions().get(&key)?;
    assert_eq!(found.key(), &key);
    assert_eq!(checked(&found.context("")?).len(), 3);
    assert_eq!(found.subpaths()?, [id]);
    let door = store.session_store();
    assert_eq!(door.load(&key.transcript(id))?, Some(vec![entry]));
    assert_eq!(door.list_subkeys(&key)?, [id]);
    let listed = door.list_sessions(project)?;
    assert!(listed.iter().any(|entry| entry.session_id == session));
    let resolved = store
        .sessions()
        .resolve(&key.to_string(), &Default::default())?;
    assert_eq!(resolved.key(), &key);
    Ok(())
}

#[test]
fn an_export_writes_nothing_outside_its_folder_b128() {
    let mut refused = 0;
    for id in ids().iter().filter(|id| !id.is_empty()) {
        for (project, session, subpath) in [
            (&id[..], "session", ""),
            ("project", id, ""),
            ("project", "session", id),
        ] {
            let test = TestStore::new();
            let out = test.path("a/b/c/out");
            fs::create_dir_all(&out).unwrap();
            let before = tree(test.folder.path());
            let new = NewSession::in_project(project).id(session);
            let made = test.store.sessions().create(new).unwrap();
            let options = AppendOptions::new().to_subpath(subpath);
            let entry = user("u1", None, "mine");
            made.messages().append_entries([&entry], &options).unwrap();
            let outcome = export_config_folder(&out, &[made]);
            if let Err(error) = &outcome {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            let after = tree(test.folder.path());
            let new: Vec<&String> = after
                .keys()
                .filter(|path| !before.contains_key(*path) && !path.starts_with("store.db"))
                .collect();
            let within = format!("a/b/c/out/projects/{project}/");
            for path in &new {
                assert!(path.starts_with(&within), "{id:?}: {path}");
                assert!(!path.contains(".."), "{id:?}: {path}");
            }
            assert!(new.len() <= 2, "{id:?}: {new:?}");
            if outcome.is_ok() {
                let written: Vec<u8> = new.iter().flat_map(|path| after[*path].clone()).collect();
                assert_eq!(written, format!("{entry}\n").into_bytes(), "{id:?}");
            }
        }
    }
    assert!(refused > 20, "{refused} were refused");
}

#[test]
fn an_export_does_not_follow_a_link_out_of_its_folder_b128() {
    let test = TestStore::new();
    let (out, outside) = (test.path("out"), test.path("outside"));
    fs::create_dir_all(out.join("projects/project")).unwrap();
    fs::write(&outside, "theirs").unwrap();
    symlink(&outside, out.join("projects/project/session.jsonl")).unwrap();
    let new = NewSession::in_project("project").id("session");
    let made = test.store.sessions().create(new).unwrap();
    made.messages().append(NewMessage::user("mine")).unwrap();
    // The file that the link leads to differs, so that it is a conflict; it is never written.
    let refused = export_config_folder(&out, &[made]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert_eq!(fs::read(&outside).unwrap(), b"theirs");
}

#[test]
fn records_that_name_paths_are_data_and_links_are_not_followed_b129() {
    let expected = expect("B129");
    let test = TestStore::new();
    let config = test.path("config");
    copy_folder(&folder("B129"), &config);
    let secret = test.path("secret");
    fs::write(&secret, "SECRET").unwrap();
    let transcript = transcript_in(&config);
    let id = transcript.file_stem().unwrap().to_str().unwrap();
    let backups = config.join("file-history").join(id);
    symlink(&secret, backups.join("aaaaaaaaaaaaaaaa@v1")).unwrap();
    symlink(test.folder.path(), backups.join("folder")).unwrap();
    assert!(strings(&expected["refused"]).contains(&"symlinked blob"));
    let report = import(&test.store, &config);
    // Both links are reported, and nothing of what they lead to was read.
    assert!(report.partial);
    let reported = |name: &str| {
        let mut problems = report.problems.iter();
        problems.any(|problem| problem.file.ends_with(name))
    };
    assert!(reported("aaaaaaaaaaaaaaaa@v1") && reported("folder"));
    // So are the records that lead elsewhere, beside the two links.
    assert_eq!(report.problems.len(), 2 + 3, "{:?}", report.problems);
    assert_eq!(report.file_backups, 2);
    let out = test.path("out");
    export_config_folder(&out, &[test.only_session()]).unwrap();
    let written = tree(&out);
    assert!(written.values().all(|bytes| bytes != b"SECRET"));
    // The records that name odd paths came in and go out as they are.
    let name = format!("projects/-srv-demo/{id}.jsonl");
    assert!(written[&name] == fs::read(&transcript).unwrap());
    assert_eq!(written.len(), 3, "{:?}", written.keys());
}

fn ids() -> Vec<String> {
    let text = fs::read_to_string(folder("B128").join("ids.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}
