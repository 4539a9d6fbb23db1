//! Which rows of a table were not read, by their ids.

/// Ranges of ids, each with why its rows are not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unread {
    ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    first: i64,
    last: i64,
    why: &'static str,
    /// How many of its rows were found all the same.
    found: u64,
}

impl Unread {
    /// Notes a range.
    pub(super) fn add(&mut self, first: i64, last: i64, why: &'static str) {
        let behind = self
            .ranges
            .last_mut()
            .filter(|range| range.why == why && range.last.checked_add(1) == Some(first));
        match behind {
            Some(range) => range.last = last,
            None => self.ranges.push(Range {
                first,
                last,
                why,
                found: 0,
            }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(super) fn contains(&self, id: i64) -> bool {
        self.ranges
            .iter()
            .any(|range| (range.first..=range.last).contains(&id))
    }

    /// Notes that a row was found all the same.
    pub(super) fn found(&mut self, id: i64) {
        let range = self
            .ranges
            .iter_mut()
            .find(|range| (range.first..=range.last).contains(&id));
        if let Some(range) = range {
            range.found += 1;
        }
    }

    /// The ranges in words, but for those all of whose rows were found.
    pub(super) fn tell<'a>(&'a self, table: &'a str) -> impl Iterator<Item = String> + 'a {
        self.ranges.iter().filter_map(move |range| {
            let Range {
                first,
                last,
                why,
                found,
            } = range;
            let all = last.checked_sub(*first).map(i64::unsigned_abs);
            if all.is_some_and(|others| others < *found) {
                return None;
            }
            let rows = match *last {
                i64::MAX if *first <= 1 => "all rows".to_owned(),
                i64::MAX => format!("the rows from {first} to the end"),
                last if last == *first => format!("row {first}"),
                last => format!("rows {first} to {last}"),
            };
            let found = match found {
                0 => String::new(),
                found => format!("; {found} found page by page"),
            };
            Some(format!("{table}: {rows}: {why}{found}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_told_in_words() {
        let mut unread = Unread::default();
        unread.add(3, 3, "not readable");
        unread.add(4, 4, "not readable");
        unread.add(7, 7, "damaged");
        unread.add(9, 9, "not readable");
        unread.add(20, i64::MAX, "not readable");
        unread.found(25);
        unread.found(9);
        assert!(unread.contains(4) && !unread.contains(5) && unread.contains(1 << 40));
        let told: Vec<String> = unread.tell("messages").collect();
        assert_eq!(
            told,
            [
                "messages: rows 3 to 4: not readable",
                "messages: row 7: damaged",
                "messages: the rows from 20 to the end: not readable; 1 found page by page",
            ]
        );
    }
}
