//! The messages that answer best, page by page: by BM25, among the newest that answer.

use std::ops::ControlFlow;

use rusqlite::Connection;

use super::judge::Judge;
use super::newest::short_and_rest;
use super::{Found, RANKED};
use crate::error::Result;
use crate::model::SearchCursor;
use crate::model::search::At;
use crate::tables::messages;
use crate::tables::search::{self, Asked, Hit, Span, expression};
use crate::transcript::search::snippet::{Counts, count};
use crate::transcript::search::texts::texts;

/// Where one in so many of the newest messages holds the beginnings that are looked for, the index
/// would be slow to tell all that do: then these are read themselves.
const DENSE: usize = 16;

/// After how many messages that is decided, and how many, and how much of them, are read then.
const DECIDED: usize = 512;
const MOST_READ: usize = 4_000;
const MOST_BYTES: usize = 8 << 20;

/// A page of those that answer best, of the messages up to `last`, behind the first `shown` of them.
pub(super) fn best(
    db: &Connection,
    asked: &Asked<'_>,
    judge: &mut Judge<'_>,
    (last, shown): (i64, usize),
    limit: usize,
) -> Result<Found> {
    let spans: Vec<Span> = search::spans(db)?;
    let mut wanted = spans.iter().filter(|span| judge.may_hold(span));
    let Some(first) = wanted.next() else {
        return Ok((Vec::new(), None));
    };
    let end = wanted.next_back().unwrap_or(first).last;
    let range = (first.first, end.min(last));
    let mut ids = match read(db, asked, range)? {
        Some(ids) => ids,
        None => {
            let expression = expression(asked).unwrap_or_default();
            search::best(db, &expression, range, RANKED)?
        }
    };
    ids.sort_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)));
    let mut hits = Vec::new();
    for (place, (id, score)) in ids.iter().enumerate().skip(shown) {
        let Some(hit) = Hit::find(db, *id)? else {
            continue;
        };
        let Some(judged) = judge.judge(hit)? else {
            continue;
        };
        if hits.len() == limit {
            let at = At::Best { last, shown: place };
            return Ok((hits, Some(SearchCursor { at })));
        }
        let mut hit = judge.show(judged)?;
        hit.score = Some(*score);
        hits.push(hit);
    }
    Ok((hits, None))
}

/// Of the newest messages those in which the short beginnings stand too, each with how well it answers;
/// `None` where there are none of them, or too few for that.
fn read(db: &Connection, asked: &Asked<'_>, range: (i64, i64)) -> Result<Option<Vec<(i64, f64)>>> {
    let (short, rest) = short_and_rest(asked.terms);
    if short.is_empty() {
        return Ok(None);
    }
    let rest = Asked {
        terms: &rest,
        ..asked.clone()
    };
    let mut found: Vec<(i64, Counts)> = Vec::new();
    let (mut seen, mut bytes, mut words) = (0, 0, 0);
    let mut is_dense = true;
    search::newest(db, expression(&rest).as_deref(), range, |id| {
        if seen == DECIDED && found.len() * DENSE < seen {
            is_dense = false;
            return Ok(ControlFlow::Break(()));
        }
        if seen >= MOST_READ || bytes >= MOST_BYTES {
            return Ok(ControlFlow::Break(()));
        }
        let (Some(hit), Some(entry)) = (Hit::find(db, id)?, messages::entry(db, id)?) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut counts = Counts::none(asked.terms.len());
        for text in texts(&hit.kind, &entry) {
            counts.add(&count(&text.text, asked.terms));
        }
        seen += 1;
        bytes += entry.len();
        words += counts.words;
        if counts.of_terms.iter().all(|count| *count > 0) {
            found.push((id, counts));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(is_dense.then(|| scored(found, seen, words)))
}

/// BM25 as FTS5 has it (the lower the better): k1 = 1.2, b = 0.75, and no term weighs nothing. All of
/// them stand in each of `found`, so how rare each is weighs nothing either.
fn scored(found: Vec<(i64, Counts)>, seen: usize, words: usize) -> Vec<(i64, f64)> {
    const K1: f64 = 1.2;
    const B: f64 = 0.75;
    let average = words as f64 / seen.max(1) as f64;
    let (all, holding) = (seen as f64, found.len() as f64);
    let rarity = ((all - holding + 0.5) / (holding + 0.5)).ln().max(1e-6);
    let score = |counts: &Counts| -> f64 {
        let length = K1 * (1.0 - B + B * counts.words as f64 / average.max(1.0));
        let weights = counts.of_terms.iter().map(|count| {
            let count = *count as f64;
            count * (K1 + 1.0) / (count + length)
        });
        -rarity * weights.sum::<f64>()
    };
    let scored = found.iter().map(|(id, counts)| (*id, score(counts)));
    scored.collect()
}
