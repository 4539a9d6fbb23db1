//! Reported faults of transcript files: a bad line costs that line.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use turnkeep::NewMessage;
use turnkeep::claude_code::ImportReport;

use crate::case::{
    Case, checked, copy_folder, field, folder, spoken, strings, transcript_in, user, uuids,
};
use crate::kit::{TestStore, exported, import};

/// A copy of a case's input that a test may add to.
struct Copied {
    test: TestStore,
    folder: PathBuf,
    file: PathBuf,
}

impl Copied {
    fn of(name: &str) -> Self {
        let test = TestStore::new();
        let to = test.path("config");
        copy_folder(&folder(name), &to);
        let file = transcript_in(&to);
        Self {
            folder: to,
            file,
            test,
        }
    }

    fn import(&self) -> ImportReport {
        import(&self.test.store, &self.folder)
    }

    fn add(&self, bytes: &str) {
        let mut file = OpenOptions::new().append(true).open(&self.file).unwrap();
        file.write_all(bytes.as_bytes()).unwrap();
    }

    fn assert_exports_as_it_is(&self) {
        let session = self.test.only_session();
        let bytes = fs::read(&self.file).unwrap();
        assert!(exported(&session, "") == bytes, "{}", self.file.display());
    }
}

/// Compares what a case says of its lines with what was stored and reported.
fn assert_lines(case: &Case) {
    let session = case.session();
    assert_eq!(uuids(&session, ""), strings(&case.expect["imported"]));
    if let Some(skipped) = case.expect["skipped_lines"].as_array() {
        let reported: Vec<u64> = case
            .report
            .problems
            .iter()
            .filter_map(|problem| problem.line)
            .collect();
        let skipped: Vec<u64> = skipped.iter().map(|line| line.as_u64().unwrap()).collect();
        assert_eq!(reported, skipped, "{:?}", case.report.problems);
        assert_eq!(case.report.malformed_lines, skipped.len() as u64);
        let said_partial = case.expect["status"] == "partial";
        assert_eq!(case.report.partial, said_partial);
    }
    if let Some(active) = case.expect.get("active") {
        let conversation = session.conversation("").unwrap();
        assert_eq!(spoken(&conversation), strings(active));
    }
    assert!(exported(&session, "") == case.source(), "bytes differ");
    checked(&session.context("").unwrap());
    let listed = case.test.store.sessions();
    let listed = listed.list(&Default::default(), None, 10).unwrap();
    assert_eq!(listed.sessions.len(), 1, "it is listed");
    assert_eq!(case.test.store.verify().unwrap().findings, []);
}

#[test]
fn a_line_cut_in_half_costs_that_line_b15() {
    let case = Case::import("B15");
    assert_lines(&case);
    let problem = &case.report.problems[0];
    assert!(problem.what.contains("end of the file"), "{}", problem.what);
}

#[test]
fn a_line_that_is_finished_later_completes_it_b15() {
    let copied = Copied::of("B15");
    let text = fs::read_to_string(&copied.file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The fourth line is whole, and of the same make as the one that was cut.
    let cut = r#""model":"mo"#;
    assert!(lines[5].ends_with(cut), "{}", lines[5]);
    let rest = &lines[3][lines[3].find(cut).unwrap() + cut.len()..];
    let parent = field(lines[4], "uuid");
    assert!(copied.import().partial);
    let old = field_in(rest, "uuid");
    let rest = rest.replace(&old, "99999999-0000-4000-8000-000000000015");
    copied.add(&format!("{rest}\n"));
    let report = copied.import();
    assert!(!report.partial, "{report:?}");
    assert_eq!(report.new_entries, 1);
    let session = copied.test.only_session();
    assert_eq!(session.info().unwrap().entries, 6);
    let conversation = session.conversation("").unwrap();
    let head = conversation.entries.last().unwrap();
    assert_eq!(head.uuid, "99999999-0000-4000-8000-000000000015");
    assert_eq!(field(&head.entry, "parentUuid"), parent);
    copied.assert_exports_as_it_is();
    assert_eq!(copied.test.store.verify().unwrap().findings, []);
}

#[test]
fn a_half_line_at_any_byte_is_kept_and_completed_b15() {
    let copied = Copied::of("B01");
    let whole = fs::read(&copied.file).unwrap();
    let last = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    // From nothing of the line to all of it but the line feed.
    let cuts: Vec<usize> = (last + 1..whole.len()).step_by(23).collect();
    assert!(cuts.len() > 10);
    for cut in cuts.into_iter().chain([whole.len() - 1]) {
        let test = TestStore::new();
        fs::write(&copied.file, &whole[..cut]).unwrap();
        import(&test.store, &copied.folder);
        let session = test.only_session();
        assert!(exported(&session, "") == whole[..cut], "cut at {cut}");
        fs::write(&copied.file, &whole).unwrap();
        let report = import(&test.store, &copied.folder);
        assert!(!report.partial, "cut at {cut}: {report:?}");
        assert!(exported(&session, "") == whole, "cut at {cut}");
        assert_eq!(session.info().unwrap().entries, 6, "cut at {cut}");
        assert_eq!(test.store.verify().unwrap().findings, [], "cut at {cut}");
    }
}

#[test]
fn a_malformed_line_in_the_middle_does_not_end_the_session_b16() {
    assert_lines(&Case::import("B16"));
}

#[test]
fn any_line_may_be_malformed_b16() {
    let copied = Copied::of("B01");
    let good = fs::read_to_string(&copied.file).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let all: Vec<String> = lines
        .iter()
        .map(|line| field(line, "uuid").unwrap())
        .collect();
    for broken in 0..lines.len() {
        for rubbish in ["{\"type\":\"user\",", "]", "null", "\u{fffd}", "{}{", "\t"] {
            let mut lines: Vec<&str> = lines.clone();
            lines[broken] = rubbish;
            fs::write(&copied.file, lines.join("\n") + "\n").unwrap();
            let test = TestStore::new();
            import(&test.store, &copied.folder);
            let mut expected = all.clone();
            expected.remove(broken);
            let session = test.only_session();
            assert_eq!(uuids(&session, ""), expected, "{rubbish} on line {broken}");
            let conversation = session.conversation("").unwrap();
            assert_eq!(
                spoken(&conversation),
                expected,
                "{rubbish} on line {broken}"
            );
            let bytes = fs::read(&copied.file).unwrap();
            assert!(
                exported(&session, "") == bytes,
                "{rubbish} on line {broken}"
            );
        }
    }
}

#[test]
fn runs_of_nul_bytes_cost_no_record_b17() {
    let case = Case::import("B17");
    assert_lines(&case);
    let runs = case.expect["nul_runs"].as_u64().unwrap();
    assert_eq!(case.report.malformed_lines, runs);
    assert!(
        case.report
            .problems
            .iter()
            .all(|problem| problem.what.contains("NUL") || problem.what.contains("end of the file")),
        "{:?}",
        case.report.problems
    );
}

#[test]
fn a_record_glued_behind_half_of_another_is_salvaged_b18() {
    let case = Case::import("B18");
    assert_lines(&case);
    let fragments = case.expect["skipped_fragments"].as_u64().unwrap();
    assert_eq!(case.report.malformed_lines, fragments);
    let salvaged = strings(&case.expect["salvaged"])[0];
    let conversation = case.session().conversation("").unwrap();
    assert!(spoken(&conversation).contains(&salvaged));
}

#[test]
fn an_export_ends_each_record_and_repairs_a_missing_end_b18() {
    // Behind half a record, and behind a whole one without its line feed, a record of our own begins
    // on a line of its own.
    for case in ["B15", "B28"] {
        let copied = Copied::of(case);
        copied.import();
        let session = copied.test.only_session();
        let mine = session
            .messages()
            .append(NewMessage::user("go on"))
            .unwrap();
        let bytes = exported(&session, "");
        let imported = fs::read(&copied.file).unwrap();
        assert!(bytes.starts_with(&imported), "{case}");
        let rest = std::str::from_utf8(&bytes[imported.len()..]).unwrap();
        let record = rest.strip_prefix('\n').unwrap().strip_suffix('\n').unwrap();
        assert_eq!(field(record, "uuid"), Some(mine.uuid), "{case}");
    }
}

#[test]
fn every_record_is_written_with_its_line_end_in_one_go_b18() {
    /// Notes what each call writes.
    #[derive(Default)]
    struct Pieces(Vec<Vec<u8>>);
    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let test = TestStore::new();
    let session = test.session();
    for text in ["one", "two", "three"] {
        session.messages().append(NewMessage::user(text)).unwrap();
    }
    let mut pieces = Pieces::default();
    turnkeep::export_jsonl(&session, "", &mut pieces).unwrap();
    assert_eq!(pieces.0.len(), 3);
    for piece in pieces.0 {
        assert_eq!(piece.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(piece.last(), Some(&b'\n'));
    }
}

#[test]
fn crlf_bom_and_a_missing_line_end_lose_no_record_b28() {
    let case = Case::import("B28");
    assert_lines(&case);
    assert_eq!(case.report.malformed_lines, 0);
}

#[test]
fn a_record_behind_a_missing_line_end_is_not_glued_b28() {
    for (how, between) in [("a client that repairs", "\n"), ("one that does not", "")] {
        let copied = Copied::of("B28");
        let expect = crate::case::expect("B28");
        copied.import();
        let last = strings(&expect["imported"])[5].to_owned();
        let next = user("99999999-0000-4000-8000-000000000028", Some(&last), "more");
        copied.add(&format!("{between}{next}\n"));
        let report = copied.import();
        assert_eq!(report.new_entries, 1, "{how}");
        let session = copied.test.only_session();
        let entries = session.info().unwrap().entries;
        assert_eq!(expect["then_reimport_entries"], entries, "{how}");
        let conversation = session.conversation("").unwrap();
        assert_eq!(spoken(&conversation).len(), 7, "{how}");
        assert_eq!(conversation.entries.last().unwrap().entry, next, "{how}");
        copied.assert_exports_as_it_is();
        assert_eq!(copied.test.store.verify().unwrap().findings, [], "{how}");
        let again = copied.import();
        assert_eq!((again.new_entries, again.entries), (0, 7), "{how}");
    }
}

/// A text field of the end of a record.
fn field_in(rest: &str, name: &str) -> String {
    let start = format!("\"{name}\":\"");
    let at = rest.find(&start).unwrap() + start.len();
    let end = rest[at..].find('"').unwrap();
    rest[at..at + end].to_owned()
}
