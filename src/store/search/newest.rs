//! The newest messages that answer, page by page.
//!
//! The index answers with ids. Newest first goes by when messages were said, and ids by when they
//! were stored, which for a folder imported late is not the same: spans of ids know their oldest and
//! newest time, so that what cannot be on the page is passed over.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::Found;
use super::judge::{Judge, Judged};
use crate::error::Result;
use crate::model::SearchCursor;
use crate::model::search::At;
use crate::tables::search::{self, Asked, Hit, Span, expression};
use crate::transcript::search::ask::Term;

/// Beginnings of so many letters are looked for in the messages themselves first: SQLite reads all
/// words that begin so, in all messages, before it tells the first one.
const SHORT: usize = 3;

/// How many messages are read for them, and for how long, until the index is asked after all: where
/// so few of them answer, it does not take long.
const MOST_READ: usize = 512;
const READING: Duration = Duration::from_millis(30);

/// A page of the newest ones that were said before `cursor`, a time and an id.
pub(super) fn newest(
    db: &Connection,
    asked: &Asked<'_>,
    judge: &mut Judge<'_>,
    cursor: (i64, i64),
    limit: usize,
) -> Result<Found> {
    let wanted = |span: &Span| judge.may_hold(span) && span.oldest_ms <= cursor.0;
    let spans: Vec<Span> = search::spans(db)?.into_iter().filter(wanted).collect();
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return Ok((Vec::new(), None));
    };
    let range = (first.first, last.last);
    let (short, rest) = short_and_rest(asked.terms);
    if !short.is_empty() {
        let rest = Asked {
            terms: &rest,
            ..asked.clone()
        };
        let mut page = Page::new(&spans, cursor, limit);
        let (mut read, begun) = (0, Instant::now());
        let mut is_enough = true;
        search::newest(db, expression(&rest).as_deref(), range, |id| {
            if read >= MOST_READ || begun.elapsed() >= READING {
                is_enough = false;
                return Ok(ControlFlow::Break(()));
            }
            page.meet(db, id, |hit| {
                read += 1;
                match judge.stands_in(&hit, &short)? {
                    true => judge.judge(hit),
                    false => Ok(None),
                }
            })
        })?;
        if is_enough {
            return page.shown(judge);
        }
    }
    let mut page = Page::new(&spans, cursor, limit);
    search::newest(db, expression(asked).as_deref(), range, |id| {
        page.meet(db, id, |hit| judge.judge(hit))
    })?;
    page.shown(judge)
}

/// The terms of which the index is slow to tell what begins so, and the others.
pub(super) fn short_and_rest(terms: &[Term]) -> (Vec<Term>, Vec<Term>) {
    terms.iter().cloned().partition(is_short)
}

fn is_short(term: &Term) -> bool {
    let last_is_short = |words: &Vec<String>| {
        let last = words.last();
        last.is_some_and(|word| word.chars().count() <= SHORT)
    };
    term.is_prefix && (last_is_short(&term.words) || term.humps.as_ref().is_some_and(last_is_short))
}

/// A message that may be on the page, ordered by when it was said and its id.
struct Kept {
    said: (i64, i64),
    judged: Judged,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.said == other.said
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        self.said.cmp(&other.said)
    }
}

/// A page while it is filled, from the last id back.
struct Page<'s> {
    spans: &'s [Span],
    /// The newest time in each span or in one before it.
    newest_until: Vec<i64>,
    /// The span that the last id was in.
    at: usize,
    cursor: (i64, i64),
    limit: usize,
    kept: BinaryHeap<Reverse<Kept>>,
}

impl<'s> Page<'s> {
    fn new(spans: &'s [Span], cursor: (i64, i64), limit: usize) -> Self {
        let mut newest_until = Vec::with_capacity(spans.len());
        for span in spans {
            let before = newest_until.last().copied().unwrap_or(i64::MIN);
            newest_until.push(span.newest_ms.max(before));
        }
        Self {
            spans,
            newest_until,
            at: spans.len() - 1,
            cursor,
            limit,
            kept: BinaryHeap::new(),
        }
    }

    /// Meets the next id; breaks once nothing before it can be on the page. `judge` tells whether the
    /// message is to be shown.
    fn meet(
        &mut self,
        db: &Connection,
        id: i64,
        judge: impl FnOnce(Hit) -> Result<Option<Judged>>,
    ) -> Result<ControlFlow<()>> {
        while self.spans[self.at].first > id {
            self.at -= 1;
        }
        let span = &self.spans[self.at];
        // Ids go down, so of what was said at one time the first one met is the newest.
        let bar = self
            .kept
            .peek()
            .filter(|_| self.kept.len() > self.limit)
            .map(|Reverse(kept)| kept.said.0);
        if bar.is_some_and(|bar| self.newest_until[self.at] <= bar) {
            return Ok(ControlFlow::Break(()));
        }
        if id > span.last || bar.is_some_and(|bar| span.newest_ms <= bar) {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(hit) = Hit::find(db, id)? else {
            return Ok(ControlFlow::Continue(()));
        };
        let key = (hit.said_ms, id);
        if key < self.cursor
            && bar.is_none_or(|bar| key.0 > bar)
            && let Some(judged) = judge(hit)?
        {
            self.kept.push(Reverse(Kept { said: key, judged }));
            if self.kept.len() > self.limit.saturating_add(1) {
                self.kept.pop();
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn shown(self, judge: &mut Judge<'_>) -> Result<Found> {
        let mut found = self.kept.into_sorted_vec();
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = found.last().filter(|_| has_more);
        let next = next.map(|Reverse(last)| SearchCursor {
            at: At::Said {
                said_ms: last.said.0,
                id: last.said.1,
            },
        });
        let hits = found
            .into_iter()
            .map(|Reverse(kept)| judge.show(kept.judged));
        Ok((hits.collect::<Result<_>>()?, next))
    }
}
