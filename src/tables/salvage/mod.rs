//! Copying rows as they are, from a file that may be damaged at any place: whatever the schema has.
//!
//! Secondary indexes of the damaged file are never read. Those of the new one are dropped first and built at the end.

mod schema;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Result, Row, params, params_from_iter};
use schema::{Column, quoted};

pub(crate) use schema::{Table, has_tables, is_of_later_schema, shared, tables};

use crate::db::Tx;
use crate::error;

/// A row as it was read: its id (0 in a table without), and its columns, `None` if one of them cannot be a value.
pub(crate) type Read = (i64, Option<Vec<Value>>);

fn read(row: &Row<'_>, columns: usize) -> Result<Read> {
    let value = |at: usize| {
        Some(match row.get_ref(at).ok()? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Integer(number),
            ValueRef::Real(number) => Value::Real(number),
            ValueRef::Text(text) => Value::Text(String::from_utf8(text.to_vec()).ok()?),
            ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
        })
    };
    Ok((row.get(0)?, (1..=columns).map(value).collect()))
}

/// Calls `each` with at most `limit` rows from the id `from` on, in the order in which they lie, and answers the error
/// that ended it, if one did.
///
/// # Errors
/// Those of `each`.
pub(crate) fn rows_from(
    damaged: &Connection,
    table: &Table,
    columns: &[usize],
    (from, limit): (i64, i64),
    each: &mut dyn FnMut(Read) -> error::Result<()>,
) -> error::Result<Option<rusqlite::Error>> {
    let sql = format!(
        "SELECT rowid, {} FROM {} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid LIMIT ?2",
        table.names(columns),
        quoted(&table.name)
    );
    stream(damaged, &sql, &[from, limit], columns.len(), each)
}

/// Calls `each` with the rows of a table without row ids, from one end or the other, until an error ends it.
///
/// # Errors
/// Those of `each`.
pub(crate) fn keyed_rows(
    damaged: &Connection,
    table: &Table,
    columns: &[usize],
    backwards: bool,
    each: &mut dyn FnMut(Read) -> error::Result<()>,
) -> error::Result<Option<rusqlite::Error>> {
    let order = |column: &Column| {
        let direction = if backwards { " DESC" } else { "" };
        quoted(&column.name) + direction
    };
    let keys: Vec<String> = table
        .columns
        .iter()
        .take(keys(damaged, &table.name).unwrap_or(1))
        .map(order)
        .collect();
    let sql = format!(
        "SELECT 0, {} FROM {} ORDER BY {}",
        table.names(columns),
        quoted(&table.name),
        keys.join(", ")
    );
    stream(damaged, &sql, &[], columns.len(), each)
}

fn keys(db: &Connection, table: &str) -> Result<usize> {
    db.query_row(
        "SELECT count(*) FROM pragma_table_xinfo(?1) WHERE pk > 0",
        [table],
        |row| row.get::<_, i64>(0),
    )
    .map(|keys| usize::try_from(keys).unwrap_or(1))
}

fn stream(
    damaged: &Connection,
    sql: &str,
    values: &[i64],
    columns: usize,
    each: &mut dyn FnMut(Read) -> error::Result<()>,
) -> error::Result<Option<rusqlite::Error>> {
    let mut statement = match damaged.prepare_cached(sql) {
        Ok(statement) => statement,
        Err(error) => return Ok(Some(error)),
    };
    let mut rows = match statement.query(params_from_iter(values)) {
        Ok(rows) => rows,
        Err(error) => return Ok(Some(error)),
    };
    loop {
        match rows.next() {
            Ok(Some(row)) => match read(row, columns) {
                Ok(row) => each(row)?,
                Err(error) => return Ok(Some(error)),
            },
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        }
    }
}

/// The id of the first row from `from` on, without reading the row.
///
/// Asked for ids above the last one of a damaged page SQLite would look on that page; asked for ids from the next one
/// on it does not.
pub(crate) fn next_id(damaged: &Connection, table: &Table, from: i64) -> Result<Option<i64>> {
    let sql = format!(
        "SELECT rowid FROM {} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid LIMIT 1",
        quoted(&table.name)
    );
    damaged
        .prepare_cached(&sql)?
        .query_row([from], |row| row.get(0))
        .optional()
}

/// What became of a row that was to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    Stored,
    /// The same row is there already.
    Same,
    /// It breaks a rule of the schema, or a row with its id is there that says something else.
    Refused,
}

/// Stores a row under its id.
pub(crate) fn put(
    tx: &Tx<'_>,
    table: &Table,
    columns: &[usize],
    id: i64,
    values: &[Value],
) -> Result<Put> {
    let fits = columns
        .iter()
        .zip(values)
        .all(|(at, value)| table.columns[*at].takes(value));
    if !fits {
        return Ok(Put::Refused);
    }
    let kept: Vec<(usize, &Value)> = columns
        .iter()
        .copied()
        .zip(values)
        .filter(|(at, _)| !table.columns[*at].is_id)
        .collect();
    let places: Vec<usize> = kept.iter().map(|(at, _)| *at).collect();
    let mut names = table.names(&places);
    let mut marks = vec!["?"; places.len()];
    let id = Value::Integer(id);
    let mut bound: Vec<&Value> = kept.iter().map(|(_, value)| *value).collect();
    if table.has_ids {
        names += ", rowid";
        marks.push("?");
        bound.push(&id);
    }
    let (name, marks) = (quoted(&table.name), marks.join(", "));
    let stored = tx
        .prepare_cached(&format!("INSERT INTO {name} ({names}) VALUES ({marks})"))?
        .execute(params_from_iter(&bound));
    match stored {
        Ok(_) => Ok(Put::Stored),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let equal = names.split(", ").map(|column| format!("{column} IS ?"));
            let equal: Vec<String> = equal.collect();
            let same = tx
                .prepare_cached(&format!(
                    "SELECT 1 FROM {name} WHERE {} LIMIT 1",
                    equal.join(" AND ")
                ))?
                .exists(params_from_iter(&bound))?;
            Ok(if same { Put::Same } else { Put::Refused })
        }
        Err(error) => Err(error),
    }
}

/// Takes a row away again.
pub(crate) fn take_away(tx: &Tx<'_>, table: &str, id: i64) -> Result<()> {
    tx.prepare_cached(&format!("DELETE FROM {} WHERE rowid = ?1", quoted(table)))?
        .execute([id])?;
    Ok(())
}

/// Drops the indexes that can be made again, and answers the statements that do so.
pub(crate) fn drop_indexes(tx: &Tx<'_>) -> Result<Vec<String>> {
    let mut statement = tx.prepare(
        "SELECT i.name, i.sql FROM sqlite_schema i
         JOIN pragma_table_list l ON l.schema = 'main' AND l.name = i.tbl_name AND l.type = 'table'
         WHERE i.type = 'index' AND i.sql IS NOT NULL ORDER BY i.rowid",
    )?;
    let indexes: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (name, _) in &indexes {
        tx.execute_batch(&format!("DROP INDEX {}", quoted(name)))?;
    }
    Ok(indexes.into_iter().map(|(_, sql)| sql).collect())
}

/// Makes indexes again.
pub(crate) fn make_indexes(tx: &Tx<'_>, statements: &[String]) -> Result<()> {
    statements.iter().try_for_each(|sql| tx.execute_batch(sql))
}

/// The last ids that were given out, as the damaged file notes them.
pub(crate) fn counters(damaged: &Connection) -> Result<Vec<(String, i64)>> {
    damaged
        .prepare("SELECT name, seq FROM sqlite_sequence NOT INDEXED")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Notes the last id of a table that was given out, or may have been.
pub(crate) fn set_counter(tx: &Tx<'_>, table: &str, last: i64) -> Result<()> {
    let changed = tx
        .prepare_cached("UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1")?
        .execute(params![table, last])?;
    if changed == 0 && last > 0 {
        tx.prepare_cached("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)")?
            .execute(params![table, last])?;
    }
    Ok(())
}

/// The largest value of a column, at most `limit`.
pub(crate) fn largest(db: &Connection, table: &str, column: &str, limit: i64) -> Result<i64> {
    let (table, column) = (quoted(table), quoted(column));
    db.prepare_cached(&format!(
        "SELECT coalesce(max({column}), 0) FROM {table} WHERE {column} <= ?1"
    ))?
    .query_row([limit], |row| row.get(0))
}
