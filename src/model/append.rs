//! Appending: what is asked, and what came of it.

use serde::Serialize;

use super::lease::Lease;

/// How an append is to be done.
#[derive(Clone, Debug, Default)]
pub struct AppendOptions {
    pub(crate) subpath: String,
    pub(crate) expect_head: Option<Option<String>>,
    pub(crate) hang_from: Option<String>,
    pub(crate) lease: Option<i64>,
}

impl AppendOptions {
    /// To the main transcript, whatever its head.
    pub fn new() -> Self {
        Self::default()
    }

    /// To a sub-agent's transcript.
    pub fn to_subpath(mut self, subpath: impl Into<String>) -> Self {
        self.subpath = subpath.into();
        self
    }

    /// Only if the head is this message. Otherwise nothing is stored and the error names the
    /// present head.
    pub fn expect_head(mut self, uuid: impl Into<String>) -> Self {
        self.expect_head = Some(Some(uuid.into()));
        self
    }

    /// Hangs a typed message from this one, not from the head: what came after it leaves the
    /// conversation, and stays as a branch. Entries given as JSON say themselves where they hang.
    pub fn hang_from(mut self, uuid: impl Into<String>) -> Self {
        self.hang_from = Some(uuid.into());
        self
    }

    /// Writes as the holder of a lease: refused once that was taken over.
    pub fn with_lease(mut self, lease: &Lease) -> Self {
        self.lease = Some(lease.token);
        self
    }

    /// Only if there is no message yet.
    pub fn expect_empty(mut self) -> Self {
        self.expect_head = Some(None);
        self
    }
}

/// What an append did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Appended {
    /// How many entries were stored.
    pub stored: u64,
    /// How many were there already, with the same uuid and the same value.
    pub duplicates: u64,
    /// How many were not stored because another entry has their uuid; the first one is kept.
    pub differing: u64,
    /// The transcript's head now, by uuid.
    pub head: Option<String>,
    /// The uuid of the last message among those given, stored now or before.
    #[serde(skip)]
    pub uuid: Option<String>,
}
