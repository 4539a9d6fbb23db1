//! The index catches up: in steps, each a short transaction, so that no writer waits long for it.
//!
//! A step goes on from the last message indexed. Ids only rise, and an entry never changes, so that
//! one number says how far the index has come. Appending does nothing for the index.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::db::{Database, Tx};
use crate::error::{Error, Result};
use crate::model::SearchIndex;
use crate::store::Store;
use crate::tables::search::{self, BAR, Unindexed};
use crate::tables::tool_calls;
use crate::transcript::json::Object;
use crate::transcript::reading::copied_message;
use crate::transcript::search::snippet::beginning;
use crate::transcript::search::texts::{Field, Text, paths, texts};
use crate::transcript::search::words::{each_word, humps, words};

/// When a step ends, so that with what it then writes it takes at most 200 ms.
const STEP_TIME: Duration = Duration::from_millis(32);
const STEP_BYTES: usize = 512 << 10;

impl Store {
    /// Lets the search index catch up for about `time`, and says how far it has come. A search does
    /// one short step of this by itself.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly); [`Error::Busy`](crate::Error::Busy);
    /// [`Error::Full`](crate::Error::Full).
    pub fn index_search(&self, time: Duration) -> Result<SearchIndex> {
        let begun = Instant::now();
        let mut all = SearchIndex::default();
        loop {
            let step = step(self.db())?;
            all.indexed += step.indexed;
            all.unindexed = step.unindexed;
            if all.unindexed == 0 || begun.elapsed() >= time {
                return Ok(all);
            }
        }
    }

    /// Makes the search index anew, empty: it catches up as it is used. Nothing but the index
    /// changes. Pages of the file that were damaged, and those that only they led to, stay in it,
    /// used for nothing: [`salvage`](Store::salvage) gives a store without them.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly); [`Error::Busy`](crate::Error::Busy).
    pub fn rebuild_search(&self) -> Result<()> {
        let broken = self.db().read(|db| Ok(search::broken_parts(db)?))?;
        self.db().write(|tx| Ok(search::make_anew(tx, &broken)?))
    }

    /// Runs what also removes from the index. If it met a damaged page and the index has some, that
    /// is made anew, and it runs once more.
    pub(in crate::store) fn mending<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        let outcome = work();
        if !matches!(outcome, Err(Error::Damaged { .. })) {
            return outcome;
        }
        let broken = self.db().read(|db| Ok(search::broken_parts(db)?));
        match broken {
            Ok(broken) if !broken.is_empty() => {
                self.db().write(|tx| Ok(search::make_anew(tx, &broken)?))?;
                work()
            }
            _ => outcome,
        }
    }
}

/// One step: at most 200 ms, with no other writer meanwhile. An index that cannot be used is made
/// anew first.
pub(super) fn step(db: &Database) -> Result<SearchIndex> {
    let (state, last) = db.read(|db| Ok((search::state(db)?, search::last_id(db)?)))?;
    if state.is_usable && state.done >= last {
        return Ok(SearchIndex::default());
    }
    if !state.is_usable {
        return step_anew(db);
    }
    let mut failed = false;
    let outcome = db.write(|tx| {
        if !search::state(tx)?.is_usable {
            search::make_anew(tx, &[])?;
        }
        advance(tx).inspect_err(|error| {
            failed = search::is_of_index(tx, error).unwrap_or(false);
        })
    });
    match failed {
        true => step_anew(db),
        false => outcome,
    }
}

/// The first step of an index that is made anew: in a transaction of its own, as SQLite does not let
/// one write that met a damaged page.
fn step_anew(db: &Database) -> Result<SearchIndex> {
    let broken = db.read(|db| Ok(search::broken_parts(db)?))?;
    db.write(|tx| {
        search::make_anew(tx, &broken)?;
        advance(tx)
    })
}

/// What is wrong with the index, if anything is.
pub(in crate::store) fn check(db: &Connection) -> Result<Option<String>> {
    let mut found = search::wrong(db)?;
    if found.is_empty() && search::state(db)?.is_usable {
        let missed = missed(db)?;
        if missed > 0 {
            found.push(format!("{missed} message(s) are not in it"));
        }
    }
    let found = found.join("; ");
    Ok((!found.is_empty()).then(|| {
        format!("the search index is damaged ({found}): `turnkeep reindex` makes it anew, and nothing else depends on it")
    }))
}

/// How many messages with words in them the index has come past without them.
fn missed(db: &Connection) -> Result<u64> {
    let (mut after, mut missed) = (0, 0);
    loop {
        let ids = search::not_held(db, after, 1000)?;
        let Some(last) = ids.last() else {
            return Ok(missed);
        };
        after = *last;
        for id in ids {
            search::each_unindexed(db, id - 1, |message| {
                let has_words = words_of(db, &message, &mut 0)?.is_some();
                missed += u64::from(message.id == id && has_words);
                Ok(ControlFlow::Break(()))
            })?;
        }
    }
}

fn advance(tx: &Tx<'_>) -> Result<SearchIndex> {
    let begun = Instant::now();
    let before = search::state(tx)?.done;
    let last = search::last_id(tx)?;
    let (mut done, mut bytes, mut indexed) = (before, 0, 0);
    let mut span = Spanned::default();
    let ended = search::each_unindexed(tx, before, |message| {
        done = message.id;
        if let Some(words) = words_of(tx, &message, &mut bytes)? {
            search::insert(tx, message.id, &words)?;
            span.add(tx, message.id, message.said_ms)?;
            indexed += 1;
        }
        Ok(if bytes >= STEP_BYTES || begun.elapsed() >= STEP_TIME {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    span.write(tx)?;
    if ended {
        done = last;
    }
    search::finish(tx, done)?;
    Ok(SearchIndex {
        indexed,
        unindexed: u64::try_from(last - done).unwrap_or(0),
    })
}

/// The span of ids that a step is in: written once for many messages.
#[derive(Default)]
struct Spanned(Option<(i64, i64, i64)>);

impl Spanned {
    fn add(&mut self, tx: &Tx<'_>, id: i64, said_ms: i64) -> Result<()> {
        match &mut self.0 {
            Some((of, oldest, newest)) if *of >> 10 == id >> 10 => {
                (*oldest, *newest) = ((*oldest).min(said_ms), (*newest).max(said_ms));
            }
            _ => {
                self.write(tx)?;
                self.0 = Some((id, said_ms, said_ms));
            }
        }
        Ok(())
    }

    fn write(&mut self, tx: &Tx<'_>) -> Result<()> {
        match self.0.take() {
            Some((id, oldest, newest)) => Ok(search::note_span(tx, id, oldest, newest)?),
            None => Ok(()),
        }
    }
}

/// The words that the index holds of a message; `None` if there is no text in it. A line that repeats
/// a uuid is not shown anywhere, and not found.
fn words_of(db: &Connection, message: &Unindexed<'_>, bytes: &mut usize) -> Result<Option<String>> {
    let texts = texts(message.kind, message.entry);
    let is_title = |text: &Text<'_>| text.field == Field::Title;
    let may_repeat = !message.has_uuid && !texts.iter().all(is_title);
    if texts.is_empty() || may_repeat && names_uuid(message) {
        return Ok(None);
    }
    let mut facets = Facets::default();
    facets.add(search::session_facet(message.session));
    facets.add(search::project_facet(message.project_key));
    if message.entry.contains("\"forkedFrom\"")
        && let Some(uuid) = copied_message(message.entry)
    {
        facets.add(search::copy_facet(&uuid));
    }
    let mut column = String::with_capacity(message.entry.len());
    for text in &texts {
        facets.add(search::role_facet(text.field).to_owned());
        match (text.field, &text.tool, &text.call) {
            (Field::Input, Some(tool), _) => facets.add_tool(tool, &text.paths),
            (Field::Output, _, Some(call)) => {
                let answered = tool_calls::answered(db, message.session, message.id, call)?;
                if let Some((tool, input)) = answered {
                    facets.add_tool(&tool, &paths(&String::from_utf8_lossy(&input)));
                }
            }
            _ => {}
        }
        *bytes += text.text.len();
        add_words(&mut column, beginning(&text.text));
    }
    for facet in facets.0 {
        column.push(' ');
        column.push_str(&facet);
    }
    Ok(Some(column))
}

fn names_uuid(message: &Unindexed<'_>) -> bool {
    Object::parse(message.entry).is_some_and(|entry| entry.string("uuid").is_some())
}

/// The words that are in no text, each once; behind each path a bar, so that two are not one.
#[derive(Default)]
struct Facets(Vec<String>);

impl Facets {
    fn add(&mut self, facet: String) {
        if !self.0.contains(&facet) {
            self.0.push(facet);
        }
    }

    fn add_tool(&mut self, tool: &str, paths: &[Cow<'_, str>]) {
        self.add(search::tool_facet(tool));
        for path in paths {
            self.add(format!("{} {BAR}", search::path_words(&words(path))));
        }
    }
}

/// Adds the words of a text, and behind them the humps of its identifiers, once each.
fn add_words(column: &mut String, text: &str) {
    let add = |column: &mut String, word: &str| {
        if !column.is_empty() {
            column.push(' ');
        }
        column.push_str(word);
    };
    let mut seen = HashSet::new();
    let mut tail: Vec<String> = Vec::new();
    each_word(text, |word, place| {
        add(column, word);
        let written = &text[place];
        let humps = humps(written);
        if !humps.is_empty() && seen.insert(written) {
            tail.push(BAR.to_string());
            tail.extend(humps);
        }
    });
    tail.push(BAR.to_string());
    for word in &tail {
        add(column, word);
    }
}
