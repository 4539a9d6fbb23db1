//! Integration tests, in one binary: one file per noun, through the public face.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod context_rules;
mod kit;
mod oracle;
mod properties;
mod sdk;
mod session_store;
mod transcripts;
