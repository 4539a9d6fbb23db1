//! Unified diffs in git's form, which `git apply` and GNU `patch -p1` take.
//!
//! The extended headers tell what `---` and `+++` cannot: an empty file that comes or goes, and modes.

use std::path::Path;

use crate::model::{DiffHunk, StateInfo, StateKind};
use crate::tables::file_states::os_bytes;

/// The bits of a mode that say it is a file.
const FILE: u32 = 0o100_000;

/// The mode of a file that nobody recorded one of.
const USUAL: u32 = 0o644;

/// How git names an empty content, and none.
const EMPTY: &str = "e69de29";
const NOTHING: &str = "0000000";

/// A diff of one file of text, or of nothing and one; the name is seen from the folder it is applied in.
pub(super) fn unified(name: &Path, from: &StateInfo, to: &StateInfo, hunks: &[DiffHunk]) -> String {
    let name = os_bytes(name.as_os_str());
    let name = Name(name.strip_prefix(b"/").unwrap_or(&name));
    let mut text = format!("diff --git {} {}\n", name.bare('a'), name.bare('b'));
    let mode = |state: &StateInfo| FILE | state.mode.unwrap_or(USUAL);
    let is_there = |state: &StateInfo| state.kind != StateKind::Absent;
    match (is_there(from), is_there(to)) {
        (false, _) => text.push_str(&format!("new file mode {:o}\n", mode(to))),
        (_, false) => text.push_str(&format!("deleted file mode {:o}\n", mode(from))),
        _ => {
            if from.mode.is_some() && to.mode.is_some() && from.mode != to.mode {
                let (old, new) = (mode(from), mode(to));
                text.push_str(&format!("old mode {old:o}\nnew mode {new:o}\n"));
            }
        }
    }
    if hunks.is_empty() {
        // Without it, GNU patch does not take the end of an empty file for one.
        match (is_there(from), is_there(to)) {
            (false, _) => text.push_str(&format!("index {NOTHING}..{EMPTY}\n")),
            (_, false) => text.push_str(&format!("index {EMPTY}..{NOTHING}\n")),
            _ => {}
        }
        return text;
    }
    let named = |side: char, state: &StateInfo| match is_there(state) {
        true => name.with_tab(side),
        false => "/dev/null".to_owned(),
    };
    text.push_str(&format!(
        "--- {}\n+++ {}\n",
        named('a', from),
        named('b', to)
    ));
    for hunk in hunks {
        push(&mut text, hunk);
    }
    text
}

fn push(text: &mut String, hunk: &DiffHunk) {
    let span = |(first, count): (usize, usize)| match count {
        1 => first.to_string(),
        _ => format!("{first},{count}"),
    };
    text.push_str(&format!("@@ -{} +{} @@\n", span(hunk.old), span(hunk.new)));
    for line in &hunk.lines {
        let sign = match (line.old, line.new) {
            (Some(_), None) => '-',
            (None, _) => '+',
            _ => ' ',
        };
        text.push(sign);
        text.push_str(&line.text);
        text.push('\n');
        if line.is_unended {
            text.push_str("\\ No newline at end of file\n");
        }
    }
}

/// The bytes of a name.
struct Name<'n>(&'n [u8]);

impl Name<'_> {
    /// As it stands behind `---`: a TAB ends a name with spaces.
    fn with_tab(&self, side: char) -> String {
        match self.as_is().filter(|name| !name.ends_with(' ')) {
            Some(name) if name.contains(' ') => format!("{side}/{name}\t"),
            Some(name) => format!("{side}/{name}"),
            None => self.quoted(side),
        }
    }

    /// As it stands behind `diff --git`, where only quotes keep a name with spaces together.
    fn bare(&self, side: char) -> String {
        match self.as_is().filter(|name| !name.contains(' ')) {
            Some(name) => format!("{side}/{name}"),
            None => self.quoted(side),
        }
    }

    /// The name, if it needs no quotes.
    fn as_is(&self) -> Option<&str> {
        let is_plain = |letter: char| !letter.is_ascii_control() && !"\"\\".contains(letter);
        let name = std::str::from_utf8(self.0).ok()?;
        name.chars().all(is_plain).then_some(name)
    }

    /// As a string of C, as git writes it: what is no printable ASCII as its bytes, in octal.
    fn quoted(&self, side: char) -> String {
        let mut text = format!("\"{side}/");
        for byte in self.0 {
            match byte {
                b'\t' => text.push_str("\\t"),
                b'\n' => text.push_str("\\n"),
                b'\r' => text.push_str("\\r"),
                b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
                b' '..=b'~' => text.push(char::from(*byte)),
                _ => text.push_str(&format!("\\{byte:03o}")),
            }
        }
        text.push('"');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::hunks::hunks;
    use super::*;

    fn state(kind: StateKind, mode: Option<u32>) -> StateInfo {
        StateInfo {
            kind,
            hash: None,
            bytes: None,
            mode,
            target: None,
            reason: None,
        }
    }

    #[test]
    fn a_diff_is_written_as_git_and_patch_take_it() {
        let file = |mode| state(StateKind::File, mode);
        let absent = state(StateKind::Absent, None);
        let found = hunks(b"a\nb", b"a\nc\nd\n");
        let text = unified(Path::new("/x/f"), &file(None), &file(Some(0o644)), &found);
        let wanted = "diff --git a/x/f b/x/f\n--- a/x/f\n+++ b/x/f\n@@ -1,2 +1,3 @@\n a\n-b\n\
            \\ No newline at end of file\n+c\n+d\n";
        assert_eq!(text, wanted);
        let text = unified(
            Path::new("f"),
            &absent,
            &file(Some(0o755)),
            &hunks(b"", b"a\n"),
        );
        let wanted =
            "diff --git a/f b/f\nnew file mode 100755\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n";
        assert_eq!(text, wanted);
        let text = unified(Path::new("f"), &file(None), &absent, &[]);
        assert_eq!(
            text,
            "diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0000000\n"
        );
        let (old, new) = (file(Some(0o644)), file(Some(0o700)));
        let text = unified(Path::new("my f"), &old, &new, &[]);
        let wanted = "diff --git \"a/my f\" \"b/my f\"\nold mode 100644\nnew mode 100700\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_name_is_ended_by_a_tab_or_quoted() {
        let named = |name: &[u8]| Name(name).with_tab('a');
        assert_eq!(named(b"f"), "a/f");
        assert_eq!(named("größe".as_bytes()), "a/größe");
        assert_eq!(named(b"my file.txt"), "a/my file.txt\t");
        assert_eq!(named(b"f "), "\"a/f \"");
        assert_eq!(named(b"a\tb\nc\"d\\e\x01"), r#""a/a\tb\nc\"d\\e\001""#);
        assert_eq!(named(b"caf\xe9"), r#""a/caf\351""#);
        assert_eq!(named("ä\t".as_bytes()), r#""a/\303\244\t""#);
    }
}
