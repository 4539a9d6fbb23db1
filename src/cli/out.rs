//! How things are printed: whole at 80 columns, coloured on a terminal.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use chrono::{DateTime, Local, TimeZone};
use turnkeep::Session;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::fail::Failure;
use super::pager::{Pager, Sink};

/// A style for text on a terminal.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Dim,
    Bold,
    User,
    Assistant,
    Good,
    GoodWord,
    Bad,
    BadWord,
}

/// Where a command prints to.
pub(super) struct Out {
    to: Sink,
    terminal: bool,
    colour: bool,
    width: usize,
}

impl Out {
    pub(super) fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let width = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .unwrap_or(80);
        Self {
            to: Sink::Stdout(io::stdout().lock()),
            terminal,
            colour,
            width: width.max(40),
        }
    }

    /// For what may be long: on a terminal it goes through a pager.
    pub(super) fn paged(json: bool) -> Self {
        let mut out = Self::new();
        if out.terminal
            && !json
            && let Some(pager) = Pager::start()
        {
            out.to = Sink::Pager(pager);
        }
        out
    }

    /// The width of a line, in columns.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Whether a person reads it.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.to, "{text}")
    }

    /// A text on as many lines as it needs, each of them indented.
    pub(super) fn wrapped(&mut self, text: &str, indent: usize) -> io::Result<()> {
        let indent = " ".repeat(indent);
        let how = textwrap::Options::new(self.width)
            .initial_indent(&indent)
            .subsequent_indent(&indent);
        for line in textwrap::wrap(&harmless(text), how) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// A question, behind which the answer is typed.
    pub(super) fn question(&mut self, text: &str) -> io::Result<()> {
        write!(self.to, "{text}")?;
        self.to.flush()
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// `text` in a style, on a terminal that shows colours.
    pub(super) fn styled(&self, style: Style, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match style {
            Style::Dim => "2",
            Style::Bold => "1",
            Style::User => "1;36",
            Style::Assistant => "1;35",
            Style::Good => "32",
            Style::GoodWord => "1;4;32",
            Style::Bad => "31",
            Style::BadWord => "1;4;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

impl Out {
    /// Says what was changed of a session.
    pub(super) fn changed(
        &mut self,
        json: bool,
        session: &Session,
        what: &str,
    ) -> Result<(), Failure> {
        let info = session.info()?;
        if json {
            let shown = serde_json::json!({
                "session_id": info.session_id,
                "project_key": info.project_key,
                "title": info.title,
                "tag": info.tag,
            });
            return Ok(self.line(&shown.to_string())?);
        }
        Ok(self.line(&format!(
            "{what} {}",
            harmless_line(&session.key().to_string())
        ))?)
    }
}

/// A time as the user's clock shows it.
pub(super) fn time(epoch_ms: i64) -> String {
    local(epoch_ms).map_or_else(
        || "-".to_owned(),
        |time| time.format("%Y-%m-%d %H:%M").to_string(),
    )
}

/// The hours of a time.
pub(super) fn clock(epoch_ms: i64) -> String {
    local(epoch_ms).map_or_else(String::new, |time| time.format("%H:%M:%S").to_string())
}

fn local(epoch_ms: i64) -> Option<DateTime<Local>> {
    Local.timestamp_millis_opt(epoch_ms).single()
}

/// `text` on one line, without control characters, cut to `columns` at a character.
pub(super) fn fit(text: &str, columns: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let flat: String = flat.chars().filter(|letter| !steers(*letter)).collect();
    if flat.width() <= columns {
        return flat;
    }
    let mut shown = String::new();
    let mut used = 1;
    for letter in flat.chars() {
        used += letter.width().unwrap_or(0);
        if used > columns {
            break;
        }
        shown.push(letter);
    }
    format!("{}…", shown.trim_end())
}

/// `text` filled up with spaces to `columns`.
pub(super) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// A number of bytes in words.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut amount, mut unit) = (bytes, 0);
    let mut rest = 0;
    while amount >= 1024 && unit + 1 < UNITS.len() {
        rest = amount % 1024;
        amount /= 1024;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} bytes")
    } else {
        format!("{amount}.{} {}", rest * 10 / 1024, UNITS[unit])
    }
}

/// `1 session`, `2 sessions`.
pub(super) fn count(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

/// Control characters of untrusted text, but for line feeds and tabs, so that it cannot steer the
/// terminal.
pub(super) fn harmless(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if steers(letter) && !matches!(letter, '\n' | '\t') {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect()
}

/// The same, and on one line.
pub(super) fn harmless_line(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], "\u{fffd}")
}

/// The beginning of an id, as people say it.
pub(super) fn beginning(id: &str) -> String {
    let first: String = id.chars().take(8).collect();
    harmless_line(&first)
}

/// A file's path: from the current folder, if it lies below that.
pub(super) fn path(path: &Path) -> String {
    let current = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let below = current
        .ok()
        .and_then(|folder| path.strip_prefix(folder).ok());
    let shown = below.filter(|below| !below.as_os_str().is_empty());
    harmless_line(&shown.unwrap_or(path).to_string_lossy())
}

/// Whether a terminal does something else with it than show it: controls, and what turns the
/// direction of the text around it.
fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_by_columns_not_characters() {
        assert_eq!(fit("a\nb\tc", 10), "a b c");
        assert_eq!(fit("日本語テキスト", 7), "日本語…");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn amounts_are_in_words() {
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(
            (count(1, "entry"), count(2, "entry"), count(0, "session")),
            ("1 entry".into(), "2 entries".into(), "0 sessions".into())
        );
    }
}
