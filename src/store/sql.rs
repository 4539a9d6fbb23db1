//! SQL for people: one query on the store's own tables and views, which can change nothing.

use super::Store;
use crate::error::Result;
use crate::model::SqlValue;
use crate::tables::asked;

impl Store {
    /// Runs one query that only reads, and gives `each` the names of its columns and row after row.
    /// Answers the names. The schema is described in `docs/SCHEMA.md`.
    ///
    /// All rows are of one moment; the log of a busy store grows while they are read.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if it is not one query that only reads, or SQLite does not understand
    /// it; those of `each`.
    pub fn sql(
        &self,
        query: &str,
        each: impl FnMut(&[String], Vec<SqlValue>) -> Result<()>,
    ) -> Result<Vec<String>> {
        self.db().read(|db| asked::query(db, query, each))
    }
}
