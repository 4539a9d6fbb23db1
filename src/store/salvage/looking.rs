//! What is looked for on the pages themselves, once the tables' trees have given what they can.

use rusqlite::types::Value;

use super::placing::Missing;
use super::unread::Unread;
use super::whole::text;
use crate::tables::salvage::Table;

/// What is looked for on the pages.
pub(super) struct Look<'m> {
    /// Everything that is not there yet.
    pub(super) all: bool,
    /// The last ids given out, which are few rows of a small table.
    pub(super) counters: bool,
    pub(super) missing: &'m Missing,
    pub(super) unread: Vec<Unread>,
}

impl Look<'_> {
    /// Whether a row with this id may be one, before it is read.
    pub(super) fn wants(&self, tables: &[Table], id: Option<i64>) -> bool {
        let may_be_of = |at: usize| {
            let table = &tables[at];
            let in_gap = table.name == "messages" && !self.missing.is_empty();
            table.has_ids == id.is_some()
                && table.can_be_told()
                && (self.is_unread(at, id) || in_gap)
        };
        (self.counters && id.is_some_and(|id| id < 100)) || (0..tables.len()).any(may_be_of)
    }

    /// Whether a record is one that the table lacks. What was deleted may come back with the pages that still hold it,
    /// and is cleared when it is known what forks show.
    pub(super) fn is_for(
        &self,
        at: usize,
        table: &Table,
        id: Option<i64>,
        record: &[Value],
    ) -> bool {
        let value = |name| table.column(name).and_then(|at| record.get(at));
        let number = |name| match value(name) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        };
        let in_gap = || {
            let place = (number("session"), text(value("subpath")), number("seq"));
            let (Some(session), Some(subpath), Some(seq)) = place else {
                return false;
            };
            table.name == "messages" && self.missing.contains(session, subpath, seq)
        };
        table.can_be_told() && (self.is_unread(at, id) || in_gap())
    }

    fn is_unread(&self, at: usize, id: Option<i64>) -> bool {
        self.all
            || match id {
                Some(id) => self.unread[at].contains(id),
                None => !self.unread[at].is_empty(),
            }
    }
}
