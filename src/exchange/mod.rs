//! OTHER FORMATS, in and out, over the public handles of the store.

pub mod claude_code;
mod jsonl;

pub use jsonl::export_jsonl;
