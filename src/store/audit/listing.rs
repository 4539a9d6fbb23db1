//! Listing changes, page by page.

use super::telling::Teller;
use super::{Audit, Question};
use crate::error::Result;
use crate::model::{ChangeCursor, ChangeFilter, ChangePage};
use crate::store::checkpoints::Sight;
use crate::store::copies::Copies;
use crate::tables::audit::{From, page};
use crate::tables::file_changes::{self, ChangeRow};

/// How many rows are read at a time.
const ROWS: usize = 200;

impl Audit {
    /// One page of the changes that `filter` chooses, the last made first, and where the next one begins.
    /// The memory needed follows from `limit` (0 is 1), not from the number of changes.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) if the filter names a session, or a turn of it,
    /// that is not there.
    pub fn changes(
        &self,
        filter: &ChangeFilter,
        after: Option<ChangeCursor>,
        limit: usize,
    ) -> Result<ChangePage> {
        let session = self.session(filter)?;
        let limit = limit.max(1);
        self.db().read(|db| {
            let question = Question::of(db, filter, session.as_ref())?;
            let sight = match &question.view {
                Some(view) => Some(Sight::of(db, &view.history)?),
                None => None,
            };
            let copies = Copies::new(db);
            let mut rows: Vec<ChangeRow> = Vec::new();
            let mut before = after.map_or((i64::MAX, i64::MAX), |after| (after.0, after.1));
            let wanted = limit.saturating_add(1);
            while rows.len() < wanted {
                let most = ROWS.min(wanted - rows.len()).max(20);
                let found = page(db, &question.asked, From::Before(before.0, before.1), most)?;
                let is_last = found.len() < most;
                for row in found {
                    before = (row.before_ms, row.id);
                    if rows.len() < wanted && question.means(&copies, sight.as_ref(), &row)? {
                        rows.push(row);
                    }
                }
                if is_last {
                    break;
                }
            }
            let more = rows.len() > limit;
            rows.truncate(limit);
            let last = rows.last().filter(|_| more);
            let next = last.map(|row| ChangeCursor(row.before_ms, row.id));
            let mut teller = Teller::new(db, question.view.as_ref(), filter.brief);
            Ok(ChangePage {
                changes: teller.tell_all(&rows)?,
                next,
            })
        })
    }

    /// The change with this number, if there is one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn change(&self, id: i64) -> Result<Option<crate::model::Change>> {
        self.db().read(|db| {
            let row = file_changes::get(db, id)?;
            let mut teller = Teller::new(db, None, false);
            row.map(|row| teller.tell(&row)).transpose()
        })
    }
}
