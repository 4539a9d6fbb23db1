//! Integration tests, in one binary: one file per noun, through the public face.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cli;
mod floors;
mod forks;
mod kit;
mod oracle_forks;
mod transcripts;
