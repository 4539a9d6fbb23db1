//! Forks: what is asked, and how sessions are related.

use super::key::SessionKey;

/// How a session is to be forked. By default at its head, with a title made from its own.
#[derive(Clone, Debug, Default)]
pub struct ForkOptions {
    pub(crate) up_to: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) session_id: Option<String>,
}

impl ForkOptions {
    /// At the head.
    pub fn new() -> Self {
        Self::default()
    }

    /// Up to a message, which is included: any message of the main transcript, on the active chain
    /// or an old branch, named by its uuid in the session that is forked.
    pub fn up_to(mut self, uuid: impl Into<String>) -> Self {
        self.up_to = Some(uuid.into());
        self
    }

    /// The fork's title. A blank one counts as none: then it is the session's own (or its first
    /// prompt) with ` (fork)` behind.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// The directory the fork works in, in place of the session's.
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// The fork's id. It must not be taken in the project.
    pub fn id(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }
}

/// A session of a family: one that others were forked from, or a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kin {
    /// Its key. Of a deleted one the key may belong to another session by now.
    pub key: SessionKey,
    /// The line that names it in a list.
    pub summary: Option<String>,
    /// The message of its origin that it begins behind, by its uuid there; `None` if it is no
    /// fork, or was forked before the first message.
    pub forked_at: Option<String>,
    /// Whether it was deleted. What its forks show is kept.
    pub is_deleted: bool,
    /// Whether its origin was recognised on import, and not recorded when the fork was made.
    pub is_inferred: bool,
    /// How far it is from the family's first session.
    pub depth: usize,
}

/// How a session is related to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// Its origins, the direct one first.
    pub ancestors: Vec<Kin>,
    /// The sessions forked from it, oldest first.
    pub children: Vec<Kin>,
    /// The message of the direct origin that it begins behind, by its uuid there.
    pub forked_at: Option<String>,
}
