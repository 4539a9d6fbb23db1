//! Following a store: everything new since the last look.

use super::telling::Teller;
use super::{Audit, Question, uuid_in};
use crate::error::{Error, Result};
use crate::model::{ChangeFilter, NewEntry, News, NewsCursor};
use crate::store::checkpoints::Sight;
use crate::tables::audit::{From, ends, given, messages_behind, open_between, page};
use crate::tables::file_changes::{self, ChangeRow};

/// How many changes a cursor names that were told and are not whole yet. Older ones are given up:
/// calls whose process died are never heard of again.
const OPEN: usize = 200;

/// How far back the changes lie that a first cursor names as open.
const RECENT: i64 = 1_000;

impl Audit {
    /// The place behind everything that is in the store now: where following begins.
    ///
    /// # Errors
    /// Those of the database.
    pub fn now(&self) -> Result<NewsCursor> {
        self.db().read(|db| {
            let (change, message) = ends(db)?;
            let mut open = open_between(db, (change - RECENT, change), OPEN)?;
            open.reverse();
            Ok(NewsCursor {
                change,
                message,
                open,
            })
        })
    }

    /// Everything that was recorded behind `cursor`, oldest first: changes of files, and messages; at
    /// most `limit` of each. A change that was told before it was known what it left is told again
    /// once it is. Nothing is told twice otherwise, and nothing is left out.
    ///
    /// Messages are told if the filter names nothing but a session: then those that were stored in
    /// it, its sub-agents' too. What a fork inherits is not new.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if the filter names a session, or a turn of it,
    /// that is not there.
    pub fn news(&self, cursor: &NewsCursor, filter: &ChangeFilter, limit: usize) -> Result<News> {
        let session = self.session(filter)?;
        let limit = limit.max(1);
        self.db().read(|db| {
            let question = Question::of(db, filter, session.as_ref())?;
            let (change, message) = given(db)?;
            if cursor.change > change || cursor.message > message {
                let why = "it lies behind all that this store ever held: it is of another one";
                return Err(Error::invalid(format!("cursor `{cursor}`"), why));
            }
            let sight = match &question.view {
                Some(view) => Some(Sight::of(db, &view.history)?),
                None => None,
            };
            let mut next = cursor.clone();
            let mut told: Vec<ChangeRow> = Vec::new();
            next.open.clear();
            for id in &cursor.open {
                match file_changes::get(db, *id)? {
                    Some(row) if row.after.is_none() => next.open.push(*id),
                    Some(row) if question.means(db, sight.as_ref(), &row)? => told.push(row),
                    _ => {}
                }
            }
            let rows = page(db, &question.asked, From::Behind(cursor.change), limit)?;
            let mut has_more = rows.len() >= limit;
            let (last_change, last_message) = ends(db)?;
            next.change = match rows.last() {
                Some(last) if has_more => last.id,
                _ => last_change.max(cursor.change),
            };
            for row in rows {
                if question.means(db, sight.as_ref(), &row)? {
                    if row.after.is_none() {
                        next.open.push(row.id);
                    }
                    told.push(row);
                }
            }
            let too_many = next.open.len().saturating_sub(OPEN);
            next.open.drain(..too_many);
            let mut teller = Teller::new(db, question.view.as_ref(), filter.brief);
            let changes = teller.tell_all(&told)?;
            let tells_messages = filter.path.is_none()
                && filter.turn.is_none()
                && filter.tool.is_none()
                && filter.agent.is_none();
            let mut messages = Vec::new();
            let own = question.view.as_ref().map(|view| view.row.id);
            let rows = match tells_messages {
                true => messages_behind(db, cursor.message, own, limit)?,
                false => Vec::new(),
            };
            next.message = match rows.last() {
                Some(last) if rows.len() >= limit => last.id,
                _ => last_message.max(cursor.message),
            };
            has_more |= rows.len() >= limit;
            for row in rows {
                let session = teller.session(row.session)?;
                let (Some(_), Some(entry), false) = (&row.uuid, row.entry, session.is_deleted)
                else {
                    continue;
                };
                let Some(uuid) = uuid_in(db, &session, row.id)? else {
                    continue;
                };
                messages.push(NewEntry {
                    session: session.key.clone(),
                    subpath: row.subpath,
                    seq: row.seq,
                    uuid,
                    kind: row.kind,
                    role: row.role,
                    timestamp_ms: row.timestamp_ms,
                    stored_ms: row.stored_ms,
                    entry,
                });
            }
            Ok(News {
                changes,
                messages: tells_messages.then_some(messages),
                cursor: next,
                has_more,
            })
        })
    }
}
