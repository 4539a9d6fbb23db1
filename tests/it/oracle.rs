//! What the Claude Agent SDK and the real client make of the same transcripts.

mod client;
mod folders;
