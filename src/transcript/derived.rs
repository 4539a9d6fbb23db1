//! The uuids under which a fork shows the messages it inherits.
//!
//! They are made, not stored: a random beginning that belongs to the fork, and the id of the row.
//! Each is a valid UUID of version 8 (RFC 9562), and leads straight back to its row. The view
//! `message_view` makes the same in SQL.

use uuid::Uuid;

/// How many bits of a row id stand in the last group.
const LOW_BITS: u32 = 48;
const LOW: i64 = (1 << LOW_BITS) - 1;

/// The beginning of a fork's derived uuids: `xxxxxxxx-xxxx-8xxx`.
pub(crate) fn new_prefix() -> String {
    let random = Uuid::new_v4().to_string();
    // The third group begins with the version.
    format!("{}8{}", &random[..14], &random[15..18])
}

/// The uuid under which the fork with this prefix shows the row `id` (below 2^62).
pub(crate) fn derive(prefix: &str, id: i64) -> String {
    let mut uuid = String::with_capacity(36);
    uuid.push_str(prefix);
    push_hex(&mut uuid, 0x8000 | (id >> LOW_BITS), 4);
    push_hex(&mut uuid, id & LOW, 12);
    uuid
}

/// Adds a group of `digits` digits.
fn push_hex(uuid: &mut String, number: i64, digits: u32) {
    uuid.push('-');
    for digit in (0..digits).rev() {
        let digit = (number >> (digit * 4)) & 0xf;
        uuid.push(char::from(b"0123456789abcdef"[digit as usize]));
    }
}

/// The row that a derived uuid leads to, if it is one of the fork with this prefix.
pub(crate) fn row_of(prefix: &str, uuid: &str) -> Option<i64> {
    let rest = uuid.strip_prefix(prefix)?.strip_prefix('-')?;
    let (high, low) = rest.split_once('-')?;
    let hex = |digits: &str, length: usize| {
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == length && digits.bytes().all(lower))
            .then(|| i64::from_str_radix(digits, 16).ok())?
    };
    let (high, low) = (hex(high, 4)?, hex(low, 12)?);
    let high = (high & 0xc000 == 0x8000).then_some(high & 0x3fff)?;
    Some((high << LOW_BITS) | low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_derived_uuid_leads_back_to_its_row(id in 0_i64..(1 << 62)) {
            let prefix = new_prefix();
            let uuid = derive(&prefix, id);
            let parsed = Uuid::parse_str(&uuid).unwrap();
            prop_assert_eq!(parsed.get_version_num(), 8);
            prop_assert_eq!(parsed.get_variant(), uuid::Variant::RFC4122);
            prop_assert_eq!(row_of(&prefix, &uuid), Some(id));
            prop_assert_eq!(row_of(&new_prefix(), &uuid), None);
        }

        #[test]
        fn nothing_else_leads_anywhere(text in "\\PC{0,40}") {
            let prefix = new_prefix();
            prop_assert_eq!(row_of(&prefix, &text), None);
            let wrong = format!("{prefix}-{text}");
            if let Some(id) = row_of(&prefix, &wrong) {
                prop_assert_eq!(derive(&prefix, id), wrong);
            }
        }
    }
}
