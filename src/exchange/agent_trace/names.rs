//! The names of models, and the addresses of what is in a store.

use crate::model::SessionKey;

/// The longest name of a model that the form takes, counted as the form's own reader does.
const LONGEST: usize = 250;

/// What models of a provider are called.
const PROVIDERS: [(&str, &[&str]); 6] = [
    ("anthropic", &["claude-"]),
    ("openai", &["gpt-", "chatgpt-", "codex-", "o1", "o3", "o4"]),
    ("google", &["gemini-"]),
    ("xai", &["grok-"]),
    ("mistral", &["mistral-", "codestral-", "devstral-"]),
    ("deepseek", &["deepseek-"]),
];

/// A model as `provider/model`. One whose provider is not known by its name stays as it was recorded;
/// `None` for what is no model, or is too long.
pub(super) fn model_id(recorded: &str) -> Option<String> {
    // The client writes its own messages under this name.
    if recorded.is_empty() || recorded == "<synthetic>" {
        return None;
    }
    let provider = PROVIDERS.iter().find(|(_, names)| {
        let is_called = |name: &&str| starts_a_name(recorded, name);
        !recorded.contains('/') && names.iter().any(is_called)
    });
    let id = match provider {
        Some((provider, _)) => format!("{provider}/{recorded}"),
        None => recorded.to_owned(),
    };
    (id.encode_utf16().count() <= LONGEST).then_some(id)
}

/// Whether a name begins so: with `o3` do `o3` and `o3-mini`, but not `o30`.
fn starts_a_name(name: &str, beginning: &str) -> bool {
    name.strip_prefix(beginning)
        .is_some_and(|rest| beginning.ends_with('-') || rest.is_empty() || rest.starts_with('-'))
}

/// The address of a session.
pub(super) fn session(key: &SessionKey) -> String {
    address(&["sessions", &key.project_key, &key.session_id])
}

/// The address of something in a session: of its `messages`, `agents` or `tool-calls`.
pub(super) fn within(key: &SessionKey, room: &str, id: &str) -> String {
    address(&["sessions", &key.project_key, &key.session_id, room, id])
}

/// The address of an origin that is no call.
pub(super) fn origin(word: &str) -> String {
    address(&["origins", word])
}

/// A URI whose path has these parts. Ids are any text, so all but what is plain everywhere is encoded.
fn address(parts: &[&str]) -> String {
    let mut address = String::from("turnkeep:");
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            address.push('/');
        }
        // A reader may take whole parts of dots for steps up, encoded or not; no other text is.
        let is_dots = matches!(*part, "." | "..");
        for byte in part.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                    address.push(char::from(byte));
                }
                b'.' if !is_dots => address.push('.'),
                _ => address.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_get_their_provider_by_their_name() {
        for (recorded, id) in [
            (
                "claude-opus-4-5-20251101",
                "anthropic/claude-opus-4-5-20251101",
            ),
            ("gpt-5", "openai/gpt-5"),
            ("o3", "openai/o3"),
            ("o1-mini", "openai/o1-mini"),
            ("o100", "o100"),
            ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
            ("codex-mini", "openai/codex-mini"),
            ("gemini-3-pro", "google/gemini-3-pro"),
            ("grok-4", "xai/grok-4"),
            ("devstral-small", "mistral/devstral-small"),
            ("deepseek-chat", "deepseek/deepseek-chat"),
            ("openrouter/claude-x", "openrouter/claude-x"),
            ("qwen3-coder", "qwen3-coder"),
            ("claude", "claude"),
        ] {
            assert_eq!(model_id(recorded).as_deref(), Some(id));
        }
        let longest = "x".repeat(LONGEST);
        assert_eq!(model_id(&longest), Some(longest.clone()));
        for none in [
            "",
            "<synthetic>",
            &format!("{longest}x"),
            &format!("gpt-{longest}"),
        ] {
            assert_eq!(model_id(none), None);
        }
    }

    #[test]
    fn addresses_hold_any_id() {
        let key = SessionKey::new("-srv-shop", "a b/c%?#é").unwrap();
        let address = session(&key);
        assert_eq!(
            address,
            "turnkeep:sessions/-srv-shop/a%20b%2Fc%25%3F%23%C3%A9"
        );
        let key = SessionKey::new("..", "v1.2").unwrap();
        let address = within(&key, "messages", "m1");
        assert_eq!(address, "turnkeep:sessions/%2E%2E/v1.2/messages/m1");
    }
}
