//! How many lines differ between two contents.

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
    let deadline = Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &from, &to, Some(deadline));
    ops.iter().fold((0, 0), |(come, go), op| match op {
        DiffOp::Equal { .. } => (come, go),
        DiffOp::Delete { old_len, .. } => (come, go + old_len),
        DiffOp::Insert { new_len, .. } => (come + new_len, go),
        DiffOp::Replace {
            old_len, new_len, ..
        } => (come + new_len, go + old_len),
    })
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
        assert_eq!(count_changed(b"\0", b"a\n"), (0, 0));
    }
}
