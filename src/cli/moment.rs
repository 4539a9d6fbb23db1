//! Times as a user gives them.

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, TimeZone};

use super::fail::Failure;

/// A time the user gave, as epoch milliseconds.
pub(super) fn moment(text: &str) -> Result<i64, Failure> {
    let local = |naive: NaiveDateTime| {
        Local
            .from_local_datetime(&naive)
            .earliest()
            .map(|time| time.timestamp_millis())
    };
    let date = || {
        NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .and_then(|date| local(date.and_hms_opt(0, 0, 0)?))
    };
    let with_time = || {
        let formats = [
            "%Y-%m-%dT%H:%M:%S",
            "%Y-%m-%d %H:%M:%S",
            "%Y-%m-%dT%H:%M",
            "%Y-%m-%d %H:%M",
        ];
        formats
            .iter()
            .find_map(|format| local(NaiveDateTime::parse_from_str(text, format).ok()?))
    };
    let zoned = || {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|time| time.timestamp_millis())
    };
    text.parse().ok().or_else(zoned).or_else(date).or_else(with_time).ok_or_else(|| {
        Failure::wrong_use(format!("`{text}` is no time"))
            .hint("give a date (2026-01-31), a date and time (2026-01-31T12:00), or epoch milliseconds")
    })
}
