//! Which lines two contents share: what was added, what was removed, and how alike they are.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::lines::lines;

/// How long one pair of contents is compared; what is not compared by then counts as replaced.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longer contents are told by size and hash alone.
pub(crate) const MOST: usize = 8 << 20;

/// Lines that stand in both contents, one behind another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// Whether a content is compared line by line: it has no NUL, and is not too long.
pub(crate) fn is_text(content: &[u8]) -> bool {
    content.len() <= MOST && !content.contains(&0)
}

/// The lines that two contents share, in the order of both. What is not text is shared as a whole
/// or not at all.
pub(crate) fn shared(from: &[u8], to: &[u8]) -> Vec<Run> {
    if from == to {
        let len = lines(from).len();
        return vec![Run {
            from: 0,
            to: 0,
            len,
        }];
    }
    if !is_text(from) || !is_text(to) {
        return Vec::new();
    }
    let (from, to) = (lines(from), lines(to));
    let deadline = Instant::now() + PATIENCE;
    let ops = capture_diff_slices_deadline(Algorithm::Myers, &from, &to, Some(deadline));
    let equal = ops.into_iter().filter_map(|op| match op {
        DiffOp::Equal {
            old_index,
            new_index,
            len,
        } => Some(Run {
            from: old_index,
            to: new_index,
            len,
        }),
        _ => None,
    });
    equal.collect()
}

/// The lines of the second content that it does not share with the first.
pub(crate) fn added(runs: &[Run], lines: usize) -> Vec<usize> {
    rest(runs.iter().map(|run| (run.to, run.len)), lines)
}

/// The lines of the first content that it does not share with the second.
pub(crate) fn removed(runs: &[Run], lines: usize) -> Vec<usize> {
    rest(runs.iter().map(|run| (run.from, run.len)), lines)
}

fn rest(runs: impl Iterator<Item = (usize, usize)>, lines: usize) -> Vec<usize> {
    let mut rest = Vec::new();
    let mut next = 0;
    for (at, len) in runs {
        rest.extend(next..at);
        next = at + len;
    }
    rest.extend(next..lines);
    rest
}

/// Which of some lines of the first content stand in the second too. The lines rise.
pub(crate) fn count_shared(runs: &[Run], chosen: &[usize]) -> usize {
    let holds = |line: &&usize| {
        let at = runs.partition_point(|run| run.from + run.len <= **line);
        runs.get(at).is_some_and(|run| run.from <= **line)
    };
    chosen.iter().filter(holds).count()
}

/// How alike two texts are, from 0 to 1: the part of their lines that they share.
pub(crate) fn likeness(from: &[u8], to: &[u8]) -> f64 {
    let all = lines(from).len() + lines(to).len();
    if all == 0 {
        return 0.0;
    }
    let both: usize = shared(from, to).iter().map(|run| run.len).sum();
    2.0 * both as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_shared_added_and_removed() {
        let (from, to) = (b"a\nb\nc\nd\n", b"a\nx\nc\nd\ny\n");
        let runs = shared(from, to);
        assert_eq!(added(&runs, 5), [1, 4]);
        assert_eq!(removed(&runs, 4), [1]);
        assert_eq!(count_shared(&runs, &[0, 1, 3]), 2);
        assert_eq!(shared(b"a\0", b"a\0b"), []);
        assert_eq!(shared(b"a\0", b"a\0")[0].len, 1);
        assert!((likeness(b"a\nb\n", b"a\nc\n") - 0.5).abs() < f64::EPSILON);
        assert!(likeness(b"", b"") < f64::EPSILON);
    }
}
