//! The client's name for a project folder.
//!
//! Source: Claude Code 2.1.332, measured (docs/ARCHITECTURE.md). It counts UTF-16 units, so a
//! character outside the BMP becomes two hyphens, and it does not normalise. The Python SDK's
//! `project_key_for_directory` agrees for every path in NFC within the BMP. A key is derived from a
//! path and never decoded back: many paths share one.

/// The longest key before it is cut and a hash is put behind it.
const MAX_UNITS: usize = 200;

/// The project key of a directory, given as its real path.
pub fn project_key_for(path: &str) -> String {
    let letter = |unit: u16| {
        char::from_u32(u32::from(unit))
            .filter(char::is_ascii_alphanumeric)
            .unwrap_or('-')
    };
    let key: String = path.encode_utf16().map(letter).collect();
    if key.len() <= MAX_UNITS {
        return key;
    }
    format!("{}-{}", &key[..MAX_UNITS], base36(hash(path)))
}

/// `hash = hash * 31 + unit`, in 32-bit wrap-around, without its sign.
fn hash(path: &str) -> u32 {
    path.encode_utf16()
        .fold(0_i32, |hash, unit| {
            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
        })
        .unsigned_abs()
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            break digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_and_letters_outside_ascii_become_hyphens() {
        assert_eq!(project_key_for("/srv/data_app.é"), "-srv-data-app--");
        assert_eq!(project_key_for("/srv/測試/app"), "-srv----app");
        assert_eq!(project_key_for("/x/😀"), "-x---");
        let long = format!("/{}", "a".repeat(300));
        assert_eq!(
            project_key_for(&long).len(),
            200 + 1 + base36(hash(&long)).len()
        );
    }
}
