//! An inherited entry as a fork shows it.
//!
//! Rewritten are the entry's own uuid, its session, and every reference to another entry: by name
//! where the client is known to keep one, and in any other field of the envelope where a whole
//! string of uuid shape names an entry of the inherited history. What the user, the model and the
//! tools said (`message`, `toolUseResult`) is never touched, and neither is any byte besides.

use super::json::{Object, array, quote, string};

/// Envelope fields that name an entry. One that names none of the inherited history becomes null.
const REFERENCES: [&str; 7] = [
    "logicalParentUuid",
    "messageId",
    "snapshotMessageId",
    "leafUuid",
    "cutUuid",
    "sourceToolAssistantUUID",
    "compactMetadata",
];

/// Fields that are never looked into.
const SAID: [&str; 2] = ["message", "toolUseResult"];

/// Fields of uuid shape that name no entry: spared a look-up.
const NO_REFERENCES: [&str; 4] = ["promptId", "requestId", "requestRef", "requestSessionId"];

/// What a fork puts in place.
pub(crate) struct Identity<'a> {
    /// As a JSON string.
    pub(crate) session_id: &'a str,
    /// The entry's own uuid in the fork, if it has one.
    pub(crate) uuid: Option<&'a str>,
    /// The uuid of its parent in the fork, if that is inherited too.
    pub(crate) parent_uuid: Option<&'a str>,
    /// The session it was forked from, as a JSON string, and the entry's uuid there.
    pub(crate) origin: (&'a str, &'a str),
}

/// Rewrites an entry. `find` gives the uuid in the fork of the entry that a uuid names in the
/// history, if there is one.
pub(crate) fn remap<E>(
    entry: &str,
    identity: &Identity<'_>,
    find: &mut impl FnMut(&str) -> Result<Option<String>, E>,
) -> Result<String, E> {
    let Some(object) = Object::parse(entry) else {
        return Ok(entry.to_owned());
    };
    let mut out = Rewriter {
        entry,
        kept: 0,
        out: String::with_capacity(entry.len() + 160),
    };
    let mut forked_from = None;
    for (key, value) in object.fields() {
        match key {
            _ if SAID.contains(&key) || NO_REFERENCES.contains(&key) => {}
            "uuid" => {
                if let Some(uuid) = identity.uuid {
                    out.replace(value, &quote(uuid));
                }
            }
            "parentUuid" => {
                let parent = identity
                    .parent_uuid
                    .map_or_else(|| "null".to_owned(), quote);
                out.replace(value, &parent);
            }
            "sessionId" => out.replace(value, identity.session_id),
            "forkedFrom" => forked_from = Some(value),
            _ => {
                if let Some(mapped) = map_value(value, REFERENCES.contains(&key), find)? {
                    out.replace(value, &mapped);
                }
            }
        }
        if key == "forkedFrom" && identity.uuid.is_some() {
            out.replace(value, &origin(identity));
        }
    }
    let missing = identity.uuid.is_some() && forked_from.is_none();
    Ok(out.finish(missing.then(|| [r#","forkedFrom":"#, &origin(identity)].concat())))
}

fn origin(identity: &Identity<'_>) -> String {
    let (session, uuid) = identity.origin;
    let uuid = quote(uuid);
    [
        r#"{"sessionId":"#,
        session,
        r#","messageUuid":"#,
        &uuid,
        "}",
    ]
    .concat()
}

/// A value with its references mapped; `None` if there are none. `named` says that every string of
/// uuid shape in it names an entry: one that is not found becomes null.
fn map_value<E>(
    whole: &str,
    named: bool,
    find: &mut impl FnMut(&str) -> Result<Option<String>, E>,
) -> Result<Option<String>, E> {
    // Most fields can name nothing, and are passed over at once.
    match whole.as_bytes().first() {
        Some(b'"') if named || whole.len() == 38 || whole.contains('\\') => {}
        Some(b'{' | b'[') if whole.len() > 38 => {}
        _ => return Ok(None),
    }
    // Depth is bounded by the reading (line.rs), but not small: no recursion.
    let mut out: Option<Rewriter<'_>> = None;
    let mut open = vec![whole];
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        match value.as_bytes().first() {
            Some(b'"') => {
                let Some(text) = string(value) else { continue };
                // An id by its name may have any shape; anywhere else only that of a uuid counts.
                if !(is_uuid(&text) || (named && value.len() == whole.len())) {
                    continue;
                }
                match find(&text)? {
                    Some(uuid) => found.push((value, quote(&uuid))),
                    None if named => found.push((value, "null".to_owned())),
                    None => {}
                }
            }
            Some(b'{') if value.len() > 38 => {
                let object = Object::parse(value).unwrap_or_default();
                open.extend(object.fields().map(|(_, value)| value));
            }
            Some(b'[') if value.len() > 38 => open.extend(array(value).unwrap_or_default()),
            _ => {}
        }
    }
    found.sort_by_key(|(slice, _)| slice.as_ptr() as usize);
    for (slice, mapped) in found {
        out.get_or_insert_with(|| Rewriter {
            entry: whole,
            kept: 0,
            out: String::with_capacity(whole.len()),
        })
        .replace(slice, &mapped);
    }
    Ok(out.map(|out| out.finish(None)))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// Copies a text but for some slices of it.
struct Rewriter<'a> {
    entry: &'a str,
    kept: usize,
    out: String,
}

impl Rewriter<'_> {
    /// Puts `with` in place of `slice`, a slice of the text behind all those before.
    fn replace(&mut self, slice: &str, with: &str) {
        let at = slice.as_ptr() as usize - self.entry.as_ptr() as usize;
        self.out.push_str(&self.entry[self.kept..at]);
        self.out.push_str(with);
        self.kept = at + slice.len();
    }

    /// The text, with `last` before its closing bracket.
    fn finish(mut self, last: Option<String>) -> String {
        let rest = &self.entry[self.kept..];
        match last.and_then(|last| Some((rest.rsplit_once('}')?, last))) {
            Some(((before, after), last)) => {
                self.out.push_str(before);
                self.out.push_str(&last);
                self.out.push('}');
                self.out.push_str(after);
            }
            None => self.out.push_str(rest),
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "11111111-1111-4111-8111-111111111111";
    const NEW: &str = "22222222-2222-8222-8222-222222222222";
    const UNKNOWN: &str = "33333333-3333-4333-8333-333333333333";

    fn shown(entry: &str) -> String {
        let identity = Identity {
            session_id: r#""fork""#,
            uuid: Some("me"),
            parent_uuid: Some("p"),
            origin: (r#""source""#, "was"),
        };
        let mut find =
            |uuid: &str| Ok::<_, ()>((uuid == OLD || uuid == "m1").then(|| NEW.to_owned()));
        remap(entry, &identity, &mut find).unwrap()
    }

    #[test]
    fn references_are_mapped_and_what_was_said_is_not() {
        let entry = format!(
            r#"{{"uuid":"a" , "parentUuid":"{OLD}","sessionId":"source","message":{{"id":"{OLD}","n":1.0}},"toolUseResult":"{OLD}","other":["{OLD}","{UNKNOWN}"],"leafUuid":"{UNKNOWN}","messageId":"m1","promptId":"{OLD}"}}"#
        );
        let expected = format!(
            r#"{{"uuid":"me" , "parentUuid":"p","sessionId":"fork","message":{{"id":"{OLD}","n":1.0}},"toolUseResult":"{OLD}","other":["{NEW}","{UNKNOWN}"],"leafUuid":null,"messageId":"{NEW}","promptId":"{OLD}","forkedFrom":{{"sessionId":"source","messageUuid":"was"}}}}"#
        );
        assert_eq!(shown(&entry), expected);
    }

    #[test]
    fn compaction_metadata_holds_no_old_id() {
        let entry = format!(
            r#"{{"compactMetadata":{{"trigger":"manual","preservedSegment":{{"headUuid":"{OLD}"}},"preservedMessages":{{"uuids":["{OLD}","{UNKNOWN}"]}}}},"forkedFrom":{{"sessionId":"x","messageUuid":"{OLD}"}}}}"#
        );
        let expected = format!(
            r#"{{"compactMetadata":{{"trigger":"manual","preservedSegment":{{"headUuid":"{NEW}"}},"preservedMessages":{{"uuids":["{NEW}",null]}}}},"forkedFrom":{{"sessionId":"source","messageUuid":"was"}}}}"#
        );
        assert_eq!(shown(&entry), expected);
    }
}
