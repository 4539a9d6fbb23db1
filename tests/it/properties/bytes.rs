//! Any bytes at all come out as they went in, however often the file was read on the way.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Case, SESSION, cases, readable};

/// A line of a file, without its line feed.
type Line = Vec<u8>;

/// A file; a failure shows it as text.
struct File(Vec<u8>);

impl std::fmt::Debug for File {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "b\"{}\"", readable(&self.0))
    }
}

/// A record of any kind: few uuids, so that they repeat with other bytes, and parents of all sorts.
fn record() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(vec![
        "user",
        "assistant",
        "system",
        "attachment",
        "progress",
        "custom-title",
        "new-kind",
    ]);
    let content = prop::sample::select(vec![
        r#""hello""#,
        r#""""#,
        r#"[{"type":"text","text":"caf\u00e9 é"}]"#,
        r#"[{"type":"tool_use","id":"t1","name":"Bash","input":{"a": 1.0}}]"#,
        r#"[{"type":"tool_use","id":"t2","name":"Bash","input":{}},{"type":"text","text":"x"}]"#,
        r#"[{"type":"tool_result","tool_use_id":"t1","content":"done"}]"#,
        r#"[{"type":"tool_result","tool_use_id":"t2","content":[]}]"#,
        r#"[]"#,
    ]);
    let tail = prop::sample::select(vec![
        "",
        r#","isSidechain":true"#,
        r#","isMeta":true"#,
        r#","subtype":"compact_boundary""#,
        r#","isCompactSummary":true"#,
        r#","customTitle":"t","tag":"x""#,
        r#","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/srv""#,
    ]);
    let names = (
        any::<bool>(),
        prop::option::weighted(0.8, 0..6_u8),
        prop::option::of(0..7_u8),
    );
    (kind, content, tail, names, prop::option::of(0..3_u8)).prop_map(
        |(kind, content, tail, (owned, uuid, parent), response)| {
            let uuid = uuid.map(|n| format!(r#","uuid":"u{n}""#));
            let parent = parent.map_or("null".to_owned(), |n| format!(r#""u{n}""#));
            let session = owned.then(|| format!(r#","sessionId":"{SESSION}""#));
            let response = response.map(|n| format!(r#","id":"m{n}""#));
            format!(
                r#"{{"type":"{kind}"{},"parentUuid":{parent}{},"message":{{"role":"{kind}"{},"content":{content}}}{tail}}}"#,
                uuid.unwrap_or_default(),
                session.unwrap_or_default(),
                response.unwrap_or_default(),
            )
        },
    )
}

/// The beginning of a record.
fn torn() -> impl Strategy<Value = Line> {
    (record(), any::<prop::sample::Index>()).prop_map(|(record, at)| {
        let cut = at.index(record.len());
        record.as_bytes()[..cut].to_vec()
    })
}

/// One line, of any of the kinds that crashes, editors and other programs leave behind.
fn line() -> impl Strategy<Value = Line> {
    let padding = prop::sample::select(vec!["\r", "\0", "\0\0\0", " ", "\t", "\u{feff}", "x", "}"]);
    let glue = |parts: Vec<Line>| parts.concat();
    prop_oneof![
        6 => record().prop_map(String::into_bytes),
        1 => (padding.clone(), record()).prop_map(|(p, r)| format!("{p}{r}").into_bytes()),
        2 => (record(), padding.clone()).prop_map(|(r, p)| format!("{r}{p}").into_bytes()),
        1 => vec(padding, 0..3).prop_map(|parts| parts.concat().into_bytes()),
        1 => torn(),
        1 => (torn(), record()).prop_map(|(t, r)| [t, r.into_bytes()].concat()),
        1 => (record(), torn()).prop_map(|(r, t)| [r.into_bytes(), t].concat()),
        1 => vec(record().prop_map(String::into_bytes), 2..4).prop_map(glue),
        1 => (record(), any::<u8>(), any::<prop::sample::Index>()).prop_map(|(record, byte, at)| {
            // A changed session id would be another session, and a changed block none at all.
            let owner = format!(r#","sessionId":"{SESSION}""#);
            let record = record.replace(&owner, "");
            let at = at.index(record.find("message").unwrap());
            let mut line = record.into_bytes();
            line[at] = if byte == b'\n' { 0xff } else { byte };
            line
        }),
        1 => vec(any::<u8>().prop_filter("a line feed ends it", |byte| *byte != b'\n'), 0..12),
        1 => prop::sample::select(vec!["[1]", "null", "{}", r#"{"a":1}"#, r#"{"a":1}x"#, "\"x\"", "1"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// A whole file; some lines repeat others, and the last line feed may be missing.
fn file() -> impl Strategy<Value = File> {
    let line = prop_oneof![
        6 => line().prop_map(Ok),
        1 => any::<prop::sample::Index>().prop_map(Err),
    ];
    (vec(line, 1..12), any::<bool>()).prop_map(|(lines, ended)| {
        let mut all: Vec<Line> = Vec::new();
        for line in lines {
            match line {
                Ok(line) => all.push(line),
                Err(at) if !all.is_empty() => all.push(all[at.index(all.len())].clone()),
                Err(_) => {}
            }
        }
        let mut bytes = all.join(&b'\n');
        if ended {
            bytes.push(b'\n');
        }
        File(bytes)
    })
}

proptest! {
    #![proptest_config(cases(80))]

    #[test]
    fn an_export_is_what_was_imported(File(bytes) in file()) {
        let case = Case::new();
        case.import(&bytes);
        if !bytes.is_empty() {
            prop_assert_eq!(readable(&case.shown().0), readable(&bytes));
            let again = case.import(&bytes);
            prop_assert_eq!(again.new_entries, 0);
            prop_assert_eq!(readable(&case.shown().0), readable(&bytes));
        }
    }

    #[test]
    fn an_import_in_steps_is_an_import_at_once(
        File(bytes) in file(),
        cuts in vec(any::<prop::sample::Index>(), 1..3),
    ) {
        prop_assume!(!bytes.is_empty());
        let once = Case::new();
        once.import(&bytes);
        let steps = Case::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        for cut in &cuts {
            steps.import(&bytes[..*cut]);
            if *cut > 0 {
                prop_assert_eq!(readable(&steps.shown().0), readable(&bytes[..*cut]), "{:?}", cuts);
            }
        }
        steps.import(&bytes);
        let (exported, conversation) = steps.shown();
        prop_assert_eq!(readable(&exported), readable(&bytes), "cut at {:?}", cuts);
        prop_assert_eq!(conversation, once.shown().1, "cut at {:?}", cuts);
    }
}
