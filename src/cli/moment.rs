//! Times as a user gives them.

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};

use super::fail::Failure;

/// A time the user gave, as epoch milliseconds; a date alone is the day's beginning in UTC.
pub(super) fn moment_or_utc_day(text: &str) -> Result<i64, Failure> {
    match NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        Ok(date) => Ok(date.and_time(NaiveTime::MIN).and_utc().timestamp_millis()),
        Err(_) => moment(text),
    }
}

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
        // Also without seconds.
        let text = match text.strip_suffix(['Z', 'z']) {
            Some(text) => format!("{text}+00:00"),
            None => text.to_owned(),
        };
        let to_minutes = |format| DateTime::parse_from_str(&text, format);
        DateTime::parse_from_rfc3339(&text)
            .or_else(|_| to_minutes("%Y-%m-%dT%H:%M%:z"))
            .or_else(|_| to_minutes("%Y-%m-%d %H:%M%:z"))
            .ok()
            .map(|time| time.timestamp_millis())
    };
    text.parse().ok().or_else(zoned).or_else(date).or_else(with_time).ok_or_else(|| {
        Failure::wrong_use(format!("`{text}` is no time"))
            .hint("give a date (2026-01-31), a date and time (2026-01-31T12:00), or epoch milliseconds")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_with_and_without_seconds_and_zone() {
        let at = |text: &str| moment(text).unwrap();
        let wanted = 1_769_900_940_000;
        for text in [
            "2026-01-31T23:09:00Z",
            "2026-01-31T23:09Z",
            "2026-01-31 23:09z",
            "2026-02-01T01:09+02:00",
            "1769900940000",
        ] {
            assert_eq!(at(text), wanted, "{text}");
        }
        assert_eq!(at("2026-01-31"), at("2026-01-31T00:00"));
        assert_eq!(
            moment_or_utc_day("2026-01-31").unwrap(),
            at("2026-01-31T00:00Z")
        );
        assert_eq!(moment_or_utc_day("2026-01-31T23:09Z").unwrap(), wanted);
        assert!(moment("2026-01-31Z").is_err() && moment("today").is_err());
    }
}
