//! Queries that a person wrote.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Statement};

use crate::error::{Error, Result};
use crate::model::SqlValue;

/// Runs one query and gives `each` its rows. Answers the names of its columns.
///
/// # Errors
/// [`Error::Invalid`] if it is not one query that only reads, or is not understood; those of `each`.
pub(crate) fn query(
    db: &Connection,
    sql: &str,
    mut each: impl FnMut(&[String], Vec<SqlValue>) -> Result<()>,
) -> Result<Vec<String>> {
    let mut statement = db.prepare(sql).map_err(told)?;
    if !only_reads(sql, &statement) {
        let why = "only a query can be run: SELECT, WITH, VALUES or EXPLAIN";
        return Err(Error::invalid("sql", why));
    }
    if statement.parameter_count() > 0 {
        let why = "it has a parameter (`?`, `:name`, `@name` or `$name`), which nothing is given for; \
            write the value itself, a text in single quotes";
        return Err(Error::invalid("sql", why));
    }
    let names: Vec<String> = statement
        .column_names()
        .into_iter()
        .map(String::from)
        .collect();
    let mut rows = statement.query([]).map_err(told)?;
    while let Some(row) = rows.next().map_err(told)? {
        let values = (0..names.len()).map(|at| value(row, at));
        each(&names, values.collect::<Result<_>>()?)?;
    }
    Ok(names)
}

/// A statement that SQLite knows to write nothing, and that is no pragma: one of those could let later
/// statements write.
fn only_reads(sql: &str, statement: &Statement<'_>) -> bool {
    let first: String = behind_comments(sql)
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .collect();
    let allowed = ["SELECT", "WITH", "VALUES", "EXPLAIN"];
    let is_query = allowed.iter().any(|word| first.eq_ignore_ascii_case(word));
    is_query && statement.readonly() && statement.column_count() > 0
}

fn behind_comments(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        let (mark, end) = match sql {
            sql if sql.starts_with("--") => (2, "\n"),
            sql if sql.starts_with("/*") => (2, "*/"),
            sql => return sql,
        };
        match sql[mark..].split_once(end) {
            Some((_, rest)) => sql = rest,
            None => return "",
        }
    }
}

/// What a person wrote wrong is told in SQLite's words; what is wrong with the file stays that.
fn told(error: rusqlite::Error) -> Error {
    match &error {
        rusqlite::Error::SqlInputError { msg, .. } => Error::invalid("sql", msg.clone()),
        rusqlite::Error::MultipleStatement => {
            Error::invalid("sql", "it holds several statements; run them one by one")
        }
        rusqlite::Error::NulError(_) => Error::invalid("sql", "it holds a NUL"),
        rusqlite::Error::SqliteFailure(code, Some(text)) if code.extended_code == 1 => {
            Error::invalid("sql", text.clone())
        }
        _ => error.into(),
    }
}

fn value(row: &Row<'_>, at: usize) -> Result<SqlValue> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Integer(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Blob(bytes.to_vec()),
    })
}
