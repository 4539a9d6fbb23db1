//! `turnkeep usage`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnkeep::{PriceTable, UsageBy, UsageQuery, UsageReport, UsageRow, Used};
use unicode_width::UnicodeWidthStr;

use super::fail::Failure;
use super::moment::moment_or_utc_day;
use super::out::{Out, Style, count, fit, harmless_line, pad};
use super::place::{scope, session};
use super::{Call, Done, Outcome};

/// Sum up the tokens that providers counted, each response once
///
/// Costs are told by a table of prices of yours alone: see the manual for its form.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// By what: day (UTC), session, model, project, turn or response
    #[arg(long, default_value = "day", hide_possible_values = true,
        value_parser = ["day", "session", "model", "project", "turn", "response"])]
    by: String,

    /// Only in this project: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,

    /// Only in this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only this model's
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Only responses at this time or later (2026-01-31, a day in UTC; or with a time, or epoch ms)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Only responses before this time; of a day: before it begins
    #[arg(long, value_name = "TIME")]
    until: Option<String>,

    /// Tell the cost by the prices in this JSON file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let by = match args.by.as_str() {
        "session" => UsageBy::Session,
        "model" => UsageBy::Model,
        "project" => UsageBy::Project,
        "turn" => UsageBy::Turn,
        "response" => UsageBy::Response,
        _ => UsageBy::Day,
    };
    let mut query = UsageQuery::by(by);
    let scope = scope(&store, args.project.as_deref())?;
    if let Some(name) = &args.session {
        query = query.session(
            session(&store, name, args.project.as_deref())?
                .key()
                .clone(),
        );
    }
    if let Some(key) = scope.project_key {
        query = query.project(key);
    }
    if let Some(cwd) = scope.cwd {
        query = query.cwd(cwd);
    }
    if let Some(model) = &args.model {
        query = query.model(model);
    }
    if let Some(since) = &args.since {
        query = query.since_ms(moment_or_utc_day(since)?);
    }
    if let Some(until) = &args.until {
        query = query.until_ms(moment_or_utc_day(until)?);
    }
    let prices = args.prices.as_deref().map(read_prices).transpose()?;
    if let Some(prices) = &prices {
        query = query.prices(prices.clone());
    }
    let report = store.usage(&query)?;
    let mut out = Out::paged(call.json);
    if call.json {
        let rows: Vec<Value> = report.rows.iter().map(|row| shown(by, row)).collect();
        let prices = prices
            .as_ref()
            .map(|prices| json!({"source": prices.source(), "currency": prices.currency()}));
        let shown = json!({
            "by": by.as_str(),
            "rows": rows,
            "total": used(&report.total),
            "prices": prices,
            "unpriced": report.unpriced,
        });
        out.line(&shown.to_string())?;
    } else {
        print(&mut out, by, &report, prices.as_ref())?;
    }
    Ok(Done::All)
}

fn read_prices(path: &Path) -> Result<PriceTable, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong_use(format!("reading {}: {error}", path.display())))?;
    Ok(PriceTable::from_json(&text)?)
}

fn shown(by: UsageBy, row: &UsageRow) -> Value {
    let mut shown = used(&row.used);
    shown[by.as_str()] = json!(row.group);
    if let Some(session) = &row.session {
        shown["project_key"] = json!(session.project_key);
        shown["session_id"] = json!(session.session_id);
    }
    shown
}

fn used(used: &Used) -> Value {
    json!({
        "responses": used.responses,
        "input_tokens": used.input,
        "output_tokens": used.output,
        "cache_read_tokens": used.cache_read,
        "cache_write_tokens": used.cache_write,
        "cost": used.cost,
        "unpriced_responses": used.unpriced,
    })
}

fn print(
    out: &mut Out,
    by: UsageBy,
    report: &UsageReport,
    prices: Option<&PriceTable>,
) -> std::io::Result<()> {
    if report.rows.is_empty() {
        return out.line("no responses");
    }
    let mut head: Vec<String> = ["responses", "input", "output", "cache read", "cache write"]
        .map(String::from)
        .to_vec();
    if let Some(prices) = prices {
        head.push(fit(&harmless_line(prices.currency()), 8));
    }
    let named = report.rows.iter().map(|row| name(row).width());
    let longest = named.max().unwrap_or(0).max(8);
    let whole = table(report, &head, prices, false);
    // Where whole numbers leave no room for the names, they are shortened.
    let (rows, total, widths) = match room(out, &whole.2) >= longest.min(16) {
        true => whole,
        false => table(report, &head, prices, true),
    };
    let line = |name: &str, cells: &[String]| {
        let numbers = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"));
        let numbers: Vec<String> = numbers.collect();
        format!("{name}  {}", numbers.join("  "))
    };
    let column = longest.min(room(out, &widths).max(8));
    out.line(&out.styled(Style::Dim, &line(&pad(by.as_str(), column), &head)))?;
    for (row, cells) in report.rows.iter().zip(&rows) {
        out.line(&line(&pad(&fit(&name(row), column), column), cells))?;
    }
    out.line(&out.styled(Style::Bold, &line(&pad("all", column), &total)))?;
    if let Some(prices) = prices {
        out.line(&format!("prices: {}", harmless_line(prices.source())))?;
        if !report.unpriced.is_empty() {
            let named = |model: &String| match model.as_str() {
                "" => "a model that is not named".to_owned(),
                model => harmless_line(model),
            };
            let models: Vec<String> = report.unpriced.iter().map(named).collect();
            let responses = count(report.total.unpriced, "response");
            out.line(&format!(
                "no price for {responses} of: {}",
                models.join(", ")
            ))?;
        }
    }
    Ok(())
}

/// The columns that numbers leave for a row's name.
fn room(out: &Out, widths: &[usize]) -> usize {
    let taken = widths.iter().sum::<usize>() + 2 * widths.len();
    out.width().saturating_sub(taken)
}

/// The numbers of each row and of all, as they are printed, and how wide each column is.
fn table(
    report: &UsageReport,
    head: &[String],
    prices: Option<&PriceTable>,
    is_short: bool,
) -> (Vec<Vec<String>>, Vec<String>, Vec<usize>) {
    let number = |number: &u64| match is_short {
        true => short(*number as f64, 0),
        false => number.to_string(),
    };
    let cells = |used: &Used| {
        let counts = [
            used.responses,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
        ];
        let mut cells: Vec<String> = counts.iter().map(number).collect();
        if prices.is_some() {
            let cost = used.cost.map_or_else(
                || "-".to_owned(),
                |cost| match is_short {
                    true => short(cost, 4),
                    false => format!("{cost:.4}"),
                },
            );
            // What has no price is not in the number.
            cells.push(if used.unpriced > 0 {
                format!("{cost}+?")
            } else {
                cost
            });
        }
        cells
    };
    let rows: Vec<Vec<String>> = report.rows.iter().map(|row| cells(&row.used)).collect();
    let total = cells(&report.total);
    let width = |at: usize| {
        let all = rows.iter().map(|cells| &cells[at]);
        all.chain([&head[at], &total[at]])
            .map(|cell| cell.width())
            .max()
            .unwrap_or(0)
    };
    let widths = (0..head.len()).map(width).collect();
    (rows, total, widths)
}

/// A number in at most six columns; small ones whole, with so many digits behind the point.
fn short(number: f64, digits: usize) -> String {
    if number < 9_999.5 {
        return format!("{number:.digits$}");
    }
    let (mut amount, mut units) = (number / 1000.0, "kMGTPE".chars().peekable());
    while amount >= 999.95
        && let Some(_) = units.next_if(|unit| *unit != 'E')
    {
        amount /= 1000.0;
    }
    format!("{amount:.1}{}", units.next().unwrap_or('E'))
}

fn name(row: &UsageRow) -> String {
    let session = row
        .session
        .as_ref()
        .map(|key| key.session_id.chars().take(8).collect());
    match (&row.group, session) {
        (Some(group), Some(id))
            if row
                .session
                .as_ref()
                .is_some_and(|key| key.to_string() == *group) =>
        {
            id
        }
        (Some(group), Some::<String>(id)) => format!("{id} {group}"),
        (Some(group), None) => group.clone(),
        (None, session) => session.unwrap_or_else(|| "-".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn large_numbers_are_shortened() {
        let told = [
            0.0,
            9_999.0,
            10_000.0,
            123_456.0,
            999_960.0,
            4.3e9,
            u64::MAX as f64,
        ];
        let told = told.map(|number| short(number, 0));
        assert_eq!(
            told,
            ["0", "9999", "10.0k", "123.5k", "1.0M", "4.3G", "18.4E"]
        );
        assert_eq!([short(1.5, 4), short(1e5, 4)], ["1.5000", "100.0k"]);
    }
}
