//! Blame as Agent Trace records, case by case.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use turnkeep::agent_trace::{self, TraceOptions, Vcs};
use turnkeep::{
    AppendOptions, ErrorKind, FileOptions, NewMessage, Session, Store, ToolRef, WatchOptions,
};

use super::small::Desk;
use super::trace_form::{Conversation, Record};

pub fn record(store: &Store, options: &TraceOptions) -> Record {
    Record::of(&agent_trace::record(store, options).unwrap())
}

fn of(desk: &Desk) -> Record {
    record(&desk.store, &TraceOptions::below(desk.path("")))
}

/// What is left out, with the kind of reason.
pub fn left_out(record: &Record) -> Vec<(String, String)> {
    let left = record.metadata["turnkeep"]["left_out"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let told = left
        .iter()
        .map(|left| (word(&left["path"]), word(&left["kind"])));
    told.collect()
}

/// The end of an address of something in a session of the project `shop`.
pub fn within(session: &str, what: &str) -> String {
    format!("turnkeep:sessions/shop/{session}/{what}")
}

/// Who wrote a conversation's lines, in a word: an agent's session, or why nobody is named.
pub fn said(conversation: &Conversation) -> &str {
    match &conversation.url {
        Some(url) => url.strip_prefix("turnkeep:sessions/").unwrap(),
        None => conversation.related("origin")[0]
            .strip_prefix("turnkeep:origins/")
            .unwrap(),
    }
}

/// The lines of a file of the record, each with who wrote it.
fn lines(record: &Record, name: &str) -> Vec<String> {
    let file = record.files.iter().find(|file| file.path == name).unwrap();
    let writers = file.writers();
    writers
        .into_iter()
        .map(|told| said(told).to_owned())
        .collect()
}

/// A call of a response that names its model, and what it does.
fn call(session: &Session, id: &str, model: &str, path: &Path, work: impl FnOnce()) {
    let response = json!({"id": id, "role": "assistant", "model": model,
        "content": [{"type": "tool_use", "id": id, "name": "Write", "input": {}}]});
    let messages = session.messages();
    messages.append(NewMessage::response(&response)).unwrap();
    session.files().before(id, [path]).unwrap();
    work();
    session.files().after(id, [path]).unwrap();
    messages
        .append(NewMessage::tool_result(id, "done"))
        .unwrap();
}

#[test]
fn a_conversation_is_what_one_agent_wrote_in_one_turn_with_one_model() {
    let desk = Desk::new();
    let session = desk.session("a");
    let path = desk.path("f");
    let write = |id: &str, model: &str, text: &str| {
        call(&session, id, model, &path, || {
            fs::write(&path, text).unwrap();
        });
    };
    let first = desk.prompt(&session, "one");
    write("t1", "claude-x", "1\n");
    write("t2", "gpt-5", "1\n2\n");
    write("t3", "claude-x", "1\n2\n3\n4\n");
    let second = desk.prompt(&session, "two");
    write("t4", "claude-x", "1\n2\n3\n4\n5\n");
    write("t5", "<synthetic>", "1\n2\n3\n4\n5\n6\n");
    write("t6", &"m".repeat(251), "1\n2\n3\n4\n5\n6\nno end");
    let told = of(&desk);
    let file = &told.files[0];
    file.assert_holds(b"1\n2\n3\n4\n5\n6\nno end");
    let told: Vec<_> = file
        .conversations
        .iter()
        .map(|told| {
            assert_eq!(told.url.as_deref(), Some("turnkeep:sessions/shop/a"));
            let ranges = told.ranges.iter();
            let ranges: Vec<_> = ranges
                .map(|range| (range.start_line, range.end_line))
                .collect();
            let calls = told.related("tool_call");
            let prompt = told.related("prompt")[0].rsplit('/').next().unwrap();
            (
                told.contributor.model_id.as_deref(),
                ranges,
                calls.len(),
                prompt,
            )
        })
        .collect();
    let claude = Some("anthropic/claude-x");
    assert_eq!(
        told,
        [
            (claude, vec![(1, 1), (3, 4)], 2, &*first),
            (Some("openai/gpt-5"), vec![(2, 2)], 1, &first),
            (claude, vec![(5, 5)], 1, &second),
            (None, vec![(6, 7)], 2, &second),
        ]
    );
}

#[test]
fn sub_agents_and_watched_commands_are_told_with_the_model_that_called() {
    let desk = Desk::new();
    let session = desk.session("a");
    let prompt = desk.prompt(&session, "one");
    let entry = json!({"type": "assistant", "uuid": "s1", "parentUuid": null, "isSidechain": true,
        "agentId": "x 1", "message": {"id": "s1", "role": "assistant", "model": "gemini-3",
        "content": [{"type": "tool_use", "id": "sub", "name": "Write", "input": {}}]}});
    let aside = AppendOptions::new().to_subpath("subagents/agent-x 1");
    let stored = session
        .messages()
        .append_entries([entry.to_string()], &aside);
    assert_eq!(stored.unwrap().stored, 1);
    let made = ToolRef::new("sub").by_agent("x 1");
    session
        .files()
        .before(made.clone(), [desk.path("f")])
        .unwrap();
    fs::write(desk.path("f"), "sub\n").unwrap();
    session.files().after(made, [desk.path("f")]).unwrap();
    let response = json!({"id": "m", "role": "assistant", "model": "o3",
        "content": [{"type": "tool_use", "id": "sh", "name": "Bash", "input": {}}]});
    session
        .messages()
        .append(NewMessage::response(&response))
        .unwrap();
    let options = WatchOptions::new().root(desk.path(""));
    let watch = session.files().watch(ToolRef::new("sh"), &options).unwrap();
    fs::write(desk.path("f"), "sub\nshell\n").unwrap();
    watch.finish().unwrap();
    let told = of(&desk);
    let [sub, shell] = &told.files[0].conversations[..] else {
        panic!("{told:?}")
    };
    assert_eq!(sub.contributor.model_id.as_deref(), Some("google/gemini-3"));
    assert_eq!(sub.related("agent"), [within("a", "agents/x%201")]);
    assert_eq!(shell.contributor.model_id.as_deref(), Some("openai/o3"));
    assert_eq!(
        shell.related("prompt"),
        [within("a", &format!("messages/{prompt}"))]
    );
    assert_eq!(shell.related("agent"), [""; 0]);
}

#[test]
fn lines_of_no_call_are_unknown_and_say_why() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::write(desk.path("f"), "old\n").unwrap();
    desk.write(&session, &[("f", Some(b"old\nagent\n"))]);
    fs::write(desk.path("f"), "old\nby hand\nagent\n").unwrap();
    fs::write(desk.path("g"), "?\n").unwrap();
    session.files().after("late", [desk.path("g")]).unwrap();
    fs::write(desk.path("untold"), "never recorded\n").unwrap();
    let told = of(&desk);
    assert_eq!(lines(&told, "f"), ["before_tracking", "outside", "shop/a"]);
    assert_eq!(lines(&told, "g"), ["not_kept"]);
    assert_eq!(told.files.len(), 2);
    let recorded = record(&desk.store, &TraceOptions::below(desk.path("")).recorded());
    assert_eq!(lines(&recorded, "f"), ["before_tracking", "shop/a"]);
    assert_eq!(recorded.metadata["turnkeep"]["recorded"], json!(true));
}

#[test]
fn files_and_folders_are_chosen_below_the_root() {
    let desk = Desk::new();
    let session = desk.session("a");
    fs::create_dir_all(desk.path("src/sub")).unwrap();
    for name in ["src/a", "src/sub/b", "src-2", "c"] {
        desk.write(&session, &[(name, Some(b"1\n"))]);
    }
    let paths = |options: TraceOptions| -> Vec<String> {
        let told = record(&desk.store, &options);
        told.files.into_iter().map(|file| file.path).collect()
    };
    let below = |name: &str| TraceOptions::below(desk.path(name));
    assert_eq!(paths(below("")), ["c", "src/a", "src/sub/b", "src-2"]);
    assert_eq!(paths(below("src")), ["a", "sub/b"]);
    assert_eq!(
        paths(below("").path(desk.path("src"))),
        ["src/a", "src/sub/b"]
    );
    let twice = below("").path(desk.path("c")).path(desk.path("src/../c"));
    assert_eq!(paths(twice.path(desk.path("src/sub"))), ["c", "src/sub/b"]);
    assert_eq!(
        paths(TraceOptions::below("/").path(desk.path("c"))).len(),
        1
    );
    // A folder under another name is the same one.
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("src", desk.path("link")).unwrap();
        assert_eq!(paths(below("link").path(desk.path("link/sub"))), ["sub/b"]);
    }
    let refused = |options: TraceOptions| {
        let error = agent_trace::record(&desk.store, &options).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, why) = refused(below("src").path(desk.path("c")));
    assert_eq!(kind, ErrorKind::Invalid);
    assert!(why.contains("lies outside"), "{why}");
    let (kind, why) = refused(below("").path(desk.path("never")));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(why.starts_with("no recorded change of the file"), "{why}");
    assert_eq!(refused(below("c")).0, ErrorKind::Invalid);
    assert_eq!(refused(below("nowhere")).0, ErrorKind::Invalid);
    // What was recorded is there without the folder.
    fs::remove_dir_all(desk.path("src")).unwrap();
    assert_eq!(paths(below("src").recorded()), ["a", "sub/b"]);
    assert_eq!(paths(below("")), ["c", "src-2"]);
    fs::create_dir(desk.path("empty")).unwrap();
    assert_eq!(paths(below("empty")), [""; 0]);
}

#[cfg(unix)]
#[test]
fn what_has_no_lines_to_tell_is_left_out_with_the_reason() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::new();
    let session = desk.session("a");
    let latin = desk.path("").join(OsStr::from_bytes(b"caf\xe9"));
    let large = vec![b'x'; (8 << 20) + 1];
    let names = ["binary", "dir", "empty", "gone", "large", "link", "pipe"];
    let mut paths: Vec<_> = names.iter().map(|name| desk.path(name)).collect();
    paths.push(latin.clone());
    desk.call(&session, &paths, || {
        for path in &paths {
            fs::write(path, "1\n").unwrap();
        }
        fs::write(desk.path("binary"), b"a\0b").unwrap();
        fs::write(desk.path("empty"), "").unwrap();
        fs::write(desk.path("large"), &large).unwrap();
    });
    for name in ["dir", "gone", "link", "pipe"] {
        fs::remove_file(desk.path(name)).unwrap();
    }
    fs::create_dir(desk.path("dir")).unwrap();
    std::os::unix::fs::symlink("binary", desk.path("link")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(desk.path("pipe"))
        .status();
    assert!(made.unwrap().success());
    let mut wanted = vec![
        ("binary", "not_text"),
        ("caf\u{fffd}", "name"),
        ("dir", "no_file"),
        ("large", "too_large"),
        ("link", "no_file"),
        ("pipe", "no_file"),
    ];
    let same = |record: &Record, wanted: &[(&str, &str)]| {
        let mut left = left_out(record);
        left.sort();
        let left: Vec<_> = left.iter().map(|(path, kind)| (&**path, &**kind)).collect();
        assert_eq!(left, wanted);
        assert!(record.files.is_empty());
    };
    same(&of(&desk), &wanted);
    // What is named is told of even if it is gone.
    let mut options = TraceOptions::below(desk.path(""));
    for path in &paths {
        options = options.path(path);
    }
    wanted.insert(3, ("gone", "gone"));
    same(&record(&desk.store, &options), &wanted);
    // What was recorded last of them were files, but for one.
    let recorded = record(&desk.store, &options.recorded());
    assert_eq!(recorded.files.len(), 4);
    let wanted = [
        ("binary", "not_text"),
        ("caf\u{fffd}", "name"),
        ("large", "too_large"),
    ];
    let left = left_out(&recorded);
    assert_eq!(left.len(), wanted.len());
    assert!(
        left.iter()
            .all(|(path, kind)| wanted.contains(&(path, kind)))
    );
}

#[test]
fn what_is_not_kept_is_left_out_of_what_was_recorded() {
    let desk = Desk::new();
    let store = desk
        .store
        .clone()
        .with_files(FileOptions::new().max_file_bytes(10));
    let session = store.sessions().get(desk.session("a").key()).unwrap();
    desk.write(&session, &[("f", Some(b"more than ten bytes\n"))]);
    let options = TraceOptions::below(desk.path(""));
    let recorded = record(&store, &options.clone().recorded());
    assert_eq!(
        left_out(&recorded),
        [("f".to_owned(), "not_kept".to_owned())]
    );
    assert_eq!(record(&store, &options).files.len(), 1);
}

#[test]
fn the_stores_own_files_are_never_opened() {
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"1\n"))]);
    fs::remove_file(desk.path("f")).unwrap();
    fs::hard_link(desk.store.path(), desk.path("f")).unwrap();
    assert_eq!(left_out(&of(&desk)), [("f".to_owned(), "own".to_owned())]);
}

#[test]
fn a_revision_is_written_as_it_is_given_and_no_two_records_share_an_id() {
    let desk = Desk::new();
    let vcs: Vcs = "jj:kkmpptxz".parse().unwrap();
    let options = TraceOptions::below(desk.path("")).at(vcs);
    let one = agent_trace::record(&desk.store, &options).unwrap();
    let two = agent_trace::record(&desk.store, &options).unwrap();
    assert_ne!(one.id, two.id);
    let told = Record::of(&one).vcs.unwrap();
    assert_eq!((&*told.r#type, &*told.revision), ("jj", "kkmpptxz"));
    assert!(of(&desk).vcs.is_none());
}
