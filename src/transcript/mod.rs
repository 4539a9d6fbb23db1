//! ENTRIES AND WHAT THEY SAY: tolerant lines, envelope fields, dialects, and the rules by which a
//! transcript becomes a conversation and a context. Pure: no SQL, no files, no clock.

pub(crate) mod chain;
pub(crate) mod compaction;
pub(crate) mod context;
pub(crate) mod derived;
pub(crate) mod dialect;
pub(crate) mod edits;
pub(crate) mod file_history;
pub(crate) mod ids;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod listing;
pub(crate) mod parallel;
pub(crate) mod project_key;
pub(crate) mod prompt;
pub(crate) mod reading;
pub(crate) mod remap;
pub(crate) mod search;
