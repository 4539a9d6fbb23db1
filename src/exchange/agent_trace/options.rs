//! What a trace is asked to be of.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};

/// Which files to trace, and as they stand where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    pub(super) root: PathBuf,
    pub(super) paths: Vec<PathBuf>,
    pub(super) vcs: Option<Vcs>,
    pub(super) recorded: bool,
}

impl TraceOptions {
    /// All files below a folder of which a change is recorded, as they lie on the disk. The record
    /// names files as they lie below that folder: give the root of the repository. A relative path
    /// is seen from the process's current folder.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            paths: Vec::new(),
            vcs: None,
            recorded: false,
        }
    }

    /// Only this file, or the files below this folder. May be given more than once. A relative path
    /// is seen from the process's current folder, not from the root.
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// The revision whose lines these are. It is written as it is given: no version control system
    /// is asked, and nobody checks that the files are as they are there.
    pub fn at(mut self, vcs: Vcs) -> Self {
        self.vcs = Some(vcs);
        self
    }

    /// The files as they were recorded last, whatever lies on the disk.
    pub fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }
}

/// A revision in a version control system: `TYPE:REVISION` as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vcs {
    /// The system.
    #[serde(rename = "type")]
    kind: VcsKind,
    /// The revision, as the system names it.
    revision: String,
}

impl Vcs {
    /// Names a revision.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the revision is blank, or is no hash where git names a commit: what
    /// `HEAD` or a branch means today is another commit tomorrow.
    pub fn new(kind: VcsKind, revision: impl Into<String>) -> Result<Self> {
        let revision = revision.into();
        let refused = |why: String| Err(Error::invalid("revision", why));
        if revision.trim().is_empty() {
            let example = kind.example();
            return refused(format!("it is blank; name one, such as {kind}:{example}"));
        }
        let is_hash = revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        if kind == VcsKind::Git && !is_hash {
            return refused(format!(
                "`{revision}` is no hash of a commit; `git rev-parse {revision}` prints it"
            ));
        }
        Ok(Self { kind, revision })
    }

    /// The system.
    pub fn kind(&self) -> VcsKind {
        self.kind
    }

    /// The revision, as it was given.
    pub fn revision(&self) -> &str {
        &self.revision
    }
}

impl fmt::Display for Vcs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.kind, self.revision)
    }
}

impl FromStr for Vcs {
    type Err = Error;

    /// Reads `git:SHA`, `jj:CHANGE`, `hg:CHANGESET` or `svn:NUMBER`.
    fn from_str(text: &str) -> Result<Self> {
        let named = text.split_once(':').and_then(|(word, revision)| {
            let kind = VcsKind::ALL.into_iter().find(|kind| kind.as_str() == word);
            Some((kind?, revision))
        });
        match named {
            Some((kind, revision)) => Self::new(kind, revision),
            None => Err(Error::invalid(
                "revision",
                format!(
                    "`{text}` is none; write git:, jj:, hg: or svn: and the revision behind it"
                ),
            )),
        }
    }
}

/// A version control system that a trace may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum VcsKind {
    /// Git.
    Git,
    /// Jujutsu.
    Jj,
    /// Mercurial.
    Hg,
    /// Subversion.
    Svn,
}

impl VcsKind {
    const ALL: [Self; 4] = [Self::Git, Self::Jj, Self::Hg, Self::Svn];

    /// The word in the record and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Jj => "jj",
            Self::Hg => "hg",
            Self::Svn => "svn",
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Git => "the whole hash of a commit",
            Self::Jj => "a change id",
            Self::Hg => "a changeset id",
            Self::Svn => "a revision's number",
        }
    }
}

impl fmt::Display for VcsKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_back_and_what_is_none_is_refused() {
        for text in ["git:0a1B", "jj:kkmpptxz", "hg:a1b2c3", "svn:42", "svn:r4:2"] {
            assert_eq!(text.parse::<Vcs>().unwrap().to_string(), text);
        }
        for text in [
            "", "git", "git:", "git: ", "git:HEAD", "cvs:1.2", "GIT:aa", ":aa", "0a1b",
        ] {
            assert!(text.parse::<Vcs>().is_err(), "{text}");
        }
    }
}
