//! The conversation that ends with a message, worked out the slow and obvious way: from the lines
//! of a transcript, as a reader would do it by hand.

use std::collections::HashSet;

use serde_json::Value;

/// The uuids of the conversation that ends with `head`, oldest first.
pub fn walk(lines: &[String], head: &str) -> Vec<String> {
    let entries = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok());
    let mut known: HashSet<String> = HashSet::new();
    let all: Vec<Value> = entries
        .filter(|entry: &Value| match entry["uuid"].as_str() {
            Some(uuid) => known.insert(uuid.to_owned()),
            None => false,
        })
        .collect();
    let spoken = ["user", "assistant", "system", "attachment"];
    let is_message = |entry: &&Value| {
        entry["isSidechain"] != true && spoken.contains(&entry["type"].as_str().unwrap_or(""))
    };
    let walk = Walk {
        line: all.iter().filter(is_message).collect(),
        all: &all,
    };
    let mut chain = walk.chain(head);
    walk.put_back(&mut chain);
    chain.iter().map(|at| walk.uuid(*at).to_owned()).collect()
}

struct Walk<'a> {
    all: &'a [Value],
    line: Vec<&'a Value>,
}

impl<'a> Walk<'a> {
    fn uuid(&self, at: usize) -> &'a str {
        self.line[at]["uuid"].as_str().unwrap()
    }

    fn place(&self, uuid: &str) -> Option<usize> {
        (0..self.line.len()).find(|at| self.uuid(*at) == uuid)
    }

    fn is_boundary(&self, at: usize) -> bool {
        self.line[at]["subtype"] == "compact_boundary"
    }

    /// Where a message hangs; if its parent is not there, behind the message before it.
    fn parent(&self, at: usize) -> Option<usize> {
        let mut named = self.line[at]["parentUuid"].as_str()?;
        for _ in 0..=self.all.len() {
            if let Some(parent) = self.place(named).filter(|parent| *parent != at) {
                return Some(parent);
            }
            let Some(entry) = self.all.iter().find(|entry| entry["uuid"] == named) else {
                break;
            };
            if entry["isSidechain"] == true || self.place(named).is_some() {
                break;
            }
            named = entry["parentUuid"].as_str()?;
        }
        at.checked_sub(1)
    }

    fn kept(&self, boundary: usize) -> Vec<usize> {
        let metadata = &self.line[boundary]["compactMetadata"];
        if let Some(uuids) = metadata["preservedMessages"]["uuids"].as_array() {
            return uuids
                .iter()
                .filter_map(|uuid| self.place(uuid.as_str()?))
                .collect();
        }
        let end = |name: &str| self.place(metadata["preservedSegment"][name].as_str()?);
        let (Some(head), Some(tail)) = (end("headUuid"), end("tailUuid")) else {
            return Vec::new();
        };
        let mut kept = vec![tail];
        while kept[0] != head {
            let named = self.line[kept[0]]["parentUuid"].as_str();
            match named.and_then(|uuid| self.place(uuid)) {
                Some(parent) if !kept.contains(&parent) => kept.insert(0, parent),
                _ => return Vec::new(),
            }
        }
        kept
    }

    fn chain(&self, head: &str) -> Vec<usize> {
        let mut chain: Vec<usize> = Vec::new();
        let mut next = self.place(head);
        while let Some(at) = next.filter(|at| !chain.contains(at)) {
            chain.insert(0, at);
            next = self.parent(at).filter(|_| !self.is_boundary(at));
            let boundary = (0..at).rev().find(|before| self.is_boundary(*before));
            let (Some(parent), Some(boundary)) = (next, boundary) else {
                continue;
            };
            let kept = self.kept(boundary);
            let Some(last) = kept.iter().position(|at| *at == parent) else {
                continue;
            };
            if parent < boundary {
                for at in kept[..=last].iter().rev() {
                    if !chain.contains(at) {
                        chain.insert(0, *at);
                    }
                }
                let is_user = |at: &usize| self.line[*at]["type"] == "user";
                next = (boundary..self.line.len()).find(is_user).or(next);
            }
        }
        chain
    }

    /// Puts the calls of a response that the chain misses, and the results that hang from any of
    /// its calls, behind the last of the response's messages on the chain.
    fn put_back(&self, chain: &mut Vec<usize>) {
        let response = |at: usize| self.line[at]["message"]["id"].as_str();
        let mut done = HashSet::new();
        for at in chain.clone() {
            let Some(id) = response(at).filter(|id| done.insert(*id)) else {
                continue;
            };
            let group = (0..self.line.len()).filter(|at| response(*at) == Some(id));
            let group: Vec<usize> = group.collect();
            let answers = |at: &usize| {
                let block = &self.line[*at]["message"]["content"][0];
                let parent = self.line[*at]["parentUuid"].as_str();
                block["type"] == "tool_result"
                    && parent.is_some_and(|uuid| group.iter().any(|at| self.uuid(*at) == uuid))
            };
            let results = (0..self.line.len()).filter(answers);
            let missed: Vec<usize> = group.iter().copied().chain(results).collect();
            let missed: Vec<usize> = missed
                .into_iter()
                .filter(|at| !chain.contains(at))
                .collect();
            let last = chain
                .iter()
                .rposition(|at| response(*at) == Some(id))
                .unwrap();
            chain.splice(last + 1..last + 1, missed);
        }
    }
}
