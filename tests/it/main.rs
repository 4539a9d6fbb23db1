//! Integration tests, in one binary: one file per noun, through the public face.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod context_rules;
mod floors;
mod forks;
mod kit;
mod oracle;
mod oracle_forks;
mod properties;
mod sdk;
mod session_store;
mod transcripts;
