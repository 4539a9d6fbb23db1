//! THE USER'S FILES: the only room that writes outside the store.

pub(crate) mod names;
pub(crate) mod replace;
