//! `turnkeep sql`

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use turnkeep::{SqlValue, Store};
use unicode_width::UnicodeWidthStr;

use super::fail::Failure;
use super::out::{Out, Style, fit, pad};
use super::{Call, Done, Outcome};

/// The widest column of a table; what is longer is cut. CSV and JSON cut nothing.
const WIDEST: usize = 60;

/// Ask the store's tables and views in SQL: one query, which can change nothing
///
/// The schema is described in docs/SCHEMA.md, with twenty questions and their queries.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The query; it may begin with a comment
    #[arg(allow_hyphen_values = true)]
    query: String,

    /// How to print what it answers: table, csv or json (--json)
    #[arg(long, default_value = "table", value_parser = ["table", "csv", "json"], hide_possible_values = true)]
    format: String,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let mut out = Out::paged(call.json);
    match args.format.as_str() {
        _ if call.json => as_json(&store, &args.query, &mut out)?,
        "json" => as_json(&store, &args.query, &mut out)?,
        "csv" => as_csv(&store, &args.query, &mut out)?,
        _ => as_table(&store, &args.query, &mut out)?,
    }
    Ok(Done::All)
}

/// Runs a query and prints each row as it comes.
fn print(
    store: &Store,
    query: &str,
    mut each: impl FnMut(&[String], Vec<SqlValue>) -> io::Result<()>,
) -> Result<Vec<String>, Failure> {
    let mut printed = Ok(());
    let names = store.sql(query, |names, row| {
        printed = each(names, row);
        match printed {
            Ok(()) => Ok(()),
            Err(_) => Err(turnkeep::Error::Conflict("printing ended".to_owned())),
        }
    });
    printed?;
    Ok(names?)
}

fn as_json(store: &Store, query: &str, out: &mut Out) -> Result<(), Failure> {
    let mut before = "[";
    print(store, query, |names, row| {
        let mut object = Map::new();
        for (name, value) in names.iter().zip(row) {
            // Columns of one name are all told: a, a_2, a_3.
            let mut key = name.clone();
            let mut number = 1;
            while object.contains_key(&key) {
                number += 1;
                key = format!("{name}_{number}");
            }
            object.insert(key, json_of(value));
        }
        out.bytes(format!("{before}{}", Value::Object(object)).as_bytes())?;
        before = ",\n";
        Ok(())
    })?;
    Ok(out.line(if before == "[" { "[]" } else { "]" })?)
}

fn json_of(value: SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Integer(number) => json!(number),
        SqlValue::Real(number) => json!(number),
        SqlValue::Text(text) => json!(text),
        SqlValue::Blob(bytes) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

fn as_csv(store: &Store, query: &str, out: &mut Out) -> Result<(), Failure> {
    let mut is_first = true;
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| csv(cell)).collect();
        cells.join(",")
    };
    let names = print(store, query, |names, row| {
        if std::mem::take(&mut is_first) {
            out.line(&line(names))?;
        }
        let cells: Vec<String> = row.iter().map(text_of).collect();
        out.line(&line(&cells))
    })?;
    if is_first {
        out.line(&line(&names))?;
    }
    Ok(())
}

/// A cell as RFC 4180 writes it.
fn csv(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell.to_owned()
}

fn text_of(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Blob(bytes) => STANDARD.encode(bytes),
    }
}

fn as_table(store: &Store, query: &str, out: &mut Out) -> Result<(), Failure> {
    let mut rows: Vec<Vec<(String, bool)>> = Vec::new();
    let names = print(store, query, |_, row| {
        let cells = row.iter().map(|value| {
            let is_number = matches!(value, SqlValue::Integer(_) | SqlValue::Real(_));
            (fit(&text_of(value), WIDEST), is_number)
        });
        rows.push(cells.collect());
        Ok(())
    })?;
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].0.width());
        cells.max().unwrap_or(0).max(names[at].width())
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let is_of_numbers = |at: usize| rows.iter().any(|row| row[at].1);
    let head: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(at, name)| align(&fit(name, WIDEST), widths[at], is_of_numbers(at)))
        .collect();
    out.line(&out.styled(Style::Bold, head.join("  ").trim_end()))?;
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    out.line(&rule.join("  "))?;
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|((cell, is_number), width)| align(cell, *width, *is_number))
            .collect();
        out.line(cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn align(cell: &str, width: usize, to_the_right: bool) -> String {
    if to_the_right {
        return format!("{}{cell}", " ".repeat(width.saturating_sub(cell.width())));
    }
    pad(cell, width)
}
