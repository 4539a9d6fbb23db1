//! What a person asks for, as they type it. Nothing they type is a mistake in a language: quotes make
//! a phrase, a star at the end of a word stands for the rest of it, and all else is text.

use super::words::{each_word, humps};

/// Something that must be found: words in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) words: Vec<String>,
    /// The same with the humps of its words, where it has any: `userName` is also found as two words.
    pub(crate) humps: Option<Vec<String>>,
    /// Whether the last word may go on.
    pub(crate) is_prefix: bool,
}

/// The most terms that are looked for, a bit each; of a text that is longer, its first ones.
const MOST_TERMS: usize = 64;

/// Takes apart what a person typed: all terms must be found.
pub(crate) fn terms(text: &str) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    let mut add = |term: Option<Term>| {
        if let Some(term) = term.filter(|term| !terms.contains(term)) {
            terms.push(term);
        }
    };
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let (piece, is_prefix);
        match rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            Some((phrase, behind)) => {
                piece = phrase;
                let star = behind.strip_prefix('*');
                (is_prefix, rest) = (star.is_some(), star.unwrap_or(behind));
            }
            None => {
                let first = rest.chars().next().map_or(0, char::len_utf8);
                let end = rest[first..]
                    .find(|letter: char| letter.is_whitespace() || letter == '"')
                    .map_or(rest.len(), |end| first + end);
                (piece, rest) = rest.split_at(end);
                is_prefix = piece.ends_with('*');
            }
        }
        add(term(piece, is_prefix));
    }
    terms.truncate(MOST_TERMS);
    terms
}

fn term(piece: &str, is_prefix: bool) -> Option<Term> {
    let (mut words, mut parts, mut has_humps) = (Vec::new(), Vec::new(), false);
    each_word(piece, |word, place| {
        words.push(word.to_owned());
        let humps = humps(&piece[place]);
        has_humps |= !humps.is_empty();
        if humps.is_empty() {
            parts.push(word.to_owned());
        } else {
            parts.extend(humps);
        }
    });
    (!words.is_empty()).then(|| Term {
        words,
        humps: has_humps.then_some(parts),
        is_prefix,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let star = |term: &Term| if term.is_prefix { "*" } else { "" };
        let terms = terms(text);
        terms
            .iter()
            .map(|term| term.words.join(" ") + star(term))
            .collect()
    }

    #[test]
    fn words_phrases_and_beginnings() {
        assert_eq!(shown("order desk order"), ["order", "desk"]);
        assert_eq!(shown("\"order desk\" bil*"), ["order desk", "bil*"]);
        assert_eq!(shown("\"order de\"* x"), ["order de*", "x"]);
        assert_eq!(
            shown("foo::bar src/lib.rs user_name"),
            ["foo bar", "src lib rs", "user name"]
        );
        assert_eq!(shown("注文を 確認"), ["注 文 を", "確 認"]);
    }

    #[test]
    fn nothing_that_is_typed_is_a_mistake() {
        assert_eq!(
            shown("a AND (b OR NOT c) NEAR(d, 2) ^e -f g:h \"i"),
            [
                "a", "and", "b", "or", "not", "c", "near d", "2", "e", "f", "g h", "i"
            ]
        );
        assert_eq!(shown("it's \"\" * \" ' -- é\"é"), ["it s", "e"]);
        assert!(shown(" \"\" -> ").is_empty());
        assert_eq!(terms(&"word ".repeat(10)).len(), 1);
    }

    #[test]
    fn an_identifier_is_also_its_humps() {
        let term = &terms("my.userName")[0];
        assert_eq!(term.words, ["my", "username"]);
        assert_eq!(
            term.humps.as_deref(),
            Some(&["my", "user", "name"].map(String::from)[..])
        );
    }
}
