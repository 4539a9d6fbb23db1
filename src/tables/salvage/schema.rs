//! What tables there are, what can stand in their columns, and which of them a damaged file has.

use rusqlite::types::Value;
use rusqlite::{Connection, Result, params};

/// A table of the new store.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// Whether rows have an id; without one the table is ordered by its key.
    pub(crate) has_ids: bool,
    /// Whether ids are never used again.
    pub(crate) counts_up: bool,
    /// The columns as records hold them.
    pub(crate) columns: Vec<Column>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    kind: String,
    nullable: bool,
    has_default: bool,
    /// Another name of the row's id.
    pub(super) is_id: bool,
}

impl Column {
    /// Whether a value can stand in the column.
    pub(super) fn takes(&self, value: &Value) -> bool {
        match value {
            Value::Null => self.nullable || self.is_id,
            Value::Integer(_) => matches!(self.kind.as_str(), "INTEGER" | "INT" | "REAL" | "ANY"),
            Value::Real(_) => matches!(self.kind.as_str(), "REAL" | "ANY"),
            Value::Text(_) => matches!(self.kind.as_str(), "TEXT" | "ANY"),
            Value::Blob(_) => matches!(self.kind.as_str(), "BLOB" | "ANY"),
        }
    }
}

impl Table {
    /// Where a column stands.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Whether a record can be one of this table's. It may lack the last columns if they were added later.
    pub(crate) fn takes(&self, record: &[Value]) -> bool {
        record.len() <= self.columns.len()
            && self.columns[record.len()..]
                .iter()
                .all(|column| column.nullable || column.has_default)
            && self.columns.iter().zip(record).all(|(column, value)| {
                column.takes(value) && (!column.is_id || *value == Value::Null)
            })
    }

    /// Whether its records can be told from those of indexes, which look alike where a table has no row ids: not if
    /// they are nothing but numbers.
    pub(crate) fn can_be_told(&self) -> bool {
        self.has_ids || self.columns.iter().any(|column| column.kind != "INTEGER")
    }

    pub(super) fn names(&self, columns: &[usize]) -> String {
        let names: Vec<String> = columns
            .iter()
            .map(|at| quoted(&self.columns[*at].name))
            .collect();
        names.join(", ")
    }
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The tables whose rows are to be copied: not SQLite's own, not the schema's history, not what is derived.
pub(crate) fn tables(db: &Connection) -> Result<Vec<Table>> {
    let mut statement = db.prepare(
        "SELECT l.name, l.wr, s.sql FROM pragma_table_list l
         JOIN sqlite_schema s ON s.type = 'table' AND s.name = l.name
         WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
           AND l.name <> 'refinery_schema_history' AND l.name NOT LIKE 'search\\_%' ESCAPE '\\'
         ORDER BY s.rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut tables = Vec::new();
    while let Some(row) = rows.next()? {
        let (name, keyed, sql): (String, bool, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        tables.push(Table {
            columns: columns(db, &name, keyed)?,
            has_ids: !keyed,
            counts_up: sql.contains("AUTOINCREMENT"),
            name,
        });
    }
    Ok(tables)
}

fn columns(db: &Connection, table: &str, keyed: bool) -> Result<Vec<Column>> {
    // In a table without row ids records begin with the key.
    let mut statement = db.prepare(
        "SELECT name, upper(type), \"notnull\", dflt_value IS NOT NULL, pk FROM pragma_table_xinfo(?1)
         WHERE hidden = 0
         ORDER BY CASE WHEN ?2 AND pk > 0 THEN pk ELSE 1000 + cid END",
    )?;
    let columns: Vec<(Column, i64)> = statement
        .query_map(params![table, keyed], |row| {
            let key: i64 = row.get(4)?;
            let column = Column {
                name: row.get(0)?,
                kind: row.get(1)?,
                nullable: !(row.get(2)? || keyed && key > 0),
                has_default: row.get(3)?,
                is_id: false,
            };
            Ok((column, key))
        })?
        .collect::<Result<_>>()?;
    let keys = columns.iter().filter(|(_, key)| *key > 0).count();
    Ok(columns
        .into_iter()
        .map(|(column, key)| Column {
            is_id: !keyed && keys == 1 && key == 1 && column.kind == "INTEGER",
            ..column
        })
        .collect())
}

/// Which columns of a table the damaged file has too, by their place. An error if its table cannot be read at all, or
/// lacks a column that must be there.
pub(crate) fn shared(damaged: &Connection, table: &Table) -> Result<Vec<usize>> {
    let mut statement = damaged.prepare("SELECT name FROM pragma_table_xinfo(?1)")?;
    let there: Vec<String> = statement
        .query_map([&table.name], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let is_there = |column: &Column| there.contains(&column.name);
    let lacks_needed = table
        .columns
        .iter()
        .any(|column| !(is_there(column) || column.nullable || column.has_default || column.is_id));
    if there.is_empty() || lacks_needed {
        return Err(rusqlite::Error::QueryReturnedNoRows);
    }
    Ok((0..table.columns.len())
        .filter(|at| is_there(&table.columns[*at]))
        .collect())
}

/// Whether the damaged file is of an earlier release, which did not have the table yet.
pub(crate) fn is_of_later_schema(damaged: &Connection, new: &Connection, table: &Table) -> bool {
    let version = |db: &Connection| -> Result<i64> {
        let sql = "SELECT max(version) FROM refinery_schema_history NOT INDEXED";
        db.query_row(sql, [], |row| row.get(0))
    };
    let is_older =
        matches!((version(damaged), version(new)), (Ok(old), Ok(present)) if old < present);
    is_older && matches!(damaged.table_exists(None, &*table.name), Ok(false))
}

/// Whether the damaged file's schema names these tables.
pub(crate) fn has_tables(damaged: &Connection, names: &[&str]) -> Result<bool> {
    for name in names {
        if !damaged.table_exists(None, *name)? {
            return Ok(false);
        }
    }
    Ok(true)
}
