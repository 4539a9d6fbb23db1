//! Parallel tool calls, put back.
//!
//! A client writes one entry a content block, and hangs each result from its own call, so that a
//! walk over parents follows only the branch that the next response continued from: it misses the
//! other results, and the calls written behind the one that was answered last. They are put back
//! behind the last entry of their response on the chain, calls before results, each in the order
//! of their times. This is the Claude Agent SDK's rule (`get_session_messages`), kept to the
//! letter so that a conversation here equals one there.

use std::collections::{HashMap, HashSet};

use super::chain::{Chain, Kind, MainLine, Parent};
use super::ids::IdMap;

/// Which tool calls each message made or answered, by message id.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// The ids of the calls in an assistant message.
    pub(crate) calls: IdMap<Vec<String>>,
    /// The ids of the calls that a user message answers.
    pub(crate) results: IdMap<Vec<String>>,
}

/// Whether anything could have been missed: a message beside the chain that is part of a response
/// on it, or a user message beside it.
pub(crate) fn may_miss(line: &MainLine, chain: &Chain) -> bool {
    if chain.places.len() == line.links.len() {
        return false;
    }
    let on_chain = marked(line, chain);
    let beside = |place: &usize| !on_chain[*place];
    (0..line.links.len())
        .filter(beside)
        .any(|place| match line.links[place].kind {
            Kind::User => true,
            Kind::Assistant => line.links[place].response.is_some(),
            Kind::Other | Kind::Boundary => false,
        })
}

/// Puts back what the walk missed. Returns the places, in conversation order.
pub(crate) fn put_back(line: &MainLine, chain: &Chain, pairs: &Pairs) -> Vec<usize> {
    let inserts = find_missed(line, chain, pairs);
    let mut whole = Vec::with_capacity(line.links.len());
    for place in &chain.places {
        whole.push(*place);
        whole.extend(inserts.get(place).into_iter().flatten());
    }
    whole
}

/// Which places of the main line are on the chain.
fn marked(line: &MainLine, chain: &Chain) -> Vec<bool> {
    let mut on_chain = vec![false; line.links.len()];
    for place in &chain.places {
        on_chain[*place] = true;
    }
    on_chain
}

/// What belongs behind each place of the chain.
fn find_missed(line: &MainLine, chain: &Chain, pairs: &Pairs) -> HashMap<usize, Vec<usize>> {
    let mut seen = marked(line, chain);
    let index = Index::new(line, pairs);
    let mut anchors: HashMap<&str, usize> = HashMap::new();
    for place in &chain.places {
        if let Some(response) = index.response(*place) {
            anchors.insert(response, *place);
        }
    }
    let on_chain: HashSet<&str> = chain
        .places
        .iter()
        .flat_map(|place| index.answers(*place))
        .map(String::as_str)
        .collect();
    let mut done: HashSet<&str> = HashSet::new();
    let mut inserts = HashMap::new();
    for place in &chain.places {
        let Some(response) = index
            .response(*place)
            .filter(|response| done.insert(response))
        else {
            continue;
        };
        let group = &index.groups[response];
        let mut calls: Vec<usize> = group
            .iter()
            .copied()
            .filter(|place| !seen[*place])
            .collect();
        let mut results = missed_results(&index, group, &seen, &on_chain);
        if calls.is_empty() && results.is_empty() {
            continue;
        }
        // A stable sort: on a tie calls keep the order of the file.
        calls.sort_by_key(|place| line.links[*place].timestamp_ms);
        results.sort_by_key(|place| line.links[*place].timestamp_ms);
        calls.append(&mut results);
        for place in &calls {
            seen[*place] = true;
        }
        inserts.insert(anchors[response], calls);
    }
    inserts
}

/// The results of a response's calls that are not on the chain: those that hang from one of its
/// entries, and of those that hang elsewhere the first for each call still open.
fn missed_results(
    index: &Index<'_>,
    group: &[usize],
    seen: &[bool],
    on_chain: &HashSet<&str>,
) -> Vec<usize> {
    let members: HashSet<usize> = group.iter().copied().collect();
    let mut collected = HashSet::new();
    let (mut results, mut strays) = (Vec::new(), Vec::new());
    for member in group {
        for result in index.results_of.get(member).into_iter().flatten() {
            if seen[*result] || !collected.insert(*result) {
                continue;
            }
            let own = index
                .parent(*result)
                .is_some_and(|parent| members.contains(&parent));
            if own {
                results.push(*result);
            } else {
                strays.push(*result);
            }
        }
    }
    let mut answered: HashSet<&str> = results
        .iter()
        .flat_map(|place| index.answers(*place))
        .map(String::as_str)
        .collect();
    strays.sort_unstable();
    for stray in strays {
        let open = index.answers(stray).iter().any(|call| {
            !on_chain.contains(call.as_str())
                && !answered.contains(call.as_str())
                && index
                    .owner(call)
                    .is_some_and(|owner| members.contains(&owner))
        });
        if open {
            answered.extend(index.answers(stray).iter().map(String::as_str));
            results.push(stray);
        }
    }
    results
}

/// The main line, looked up by response, call and result.
struct Index<'a> {
    line: &'a MainLine,
    pairs: &'a Pairs,
    /// The entries of each response, in the order of the file.
    groups: HashMap<&'a str, Vec<usize>>,
    /// Who made a call; `None` if two responses claim its id.
    owners: HashMap<&'a str, Option<usize>>,
    /// The results that may belong to an assistant entry.
    results_of: HashMap<usize, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(line: &'a MainLine, pairs: &'a Pairs) -> Self {
        let mut index = Self {
            line,
            pairs,
            groups: HashMap::new(),
            owners: HashMap::new(),
            results_of: HashMap::new(),
        };
        let mut results = Vec::new();
        for (place, link) in line.links.iter().enumerate() {
            if let Some(response) = index.response(place) {
                index.groups.entry(response).or_default().push(place);
                for call in pairs.calls.get(&link.id).into_iter().flatten() {
                    let owner = index.owners.entry(call).or_insert(Some(place));
                    let same = owner.is_some_and(|owner| {
                        line.links[owner].response.as_deref() == Some(response)
                    });
                    *owner = same.then_some(place);
                }
            } else if link.kind == Kind::User
                && link.parent != Parent::Root
                && pairs.results.contains_key(&link.id)
            {
                results.push(place);
            }
        }
        for result in results {
            let owners = index.answers(result).iter().filter_map(|call| {
                let owner = index.owner(call);
                owner.or_else(|| index.caller_beside(result, call))
            });
            let homes: Vec<usize> = index.parent(result).into_iter().chain(owners).collect();
            for home in homes {
                index.results_of.entry(home).or_default().push(result);
            }
        }
        index
    }

    fn response(&self, place: usize) -> Option<&'a str> {
        let link = &self.line.links[place];
        link.response
            .as_deref()
            .filter(|_| link.kind == Kind::Assistant)
    }

    /// The message that a result hangs from itself: through bookkeeping it is found by its call.
    fn parent(&self, place: usize) -> Option<usize> {
        let link = &self.line.links[place];
        match link.parent {
            Parent::At(id) if !link.is_indirect => self.line.place(id),
            _ => None,
        }
    }

    fn owner(&self, call: &str) -> Option<usize> {
        self.owners.get(call).copied().flatten()
    }

    /// Who made a call in the response that a result hangs from, though others claim its id too. The
    /// client names this entry in the result (`sourceToolAssistantUUID`).
    fn caller_beside(&self, result: usize, call: &String) -> Option<usize> {
        let group = self.groups.get(self.response(self.parent(result)?)?)?;
        let calls = |place: &&usize| {
            let calls = self.pairs.calls.get(&self.line.links[**place].id);
            calls.is_some_and(|calls| calls.contains(call))
        };
        group.iter().find(calls).copied()
    }

    fn answers(&self, place: usize) -> &'a [String] {
        self.pairs
            .results
            .get(&self.line.links[place].id)
            .map_or(&[], Vec::as_slice)
    }
}
