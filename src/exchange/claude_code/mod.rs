//! Claude Code's folders, in and out.
//!
//! Import reads a config folder, one project's folder or one transcript, never touches its source,
//! and takes only what is new. Export writes transcripts back byte for byte, in the client's
//! layout, so that the client resumes from them. What the client writes is described, from real
//! runs, in docs/ARCHITECTURE.md.

mod beside;
mod checkpoints;
mod export;
mod import;
mod layout;
mod lines;
mod matching;
mod one_file;
mod origins;
mod report;
mod snapshots;
mod work;

pub use export::{ExportReport, export_config_folder};
pub use import::{ImportOptions, import};
pub use report::{ImportReport, Note, Problem, Progress};

pub use crate::transcript::project_key::project_key_for;
