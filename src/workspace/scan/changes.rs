//! What a command made of a root: the difference of two scans.

use std::collections::HashMap;
use std::path::Path;

use super::{Content, Entry, FileId, Scanned, What, bytes};

/// What is different.
#[derive(Debug, Default)]
pub(crate) struct Changes<'s> {
    /// By path. Something that moved is here twice, under both paths.
    pub(crate) list: Vec<Change<'s>>,
    /// How many things came into sight or went out of it: whether they are new, or gone, is not known.
    pub(crate) unsure: u64,
}

/// What happened at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change<'s> {
    pub(crate) path: &'s Path,
    /// `None`: nothing was there.
    pub(crate) before: Option<&'s Entry>,
    /// `None`: nothing is there.
    pub(crate) after: Option<&'s Entry>,
    pub(crate) kind: Kind<'s>,
}

/// How something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'s> {
    /// It is new; it may have come from another path.
    Created { from: Option<&'s Path> },
    /// It has another content or mode, or is something else.
    Changed,
    /// It is gone; it may have gone to another path.
    Deleted { to: Option<&'s Path> },
}

impl Scanned {
    /// What changed between two scans. The later one had the earlier one as its cache.
    pub(crate) fn changes<'s>(before: &'s Self, after: &'s Self) -> Changes<'s> {
        let mut changes = Changes::default();
        let (mut old, mut new) = (
            before.entries.iter().peekable(),
            after.entries.iter().peekable(),
        );
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((was, _)), Some((is, _))) => bytes(was).cmp(bytes(is)),
            };
            let was = old.next_if(|_| order.is_le());
            let is = new.next_if(|_| order.is_ge());
            let kind = match (was, is) {
                (Some((_, was)), Some((_, is))) if is_same(was, is) => continue,
                (Some(_), Some(_)) => Kind::Changed,
                (Some((path, _)), _) if after.hides(path) => {
                    changes.unsure += 1;
                    continue;
                }
                (Some(_), None) => Kind::Deleted { to: None },
                (None, Some((path, _))) if before.uncovered.has_more || before.hides(path) => {
                    changes.unsure += 1;
                    continue;
                }
                (None, _) => Kind::Created { from: None },
            };
            if let Some((path, _)) = was.or(is) {
                changes.list.push(Change {
                    path,
                    before: was.map(|(_, entry)| entry),
                    after: is.map(|(_, entry)| entry),
                    kind,
                });
            }
        }
        changes.find_moves();
        changes
    }
}

impl Changes<'_> {
    /// Tells that what is gone under one path is what is new under another.
    fn find_moves(&mut self) {
        let mut gone: HashMap<FileId, usize> = HashMap::new();
        for (at, change) in self.list.iter().enumerate() {
            if let (Kind::Deleted { .. }, Some(entry)) = (change.kind, change.before)
                && entry.what != What::Folder
            {
                gone.insert(entry.stamp.id, at);
            }
        }
        for at in 0..self.list.len() {
            let change = &self.list[at];
            let (Kind::Created { .. }, Some(entry)) = (change.kind, change.after) else {
                continue;
            };
            let Some(from) = gone.get(&entry.stamp.id).copied() else {
                continue;
            };
            // A number that is free is given to the next new file at once: it proves nothing alone.
            let is_it = self.list[from].before.is_some_and(|was| {
                was.stamp.len == entry.stamp.len
                    && was.stamp.modified_ns == entry.stamp.modified_ns
                    && std::mem::discriminant(&was.what) == std::mem::discriminant(&entry.what)
            });
            if is_it {
                gone.remove(&entry.stamp.id);
                let (old, new) = (self.list[from].path, change.path);
                self.list[at].kind = Kind::Created { from: Some(old) };
                self.list[from].kind = Kind::Deleted { to: Some(new) };
            }
        }
    }
}

fn is_same(was: &Entry, is: &Entry) -> bool {
    match (&was.what, &is.what) {
        (What::File(Content::Kept(was_hash)), What::File(Content::Kept(is_hash))) => {
            was_hash == is_hash && was.stamp.mode == is.stamp.mode
        }
        // What was kept is not what is there any more.
        (What::File(Content::Kept(_)), What::File(_)) => false,
        (What::File(_), What::File(_)) => was.stamp == is.stamp,
        (was, is) => was == is,
    }
}
