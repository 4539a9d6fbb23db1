//! How many lines differ between two contents.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// How long one pair of contents is compared; what is not compared by then counts as replaced.
const PATIENCE: Duration = Duration::from_millis(200);

/// How many lines come and how many go from one content to another. Contents with a NUL byte are
/// not text: they have no lines.
pub(crate) fn count_changed(from: &[u8], to: &[u8]) -> (usize, usize) {
    if from.contains(&0) || to.contains(&0) {
        return (0, 0);
    }
    let (from, to) = (lines(from), lines(to));
    // A line that only one side has comes or goes for certain; only the others need comparing.
    let (on_from, on_to) = (numbered(&from), numbered(&to));
    // Both by the numbers of the same side.
    let left: Vec<usize> = from
        .iter()
        .filter(|line| on_to.contains_key(*line))
        .filter_map(|line| on_from.get(line).copied())
        .collect();
    let right: Vec<usize> = to
        .iter()
        .filter_map(|line| on_from.get(line).copied())
        .collect();
    let (gone, new) = (from.len() - left.len(), to.len() - right.len());
    let deadline = Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &left, &right, Some(deadline));
    ops.iter().fold((new, gone), |(come, go), op| match op {
        DiffOp::Equal { .. } => (come, go),
        DiffOp::Delete { old_len, .. } => (come, go + old_len),
        DiffOp::Insert { new_len, .. } => (come + new_len, go),
        DiffOp::Replace {
            old_len, new_len, ..
        } => (come + new_len, go + old_len),
    })
}

/// A number for each different line.
fn numbered<'a>(lines: &[&'a [u8]]) -> HashMap<&'a [u8], usize> {
    let mut numbers = HashMap::with_capacity(lines.len());
    for line in lines {
        let next = numbers.len();
        numbers.entry(*line).or_insert(next);
    }
    numbers
}

/// The lines of a content, each with its end.
pub(crate) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_both_ways() {
        assert_eq!(count_changed(b"a\nb\nc\n", b"a\nx\nc\n"), (1, 1));
        assert_eq!(count_changed(b"", b"a\nb"), (2, 0));
        assert_eq!(count_changed(b"a\nb", b""), (0, 2));
        assert_eq!(count_changed(b"a\r\n", b"a\n"), (1, 1));
        assert_eq!(count_changed(b"a\nb\nc\nd\n", b"d\nx\nb\na\nc\n"), (3, 2));
        assert_eq!(count_changed(b"\0", b"a\n"), (0, 0));
    }
}
