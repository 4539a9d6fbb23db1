//! Following a store: everything new since the last look.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::telling::Teller;
use super::{Audit, Question};
use crate::error::{Error, Result};
use crate::model::{Change, ChangeFilter, NewEntry, NewOperation, News, NewsCursor};
use crate::store::checkpoints::{Sight, with_outcome};
use crate::store::copies::Copies;
use crate::tables::audit::{Asked, Ends, From, ends, given, messages_behind, open_between, page};
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::operations;

/// How many changes a cursor names that were told and are not whole yet. Older ones are given up:
/// calls whose process died are never heard of again.
const OPEN: usize = 1_000;

/// How far back the changes lie that a first cursor names as open.
const RECENT: i64 = 1_000;

impl Audit {
    /// The place behind everything that is in the store now: where following begins.
    ///
    /// # Errors
    /// Those of the database.
    pub fn now(&self) -> Result<NewsCursor> {
        self.db().read(|db| {
            let Ends {
                change,
                message,
                operation,
            } = ends(db)?;
            let mut open = open_between(db, (change - RECENT, change), OPEN)?;
            open.reverse();
            Ok(NewsCursor {
                change,
                message,
                operation,
                open,
            })
        })
    }

    /// Everything that was recorded behind `cursor`, oldest first: changes of files, entries, and what
    /// was done to sessions; at most `limit` of each. A change that was told before it was known what it
    /// left is told again once it is, if no more than 1,000 newer ones are open too. Nothing is told
    /// twice otherwise, and nothing is left out.
    ///
    /// Entries and operations are told if the filter names nothing but a session and times (when they
    /// were stored): those of the session itself, its sub-agents' too. What a fork inherits is not new,
    /// and what was deleted since is not there to be told.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the filter names a session, or a turn of it, that is not there;
    /// [`Error::Invalid`] for a cursor of another store.
    pub fn news(&self, cursor: &NewsCursor, filter: &ChangeFilter, limit: usize) -> Result<News> {
        let session = self.session(filter)?;
        let limit = limit.max(1);
        self.db().read(|db| {
            let question = Question::of(db, filter, session.as_ref())?;
            let ever = given(db)?;
            if cursor.change > ever.change
                || cursor.message > ever.message
                || cursor.operation > ever.operation
            {
                let why = "it lies behind all that this store ever held: it is of another one";
                return Err(Error::invalid(format!("cursor `{cursor}`"), why));
            }
            let mut look = Look {
                db,
                cursor,
                filter,
                limit,
                own: question.view.as_ref().map(|view| view.row.id),
                ends: ends(db)?,
                teller: Teller::new(db, question.view.as_ref(), filter.brief),
                next: cursor.clone(),
                has_more: false,
            };
            let changes = look.changes(&question)?;
            let tells_talk = filter.path.is_none()
                && filter.turn.is_none()
                && filter.tool.is_none()
                && filter.agent.is_none();
            let (mut entries, mut operations) = (None, None);
            if tells_talk {
                entries = Some(look.entries()?);
                operations = Some(look.operations()?);
            } else {
                look.next.message = look.ends.message.max(cursor.message);
                look.next.operation = look.ends.operation.max(cursor.operation);
            }
            Ok(News {
                changes,
                entries,
                operations,
                cursor: look.next,
                has_more: look.has_more,
            })
        })
    }
}

/// One look at what is new.
struct Look<'d> {
    db: &'d Connection,
    cursor: &'d NewsCursor,
    filter: &'d ChangeFilter,
    limit: usize,
    /// The session that alone is looked at.
    own: Option<i64>,
    ends: Ends,
    teller: Teller<'d>,
    next: NewsCursor,
    has_more: bool,
}

impl Look<'_> {
    fn changes(&mut self, question: &Question) -> Result<Vec<Change>> {
        let (db, cursor) = (self.db, self.cursor);
        let sight = match &question.view {
            Some(view) => Some(Sight::of(db, &view.history)?),
            None => None,
        };
        let copies = Copies::new(db);
        let shows = |row: &ChangeRow| -> Result<bool> {
            Ok(question.chooses(db, row)? && question.means(&copies, sight.as_ref(), row)?)
        };
        // Whose tool or turn is asked for may be known only when its call is stored.
        let waits = |row: &ChangeRow| {
            let is_captured = row.tool_use_id.is_some();
            row.after.is_none()
                || is_captured && self.filter.tool.is_some() && row.call.is_none()
                || is_captured && self.filter.turn.is_some() && row.turn.is_none()
        };
        let mut told: Vec<ChangeRow> = Vec::new();
        let mut open = BTreeSet::new();
        for id in cursor.open.iter().collect::<BTreeSet<_>>() {
            let Some(row) = file_changes::get(db, *id)? else {
                continue;
            };
            if waits(&row) {
                open.insert(*id);
            } else if shows(&row)? {
                told.push(row);
            }
        }
        let any = Asked {
            tool: None,
            turns: None,
            ..question.asked.clone()
        };
        let rows = page(db, &any, From::Behind(cursor.change), self.limit)?;
        let is_full = rows.len() >= self.limit;
        self.next.change = match rows.last() {
            Some(last) if is_full => last.id,
            _ => self.ends.change.max(cursor.change),
        };
        self.has_more |= is_full;
        // Without such a question the tables chose these rows already.
        let asks_late = self.filter.tool.is_some() || self.filter.turn.is_some();
        for row in rows {
            if waits(&row) {
                open.insert(row.id);
            }
            let is_shown = match asks_late {
                true => shows(&row)?,
                false => question.means(&copies, sight.as_ref(), &row)?,
            };
            if is_shown {
                told.push(row);
            }
        }
        let too_many = open.len().saturating_sub(OPEN);
        self.next.open = open.into_iter().skip(too_many).collect();
        self.teller.tell_all(&told)
    }

    fn entries(&mut self) -> Result<Vec<NewEntry>> {
        let db = self.db;
        let rows = messages_behind(db, self.cursor.message, self.own, self.limit)?;
        let is_full = rows.len() >= self.limit;
        self.next.message = match rows.last() {
            Some(last) if is_full => last.id,
            _ => self.ends.message.max(self.cursor.message),
        };
        self.has_more |= is_full;
        let mut entries = Vec::new();
        for row in rows {
            let session = self.teller.session(row.session)?;
            let Some(entry) = row.entry else { continue };
            if session.is_deleted || !self.filter.is_of_the_time(row.stored_ms) {
                continue;
            }
            entries.push(NewEntry {
                session: session.key.clone(),
                subpath: row.subpath,
                seq: row.seq,
                uuid: row.uuid,
                kind: row.kind,
                role: row.role,
                timestamp_ms: row.timestamp_ms,
                stored_ms: row.stored_ms,
                entry,
            });
        }
        Ok(entries)
    }

    fn operations(&mut self) -> Result<Vec<NewOperation>> {
        let found = operations::behind(self.db, self.cursor.operation, self.own, self.limit)?;
        let is_full = found.len() >= self.limit;
        self.next.operation = match found.last() {
            Some((_, last)) if is_full => last.id,
            _ => self.ends.operation.max(self.cursor.operation),
        };
        self.has_more |= is_full;
        let mut told = Vec::new();
        for (session, mut operation) in found {
            if !self.filter.is_of_the_time(operation.at_ms) {
                continue;
            }
            with_outcome(self.db, &mut operation)?;
            told.push(NewOperation {
                session: self.teller.session(session)?.key.clone(),
                operation,
            });
        }
        Ok(told)
    }
}
