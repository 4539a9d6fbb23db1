//! The facts that a list of sessions shows, folded from entries one after another.
//!
//! Every rule is first-wins or last-wins, so a row is kept up to date by the entries of an append
//! alone and no transcript is read again. The rules are those of the Claude Agent SDK
//! (`fold_session_summary`, `summary_entry_to_sdk_info`).

use serde::{Deserialize, Serialize};

use super::dialect::Said;
use super::json::Object;
use super::prompt::{FirstPrompt, first_prompts};
use super::reading::{Reading, epoch_ms};

/// What one entry tells a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    is_sidechain: bool,
    timestamp_ms: Option<i64>,
    cwd: Option<String>,
    git_branch: Option<String>,
    entrypoint: Option<String>,
    custom_title: Option<String>,
    ai_title: Option<String>,
    last_prompt: Option<String>,
    summary_hint: Option<String>,
    /// `Some(None)` clears the tag.
    tag: Option<Option<String>>,
    first_prompts: Vec<FirstPrompt>,
}

impl Facts {
    pub(crate) fn read(kind: &str, entry: &Object<'_>, said: &Said<'_>) -> Self {
        let string = |name: &str| entry.string(name).map(String::from);
        let non_empty = |name: &str| string(name).filter(|value| !value.is_empty());
        let speaks =
            kind == "user" && !entry.is_true("isMeta") && !entry.is_true("isCompactSummary");
        Self {
            is_sidechain: entry.is_true("isSidechain"),
            timestamp_ms: entry.string("timestamp").and_then(|time| epoch_ms(&time)),
            cwd: non_empty("cwd"),
            git_branch: string("gitBranch"),
            entrypoint: non_empty("entrypoint"),
            custom_title: string("customTitle"),
            ai_title: string("aiTitle"),
            last_prompt: string("lastPrompt"),
            summary_hint: string("summary"),
            tag: (kind == "tag").then(|| non_empty("tag")),
            first_prompts: if speaks {
                first_prompts(said)
            } else {
                Vec::new()
            },
        }
    }
}

/// A session's row in a list, as far as entries decide it. Kept as JSON at every turn and fork, so
/// what is not known takes no room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Listing {
    /// Set by the first entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) is_sidechain: Option<bool>,
    /// The first time an entry names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created_ms: Option<i64>,
    /// The newest time an entry names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) newest_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) git_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entrypoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) custom_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ai_title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) summary_hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
}

impl Listing {
    /// Takes in the next entry of the main transcript.
    pub(crate) fn fold(&mut self, facts: &Facts) {
        self.is_sidechain.get_or_insert(facts.is_sidechain);
        self.created_ms = self.created_ms.or(facts.timestamp_ms);
        self.newest_ms = self.newest_ms.max(facts.timestamp_ms);
        first(&mut self.cwd, facts.cwd.as_ref());
        first(&mut self.entrypoint, facts.entrypoint.as_ref());
        last(&mut self.git_branch, facts.git_branch.as_ref());
        last(&mut self.custom_title, facts.custom_title.as_ref());
        last(&mut self.ai_title, facts.ai_title.as_ref());
        last(&mut self.last_prompt, facts.last_prompt.as_ref());
        last(&mut self.summary_hint, facts.summary_hint.as_ref());
        if let Some(tag) = &facts.tag {
            self.tag.clone_from(tag);
        }
        if self.first_prompt.is_none() {
            for prompt in &facts.first_prompts {
                match prompt {
                    FirstPrompt::Real(text) => self.first_prompt = Some(text.clone()),
                    FirstPrompt::Command(name) if !name.is_empty() => {
                        first(&mut self.first_command, Some(name));
                    }
                    FirstPrompt::Command(_) => {}
                }
            }
        }
    }

    /// The listing that a session's row (or mark) keeps if this is what its entries say: what the
    /// app itself gave at creation stands where they say nothing, and times have columns of their
    /// own.
    pub(crate) fn beside(self, given: &Self) -> Self {
        Self {
            created_ms: None,
            newest_ms: None,
            cwd: given.cwd.clone().or(self.cwd),
            git_branch: self.git_branch.or(given.git_branch.clone()),
            ..self
        }
    }

    /// The title: the user's own, else one that was made for the session.
    pub(crate) fn title(&self) -> Option<&str> {
        shown(&self.custom_title).or(shown(&self.ai_title))
    }

    /// The first prompt, else the first slash command.
    pub(crate) fn first_prompt(&self) -> Option<&str> {
        shown(&self.first_prompt).or(shown(&self.first_command))
    }

    /// The one line that names the session in a list.
    pub(crate) fn summary(&self) -> Option<&str> {
        self.title()
            .or(shown(&self.last_prompt))
            .or(shown(&self.summary_hint))
            .or(self.first_prompt())
    }
}

/// A listing with the counts that go with it: a main transcript's as of some row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Tally {
    pub(crate) listing: Listing,
    pub(crate) entries: i64,
    pub(crate) messages: i64,
    pub(crate) turns: i64,
}

impl Tally {
    /// Takes in the next entry of the main transcript; `on_line` says that it has a place in the
    /// main line.
    pub(crate) fn add(&mut self, reading: &Reading, on_line: bool) {
        self.entries += 1;
        self.listing.fold(&reading.facts);
        self.messages +=
            i64::from(on_line && matches!(reading.kind.as_str(), "user" | "assistant"));
        self.turns += i64::from(on_line && reading.opens_turn());
    }
}

fn shown(value: &Option<String>) -> Option<&str> {
    value.as_deref().filter(|text| !text.is_empty())
}

fn first(slot: &mut Option<String>, value: Option<&String>) {
    if slot.is_none() {
        *slot = value.cloned();
    }
}

fn last(slot: &mut Option<String>, value: Option<&String>) {
    if let Some(value) = value {
        slot.clone_from(&Some(value.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(entries: &[&str]) -> Listing {
        let mut listing = Listing::default();
        for entry in entries {
            listing.fold(&Reading::of_entry(entry).unwrap().facts);
        }
        listing
    }

    #[test]
    fn the_last_title_wins_and_an_empty_one_uncovers_what_is_below() {
        let listing = fold(&[
            r#"{"type":"user","cwd":"/a","message":{"role":"user","content":"fix it"}}"#,
            r#"{"type":"custom-title","customTitle":"one"}"#,
            r#"{"type":"last-prompt","lastPrompt":"later","cwd":"/b"}"#,
        ]);
        assert_eq!(
            (listing.summary(), listing.cwd.as_deref()),
            (Some("one"), Some("/a"))
        );
        let mut cleared = listing.clone();
        cleared.fold(
            &Reading::of_entry(r#"{"type":"x","customTitle":""}"#)
                .unwrap()
                .facts,
        );
        assert_eq!((cleared.summary(), cleared.title()), (Some("later"), None));
    }

    #[test]
    fn a_tag_is_cleared_by_an_empty_one() {
        let tagged = fold(&[
            r#"{"type":"tag","tag":"x"}"#,
            r#"{"type":"x","tag":"git tag"}"#,
        ]);
        assert_eq!(tagged.tag.as_deref(), Some("x"));
        assert_eq!(
            fold(&[r#"{"type":"tag","tag":"x"}"#, r#"{"type":"tag","tag":""}"#]).tag,
            None
        );
    }
}
