//! One line of a JSONL file: bytes in, at most a few segments out, and never an error.
//!
//! A line ends at LF only. What a crash leaves behind is told apart here, so that a bad line costs
//! that line and no more: padding with NUL bytes, a byte-order mark, CR, invalid UTF-8, half a
//! record, and a record glued behind half of another or behind a whole one. The bytes of the
//! segments, in order, are the bytes of the line.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::json::Object;

/// How deeply a record may be nested to count as JSON. It is SQLite's own limit: beyond it one row
/// would fail every query that uses a JSON function.
const MAX_DEPTH: usize = 1000;

/// What follows a segment in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A line feed.
    #[default]
    Lf,
    /// The end of the file: whoever writes next puts a line feed first.
    Eof,
    /// The next segment, on the same line.
    Joined,
}

/// The bytes of a line that is kept as its record, and as bytes where those differ.
pub(crate) fn kept_bytes<'a>(raw: Option<&'a [u8]>, entry: Option<&'a str>) -> &'a [u8] {
    raw.or(entry.map(str::as_bytes)).unwrap_or_default()
}

/// How many records are taken from the front of a line at most: it bounds the work on hostile input.
const MAX_LEADING: usize = 64;

/// Why a line is not simply one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// NUL bytes, alone or around a record.
    Nul,
    /// Bytes that are not UTF-8; the record is shown with replacement characters.
    NotUtf8,
    /// Text that is not JSON: half a record, or something else.
    NotJson,
    /// JSON, but not an object.
    NotAnObject,
    /// Nested more deeply than [`MAX_DEPTH`].
    TooDeep,
    /// Half a record on the line of a whole one, which was kept.
    Stub,
    /// Half a record at the end of the file.
    Torn,
}

impl Fault {
    /// The fault in words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Nul => "NUL bytes (the rest of the line was kept)",
            Self::NotUtf8 => "not UTF-8 (shown with replacement characters, bytes kept)",
            Self::NotJson => "not JSON (bytes kept)",
            Self::NotAnObject => "JSON, but not an object (bytes kept)",
            Self::TooDeep => "nested more than 1000 levels deep (bytes kept)",
            Self::Stub => "half a record before a whole one on the same line (both kept)",
            Self::Torn => "half a record at the end of the file (completed when the file is)",
        }
    }
}

/// A piece of a line: a record, or bytes that hold none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment<'a> {
    /// The bytes as they are in the file, without the line feed.
    pub(crate) bytes: &'a [u8],
    /// The record in them, if there is one.
    pub(crate) entry: Option<Cow<'a, str>>,
    /// The fields of the record, where it stands in the bytes as it is.
    pub(crate) object: Option<Object<'a>>,
    /// What is wrong with it, if anything is. A blank line has neither entry nor fault.
    pub(crate) fault: Option<Fault>,
    /// What follows it.
    pub(crate) ending: Ending,
}

/// Takes a line apart. `ending` is what follows the line. Never empty.
///
/// A record at the front is a segment of its own whatever follows it, so that one which was read
/// before its line had ended stays what it was when the line goes on.
pub(crate) fn segments(line: &[u8], ending: Ending) -> Vec<Segment<'_>> {
    let (mut parts, mut rest) = (Vec::new(), line);
    loop {
        let whole = read(rest, ending);
        if !matches!(whole.fault, Some(Fault::NotJson | Fault::Torn)) {
            parts.push(whole);
            return parts;
        }
        if parts.len() < MAX_LEADING
            && let Some(end) = first_record(rest)
        {
            parts.push(read(&rest[..end], Ending::Joined));
            rest = &rest[end..];
            continue;
        }
        let split = match whole.fault {
            Some(Fault::NotJson) => split(rest, ending),
            _ => Vec::new(),
        };
        if split.is_empty() {
            parts.push(whole);
        } else {
            parts.extend(split);
        }
        return parts;
    }
}

/// Reads a line as one segment.
fn read(line: &[u8], ending: Ending) -> Segment<'_> {
    let (core, had_nul) = trim(line);
    let mut object = None;
    let (entry, fault) = match std::str::from_utf8(core) {
        _ if core.is_empty() => (None, had_nul.then_some(Fault::Nul)),
        Ok(text) => match record(text) {
            Ok(read) => {
                object = Some(read);
                (Some(Cow::Borrowed(text)), had_nul.then_some(Fault::Nul))
            }
            Err(fault) => (None, Some(fault)),
        },
        Err(_) => {
            let text = String::from_utf8_lossy(core).into_owned();
            match record(&text).map(drop) {
                Ok(()) => (Some(Cow::Owned(text)), Some(Fault::NotUtf8)),
                Err(fault) => (None, Some(fault)),
            }
        }
    };
    let torn = ending == Ending::Eof && entry.is_none() && !core.is_empty();
    Segment {
        bytes: line,
        entry,
        object,
        fault: if torn { Some(Fault::Torn) } else { fault },
        ending,
    }
}

/// Reads `text` as one record.
fn record(text: &str) -> Result<Object<'_>, Fault> {
    if too_deep(text) {
        return Err(Fault::TooDeep);
    }
    if let Some(object) = Object::parse(text) {
        return Ok(object);
    }
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) => Err(Fault::NotAnObject),
        Err(_) => Err(Fault::NotJson),
    }
}

/// The line without byte-order mark, white space and NUL bytes around it, and whether there were
/// NUL bytes.
fn trim(line: &[u8]) -> (&[u8], bool) {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let start = line
        .iter()
        .position(|byte| !is_padding(*byte))
        .unwrap_or(line.len());
    let end = line
        .iter()
        .rposition(|byte| !is_padding(*byte))
        .map_or(start, |last| last + 1);
    let had_nul = line[..start].contains(&0) || line[end..].contains(&0);
    (&line[start..end], had_nul)
}

fn is_padding(byte: u8) -> bool {
    byte == 0 || byte.is_ascii_whitespace()
}

/// Where the record ends that `bytes` begin with, padding included; `None` if they do not begin with
/// one, or if nothing follows it.
fn first_record(bytes: &[u8]) -> Option<usize> {
    let record = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let start = record.iter().position(|byte| !is_padding(*byte))?;
    if record[start] != b'{' {
        return None;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let end = record[start..].iter().position(|byte| {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'{') => depth += 1,
            (false, b'}') => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    let end = bytes.len() - record.len() + start + end + 1;
    let end = end + bytes[end..].iter().position(|byte| !is_padding(*byte))?;
    read(&bytes[..end], Ending::Joined).entry.map(|_| end)
}

/// Whether brackets are nested beyond [`MAX_DEPTH`]. Counts first: nearly no line has that many.
fn too_deep(text: &str) -> bool {
    // `{` is `[` with one more bit; short runs are counted in bytes, many at a time.
    let opening = |run: &[u8]| {
        let count: u8 = run.iter().map(|byte| u8::from(byte | 0x20 == b'{')).sum();
        usize::from(count)
    };
    if text.as_bytes().chunks(255).map(opening).sum::<usize>() <= MAX_DEPTH {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Takes apart a line that holds more than one record: whole ones from the end backwards, and what
/// is left before them. Empty if no record is found.
fn split(line: &[u8], ending: Ending) -> Vec<Segment<'_>> {
    let mut parts = Vec::new();
    let mut end = line.len();
    let mut budget = line.len().saturating_mul(8) + 65_536;
    while end > 0 {
        let Some(start) = last_record(&line[..end], &mut budget) else {
            break;
        };
        let follows = if parts.is_empty() {
            ending
        } else {
            Ending::Joined
        };
        parts.push(read(&line[start..end], follows));
        end = start;
    }
    if end > 0 && !parts.is_empty() {
        let mut stub = read(&line[..end], Ending::Joined);
        if stub.entry.is_none() && stub.fault.is_some() {
            stub.fault = Some(Fault::Stub);
        }
        parts.push(stub);
    }
    parts.reverse();
    parts
}

/// Where the record starts that `bytes` end with. A nested object does not count: a record names
/// its type and its uuid or session. `budget` bounds the work on hostile input.
fn last_record(bytes: &[u8], budget: &mut usize) -> Option<usize> {
    let mut valid_from = 0;
    while let Err(error) = std::str::from_utf8(&bytes[valid_from..]) {
        valid_from += error.valid_up_to() + error.error_len().unwrap_or(1);
    }
    let mut before = bytes.len();
    while let Some(start) = bytes[valid_from..before]
        .windows(2)
        .rposition(|pair| pair == b"{\"")
    {
        let start = valid_from + start;
        before = start + 1;
        let text = std::str::from_utf8(&bytes[start..])
            .ok()?
            .trim_end_matches(['\0', ' ', '\r', '\t']);
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let read = match values.next() {
            Some(Ok(value)) if values.byte_offset() == text.len() => {
                if !too_deep(value.get()) && names_itself(value.get()) {
                    return Some(start);
                }
                text.len()
            }
            Some(Err(error)) => error.column(),
            _ => values.byte_offset(),
        };
        *budget = budget.checked_sub(read.max(1))?;
    }
    None
}

fn names_itself(text: &str) -> bool {
    Object::parse(text).is_some_and(|object| {
        object.string("type").is_some()
            && (object.string("uuid").is_some() || object.string("sessionId").is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"x"}}"#;
    const B: &str = r#"{"uuid":"b","type":"x","sessionId":"s"}"#;

    fn shown(line: &[u8]) -> Vec<(Option<String>, Option<Fault>)> {
        let parts = segments(line, Ending::Lf);
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes).copied().collect();
        assert_eq!(bytes, line, "segments cover the line");
        parts
            .into_iter()
            .map(|part| (part.entry.map(Cow::into_owned), part.fault))
            .collect()
    }

    #[test]
    fn a_record_is_one_segment_whatever_pads_it() {
        let one = |fault| vec![(Some(A.to_owned()), fault)];
        assert_eq!(shown(A.as_bytes()), one(None));
        assert_eq!(shown(format!("\u{feff}{A}\r").as_bytes()), one(None));
        assert_eq!(
            shown(format!("{A}\0\0\0").as_bytes()),
            one(Some(Fault::Nul))
        );
        assert_eq!(shown(b"\0\0"), [(None, Some(Fault::Nul))]);
        assert_eq!(shown(b""), [(None, None)]);
        assert_eq!(shown(b"[null]"), [(None, Some(Fault::NotAnObject))]);
        assert_eq!(
            shown(&A.as_bytes()[..A.len() - 3]),
            [(None, Some(Fault::NotJson))]
        );
    }

    #[test]
    fn glued_records_are_told_apart() {
        let stub = r#"{"type":"user","message":{"content":"caf"#;
        assert_eq!(
            shown(format!("{stub}{B}").as_bytes()),
            [(None, Some(Fault::Stub)), (Some(B.to_owned()), None)]
        );
        assert_eq!(
            shown(format!("{A}{B}").as_bytes()),
            [(Some(A.to_owned()), None), (Some(B.to_owned()), None)]
        );
        assert_eq!(
            shown(format!("{A}\0{stub}").as_bytes()),
            [
                (Some(A.to_owned()), Some(Fault::Nul)),
                (None, Some(Fault::NotJson))
            ]
        );
        let mut torn_inside_a_character = b"{\"type\":\"x\",\"t\":\"caf\xc3".to_vec();
        torn_inside_a_character.extend_from_slice(A.as_bytes());
        assert_eq!(
            shown(&torn_inside_a_character),
            [(None, Some(Fault::Stub)), (Some(A.to_owned()), None)]
        );
        let nested_only = r#"{"type":"user","message":{"type":"text","text":"x"}"#;
        assert_eq!(
            shown(nested_only.as_bytes()),
            [(None, Some(Fault::NotJson))]
        );
    }

    #[test]
    fn hostile_lines_take_bounded_work() {
        let open = "{\"\":".repeat(200_000);
        assert_eq!(shown(open.as_bytes()).len(), 1);
        let many = "{}".repeat(100_000);
        assert!(shown(many.as_bytes()).len() <= MAX_LEADING + 1);
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(4000), "]".repeat(4000));
        assert_eq!(shown(deep.as_bytes()), [(None, Some(Fault::TooDeep))]);
    }

    #[test]
    fn an_unterminated_line_may_be_whole_or_torn() {
        assert_eq!(segments(A.as_bytes(), Ending::Eof)[0].fault, None);
        assert_eq!(
            segments(b"{\"type\":", Ending::Eof)[0].fault,
            Some(Fault::Torn)
        );
        let glued = format!("{A}{{\"ty");
        let parts = segments(glued.as_bytes(), Ending::Eof);
        assert_eq!(parts[0].entry.as_deref(), Some(A));
        assert_eq!(
            (parts[1].fault, parts[1].ending),
            (Some(Fault::Torn), Ending::Eof)
        );
    }
}
