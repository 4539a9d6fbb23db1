//! Which strings may name a file.
//!
//! Ids are data, and any non-empty string is one. Only here, where an export writes files named
//! by them, are some refused.

/// Whether `name` is one plain path component on every system: not empty, no separator, no dot
/// name, no NUL, not too long.
pub(crate) fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !matches!(name, "." | "..")
        && !name.contains(['/', '\\', '\0', ':'])
        && !name.ends_with(['.', ' '])
}

/// Whether `path` is plain components joined by `/`.
pub(crate) fn is_relative_path(path: &str) -> bool {
    path.split('/').all(is_component)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traversal_is_refused_and_good_names_are_not() {
        for good in ["a", "a..b.txt", "~", "..a", "é", "-srv-demo"] {
            assert!(is_component(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "/abs",
            "a\\b",
            "C:\\x",
            "x\0y",
            &"a".repeat(256),
        ] {
            assert!(!is_component(bad), "{bad}");
        }
        assert!(is_relative_path("subagents/agent-1"));
        assert!(!is_relative_path("subagents/../../x"));
        assert!(!is_relative_path("/etc/x"));
        assert!(!is_relative_path("a//b"));
    }
}
