//! Places at which a test cuts what is being done to the user's files.
//!
//! Only test builds have them: without the feature `failpoints` of the crate `fail` they are nothing.

use std::io;

/// Does what changes a file or a folder, between two such places.
///
/// The fail point `turnkeep::file` is passed before and after. Its action `return` makes the call fail
/// there, with the system's error of that number if it gives one.
pub(super) fn changing<T>(
    what: &'static str,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    step(what)?;
    let done = call()?;
    step(what)?;
    Ok(done)
}

fn step(what: &'static str) -> io::Result<()> {
    fail::fail_point!("turnkeep::file", |code| Err(injected(what, code)));
    let _ = (what, injected);
    Ok(())
}

fn injected(what: &'static str, code: Option<String>) -> io::Error {
    match code.and_then(|code| code.parse().ok()) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(format!("a fault was injected while {what}")),
    }
}

/// Passed between reading a file and making sure that it stayed the same: `turnkeep::read`.
pub(super) fn has_read() {
    fail::fail_point!("turnkeep::read");
}
