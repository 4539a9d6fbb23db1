//! The program: tool calls, notes, scenes and tasks.

use serde_json::json;

use crate::kit::Turnkeep;

#[test]
fn an_open_call_is_listed_and_settled() {
    let program = Turnkeep::new();
    let call = r#"{"type":"assistant","uuid":"a","message":{"id":"m","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"n":1.0}}]}}"#;
    program.run_with(&["append", "s", "--project", "p", "--create"], call);
    let calls = program
        .run(&["tool", "ls", "s", "--pending", "--json"])
        .json();
    assert_eq!(
        (&calls["calls"][0]["state"], &calls["calls"][0]["input"]),
        (&json!("pending"), &json!(r#"{"n":1.0}"#))
    );
    let settled = program
        .run(&["tool", "settle", "s", "t1", "--result", "done", "--json"])
        .json();
    assert_eq!(
        (&settled["state"], &settled["stored"]),
        (&json!("ok"), &json!(true))
    );
    let kept = program.run(&["tool", "settle", "s", "t1", "--interrupted"]);
    assert_eq!(
        (kept.code, kept.out.as_str()),
        (0, "t1 is ok (it had a result, which is kept)\n")
    );
    assert_eq!(program.run(&["tool", "settle", "s", "t1"]).code, 2);
    assert_eq!(
        program
            .run(&["tool", "settle", "s", "nope", "--rerun"])
            .code,
        3
    );
}

#[test]
fn notes_are_set_listed_and_remembered() {
    let program = Turnkeep::new();
    program.run_with(
        &["append", "s", "--project", "p", "--create"],
        "{\"type\":\"x\"}",
    );
    assert_eq!(
        program
            .run(&["scratch", "set", "s", "n", "-1", "--json"])
            .json()["value"],
        json!(-1)
    );
    program.run(&["scratch", "set", "s", "t", "two words"]);
    program.run(&["scratch", "set", "s", "n", "7", "--text"]);
    assert_eq!(
        program.run(&["scratch", "ls", "s", "--json"]).json(),
        json!({"scratchpad": {"n": "7", "t": "two words"}})
    );
    assert_eq!(
        program.run(&["scratch", "get", "s", "t"]).out,
        "two words\n"
    );
    assert_eq!(program.run(&["scratch", "rm", "s", "n"]).code, 0);
    assert_eq!(program.run(&["scratch", "get", "s", "n"]).code, 3);
    let history = program
        .run(&["scratch", "history", "s", "n", "--json"])
        .json();
    assert_eq!(history["history"].as_array().unwrap().len(), 3);
    assert_eq!(history["history"][0]["deleted"], json!(true));
}

#[test]
fn a_scene_goes_out_as_a_checkpoint_and_comes_in_again() {
    let program = Turnkeep::new();
    program.run_with(
        &["append", "s", "--project", "p", "--create"],
        r#"{"type":"user","uuid":"u1","message":{"role":"user","content":"deploy"}}"#,
    );
    let file = program.folder.path().join("checkpoint.json");
    let file = file.to_str().unwrap();
    assert_eq!(program.run(&["scene", "s", "--export", file]).code, 0);
    let made = program.run(&["scene", "--import", file, "--project", "q", "--json"]);
    assert_eq!(
        (&made.json()["task"], &made.json()["messages"]),
        (&json!("deploy"), &json!(1))
    );
    let shown = program.run(&["scene", "s"]).out;
    assert!(shown.contains("task      deploy\n"), "{shown}");
    std::fs::write(file, "{\"version\":2}").unwrap();
    let refused = program.run(&["scene", "--import", file, "--project", "q"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("version 2 is not known"),
        "{}",
        refused.err
    );
    assert_eq!(
        program.run(&["ls", "--json"]).json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn tasks_are_listed_with_what_came_of_their_phases() {
    let program = Turnkeep::new();
    program.run_with(
        &["append", "s", "--project", "p", "--create"],
        "{\"type\":\"x\"}",
    );
    assert_eq!(program.run(&["task", "show", "s"]).code, 2);
    let store = turnkeep::Store::open(program.folder.path().join("store.db")).unwrap();
    let session = store
        .sessions()
        .get(&turnkeep::SessionKey::new("p", "s").unwrap())
        .unwrap();
    let task = session.task("release", ["build", "ship"]).unwrap();
    task.run("build", |_| Ok::<_, turnkeep::Error>(json!({"files": 12})))
        .unwrap();
    task.run("ship", |_| Err::<serde_json::Value, _>("no route"))
        .unwrap_err();
    let listed = program.run(&["task", "ls", "s"]).out;
    assert!(
        listed.contains("1 of 2 done, next ship (failed)"),
        "{listed}"
    );
    let shown = program.run(&["task", "show", "s"]).out;
    assert!(
        shown.contains("{\"files\":12}") && shown.contains("no route"),
        "{shown}"
    );
    let shown = program
        .run(&["task", "show", "s", "release", "--json"])
        .json();
    assert_eq!(shown["phases"][1]["state"], json!("failed"));
    assert_eq!(program.run(&["task", "show", "s", "nope"]).code, 3);
    let listed = program.run(&["task", "ls", "s", "--json"]).json();
    assert_eq!(listed["tasks"][0]["next"], json!("ship"));
}
