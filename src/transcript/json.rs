//! Looking inside JSON text without printing it anew.
//!
//! Values stay slices of the text they came from, so numbers, key order and escapes are never
//! changed. Nothing here recurses, however deeply a value is nested, and a lone surrogate escape
//! (which a strict reader refuses) is readable: it becomes U+FFFD in the decoded view only.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The fields of one JSON object, in order, each value as its own text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Object<'a> {
    fields: Vec<(Cow<'a, [u8]>, &'a str)>,
}

impl<'a> Object<'a> {
    /// Reads `text` as exactly one JSON object; `None` if it is anything else.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let object = reader.deserialize_map(Fields).ok()?;
        reader.end().ok()?;
        Some(object)
    }

    /// The value of `name` as JSON text; of a repeated key the last, as the usual readers take it.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.fields
            .iter()
            .rev()
            .find(|(key, _)| &**key == name.as_bytes())
            .map(|(_, value)| *value)
    }

    /// The fields in order, but for those whose key is not UTF-8.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.fields
            .iter()
            .filter_map(|(key, value)| Some((std::str::from_utf8(key).ok()?, *value)))
    }

    /// The value of `name` if it is a string, decoded.
    pub(crate) fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    /// Whether `name` is `true`.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// The value of `name` if it is an object.
    pub(crate) fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(Object::parse)
    }

    /// The value of `name` if it is a whole number that fits.
    pub(crate) fn integer(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }
}

/// Reads `text` as an array; `None` if it is anything else.
pub(crate) fn array(text: &str) -> Option<Vec<&str>> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let items = reader.deserialize_seq(Items).ok()?;
    reader.end().ok()?;
    Some(items)
}

/// Decodes `text` if it is a JSON string; a lone surrogate becomes U+FFFD.
pub(crate) fn string(text: &str) -> Option<Cow<'_, str>> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    if let Ok(whole) = serde_json::from_str::<String>(text) {
        return Some(Cow::Owned(whole));
    }
    serde_json::from_str::<String>(&replace_lone_surrogates(text))
        .ok()
        .map(Cow::Owned)
}

/// JSON text as one line: if it has line breaks, the space between its tokens goes, and nothing
/// else. A string holds none of its own: there they are escapes.
pub(crate) fn on_one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let (mut in_string, mut is_escaped) = (false, false);
    let is_kept = |letter: &char| {
        if is_escaped {
            is_escaped = false;
        } else if in_string {
            is_escaped = *letter == '\\';
            in_string = *letter != '"';
        } else {
            in_string = *letter == '"';
            return !matches!(letter, ' ' | '\t' | '\n' | '\r');
        }
        true
    };
    Cow::Owned(text.chars().filter(is_kept).collect())
}

/// Writes `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    let plain = |byte: u8| byte >= b' ' && !matches!(byte, b'"' | b'\\');
    if !text.bytes().all(plain) {
        return serde_json::Value::from(text).to_string();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    quoted.push_str(text);
    quoted.push('"');
    quoted
}

/// Replaces each `\uD800`–`\uDFFF` escape that has no partner by `\ufffd`, and leaves every other
/// byte of the JSON text as it is. The stored text is never passed back through here.
pub(crate) fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut kept = 0;
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += step;
        let Some(unit) = surrogate_at(bytes, at) else {
            at = (at + 2).min(bytes.len());
            continue;
        };
        let paired = (0xd800..0xdc00).contains(&unit)
            && surrogate_at(bytes, at + 6).is_some_and(|next| (0xdc00..0xe000).contains(&next));
        if paired {
            at += 12;
            continue;
        }
        let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
        out.push_str(&text[kept..at]);
        out.push_str("\\ufffd");
        at += 6;
        kept = at;
    }
    match out {
        Some(mut out) => {
            out.push_str(&text[kept..]);
            Cow::Owned(out)
        }
        None => Cow::Borrowed(text),
    }
}

/// The UTF-16 unit of a `\uXXXX` escape at `at`, if it is a surrogate.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    if escape[0] != b'\\' || escape[1] != b'u' {
        return None;
    }
    let digits = std::str::from_utf8(&escape[2..]).ok()?;
    u32::from_str_radix(digits, 16)
        .ok()
        .filter(|unit| (0xd800..0xe000).contains(unit))
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Object<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(24);
        while let Some(key) = map.next_key_seed(Key)? {
            let value: &RawValue = map.next_value()?;
            fields.push((key, value.get()));
        }
        Ok(Object { fields })
    }
}

struct Items;

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de str>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(value) = seq.next_element::<&RawValue>()? {
            items.push(value.get());
        }
        Ok(items)
    }
}

/// A key, read as bytes so that a lone surrogate in it is no error.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, [u8]>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, [u8]>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_borrowed_bytes<E>(self, key: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_vec()))
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key.as_bytes()))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.as_bytes().to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_text() {
        let text = r#"{"a":1.0,"b":[1e400, 12345678901234567890],"a":2}"#;
        let object = Object::parse(text).unwrap();
        assert_eq!(object.get("a"), Some("2"));
        assert_eq!(
            array(object.get("b").unwrap()).unwrap(),
            ["1e400", "12345678901234567890"]
        );
        assert!(Object::parse("{} {}").is_none());
        assert!(Object::parse("[1]").is_none());
    }

    #[test]
    fn a_lone_surrogate_is_readable_and_a_pair_is_left_alone() {
        let text = r#"{"k\ud83d":"x","t":"a\ud83d… \ud83d\ude00 \\ud83d \udc00"}"#;
        let object = Object::parse(text).unwrap();
        assert_eq!(
            object.string("t").unwrap(),
            "a\u{fffd}… 😀 \\ud83d \u{fffd}"
        );
        assert_eq!(
            replace_lone_surrogates(r#""a\ud83d\ud83d\ude00\\ud83d""#),
            r#""a\ufffd\ud83d\ude00\\ud83d""#
        );
    }

    #[test]
    fn a_value_of_many_lines_becomes_one_line_of_the_same_tokens() {
        let text = "[\n  {\r\n\t\"a b\" : 1.0,\n  \"c\": \"x \\\" y\\\\\"\n}, 1e400 ]";
        assert_eq!(on_one_line(text), r#"[{"a b":1.0,"c":"x \" y\\"},1e400]"#);
        let one = r#"{ "a": [1, 2] }"#;
        assert!(matches!(on_one_line(one), Cow::Borrowed(same) if same == one));
    }

    #[test]
    fn deep_nesting_does_not_recurse() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(Object::parse(&deep).is_some());
    }
}
