//! THE USER'S FILES: the only room that writes outside the store.

// Taken away when the store uses all of them.
pub(crate) mod excludes;
mod faults;
pub(crate) mod folders;
mod ignored;
pub(crate) mod line_diff;
pub(crate) mod lines;
pub(crate) mod names;
#[cfg(test)]
mod parts;
pub(crate) mod path;
pub(crate) mod present;
pub(crate) mod replace;
pub(crate) mod scan;
pub(crate) mod tree;
