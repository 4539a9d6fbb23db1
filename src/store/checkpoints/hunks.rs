//! The places where two texts differ, and the words that differ in them.

use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::model::{DiffHunk, DiffLine};
use crate::workspace::lines::lines;

/// How many lines are shown around a difference.
const AROUND: usize = 3;

/// How long one pair of texts is compared; what is not compared by then counts as replaced.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longer lines are not compared word by word.
const MOST_WORDS: usize = 2_000;

/// Parts of a line, as ranges of bytes.
type Spans = Vec<(usize, usize)>;

/// The places where two texts differ.
pub(super) fn hunks(from: &[u8], to: &[u8]) -> Vec<DiffHunk> {
    let (from, to) = (lines(from), lines(to));
    let deadline = Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &from, &to, Some(deadline));
    let groups = group_diff_ops(ops, AROUND);
    let groups = groups.iter().filter(|ops| !ops.is_empty());
    groups.map(|ops| hunk(&from, &to, ops)).collect()
}

fn hunk(from: &[&[u8]], to: &[&[u8]], ops: &[DiffOp]) -> DiffHunk {
    let mut lines = Vec::new();
    for op in ops {
        let (old, new) = (op.old_range(), op.new_range());
        match op {
            DiffOp::Equal { .. } => {
                let pairs = old.zip(new);
                lines.extend(pairs.map(|(old, new)| line(Some(old), Some(new), from[old])));
            }
            _ => {
                let mut goes: Vec<DiffLine> =
                    old.map(|old| line(Some(old), None, from[old])).collect();
                let mut comes: Vec<DiffLine> =
                    new.map(|new| line(None, Some(new), to[new])).collect();
                for (goes, comes) in goes.iter_mut().zip(&mut comes) {
                    (goes.words, comes.words) = words(&goes.text, &comes.text);
                }
                lines.extend(goes);
                lines.extend(comes);
            }
        }
    }
    let span = |range: fn(&DiffOp) -> Range<usize>| {
        let first = ops.first().map_or(0, |op| range(op).start);
        let end = ops.last().map_or(0, |op| range(op).end);
        // Of no lines the number is that of the line before them.
        (first + usize::from(end > first), end - first)
    };
    DiffHunk {
        old: span(DiffOp::old_range),
        new: span(DiffOp::new_range),
        lines,
    }
}

fn line(old: Option<usize>, new: Option<usize>, bytes: &[u8]) -> DiffLine {
    let text = bytes.strip_suffix(b"\n");
    DiffLine {
        old: old.map(|at| at + 1),
        new: new.map(|at| at + 1),
        text: String::from_utf8_lossy(text.unwrap_or(bytes)).into_owned(),
        words: Vec::new(),
        is_unended: text.is_none(),
    }
}

/// The parts of two lines that differ; none if they have little in common.
fn words(from: &str, to: &str) -> (Spans, Spans) {
    let (old, new) = (tokens(from), tokens(to));
    if old.len() > MOST_WORDS || new.len() > MOST_WORDS {
        return Default::default();
    }
    let text = |line: &str, token: &Range<usize>| line[token.clone()].to_owned();
    let (old_words, new_words): (Vec<String>, Vec<String>) = (
        old.iter().map(|token| text(from, token)).collect(),
        new.iter().map(|token| text(to, token)).collect(),
    );
    let deadline = Instant::now() + PATIENCE;
    let ops =
        capture_diff_slices_deadline(Algorithm::Myers, &old_words, &new_words, Some(deadline));
    let (mut goes, mut comes, mut same) = (Vec::new(), Vec::new(), 0);
    let span = |tokens: &[Range<usize>]| match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => Some((first.start, last.end)),
        _ => None,
    };
    for op in ops {
        match op {
            DiffOp::Equal { old_index, len, .. } => {
                let words = old_words[old_index..old_index + len].iter();
                same += words.map(|word| word.trim().len()).sum::<usize>();
            }
            _ => {
                goes.extend(span(&old[op.old_range()]));
                comes.extend(span(&new[op.new_range()]));
            }
        }
    }
    if same * 3 < from.trim().len().max(to.trim().len()) {
        return Default::default();
    }
    (goes, comes)
}

/// Words, runs of spaces, and single signs.
fn tokens(line: &str) -> Vec<Range<usize>> {
    let kind = |letter: char| match letter {
        letter if letter.is_alphanumeric() || letter == '_' => 0,
        letter if letter.is_whitespace() => 1,
        _ => 2,
    };
    let mut tokens: Vec<Range<usize>> = Vec::new();
    let mut last = 2;
    for (at, letter) in line.char_indices() {
        let (end, this) = (at + letter.len_utf8(), kind(letter));
        match tokens.last_mut() {
            Some(token) if this == last && this != 2 => token.end = end,
            _ => tokens.push(at..end),
        }
        last = this;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_that_differ_are_found() {
        let marked = |from: &str, to: &str| {
            let (goes, comes) = words(from, to);
            let cut = |line: &str, spans: Vec<(usize, usize)>| {
                let parts = spans
                    .iter()
                    .map(|(first, end)| line[*first..*end].to_owned());
                parts.collect::<Vec<String>>()
            };
            (cut(from, goes), cut(to, comes))
        };
        let (goes, comes) = marked("let total = price * 2;", "let total = price * count;");
        assert_eq!(
            (goes, comes),
            (vec!["2".to_owned()], vec!["count".to_owned()])
        );
        assert_eq!(marked("größe = 1", "größe = 12").1, ["12"]);
        assert_eq!(
            marked("one thing", "something else entirely"),
            (vec![], vec![])
        );
    }
}
