//! What a checkpoint's messages say comes in as the text that it is.

use std::fs;

use turnkeep::{ErrorKind, Session, export_checkpoint, import_checkpoint};

use crate::context_rules::assert_valid;
use crate::kit::TestStore;

/// Numbers that no `f64` holds or that one would print anew, a key twice, and escapes.
const INPUT: &str = r#"{"n":1.0,"n":1,"big":1e400,"id":12345678901234567890.10,"\u0061":"\/"}"#;

fn checkpoint(messages: &str, pending: &str) -> String {
    format!(
        r#"{{"version":1,"task":"t","turns":2,"tokensUsed":9,"messages":{messages},"pendingToolUse":{pending}}}"#
    )
}

fn imported(test: &TestStore, text: impl AsRef<[u8]>) -> turnkeep::Result<Session> {
    let file = test.path("checkpoint.json");
    fs::write(&file, text).unwrap();
    import_checkpoint(&test.store, "p", &file)
}

fn contents(session: &Session) -> Vec<String> {
    let context = session.scene().unwrap().context;
    let contents = context.messages.iter();
    contents
        .map(|message| message.content.get().to_owned())
        .collect()
}

#[test]
fn contents_keep_their_text_to_the_byte() {
    let deep = format!(
        r#"[{{"type":"text","text":"x","more":{}{}}}]"#,
        "[".repeat(100),
        "]".repeat(100)
    );
    let call = format!(
        r#"[{{"type":"thinking","thinking":"","signature":"s=="}},{{"type":"tool_use","id":"t1","name":"X","input":{INPUT}}}]"#
    );
    let messages = format!(
        r#"[{{"role":"user","content":"go\u0021"}},{{"role":"assistant","content":[{{"type":"text","text":"so","n":1.50}}]}},{{"content":{deep},"role":"user"}},{{"role":"assistant","content":{call}}}]"#
    );
    let pending = r#"{"id":"t1","name":"X","input":{}}"#;
    let test = TestStore::new();
    let session = imported(&test, checkpoint(&messages, pending)).unwrap();
    let said = contents(&session);
    assert_eq!(said[0], r#""go\u0021""#);
    assert_eq!(said[1], r#"[{"type":"text","text":"so","n":1.50}]"#);
    assert_eq!(said[2], deep);
    let open = session.tools().pending().unwrap();
    assert_eq!((open[0].id.as_str(), open[0].input.as_str()), ("t1", INPUT));
    assert_valid(&session.context("").unwrap(), "the session");

    // Out and in again is the same, to the byte.
    let (first, second) = (test.path("first.json"), test.path("second.json"));
    export_checkpoint(&session, &first).unwrap();
    let again = import_checkpoint(&test.store, "p", &first).unwrap();
    export_checkpoint(&again, &second).unwrap();
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    assert_eq!(contents(&again), said);
    assert!(
        fs::read_to_string(&first)
            .unwrap()
            .contains(r#""big":1e400"#)
    );
}

#[test]
fn half_a_surrogate_which_node_writes_comes_in_and_a_model_can_be_sent_it() {
    let text = r#"[{"role":"user","content":"cut: \ud83d"}]"#;
    let test = TestStore::new();
    let session = imported(&test, checkpoint(text, "null")).unwrap();
    let line = session.transcript("").unwrap().remove(0).entry.unwrap();
    assert!(line.contains(r#""content":"cut: \ud83d""#), "{line}");
    assert_eq!(contents(&session), [r#""cut: \ufffd""#]);
}

#[test]
fn a_checkpoint_laid_out_over_many_lines_is_read_without_changing_a_token() {
    let messages = "[\r\n  {\n    \"role\": \"user\",\n    \"content\": [\n      {\n        \"type\": \"text\",\n        \"text\": \"a  b\\n{\\\"\",\n        \"n\": 1.0\n      }\n    ]\n  }\n]";
    let test = TestStore::new();
    let session = imported(&test, checkpoint(messages, "null")).unwrap();
    assert_eq!(
        contents(&session),
        [r#"[{"type":"text","text":"a  b\n{\"","n":1.0}]"#]
    );
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let test = TestStore::new();
    let go = r#"[{"role":"user","content":"go"}]"#;
    let mut cut_in_a_letter = checkpoint(r#"[{"role":"user","content":"ä"}]"#, "null").into_bytes();
    let letter = cut_in_a_letter.iter().position(|byte| *byte > 127).unwrap();
    cut_in_a_letter.truncate(letter + 1);
    let refused = [
        (cut_in_a_letter, "torn"),
        (checkpoint(go, "7").into_bytes(), "has no id"),
        (checkpoint(go, r#"[{"id":7}]"#).into_bytes(), "has no id"),
        (
            checkpoint(go, "null").replace(":2", ":1e400").into_bytes(),
            "`turns` is not a whole number",
        ),
        (
            checkpoint(r#"[{"role":"user","content":null}]"#, "null").into_bytes(),
            "message 1 has no content",
        ),
        (
            checkpoint("{}", "null").into_bytes(),
            "`messages` is not an array",
        ),
    ];
    for (text, says) in refused {
        let error = imported(&test, &text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
}
