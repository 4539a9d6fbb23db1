//! OTHER FORMATS, in and out, over the public handles of the store.

pub mod agent_trace;
mod checkpoint;
pub mod claude_code;
mod jsonl;
mod markdown;

pub use checkpoint::{export_checkpoint, import_checkpoint};
pub use jsonl::{export_jsonl, is_entry};
pub use markdown::export_markdown;
