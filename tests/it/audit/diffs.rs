//! Diffs between any two moments.

use std::fs;

use turnkeep::{DiffKind, DiffOptions, FileDiff, Restore, RewindOptions, StateKind};

use super::small::Desk;

/// Applies a unified diff, as `patch` does.
fn patched(text: &str, diff: &FileDiff) -> String {
    let old: Vec<&str> = text.split_inclusive('\n').collect();
    let mut new = String::new();
    let (mut at, mut last) = (0, "");
    let unified = diff.unified.as_deref().unwrap();
    let hunks = unified.find("@@ -").unwrap_or(unified.len());
    for line in unified[hunks..].split_terminator('\n') {
        if let Some(rest) = line.strip_prefix("@@ -") {
            let span = rest.split(' ').next().unwrap();
            let (first, count) = span.split_once(',').unwrap_or((span, "1"));
            let first: usize = first.parse().unwrap();
            let first = if count == "0" { first } else { first - 1 };
            new.extend(old[at..first].iter().copied());
            at = first;
        } else if line.starts_with('\\') {
            if last != "-" {
                assert_eq!(new.pop(), Some('\n'));
            }
        } else if let Some(text) = line.strip_prefix('+') {
            new.push_str(text);
            new.push('\n');
            last = "+";
        } else {
            let (sign, text) = line.split_at(1);
            last = sign;
            assert_eq!(old[at].trim_end_matches('\n'), text);
            if sign == " " {
                new.push_str(text);
                new.push('\n');
            }
            at += 1;
        }
    }
    new.extend(old[at..].iter().copied());
    new
}

#[test]
fn moments_are_prompts_calls_operations_and_now() {
    let desk = Desk::new();
    let session = desk.session("a");
    let first = desk.prompt(&session, "one");
    let call = desk.write(&session, &[("f", Some(b"1\n2\n3\n")), ("g", Some(b"g\n"))]);
    let second = desk.prompt(&session, "two");
    desk.write(&session, &[("f", Some(b"1\nzwei\n3\n")), ("g", None)]);
    let files = session.files();
    let diff = |from: &str, to: &str| {
        let found = files.diff(&DiffOptions::between(from, to)).unwrap();
        let told = found.iter().map(|file| {
            let name = file.path.file_name().unwrap().to_str().unwrap().to_owned();
            (
                name,
                file.kind,
                file.insertions.unwrap(),
                file.deletions.unwrap(),
            )
        });
        told.collect::<Vec<_>>()
    };
    let f = |kind, come, go| ("f".to_owned(), kind, come, go);
    let g = |kind, come, go| ("g".to_owned(), kind, come, go);
    let both = vec![f(DiffKind::Added, 3, 0), g(DiffKind::Added, 1, 0)];
    assert_eq!(diff(&first, &second), both);
    assert_eq!(diff(&call, &second), both);
    assert_eq!(diff("@start", &second), both);
    let last = vec![f(DiffKind::Modified, 1, 1), g(DiffKind::Deleted, 0, 1)];
    assert_eq!(diff(&second, "@now"), last);
    assert_eq!(diff(&second, "now"), last);
    assert_eq!(
        diff("now", &second),
        vec![f(DiffKind::Modified, 1, 1), g(DiffKind::Added, 1, 0)]
    );
    assert_eq!(diff("@last", &second), vec![]);
    fs::write(desk.path("f"), "by hand\n").unwrap();
    assert_eq!(diff(&second, "now")[0], f(DiffKind::Modified, 1, 3));
    fs::write(desk.path("f"), "1\nzwei\n3\n").unwrap();
    let options = RewindOptions::to(&second).restore(Restore::Files);
    let done = session
        .rewind(&session.plan_rewind(&options).unwrap())
        .unwrap();
    let operation = format!("@op{}", done.operation.unwrap());
    let after = format!("{operation}+");
    assert_eq!(
        diff(&operation, &after),
        vec![f(DiffKind::Modified, 1, 1), g(DiffKind::Added, 1, 0)]
    );
    assert_eq!(diff(&second, &after), vec![]);
    let created = session.operations().unwrap()[0].id;
    assert_eq!(diff(&format!("@op{created}"), "now"), both);
    for name in ["@op99999", "@opx", "nope", ""] {
        let error = files.diff(&DiffOptions::since(name)).unwrap_err();
        assert!(
            error.to_string().starts_with("No file checkpoint"),
            "{error}"
        );
        assert!(!files.is_moment(name).unwrap());
    }
    assert!(files.is_moment("now").unwrap() && files.is_moment(&operation).unwrap());
    let only = DiffOptions::between("@start", &second).only("g");
    assert_eq!(files.diff(&only).unwrap().len(), 1);
    assert_eq!(files.diff(&only.only(desk.path(""))).unwrap().len(), 2);
}

#[test]
fn a_unified_diff_makes_the_new_text_of_the_old() {
    let desk = Desk::new();
    let session = desk.session("a");
    let texts: [&str; 6] = [
        "",
        "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n",
        "a\nB\nc\nd\ne\nf\ng\nh\ni\nJ",
        "J",
        "x\r\ny\n",
        "\u{e4}\ny\nlast",
    ];
    let mut points = Vec::new();
    for text in texts {
        points.push(desk.prompt(&session, "next"));
        desk.write(&session, &[("f", Some(text.as_bytes()))]);
    }
    points.push(desk.prompt(&session, "end"));
    for (from, old) in (1..).zip(texts) {
        for (to, new) in (1..).zip(texts) {
            let options = DiffOptions::between(&points[from], &points[to]);
            let found = session.files().diff(&options).unwrap();
            match found.first() {
                None => assert_eq!(old, new),
                Some(diff) => assert_eq!(patched(old, diff), new, "{diff:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_text_differs_by_hash_size_mode_and_target() {
    let desk = Desk::new();
    let session = desk.session("a");
    let start = desk.prompt(&session, "one");
    desk.write(&session, &[("f", Some(b"a\0"))]);
    let then = desk.prompt(&session, "two");
    desk.write(&session, &[("f", Some(b"a\0b"))]);
    let found = session.files().diff(&DiffOptions::since(&then)).unwrap();
    let file = &found[0];
    assert_eq!(
        (file.insertions, file.unified.as_ref(), file.hunks.len()),
        (None, None, 0)
    );
    assert_eq!((file.from.bytes, file.to.bytes), (Some(2), Some(3)));
    assert_ne!(file.from.hash, file.to.hash);
    fs::remove_file(desk.path("f")).unwrap();
    fs::create_dir(desk.path("f")).unwrap();
    let found = session.files().diff(&DiffOptions::since(&start)).unwrap();
    assert_eq!(
        (found[0].kind, found[0].to.kind),
        (DiffKind::Added, StateKind::Directory)
    );
}

#[cfg(unix)]
#[test]
fn a_mode_alone_is_a_difference() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::new();
    let session = desk.session("a");
    desk.write(&session, &[("f", Some(b"a\n"))]);
    let then = desk.prompt(&session, "two");
    let path = desk.path("f");
    desk.call(&session, std::slice::from_ref(&path), || {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    });
    let found = session.files().diff(&DiffOptions::since(&then)).unwrap();
    assert_eq!(
        (found[0].to.mode, found[0].insertions),
        (Some(0o700), Some(0))
    );
    assert!(found[0].hunks.is_empty());
}
