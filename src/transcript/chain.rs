//! The conversation: the active chain of messages, from the head back through parents.
//!
//! Works on [`Link`]s alone, in the order in which the main line was stored. Nothing recurses.
//! A parent that was never written, or that belongs to a sub-agent, is bridged to the previous
//! main-line message and counted; a compaction boundary or a root ends the walk; a cycle ends it
//! too. Calls and results of parallel tool calls that the walk missed are put back
//! (`parallel.rs`).

use std::collections::{HashMap, HashSet};

/// What a message is to the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Assistant,
    /// A system entry or an attachment.
    Other,
    /// The boundary that a compaction wrote.
    Boundary,
}

/// Where a message hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// From nothing: it begins a conversation.
    Root,
    /// From the main-line message with this id (through bookkeeping entries, if any).
    At(i64),
    /// From an entry that is not there, or that belongs to a sub-agent.
    Missing,
}

/// One main-line message, as the walk sees it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: i64,
    pub(crate) parent: Parent,
    pub(crate) kind: Kind,
    /// The provider's response id, of an assistant message.
    pub(crate) response: Option<String>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// The main line of a transcript, in the order in which it was stored.
#[derive(Debug, Default)]
pub(crate) struct MainLine {
    pub(crate) links: Vec<Link>,
    place: HashMap<i64, usize>,
    /// The places of the boundaries, in order.
    boundaries: Vec<usize>,
}

impl MainLine {
    pub(crate) fn new(links: Vec<Link>) -> Self {
        let place = links
            .iter()
            .enumerate()
            .map(|(place, link)| (link.id, place))
            .collect();
        let boundaries = (0..links.len())
            .filter(|place| links[*place].kind == Kind::Boundary)
            .collect();
        Self {
            links,
            place,
            boundaries,
        }
    }

    pub(crate) fn place(&self, id: i64) -> Option<usize> {
        self.place.get(&id).copied()
    }

    /// The newest boundary stored before the message at `place`.
    fn boundary_before(&self, place: usize) -> Option<usize> {
        let before = self.boundaries.partition_point(|at| *at < place);
        before.checked_sub(1).map(|last| self.boundaries[last])
    }
}

/// A chain of messages, oldest first, by place in the main line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) places: Vec<usize>,
    /// Messages whose link was bridged, by place.
    pub(crate) bridged: Vec<usize>,
    /// Whether the walk came back to where it had been.
    pub(crate) cycle: bool,
}

/// Walks from `head` to where its conversation began. `preserved` tells, of a boundary's id, the
/// messages (by id, oldest first) that the compaction kept as they were; it is asked only when the
/// walk leads to before a boundary.
pub(crate) fn walk<E>(
    line: &MainLine,
    head: i64,
    mut preserved: impl FnMut(i64) -> Result<Vec<i64>, E>,
) -> Result<Chain, E> {
    let mut chain = Chain::default();
    let mut seen = HashSet::new();
    let mut next = line.place(head);
    while let Some(at) = next {
        if !seen.insert(at) {
            chain.cycle = true;
            break;
        }
        chain.places.push(at);
        let link = &line.links[at];
        next = match link.parent {
            _ if link.kind == Kind::Boundary => None,
            Parent::Root => None,
            Parent::At(id) => line.place(id),
            Parent::Missing => None,
        };
        let dangling = match link.parent {
            Parent::Missing => true,
            Parent::At(id) => line.place(id).is_none_or(|parent| parent == at),
            Parent::Root => false,
        };
        if link.kind != Kind::Boundary && dangling {
            next = at.checked_sub(1);
            if next.is_some() {
                chain.bridged.push(at);
            }
        }
        if let Some(parent) = next
            && let Some(boundary) = line
                .boundary_before(at)
                .filter(|boundary| parent < *boundary)
        {
            let kept = preserved(line.links[boundary].id)?;
            next = splice(line, boundary, parent, &kept, &mut chain, &mut seen).or(next);
        }
    }
    chain.places.reverse();
    chain.bridged.reverse();
    Ok(chain)
}

/// A walk that leads into the messages a compaction preserved takes them and goes on at the
/// summary: they stand behind it, and what is older was compacted away.
fn splice(
    line: &MainLine,
    boundary: usize,
    parent: usize,
    kept: &[i64],
    chain: &mut Chain,
    seen: &mut HashSet<usize>,
) -> Option<usize> {
    let kept: Vec<usize> = kept.iter().filter_map(|id| line.place(*id)).collect();
    let last = kept.iter().position(|place| *place == parent)?;
    for place in kept[..=last].iter().rev() {
        if seen.insert(*place) {
            chain.places.push(*place);
        }
    }
    let summary = line.links[boundary..]
        .iter()
        .position(|link| link.kind == Kind::User)?;
    Some(boundary + summary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: i64, parent: Parent, kind: Kind) -> Link {
        Link {
            id,
            parent,
            kind,
            response: None,
            timestamp_ms: None,
        }
    }

    fn ids(line: &MainLine, head: i64, kept: &[i64]) -> (Vec<i64>, usize, bool) {
        let chain = walk(line, head, |_| Ok::<_, ()>(kept.to_vec())).unwrap();
        let ids = chain
            .places
            .iter()
            .map(|place| line.links[*place].id)
            .collect();
        (ids, chain.bridged.len(), chain.cycle)
    }

    #[test]
    fn a_missing_parent_is_bridged_and_counted() {
        let line = MainLine::new(vec![
            link(1, Parent::Root, Kind::User),
            link(2, Parent::Missing, Kind::Assistant),
            link(3, Parent::At(2), Kind::User),
            link(4, Parent::At(99), Kind::Assistant),
        ]);
        assert_eq!(ids(&line, 4, &[]), (vec![1, 2, 3, 4], 2, false));
    }

    #[test]
    fn a_cycle_ends() {
        let line = MainLine::new(vec![
            link(1, Parent::At(2), Kind::User),
            link(2, Parent::At(1), Kind::Assistant),
            link(3, Parent::At(3), Kind::User),
        ]);
        assert_eq!(ids(&line, 2, &[]), (vec![1, 2], 0, true));
        assert_eq!(ids(&line, 3, &[]), (vec![1, 2, 3], 1, true));
    }

    #[test]
    fn a_boundary_ends_the_walk_and_preserved_messages_stand_behind_the_summary() {
        let line = MainLine::new(vec![
            link(1, Parent::Root, Kind::User),
            link(2, Parent::At(1), Kind::Assistant),
            link(3, Parent::At(2), Kind::User),
            link(4, Parent::Root, Kind::Boundary),
            link(5, Parent::At(4), Kind::User),
            link(6, Parent::At(3), Kind::User),
        ]);
        assert_eq!(ids(&line, 6, &[2, 3]).0, [4, 5, 2, 3, 6]);
        assert_eq!(
            ids(&line, 6, &[]).0,
            [1, 2, 3, 6],
            "an old branch, taken up again"
        );
        assert_eq!(ids(&line, 5, &[]).0, [4, 5]);
    }
}
