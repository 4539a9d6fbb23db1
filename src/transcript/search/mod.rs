//! WHAT IS SEARCHED: the texts of an entry, the words they are made of, what a person asks for, and
//! where in a text that stands. Pure; the index itself lies in `tables/search`.
//!
//! The index, the query and the highlighting all take text apart with `words`, so that they cannot
//! disagree. What changes here changes what the index holds: raise [`RULES`] with it.

pub(crate) mod ask;
pub(crate) mod snippet;
pub(crate) mod texts;
pub(crate) mod words;

/// The version of the rules by which text is taken apart. An index of other rules is made anew.
pub(crate) const RULES: i64 = 1;

/// How many bytes of one entry's text are indexed. A longer one is found by its beginning.
pub(crate) const MOST_TEXT: usize = 1 << 20;
