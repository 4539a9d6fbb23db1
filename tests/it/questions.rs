//! SQL for people: the questions of docs/SCHEMA.md with what they answer, and what `sql` refuses.

use serde_json::{Value, json};
use turnkeep::SqlValue;

use crate::kit::{TestStore, Turnkeep, fixture_path};

const RUNS: [&str; 4] = [
    "compact_manual",
    "subagent_foreground",
    "kill_in_tool",
    "rewind_conversation_seen",
];

/// A question of the document: its heading, its query, and what it answers.
struct Question {
    heading: String,
    query: String,
    answer: String,
}

fn questions() -> Vec<Question> {
    let document = include_str!("../../docs/SCHEMA.md");
    let (_, part) = document.split_once("## Twenty questions").unwrap();
    let block = |text: &str, name: &str| {
        let begun = text.split_once(&format!("```{name}\n")).unwrap().1;
        begun.split_once("```").unwrap().0.to_owned()
    };
    let question = |text: &str| Question {
        heading: text.lines().next().unwrap().to_owned(),
        query: block(text, "sql"),
        answer: block(text, "text"),
    };
    part.split("\n### ").skip(1).map(question).collect()
}

/// Answers are compared with what the program prints. `TURNKEEP_ANSWERS=FILE` writes them there, to be
/// put into the document.
#[test]
fn the_twenty_questions_of_the_document_answer_what_it_says() {
    let program = Turnkeep::new();
    for run in RUNS {
        let folder = fixture_path(&format!("transcripts/{run}"));
        assert!(matches!(
            program.run(&["import", folder.to_str().unwrap()]).code,
            0 | 6
        ));
    }
    let entries = [
        json!({"type": "user", "uuid": "p", "timestamp": "2026-11-29T15:00:00Z", "message": {"role": "user", "content": "Write the summary."}}),
        json!({"type": "assistant", "uuid": "a", "parentUuid": "p", "timestamp": "2026-11-29T15:00:01Z", "message": {"role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_open", "name": "Write", "input": {"file_path": "/srv/shop/summary.md"}}]}}),
    ];
    let lines = entries.map(|entry| format!("{entry}\n")).concat();
    let append = ["append", "open-0001", "--project", "shop", "--create"];
    assert_eq!(program.run_with(&append, &lines).code, 0);
    program.run(&["search", "anything"]);
    let questions = questions();
    assert_eq!(questions.len(), 20);
    let mut answers = Vec::new();
    let mut wrong = Vec::new();
    for question in &questions {
        let ran = program.run(&["sql", &question.query]);
        assert_eq!(ran.code, 0, "{}: {}", question.heading, ran.err);
        assert!(
            ran.out.lines().count() > 2,
            "{} has no answer",
            question.heading
        );
        if ran.out != question.answer {
            wrong.push(format!("{}\n{}", question.heading, ran.out));
        }
        answers.push(json!([question.heading, ran.out]));
    }
    if let Ok(file) = std::env::var("TURNKEEP_ANSWERS") {
        std::fs::write(file, Value::Array(answers).to_string()).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_one_query_that_reads_is_run() {
    let test = TestStore::new();
    test.session();
    for refused in [
        "DELETE FROM sessions",
        "WITH x AS (SELECT 1) DELETE FROM sessions",
        "INSERT INTO sessions (id) VALUES (9) RETURNING id",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode",
        "ATTACH 'other.db' AS other",
        "BEGIN",
        "SELECT 1; DELETE FROM sessions",
        "SELECT 1; SELECT 2",
        "/* SELECT */ -- SELECT\nDROP TABLE sessions",
        "SELECT nonsense FROM sessions",
        "SELECT ?1",
        "SELECT * FROM sessions WHERE session_id = :id",
        "SELECT load_extension('x')",
        "SELEC",
        "",
        "-- nothing",
    ] {
        let told = test.store.sql(refused, |_, _| Ok(())).map(drop);
        let error = told.expect_err(refused);
        assert_eq!(
            error.kind(),
            turnkeep::ErrorKind::Invalid,
            "{refused}: {error}"
        );
    }
    let mut rows = Vec::new();
    let query = "/* all kinds */ -- of values\n SELECT NULL, 1, 1.5 AS half, 'a', x'00ff';";
    let names = test
        .store
        .sql(query, |_, row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
    assert_eq!(names[2], "half");
    assert_eq!(
        rows,
        [[
            SqlValue::Null,
            SqlValue::Integer(1),
            SqlValue::Real(1.5),
            SqlValue::Text("a".to_owned()),
            SqlValue::Blob(vec![0, 255])
        ]]
    );
    let count = test.store.sql("SELECT count(*) FROM sessions", |_, row| {
        assert_eq!(row, [SqlValue::Integer(1)]);
        Ok(())
    });
    count.unwrap();
}

#[test]
fn a_query_is_pasted_with_the_comments_ahead_of_it() {
    let program = Turnkeep::with("transcripts/parallel");
    let document = include_str!("../../docs/SCHEMA.md");
    let blocks = document.split("```sql\n").skip(1);
    let blocks = blocks.map(|rest| rest.split_once("```").unwrap().0);
    let queries = blocks.flat_map(|block| block.split("\n\n"));
    let commented: Vec<&str> = queries.filter(|query| query.starts_with("--")).collect();
    assert!(!commented.is_empty());
    for query in commented {
        let csv = program.run(&["sql", query, "--format", "csv"]);
        assert_eq!(csv.code, 0, "{query}: {}", csv.err);
        let ahead = program.run(&["sql", "--format", "csv", query]);
        assert_eq!((ahead.code, ahead.out), (0, csv.out), "{query}");
        assert!(program.run(&["sql", query, "--json"]).json().is_array());
        let json = program.run(&["--json", "sql", query]);
        assert!(json.json().is_array());
    }
    let help = program.run(&["sql", "--help"]);
    assert!(
        help.code == 0 && help.out.contains("Usage:"),
        "{}",
        help.out
    );
    let asked = program.run(&["sql", "SELECT ?1"]);
    assert_eq!(asked.code, 2);
    assert!(asked.err.contains("it has a parameter"), "{}", asked.err);
}

#[test]
fn answers_are_printed_as_a_table_csv_or_json() {
    let program = Turnkeep::with("transcripts/parallel");
    let query = "VALUES (1, 'a,\"b\"', NULL), (20, 'c' || char(10) || 'd', x'00')";
    let table = program.run(&["sql", query]).out;
    assert_eq!(
        table,
        "column1  column2  column3\n-------  -------  -------\n      1  a,\"b\"\n     20  c d      AA==\n"
    );
    let csv = program.run(&["sql", "--format", "csv", query]).out;
    assert_eq!(
        csv,
        "column1,column2,column3\n1,\"a,\"\"b\"\"\",\n20,\"c\nd\",AA==\n"
    );
    let expected = json!([
        {"column1": 1, "column2": "a,\"b\"", "column3": null},
        {"column1": 20, "column2": "c\nd", "column3": {"base64": "AA=="}}
    ]);
    assert_eq!(program.run(&["sql", query, "--json"]).json(), expected);
    assert_eq!(
        program.run(&["sql", query, "--format", "json"]).json(),
        expected
    );
    assert_eq!(
        program.run(&["sql", "SELECT 1 WHERE 0", "--json"]).json(),
        json!([])
    );
    assert_eq!(
        program
            .run(&["sql", "SELECT 1 AS one WHERE 0", "--format", "csv"])
            .out,
        "one\n"
    );
    let refused = program.run(&["sql", "DELETE FROM messages", "--json"]);
    assert_eq!(
        (refused.code, refused.error()["kind"].as_str()),
        (2, Some("invalid"))
    );
}
