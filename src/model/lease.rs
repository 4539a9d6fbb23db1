//! A lease on a session.

/// The right to be a session's only writer for a time: see [`Session::lease`](crate::Session::lease).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub holder: String,
    /// Its fencing number: higher than that of every lease before.
    pub token: i64,
    /// Until when it keeps others out, in epoch milliseconds.
    pub expires_ms: i64,
}
