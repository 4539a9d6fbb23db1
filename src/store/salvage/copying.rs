//! Copying the rows of every table: first as the tables' trees lead to them, then, where a tree is broken, from the
//! pages themselves.

use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::MOST_ID;
use super::looking::Look;
use super::order::out_of_order;
use super::placing::Missing;
use super::unread::Unread;
use super::whole::{is_whole_blob, is_whole_mark, is_whole_message, is_whole_note, is_whole_watch};
use crate::db::{Remains, Tx};
use crate::error::{Error, Result};
use crate::tables::salvage::{self, Put, Read, Table};

const UNREADABLE: &str = "not readable";
const NOT_WHOLE: &str = "damaged";
const REFUSED: &str = "against a rule of the schema, or there twice and different";
const MISPLACED: &str = "in a wrong place";

/// How many rows a page of 8 KiB holds at most; more are read only where pages lead in a circle.
const ROWS_OF_A_PAGE: i64 = 2048;

/// The tables on which a store is recognized.
const OURS: [&str; 4] = [
    "sessions",
    "transcripts",
    "messages",
    "refinery_schema_history",
];

/// What references by number lead to, by the name of the column.
const REFERENCES: [(&str, &str); 18] = [
    ("session", "sessions"),
    ("base", "sessions"),
    ("forked_from", "sessions"),
    ("forked_at", "messages"),
    ("message", "messages"),
    ("parent", "messages"),
    ("head", "messages"),
    ("turn", "messages"),
    ("import_source", "import_sources"),
    ("scratch", "scratchpad"),
    ("previous", "scratchpad"),
    ("seen_message", "messages"),
    ("head_before", "messages"),
    ("head_after", "messages"),
    ("scratch_before", "scratchpad"),
    ("scratch_after", "scratchpad"),
    ("operation", "operations"),
    ("change", "file_changes"),
];

/// A copy under way.
pub(super) struct Copying<'a> {
    remains: &'a Remains,
    tx: &'a Tx<'a>,
    tables: &'a [Table],
    /// What was not read, by table; ids mean nothing where a table has none.
    unread: Vec<Unread>,
    /// The last ids given out, as far as they are noted.
    noted: Option<Vec<(String, i64)>>,
    found_a_store: bool,
}

impl<'a> Copying<'a> {
    pub(super) fn new(remains: &'a Remains, tx: &'a Tx<'a>, tables: &'a [Table]) -> Self {
        let noted = remains.conn().and_then(|db| salvage::counters(db).ok());
        let named = remains
            .conn()
            .is_some_and(|db| salvage::has_tables(db, &OURS).unwrap_or(false));
        Self {
            remains,
            tx,
            tables,
            unread: vec![Unread::default(); tables.len()],
            noted,
            found_a_store: named,
        }
    }

    /// Whether anything of a store was found.
    pub(super) fn found_a_store(&self) -> bool {
        self.found_a_store
    }

    /// Whether any row of a table was not read.
    pub(super) fn has_lost_of(&self, name: &str) -> bool {
        let mut tables = self.tables.iter().zip(&self.unread);
        tables.any(|(table, unread)| table.name == name && !unread.is_empty())
    }

    /// Copies what the tables' trees lead to.
    pub(super) fn copy_tables(&mut self) -> Result<()> {
        for (at, table) in self.tables.iter().enumerate() {
            let mut unread = Unread::default();
            match self.remains.conn() {
                None => unread.add(1, i64::MAX, UNREADABLE),
                Some(db) if salvage::is_of_later_schema(db, self.tx, table) => {}
                Some(db) => match salvage::shared(db, table) {
                    Err(_) => unread.add(1, i64::MAX, UNREADABLE),
                    Ok(columns) if table.has_ids => {
                        self.copy_table(db, table, &columns, &mut unread)?;
                    }
                    Ok(columns) => self.copy_keyed(db, table, &columns, &mut unread)?,
                },
            }
            self.unread[at] = unread;
        }
        Ok(())
    }

    fn copy_table(
        &self,
        db: &Connection,
        table: &Table,
        columns: &[usize],
        unread: &mut Unread,
    ) -> Result<()> {
        let (mut from, mut ids) = (1, Vec::new());
        let mut left = i64::from(self.remains.pages().count()) * ROWS_OF_A_PAGE;
        loop {
            let span = (from, left);
            let mut last = from - 1;
            let mut each = |(id, values): Read| {
                // A row in a wrong place leads nowhere: behind an id that is too small all would be read again.
                last = if id <= MOST_ID { last.max(id) } else { last };
                left -= 1;
                match values {
                    Some(values) if (1..=MOST_ID).contains(&id) => {
                        match self.put(table, columns, id, &values)? {
                            Ok(true) => ids.push(id),
                            Ok(false) => {}
                            Err(why) => unread.add(id, id, why),
                        }
                    }
                    _ => unread.add(id, id, NOT_WHOLE),
                }
                Ok(())
            };
            let ended = salvage::rows_from(db, table, columns, span, &mut each)?.is_none();
            let next = last.saturating_add(1).max(from);
            if left <= 0 {
                unread.add(next, i64::MAX, UNREADABLE);
            }
            if ended || left <= 0 {
                break;
            }
            from = match behind_damage(db, table, next, unread) {
                Some(next) => next,
                None => break,
            };
        }
        for place in out_of_order(&ids) {
            salvage::take_away(self.tx, &table.name, ids[place])?;
            unread.add(ids[place], ids[place], MISPLACED);
        }
        Ok(())
    }

    /// Copies a table without row ids from both ends. What lies between two damaged places is looked for later.
    fn copy_keyed(
        &self,
        db: &Connection,
        table: &Table,
        columns: &[usize],
        unread: &mut Unread,
    ) -> Result<()> {
        for backwards in [false, true] {
            let mut whole = true;
            let mut each = |(_, values): Read| {
                let put = match values {
                    Some(values) => self.put(table, columns, 0, &values)?,
                    None => Err(NOT_WHOLE),
                };
                whole &= put.is_ok();
                Ok(())
            };
            let ended = salvage::keyed_rows(db, table, columns, backwards, &mut each)?.is_none();
            if ended && whole {
                break;
            }
            if unread.is_empty() {
                unread.add(1, i64::MAX, UNREADABLE);
            }
            if ended {
                break;
            }
        }
        Ok(())
    }

    /// Stores a row. `Ok(false)`: it is there already; `Err`: why it is not stored.
    fn put(
        &self,
        table: &Table,
        columns: &[usize],
        id: i64,
        values: &[Value],
    ) -> Result<Result<bool, &'static str>> {
        let value = |name: &str| {
            let at = table.column(name)?;
            let at = columns.iter().position(|column| *column == at)?;
            values.get(at)
        };
        let flaw = match table.name.as_str() {
            "messages" => !is_whole_message(value),
            "blobs" => !is_whole_blob(value),
            "listing_marks" => !is_whole_mark(value),
            "scratchpad" => !is_whole_note(value),
            "watched_calls" => !is_whole_watch(value),
            _ => false,
        };
        if flaw {
            return Ok(Err(NOT_WHOLE));
        }
        Ok(match salvage::put(self.tx, table, columns, id, values)? {
            Put::Stored => Ok(true),
            Put::Same => Ok(false),
            Put::Refused => Err(REFUSED),
        })
    }

    /// Looks for rows that were not read on every page that is in use: those of `unread`, the messages of `missing`,
    /// and whatever a log holds that could not be folded in.
    pub(super) fn look_page_by_page(&mut self, missing: &Missing) -> Result<()> {
        let look = Look {
            all: self.remains.pages().has_newer(),
            counters: self.noted.is_none(),
            missing,
            unread: self.unread.clone(),
        };
        let nothing = look.unread.iter().all(Unread::is_empty) && missing.is_empty();
        if nothing && !look.all && !look.counters {
            return Ok(());
        }
        let mut counters: HashMap<String, i64> = HashMap::new();
        let tables = self.tables;
        self.remains.pages().rows(
            |id| look.wants(tables, id),
            |id, record| {
                if let (true, [Value::Text(table), Value::Integer(last)]) =
                    (look.counters, &record[..])
                {
                    let noted = counters.entry(table.clone()).or_default();
                    *noted = (*noted).max(*last);
                } else if id.is_none_or(|id| (1..=MOST_ID).contains(&id)) {
                    self.put_record(&look, id, &record)?;
                }
                Ok::<(), Error>(())
            },
        )?;
        if look.counters {
            self.noted = Some(counters.into_iter().collect());
        }
        Ok(())
    }

    /// Stores a record in the table that it can be of, if it is one that is looked for.
    fn put_record(&mut self, look: &Look<'_>, id: Option<i64>, record: &[Value]) -> Result<()> {
        let tables = self.tables;
        let mut fitting: Vec<usize> = (0..tables.len())
            .filter(|at| tables[*at].has_ids == id.is_some() && tables[*at].takes(record))
            .collect();
        fitting.sort_by_key(|at| tables[*at].columns.len());
        let columns: Vec<usize> = (0..record.len()).collect();
        for at in fitting {
            let table = &tables[at];
            if !look.is_for(at, table, id, record) {
                continue;
            }
            if self.put(table, &columns, id.unwrap_or(0), record)? == Ok(true) {
                self.found_a_store |= matches!(table.name.as_str(), "sessions" | "messages");
                if let Some(id) = id {
                    self.unread[at].found(id);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// Says what was not read. A transcript's row that was not is made anew, so that nothing is lost with it.
    pub(super) fn tell(&self, lost: &mut Vec<String>) {
        for (table, unread) in self.tables.iter().zip(&self.unread) {
            lost.extend(unread.tell(&table.name));
        }
    }

    /// The last id of each table whose ids are never used again: above all that was noted, copied or referred to.
    pub(super) fn counters(&self) -> Result<Vec<(String, i64)>> {
        let mut last: HashMap<&str, i64> = HashMap::new();
        let mut raise = |table: &'a str, id: i64| {
            let known = last.entry(table).or_default();
            *known = (*known).max(id);
        };
        for table in self.tables {
            for (column, referred) in REFERENCES {
                if table.column(column).is_some() {
                    raise(
                        referred,
                        salvage::largest(self.tx, &table.name, column, MOST_ID)?,
                    );
                }
            }
        }
        let noted = self.noted.as_deref().unwrap_or_default();
        for table in self.tables.iter().filter(|table| table.counts_up) {
            let noted = noted.iter().filter(|(name, _)| *name == table.name);
            for (_, id) in noted.filter(|(_, id)| *id <= MOST_ID) {
                raise(&table.name, *id);
            }
        }
        let counts_up = |name: &str| {
            let mut tables = self.tables.iter();
            tables.any(|table| table.counts_up && table.name == name)
        };
        Ok(last
            .into_iter()
            .filter(|(table, _)| counts_up(table))
            .map(|(table, id)| (table.to_owned(), id))
            .collect())
    }
}

/// Finds the id from which rows can be read again behind a damaged place, and notes those before it. `None`: none can.
///
/// A page that is damaged takes all its rows along, so ids are tried at growing distances and the end of the damage is
/// then halved in on: some hundred tries at most, whatever the ids are.
fn behind_damage(db: &Connection, table: &Table, from: i64, unread: &mut Unread) -> Option<i64> {
    let next = |from| match salvage::next_id(db, table, from) {
        Ok(Some(id)) if id < from => Err(()),
        Ok(id) => Ok(id),
        Err(_) => Err(()),
    };
    if let Ok(Some(id)) = next(from) {
        // The tree leads to the row; the row itself cannot be read.
        unread.add(id, id, UNREADABLE);
        return id.checked_add(1).filter(|next| *next <= MOST_ID);
    }
    let (mut bad, mut distance) = (from, 1);
    let mut good = loop {
        let Some(try_at) = from.checked_add(distance).filter(|at| *at <= MOST_ID) else {
            unread.add(from, i64::MAX, UNREADABLE);
            return None;
        };
        if next(try_at).is_ok() {
            break try_at;
        }
        bad = try_at;
        distance *= 2;
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if next(middle).is_ok() {
            good = middle;
        } else {
            bad = middle;
        }
    }
    let found = next(good).ok().flatten();
    unread.add(from, found.unwrap_or(good) - 1, UNREADABLE);
    found
}
