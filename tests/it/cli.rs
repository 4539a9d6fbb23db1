//! The program: shapes, exit codes, and what a person reads.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::kit::{Turnkeep, fixture_path};

pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn import_says_what_it_took_and_exits_6_for_a_part() {
    let program = Turnkeep::new();
    let folder = fixture_path("cases/B16");
    let ran = program.run(&["import", folder.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    let report = ran.json();
    assert_eq!(
        keys(&report),
        [
            "differing_entries",
            "duplicate_entries",
            "entries",
            "file_backups",
            "file_changes",
            "foreign_entries",
            "malformed_lines",
            "new_entries",
            "notes",
            "partial",
            "problems",
            "repaired_links",
            "sessions"
        ]
    );
    assert_eq!(
        (
            &report["sessions"],
            &report["entries"],
            &report["malformed_lines"]
        ),
        (&json!(1), &json!(6), &json!(1))
    );
    assert_eq!(keys(&report["problems"][0]), ["file", "line", "what"]);
    assert_eq!(report["problems"][0]["line"], json!(3));
    let missing = program.run(&["import", "/nowhere", "--json"]);
    assert_eq!(
        (missing.code, missing.error()["kind"].as_str()),
        (2, Some("invalid"))
    );
}

#[test]
fn ls_shows_pages_that_fit_together() {
    let program = Turnkeep::with("transcripts/resume_flags");
    let first = program.run(&["ls", "--limit", "3", "--json"]).json();
    assert_eq!(
        keys(&first["sessions"][0]),
        [
            "created_at_ms",
            "cwd",
            "first_prompt",
            "forked_from",
            "git_branch",
            "last_modified_ms",
            "messages",
            "project_key",
            "session_id",
            "summary",
            "tag",
            "title",
            "turns"
        ]
    );
    let second = program
        .run(&["ls", "--after", first["next"].as_str().unwrap(), "--json"])
        .json();
    assert_eq!(second["next"], Value::Null);
    let ids = |page: &Value| -> Vec<String> {
        page["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|info| info["session_id"].to_string())
            .collect()
    };
    let all = ids(&program.run(&["ls", "--json"]).json());
    assert_eq!([ids(&first), ids(&second)].concat(), all);
    for project in ["/home/dev/lab/empty", "-home-dev-lab-empty"] {
        assert_eq!(
            ids(&program.run(&["ls", "--project", project, "--json"]).json()).len(),
            1,
            "{project}"
        );
    }
    assert_eq!(program.run(&["ls", "--after", "x"]).code, 2);
}

#[test]
fn a_session_is_named_in_many_ways_and_an_ambiguous_name_lists_the_candidates() {
    let program = Turnkeep::with("transcripts/resume_flags");
    let id = "d68c4f87-82e7-44b7-9f8a-2f509807a5e3";
    program.run(&["rename", id, "order desk"]);
    for name in [
        id,
        "d68c",
        "order desk",
        &format!("-home-dev-shop/{id}"),
        "@last",
    ] {
        let shown = program.run(&["show", name, "--json"]);
        assert_eq!(shown.code, 0, "{name}: {}", shown.err);
        assert_eq!(shown.json()[0]["sessionId"], json!(id), "{name}");
    }
    program.run_with(
        &["append", id, "--project", "other", "--create"],
        "{\"type\":\"x\"}\n",
    );
    let ambiguous = program.run(&["show", id, "--json"]);
    assert_eq!(ambiguous.code, 2);
    let message = ambiguous.error()["message"].to_string();
    assert!(
        message.contains("-home-dev-shop/") && message.contains("other/"),
        "{message}"
    );
    assert_eq!(program.run(&["show", "nobody"]).code, 3);
    assert_eq!(
        program
            .run(&["show", id, "--project", "other", "--transcript", "--json"])
            .json(),
        json!([{"type": "x"}])
    );
}

#[test]
fn append_stores_all_or_nothing() {
    let program = Turnkeep::new();
    let entry = |uuid: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}\n"
        )
    };
    assert_eq!(
        program
            .run_with(&["append", "s", "--project", "p"], &entry("a"))
            .code,
        3
    );
    let stored = program.run_with(
        &["append", "s", "--project", "p", "--create", "--json"],
        &entry("a"),
    );
    assert_eq!(
        stored.json(),
        json!({"stored": 1, "duplicates": 0, "differing": 0, "head": "a"})
    );
    let bad = program.run_with(
        &["append", "s", "--project", "p", "--json"],
        &format!("{}not json\n", entry("b")),
    );
    assert_eq!(bad.code, 2);
    assert!(
        bad.error()["message"]
            .as_str()
            .unwrap()
            .starts_with("line 2 "),
        "{}",
        bad.err
    );
    let moved = program.run_with(
        &["append", "s", "--expect-head", "z", "--json"],
        &entry("b"),
    );
    assert_eq!(
        (moved.code, moved.error()["kind"].as_str()),
        (4, Some("conflict"))
    );
    assert!(moved.error()["message"].as_str().unwrap().contains("`a`"));
    let again = program.run_with(
        &["append", "s", "--expect-head", "a", "--json"],
        &(entry("a") + &entry("b")),
    );
    assert_eq!(
        again.json(),
        json!({"stored": 1, "duplicates": 1, "differing": 0, "head": "b"})
    );
    let side = program.run_with(
        &["append", "t", "--project", "p", "--create", "--json"],
        "{\"type\":\"tag\",\"tag\":\"x\"}\n",
    );
    assert_eq!(side.json()["head"], Value::Null);
}

#[test]
fn every_view_of_a_session_is_there_as_json_and_as_text() {
    let program = Turnkeep::with("cases/B16");
    let lines = program
        .run(&["show", "@last", "--transcript", "--json"])
        .json();
    assert_eq!(lines.as_array().unwrap().len(), 7);
    assert!(lines[2]["malformed_base64"].is_string());
    assert_eq!(
        program
            .run(&["show", "@last", "--json"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        6
    );
    let context = program
        .run(&["show", "@last", "--context", "--json"])
        .json();
    assert_eq!(keys(&context[0]), ["content", "role"]);
    assert_eq!(
        program
            .run(&["show", "@last", "--limit", "2", "--json"])
            .json()
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let markdown = program.run(&["show", "@last", "--markdown"]).out;
    assert!(
        markdown.starts_with("# ") && markdown.contains("## User\n\nprompt 1 of main\n"),
        "{markdown}"
    );
    for view in ["--conversation", "--transcript", "--context"] {
        let shown = program.run(&["show", "@last", view]).out;
        assert!(
            shown
                .lines()
                .all(|line| view == "--context" || line.chars().count() <= 80),
            "{view}: {shown}"
        );
    }
    assert_eq!(
        program
            .run(&["show", "@last", "--subpath", "subagents/none"])
            .code,
        3
    );
}

#[test]
fn follow_prints_what_another_process_appends() {
    let program = Turnkeep::with("cases/B16");
    let mut follower = program.command(&["show", "@last", "--follow", "--json", "--limit", "1"]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("answer 3"));
    program.run_with(&["append", "@last"], "{\"type\":\"tag\",\"tag\":\"new\"}\n");
    let line = lines.next().unwrap().unwrap();
    follower.kill().unwrap();
    follower.wait().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&line).unwrap()["tag"],
        json!("new")
    );
}

#[test]
fn export_writes_private_files_and_never_over_another() {
    let program = Turnkeep::with("transcripts/plain_stream");
    let source = fixture_path(
        "transcripts/plain_stream/projects/-home-dev-shop/1a7d9357-97f2-4289-8da3-68238d17e1ca.jsonl",
    );
    let source = std::fs::read_to_string(source).unwrap();
    assert!(program.run(&["export", "1a7d"]).out == source);
    assert_eq!(program.run(&["export", "1a7d", "-o", "out.jsonl"]).code, 0);
    let path = program.folder.path().join("out.jsonl");
    assert!(std::fs::read_to_string(&path).unwrap() == source);
    assert_eq!(program.run(&["export", "1a7d", "-o", "out.jsonl"]).code, 2);
    assert_eq!(program.run(&["export", "--claude-code", "config"]).code, 0);
    assert_eq!(
        program.run(&["export", "--claude-code", "config"]).code,
        0,
        "the same again is no conflict"
    );
    program.run(&["rename", "1a7d", "other"]);
    assert_eq!(program.run(&["export", "--claude-code", "config"]).code, 4);
    assert_eq!(program.run(&["export"]).code, 2);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[test]
fn rename_tag_and_delete_change_what_is_listed() {
    let program = Turnkeep::with("cases/B16");
    assert_eq!(
        program
            .run(&["rename", "@last", "a title", "--json"])
            .json()["title"],
        json!("a title")
    );
    assert_eq!(
        program.run(&["tag", "@last", "keep", "--json"]).json()["tag"],
        json!("keep")
    );
    assert_eq!(
        program
            .run(&["ls", "--tag", "keep", "--text", "TITLE", "--json"])
            .json()["sessions"][0]["title"],
        json!("a title")
    );
    assert_eq!(
        program.run(&["tag", "@last", "--clear", "--json"]).json()["tag"],
        Value::Null
    );
    assert_eq!(program.run(&["rename", "@last", " "]).code, 2);
    assert_eq!(
        program.run(&["delete", "@last", "--json"]).json()["deleted"],
        json!(true)
    );
    assert_eq!(program.run(&["ls"]).out, "no sessions\n");
    assert_eq!(program.run(&["delete", "@last"]).code, 3);
}

#[test]
fn fork_lineage_branches_and_resume_tell_the_same_story() {
    let program = Turnkeep::with("cases/B16");
    let entries = program.run(&["show", "@last", "--json"]).json();
    let (source, prompt) = (
        entries[0]["sessionId"].as_str().unwrap(),
        entries[2]["uuid"].as_str().unwrap(),
    );
    let fork = program
        .run(&[
            "fork", source, "--up-to", prompt, "--title", "plan B", "--json",
        ])
        .json();
    assert_eq!(keys(&fork), ["forked_from", "session_id", "up_to"]);
    assert_eq!(
        (&fork["forked_from"], &fork["up_to"]),
        (&json!(source), &json!(prompt))
    );
    let id = fork["session_id"].as_str().unwrap();
    let resumed = program.run(&["resume", id, "--json"]).json();
    assert_eq!(resumed["context"].as_array().unwrap().len(), 3);
    let lineage = program.run(&["lineage", id, "--json"]).json();
    assert_eq!(lineage["ancestors"][0]["session_id"], json!(source));
    assert!(program.run(&["lineage", source]).out.contains("└─ "));
    assert_eq!(program.run(&["ls", "--tree"]).out.lines().count(), 2);
    assert_eq!(
        program
            .run(&["branches", source, "--switch", prompt, "--json"])
            .json()["branches"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let refused = program.run(&[
        "resume",
        source,
        "--at",
        entries[0]["uuid"].as_str().unwrap(),
        "--drops-turn",
        entries[0]["uuid"].as_str().unwrap(),
    ]);
    assert_eq!(refused.code, 4);
    assert!(
        refused
            .err
            .contains("Resume rejected by --resume-drops-turn: "),
        "{}",
        refused.err
    );
    assert_eq!(program.run(&["fork", source, "--up-to", "nope"]).code, 3);
    assert_eq!(Turnkeep::new().run(&["resume", "--continue"]).code, 3);
}

#[test]
fn salvage_saves_into_a_new_file_and_exits_6_for_a_part() {
    let program = Turnkeep::with("transcripts/files_raw");
    let whole = program.run(&["salvage", "saved.db"]);
    assert_eq!(whole.code, 0, "{}", whole.err);
    assert_eq!(
        whole.out,
        "1 session, 101 entries and 7 files saved in saved.db\n"
    );
    let findings = |file: &str| {
        let store = turnkeep::Store::open(program.folder.path().join(file)).unwrap();
        store.verify().unwrap().findings
    };
    assert_eq!(findings("saved.db"), []);
    let taken = program.run(&["salvage", "saved.db", "--json"]);
    assert_eq!(
        (taken.code, taken.error()["kind"].as_str()),
        (4, Some("conflict"))
    );
    let path = program.folder.path().join("store.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[..100].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(program.run(&["ls"]).code, 1);
    let part = program.run(&["salvage", "part.db", "--json"]);
    assert_eq!(part.code, 6, "{}", part.err);
    assert_eq!(keys(&part.json()), ["entries", "files", "lost", "sessions"]);
    assert_eq!(part.json()["entries"], json!(101));
    let lost = part.json()["lost"][0].as_str().unwrap().to_owned();
    assert!(lost.starts_with("the header: "), "{lost}");
    let told = program.run(&["salvage", "told.db"]);
    assert!(told.out.starts_with("lost: the header: "), "{}", told.out);
    assert_eq!(findings("part.db"), []);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    std::fs::remove_file(&path).unwrap();
    let nowhere = program.run(&["salvage", "x.db", "--json"]);
    assert_eq!(
        (nowhere.code, nowhere.error()["kind"].as_str()),
        (3, Some("not_found"))
    );
}

#[test]
fn a_store_that_is_none_is_named_and_left_alone() {
    let program = Turnkeep::new();
    assert_eq!(
        program.run(&["ls", "--json"]).error()["kind"],
        json!("not_found")
    );
    let path = program.folder.path().join("store.db");
    std::fs::write(&path, "my notes").unwrap();
    let refused = program.run(&["ls", "--json"]);
    assert_eq!(
        (refused.code, refused.error()["kind"].as_str()),
        (1, Some("not_a_store"))
    );
    assert!(
        refused.error()["message"]
            .as_str()
            .unwrap()
            .contains("store.db")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes");
}

#[test]
fn the_demo_shows_the_main_job() {
    let program = Turnkeep::new();
    let shown = program.run(&["demo"]);
    assert_eq!(shown.code, 0, "{}", shown.err);
    assert_eq!(shown.out.matches("  same  ").count(), 5);
    assert!(shown.out.contains("checked: 0 findings"));
    assert_eq!(program.run(&["demo", "--into", "kept"]).code, 0);
    assert!(program.folder.path().join("kept/turnkeep.db").exists());
    assert_eq!(program.run(&["demo", "--into", "kept"]).code, 2);
}

#[test]
fn every_command_is_documented_and_explains_itself() {
    let program = Turnkeep::new();
    let help = program.run(&["--help"]).out;
    insta::assert_snapshot!("help", help);
    let document = include_str!("../../docs/CLI.md");
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let own_line = commands.filter_map(|line| {
        line.strip_prefix("  ")
            .filter(|line| !line.starts_with(' '))
    });
    let names: Vec<&str> = own_line
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let headings = document.lines().filter(|line| line.starts_with("## "));
        assert!(
            headings.clone().any(|line| line.contains(name)),
            "docs/CLI.md has no heading with {name}"
        );
        insta::assert_snapshot!(format!("help_{name}"), program.run(&[name, "--help"]).out);
    }
    for moment in ["before", "after"] {
        let help = program.run(&["track", "s", moment, "--help"]).out;
        insta::assert_snapshot!(format!("help_track_{moment}"), help);
    }
}

#[test]
fn a_sub_agents_conversation_is_shown_and_named() {
    let program = Turnkeep::with("transcripts/subagent_foreground");
    let shown = program.run(&["show", "fdde"]).out;
    let subpath = shown
        .lines()
        .find_map(|line| line.strip_prefix("--subpath "))
        .unwrap_or_else(|| panic!("{shown}"))
        .to_owned();
    let agent = program.run(&["show", "fdde", "--subpath", &subpath]).out;
    assert!(
        agent.contains("\nuser") && agent.contains("\nassistant"),
        "{agent}"
    );
    let markdown = program
        .run(&["show", "fdde", "--markdown", "--subpath", &subpath])
        .out;
    assert!(markdown.lines().count() > 5, "{markdown}");
}

#[test]
fn a_second_import_counts_the_same_sessions_and_entries_as_the_first_and_as_verify() {
    let program = Turnkeep::new();
    let folder = fixture_path("transcripts/subagent_foreground");
    let first = program
        .run(&["import", folder.to_str().unwrap(), "--json"])
        .json();
    let second = program
        .run(&["import", folder.to_str().unwrap(), "--json"])
        .json();
    let verified = program.run(&["verify", "--json"]).json();
    assert!(first["sessions"].as_u64().unwrap() > 0);
    for field in ["sessions", "entries"] {
        assert_eq!(first[field], second[field], "{field}");
        assert_eq!(first[field], verified[field], "{field}");
    }
    assert_eq!(second["new_entries"], json!(0));
}

#[test]
fn an_export_that_cannot_name_a_file_writes_none() {
    let program = Turnkeep::new();
    for key in ["p/0", "a"] {
        program.run_with(
            &["append", "s", "--project", key, "--create"],
            "{\"type\":\"x\"}",
        );
    }
    let out = program.folder.path().join("out");
    let ran = program.run(&["export", "--claude-code", out.to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("p/0/s"), "{}", ran.err);
    assert!(!out.exists());
}

#[test]
fn names_cannot_steer_the_terminal() {
    let program = Turnkeep::new();
    let id = "\u{1b}[31mred\u{202e}\nline";
    program.run_with(
        &["append", id, "--project", "p", "--create"],
        "{\"type\":\"x\"}",
    );
    for command in [
        &["show", id][..],
        &["resume", id],
        &["rename", id, "a title"],
        &["fork", id, "--title", "t"],
        &["show", "\u{1b}[31mnone"],
        &["delete", id, "--yes"],
    ] {
        let ran = program.run(command);
        let all = ran.out + &ran.err;
        assert!(
            !all.is_empty() && !all.contains(['\u{1b}', '\u{202e}']),
            "{command:?}: {all:?}"
        );
    }
}

#[test]
fn wrong_use_is_told_as_json_too() {
    let program = Turnkeep::new();
    for command in [&["ls", "--bogus", "--json"][..], &["show", "--json"]] {
        let ran = program.run(command);
        assert_eq!(
            (ran.code, ran.error()["kind"].as_str()),
            (2, Some("invalid")),
            "{command:?}"
        );
    }
}

#[test]
fn import_notes_a_session_without_checkpoints_and_that_is_no_fault() {
    let program = Turnkeep::new();
    let folder = fixture_path("transcripts/compact_manual");
    let ran = program.run(&["import", folder.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let says = "note: session b1323dae-0887-4329-a55a-800bcdeb68c7: no file checkpoints in this transcript; of 1 edit(s), 1 can be taken back by what the tools answered";
    assert!(ran.out.contains(says), "{}", ran.out);
    assert!(ran.out.contains("file changes: made of"), "{}", ran.out);
    let again = program.run(&["import", folder.to_str().unwrap(), "--json"]);
    let report = again.json();
    assert_eq!(
        (&report["notes"], &report["file_changes"]),
        (&json!([]), &json!(0))
    );
}

#[test]
fn search_finds_filters_and_pages() {
    let program = Turnkeep::with("transcripts/parallel");
    let all = program
        .run(&["search", "TURN", "--limit", "100", "--json"])
        .json();
    assert_eq!(keys(&all), ["hits", "next", "unindexed"]);
    assert_eq!(
        keys(&all["hits"][0]),
        [
            "also_in",
            "marks",
            "project_key",
            "role",
            "said_ms",
            "score",
            "session_id",
            "snippet",
            "subpath",
            "summary",
            "tool",
            "turn",
            "uuid"
        ]
    );
    let hits = |page: &Value| page["hits"].as_array().unwrap().clone();
    let mut paged = Vec::new();
    let mut arguments = vec![
        "search".to_owned(),
        "TURN".to_owned(),
        "--limit".into(),
        "2".into(),
        "--json".into(),
    ];
    loop {
        let arguments_now: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let page = program.run(&arguments_now).json();
        paged.extend(hits(&page));
        arguments.truncate(5);
        match page["next"].as_str() {
            Some(next) => arguments.extend(["--page".to_owned(), next.to_owned()]),
            None => break,
        }
    }
    assert_eq!(paged, hits(&all));
    assert!(paged.len() > 2);
    let hit = &paged[0];
    let mark = |at: usize| usize::try_from(hit["marks"][0][at].as_u64().unwrap()).unwrap();
    assert_eq!(
        hit["snippet"].as_str().unwrap()[mark(0)..mark(1)].to_lowercase(),
        "turn"
    );
    let tools = program
        .run(&[
            "search", "Bash", "--role", "input", "--tool", "Bash", "--json",
        ])
        .json();
    assert!(
        hits(&tools)
            .iter()
            .all(|hit| hit["tool"] == "Bash" && hit["role"] == "input")
    );
    assert!(!hits(&tools).is_empty());
    let shown = program.run(&["search", "TURN", "--rank"]);
    assert!(
        shown.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        shown.out
    );
    assert_eq!(program.run(&["search", "absent"]).out, "nothing found\n");
    assert_eq!(program.run(&["search", "->"]).code, 2);
    assert_eq!(program.run(&["search", "x", "--page", "y"]).code, 2);
    assert_eq!(program.run(&["search", "x", "--session", "none"]).code, 3);
    let indexed = program.run(&["reindex", "--json"]).json();
    assert!(indexed["indexed"].as_u64().unwrap() >= paged.len() as u64);
    assert_eq!(
        hits(
            &program
                .run(&["search", "TURN", "--limit", "100", "--json"])
                .json()
        ),
        paged
    );
}
