//! Words: how text is taken apart for search.
//!
//! A word is a run of letters and digits, in lower case and without accents. What is written
//! without spaces (Chinese, Japanese, Korean, Thai …) is one word a character, so that any part of
//! it is found as a phrase. Everything else stands between words: `snake_case`, `foo::bar` and paths
//! are words in a row. `camelCase` is one word whose humps are words too.

use std::ops::Range;

/// The longest word that is told apart, in characters. Hashes are shorter; encoded data is not.
const LONGEST: usize = 64;

/// What a character is to a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A part of a word.
    Letter,
    /// A word of its own.
    Alone,
    /// An accent or a joiner: it belongs to the character before it and is not told apart.
    Mark,
    /// Between words.
    Space,
}

fn class(letter: char) -> Class {
    match letter {
        '0'..='9' | 'a'..='z' | 'A'..='Z' => Class::Letter,
        '\0'..='\x7f' => Class::Space,
        '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{fe00}'..='\u{fe0f}' => {
            Class::Mark
        }
        // Thai, Lao, Tibetan, Myanmar, Hangul, Khmer; Han, kana, bopomofo, Yi; the rest of them.
        '\u{e01}'..='\u{eff}'
        | '\u{f00}'..='\u{fff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1100}'..='\u{11ff}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{2e80}'..='\u{2fdf}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}'
        | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}'
            if letter.is_alphanumeric() =>
        {
            Class::Alone
        }
        // Pictures: people look for them, and they are not letters.
        '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}' => Class::Alone,
        letter if letter.is_alphanumeric() => Class::Letter,
        _ => Class::Space,
    }
}

/// Latin letters with accents, from U+00C0 on, each by what it is without.
const LATIN: &str = "aaaaaaæceeeeiiiiðnooooo×ouuuuyþßaaaaaaæceeeeiiiiðnooooo÷ouuuuyþy\
    aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiĳĳjjkkĸlllllllll\
    lnnnnnnnŋŋooooooœœrrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";

/// The same, from U+1EA0 on: Vietnamese.
const VIETNAMESE: &str =
    "aaaaaaaaaaaaaaaaaaaaaaaaeeeeeeeeeeeeeeeeiiiioooooooooooooooooooooooouuuuuuuuuuuuuuyyyyyyyy";

fn plain(letter: char) -> char {
    let nth = |table: &str, first: char| {
        let at = (letter as usize).checked_sub(first as usize)?;
        table.chars().nth(at)
    };
    match letter {
        '\u{c0}'..='\u{17f}' => nth(LATIN, '\u{c0}').unwrap_or(letter),
        '\u{1ea0}'..='\u{1ef9}' => nth(VIETNAMESE, '\u{1ea0}').unwrap_or(letter),
        'Ơ' | 'ơ' => 'o',
        'Ư' | 'ư' => 'u',
        'ё' | 'Ё' => 'е',
        'ά' | 'Ά' => 'α',
        'έ' | 'Έ' => 'ε',
        'ή' | 'Ή' => 'η',
        'ί' | 'Ί' => 'ι',
        'ό' | 'Ό' => 'ο',
        'ύ' | 'Ύ' => 'υ',
        'ώ' | 'Ώ' => 'ω',
        // A final sigma is a sigma.
        'ς' => 'σ',
        // Full width.
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(letter as u32 - 0xfee0).unwrap_or(letter),
        letter => letter,
    }
}

fn fold(letter: char, into: &mut String) {
    if letter.is_ascii() {
        into.push(letter.to_ascii_lowercase());
        return;
    }
    for lower in plain(letter).to_lowercase() {
        if class(lower) != Class::Mark {
            into.push(plain(lower));
        }
    }
}

/// Calls `each` with every word of a text, folded, and where it stands, in bytes.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str, Range<usize>)) {
    let mut word = String::new();
    let (mut begun, mut end, mut letters) = (0, 0, 0);
    let mut letters_of = text.char_indices().peekable();
    while let Some((at, letter)) = letters_of.next() {
        match class(letter) {
            Class::Letter => {
                if word.is_empty() {
                    (begun, letters) = (at, 0);
                }
                if letters < LONGEST {
                    fold(letter, &mut word);
                }
                letters += 1;
                end = at + letter.len_utf8();
            }
            Class::Mark if !word.is_empty() => end = at + letter.len_utf8(),
            Class::Mark => {}
            Class::Alone | Class::Space => {
                if !word.is_empty() {
                    each(&word, begun..end);
                    word.clear();
                }
                if class(letter) == Class::Alone {
                    fold(letter, &mut word);
                    let mut end = at + letter.len_utf8();
                    while let Some((at, mark)) =
                        letters_of.next_if(|(_, next)| class(*next) == Class::Mark)
                    {
                        end = at + mark.len_utf8();
                    }
                    each(&word, at..end);
                    word.clear();
                }
            }
        }
    }
    if !word.is_empty() {
        each(&word, begun..end);
    }
}

/// The words of a text, folded.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_word(text, |word, _| words.push(word.to_owned()));
    words
}

/// The humps of a word as it is written, if it has more than one: `getHTTPPage` is get, http, page.
pub(crate) fn humps(written: &str) -> Vec<String> {
    let bytes = written.as_bytes();
    // Most words are told at the first look: small letters, at most with a capital in front.
    if bytes.iter().skip(1).all(|byte| !byte.is_ascii_uppercase()) || written.len() > LONGEST {
        return Vec::new();
    }
    let mut cuts = vec![0];
    for at in 1..bytes.len() {
        let (before, here, next) = (bytes[at - 1], bytes[at], bytes.get(at + 1));
        let rises = here.is_ascii_uppercase() && !before.is_ascii_uppercase();
        let falls = here.is_ascii_uppercase()
            && before.is_ascii_uppercase()
            && next.is_some_and(u8::is_ascii_lowercase);
        if (rises || falls) && written.is_char_boundary(at) {
            cuts.push(at);
        }
    }
    if cuts.len() < 2 {
        return Vec::new();
    }
    cuts.push(bytes.len());
    cuts.windows(2)
        .filter_map(|cut| words(&written[cut[0]..cut[1]]).pop())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(
            words("snake_case, foo::bar /src/lib.rs v1.2"),
            ["snake", "case", "foo", "bar", "src", "lib", "rs", "v1", "2"]
        );
        assert_eq!(words("don't \u{feff}-- ->"), ["don", "t"]);
    }

    #[test]
    fn case_and_accents_make_no_difference() {
        assert_eq!(
            words("Éclair CAFE\u{301} Straße ŁÓDŹ"),
            ["eclair", "cafe", "straße", "lodz"]
        );
        assert_eq!(
            words("Nguyễn Đức ΣΊΣΥΦΟΣ ёлка ＡＢＣ１"),
            ["nguyen", "duc", "σισυφοσ", "елка", "abc1"]
        );
        for letter in ('\u{c0}'..='\u{17f}').chain('\u{1ea0}'..='\u{1ef9}') {
            let folded = words(&letter.to_string());
            assert!(folded.len() <= 1, "{letter} {folded:?}");
        }
        assert_eq!(
            (plain('ž'), plain('ſ'), plain('ỹ'), plain('ŵ'), plain('ÿ')),
            ('z', 's', 'y', 'w', 'y')
        );
        assert_eq!(
            (plain('Ĳ'), plain('ŋ'), plain('œ'), plain('ř'), plain('ș')),
            ('ĳ', 'ŋ', 'œ', 'r', 'ș')
        );
    }

    #[test]
    fn what_has_no_spaces_is_taken_apart_by_characters() {
        assert_eq!(
            words("注文A17を確認"),
            ["注", "文", "a17", "を", "確", "認"]
        );
        assert_eq!(words("배포 🚀!"), ["배", "포", "🚀"]);
        assert_eq!(words("เมือง").concat().chars().count(), 5);
    }

    #[test]
    fn humps_are_words_too() {
        assert_eq!(humps("getHTTPPage"), ["get", "http", "page"]);
        assert_eq!(humps("userName2"), ["user", "name2"]);
        assert_eq!(humps("XMLHttpRequest"), ["xml", "http", "request"]);
        assert!(humps("Order").is_empty() && humps("HTTP").is_empty() && humps("a17").is_empty());
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let text = "Der Café\u{301} öffnet";
        let mut found = Vec::new();
        each_word(text, |_, place| found.push(&text[place]));
        assert_eq!(found, ["Der", "Café\u{301}", "öffnet"]);
    }

    #[test]
    fn a_word_without_end_is_cut() {
        let long = "x".repeat(1000);
        assert_eq!(words(&long)[0].len(), LONGEST);
    }
}
