//! Where in a text stands what was looked for, and the piece of it that shows a person so.

use std::borrow::Cow;
use std::ops::Range;

use super::MOST_TEXT;
use super::ask::Term;
use super::words::{each_word, humps};

/// How many characters of a text are shown, and how many of them in front of the first place.
const SHOWN: usize = 200;
const BEFORE: usize = 40;

/// A word of a text, where it stands, and its humps.
struct Placed {
    word: String,
    at: Range<usize>,
    humps: Vec<String>,
}

/// The places in a text where terms stand, in order, and which of the terms do: a bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) places: Vec<Range<usize>>,
    pub(crate) terms: u64,
}

/// Looks for terms in a text.
pub(crate) fn find(text: &str, terms: &[Term]) -> Found {
    let placed = placed(beginning(text));
    let mut found = Found::default();
    for (number, term) in terms.iter().enumerate() {
        let before = found.places.len();
        found.places.extend(places(&placed, term));
        found.terms |= u64::from(found.places.len() > before) << number;
    }
    found.places.sort_by_key(|place| (place.start, place.end));
    found.places.dedup_by(|next, place| {
        let joins = next.start < place.end;
        if joins {
            place.end = place.end.max(next.end);
        }
        joins
    });
    found
}

/// How often each term stands somewhere, and how many words there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) of_terms: Vec<usize>,
    pub(crate) words: usize,
}

impl Counts {
    /// Of no text.
    pub(crate) fn none(terms: usize) -> Self {
        Self {
            of_terms: vec![0; terms],
            words: 0,
        }
    }

    /// Adds those of another text.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.of_terms.iter_mut().zip(&other.of_terms) {
            *count += more;
        }
        self.words += other.words;
    }
}

/// Counts terms in a text.
pub(crate) fn count(text: &str, terms: &[Term]) -> Counts {
    let placed = placed(beginning(text));
    let of_terms = terms.iter().map(|term| places(&placed, term).count());
    Counts {
        of_terms: of_terms.collect(),
        words: placed.len(),
    }
}

fn placed(text: &str) -> Vec<Placed> {
    let mut placed = Vec::new();
    each_word(text, |word, at| {
        placed.push(Placed {
            word: word.to_owned(),
            humps: humps(&text[at.clone()]),
            at,
        });
    });
    placed
}

fn places<'p>(placed: &'p [Placed], term: &'p Term) -> impl Iterator<Item = Range<usize>> + 'p {
    (0..placed.len()).filter_map(|at| stands_at(placed, at, term))
}

/// As much of a text as is indexed.
pub(crate) fn beginning(text: &str) -> &str {
    let mut end = text.len().min(MOST_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Where a term stands that begins with the word at `at`.
fn stands_at(placed: &[Placed], at: usize, term: &Term) -> Option<Range<usize>> {
    let row = |words: &[String]| {
        let there = placed.get(at..at + words.len())?;
        let there_words = there.iter().map(|placed| placed.word.as_str());
        is_row(there_words, words, term.is_prefix)
            .then(|| there[0].at.start..there[there.len() - 1].at.end)
    };
    let of_humps = |words: &[String]| {
        let humps = &placed[at].humps;
        let inside = humps.len() >= words.len()
            && humps
                .windows(words.len())
                .any(|there| is_row(there.iter().map(String::as_str), words, term.is_prefix));
        inside.then(|| placed[at].at.clone())
    };
    let humps = term.humps.as_deref();
    row(&term.words)
        .or_else(|| humps.and_then(row))
        .or_else(|| of_humps(&term.words))
        .or_else(|| humps.and_then(of_humps))
}

fn is_row<'a>(there: impl Iterator<Item = &'a str>, words: &[String], is_prefix: bool) -> bool {
    let last = words.len() - 1;
    there.zip(words).enumerate().all(|(place, (there, word))| {
        if is_prefix && place == last {
            there.starts_with(word.as_str())
        } else {
            there == word
        }
    })
}

/// A piece of a text with the places in it that are to be shown as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) marks: Vec<Range<usize>>,
}

/// The piece of a text around the first of `places`, on one line.
pub(crate) fn piece(text: &str, places: &[Range<usize>]) -> Piece {
    let first = places.first().map_or(0, |place| place.start);
    let begin = text[..first]
        .char_indices()
        .rev()
        .nth(BEFORE - 1)
        .map_or(0, |(at, _)| at);
    let end = text[begin..]
        .char_indices()
        .nth(SHOWN)
        .map_or(text.len(), |(at, _)| begin + at);
    let mut shown = Piece::default();
    if begin > 0 {
        shown.text.push('…');
    }
    let mut at = begin;
    for place in places.iter().filter(|place| place.end <= end) {
        shown.push(&text[at..place.start]);
        let from = shown.text.len();
        shown.push(&text[place.clone()]);
        shown.marks.push(from..shown.text.len());
        at = place.end;
    }
    shown.push(&text[at..end]);
    if end < text.len() {
        shown.text.push('…');
    }
    shown
}

impl Piece {
    fn push(&mut self, text: &str) {
        let flat: Cow<'_, str> = if text.contains(char::is_control) {
            Cow::Owned(text.replace(char::is_control, " "))
        } else {
            Cow::Borrowed(text)
        };
        self.text.push_str(&flat);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ask::terms;
    use super::*;

    fn marked(text: &str, query: &str) -> Vec<String> {
        let found = find(text, &terms(query));
        let shown = piece(text, &found.places);
        let marks = shown.marks.iter();
        marks
            .map(|mark| shown.text[mark.clone()].to_owned())
            .collect()
    }

    #[test]
    fn what_is_found_is_marked_as_it_is_written() {
        assert_eq!(marked("An Order, an ORDER.", "order"), ["Order", "ORDER"]);
        assert_eq!(marked("see foo::bar now", "foo.bar"), ["foo::bar"]);
        assert_eq!(marked("call getUserName()", "user_name"), ["getUserName"]);
        assert_eq!(marked("call user_name()", "userName"), ["user_name"]);
        assert_eq!(
            marked("orders and ordinals", "ord*"),
            ["orders", "ordinals"]
        );
        assert_eq!(marked("請確認注文書。", "注文"), ["注文"]);
        assert_eq!(marked("a b c", "\"a b\" \"b c\""), ["a b c"]);
        assert!(marked("desk order", "\"order desk\"").is_empty());
    }

    #[test]
    fn a_piece_is_cut_at_characters_and_stays_on_one_line() {
        let text = format!("{}\nhere\n{}", "é".repeat(500), "ü".repeat(500));
        let found = find(&text, &terms("here"));
        let shown = piece(&text, &found.places);
        assert!(shown.text.starts_with('…') && shown.text.ends_with('…'));
        assert_eq!(shown.text.chars().count(), SHOWN + 2);
        assert_eq!(&shown.text[shown.marks[0].clone()], "here");
        assert!(!shown.text.contains('\n'));
    }

    #[test]
    fn the_terms_that_stand_there_are_told() {
        assert_eq!(find("a b", &terms("c b")).terms, 0b10);
        assert_eq!(find("", &terms("b")), Found::default());
    }
}
