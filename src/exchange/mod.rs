//! OTHER FORMATS, in and out, over the public handles of the store.

pub mod claude_code;
mod jsonl;
mod markdown;

pub use jsonl::{export_jsonl, is_entry};
pub use markdown::export_markdown;
