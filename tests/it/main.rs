//! Integration tests, in one binary: one file per noun, through the public face.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod case;
mod cases_calls;
mod cases_chain;
mod cases_damage;
mod cases_files;
mod cases_import;
mod cases_listing;
mod cases_listing_work;
mod cases_migration;
mod cases_rights;
mod cases_safety;
mod cases_size;
mod cases_storage;
mod cases_text;
mod cases_unsaved;
mod children;
mod cli;
mod context_rules;
mod crash;
mod crash_import;
mod floors;
mod fork_edges;
mod forks;
mod inferred_forks;
mod kit;
mod oracle;
mod oracle_forks;
mod processes;
mod properties;
mod sdk;
mod session_store;
mod tools;
mod transcripts;
