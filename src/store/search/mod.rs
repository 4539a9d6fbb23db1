//! Search: what is found, page by page, the newest or the best first.

mod best;
mod copies;
pub(super) mod index;
mod judge;
mod newest;

use rusqlite::Connection;

use self::best::best;
use self::judge::Judge;
use self::newest::newest;
use super::Store;
use crate::error::{Error, Result};
use crate::model::search::At;
use crate::model::{SearchCursor, SearchHit, SearchPage, SearchQuery};
use crate::tables::search;
use crate::transcript::search::ask::{Term, terms};

/// How many hits a page has if nothing is said.
const PAGE: usize = 20;

/// Among how many messages the best ones are looked for.
const RANKED: usize = 10_000;

impl Store {
    /// Looks for messages. The index first catches up by one step of at most 200 ms, if the store can
    /// be written to and nobody else is writing; what is not indexed yet is not found, and counted.
    ///
    /// A message is found once: a fork's inherited messages where they were said, and copies that a
    /// client made with the original, as far as the query allows for that one.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the text has no word in it, or the cursor is of another kind of search;
    /// [`Error::NotFound`] if the session is not there; [`Error::Damaged`] for a damaged index of a
    /// store that can only be read (any other is made anew).
    pub fn search(&self, query: &SearchQuery) -> Result<SearchPage> {
        let terms = terms(&query.text);
        if terms.is_empty() {
            let why = format!("`{}` holds no word to look for", query.text);
            return Err(Error::invalid("text", why));
        }
        match index::step(self.db()) {
            Ok(_) => {}
            // What is indexed can be searched all the same.
            Err(Error::ReadOnly { .. } | Error::Busy { .. } | Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        let look = || {
            self.db().read(|db| match page(db, query, &terms) {
                Err(error) if search::is_of_index(db, &error)? => Ok(None),
                found => found.map(Some),
            })
        };
        if let Some(page) = look()? {
            return Ok(page);
        }
        if self.is_read_only() {
            return Err(self.index_damaged("where the store can be written to, it is made anew"));
        }
        self.rebuild_search()?;
        index::step(self.db())?;
        look()?.ok_or_else(|| self.index_damaged("`turnkeep reindex` makes it anew"))
    }

    fn index_damaged(&self, remedy: &str) -> Error {
        Error::Damaged {
            path: self.path().to_owned(),
            why: format!("the search index cannot be read, all else is not concerned; {remedy}"),
        }
    }
}

fn page(db: &Connection, query: &SearchQuery, terms: &[Term]) -> Result<SearchPage> {
    let state = search::state(db)?;
    let last = search::last_id(db)?;
    let mut page = SearchPage {
        unindexed: u64::try_from(last - state.done).unwrap_or(0),
        ..SearchPage::default()
    };
    if state.done == 0 {
        return Ok(page);
    }
    let mut judge = Judge::new(db, query, terms, state.done)?;
    let Some(asked) = judge.asked()? else {
        return Ok(page);
    };
    let limit = query.limit.unwrap_or(PAGE).clamp(1, usize::MAX - 1);
    let at = query.after.map(|cursor| cursor.at);
    let found = match (query.is_ranked, at) {
        (true, None | Some(At::Best { .. })) => {
            let (last, shown) = match at {
                Some(At::Best { last, shown }) => (last, shown),
                _ => (state.done, 0),
            };
            best(db, &asked, &mut judge, (last, shown), limit)?
        }
        (false, None) => newest(db, &asked, &mut judge, (i64::MAX, i64::MAX), limit)?,
        (false, Some(At::Said { said_ms, id })) => {
            newest(db, &asked, &mut judge, (said_ms, id), limit)?
        }
        _ => {
            let why = "it is of a page in another order; search again without it";
            return Err(Error::invalid("cursor", why));
        }
    };
    (page.hits, page.next) = found;
    Ok(page)
}

type Found = (Vec<SearchHit>, Option<SearchCursor>);
