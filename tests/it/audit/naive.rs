//! The same answers, recomputed from the world's own account the simple way.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use turnkeep::Effect;

use super::world::{By, Step, Text, World};

/// The lines of one text that the other has not.
pub fn minus<'t>(text: &'t Text, other: &Text) -> Vec<&'t String> {
    let other: HashSet<&String> = other.iter().flatten().collect();
    let lines = text.iter().flatten();
    lines.filter(|line| !other.contains(line)).collect()
}

/// What is left of a step in a text, by the definition of [`Effect`]: how much of how much.
fn left(step: &Step, now: &Text) -> (usize, usize) {
    let added = minus(&step.after, &step.before);
    if !added.is_empty() {
        let there: HashSet<&String> = now.iter().flatten().collect();
        let kept = added.iter().filter(|line| there.contains(*line)).count();
        return (kept, added.len());
    }
    if step.after.is_none() {
        return (usize::from(now.is_none()), 1);
    }
    let removed = minus(&step.before, &step.after);
    if now.is_none() {
        return (0, 1);
    }
    let there: HashSet<&String> = now.iter().flatten().collect();
    let gone = removed.iter().filter(|line| !there.contains(*line)).count();
    (gone, removed.len())
}

/// The effect of each recorded step of a path, and the place in the list of the step that ended it.
pub fn effects(steps: &[&Step]) -> Vec<(Effect, Option<usize>)> {
    let recorded: Vec<&&Step> = steps.iter().filter(|step| step.by != By::Outside).collect();
    let mut found = Vec::new();
    for (at, step) in recorded.iter().enumerate() {
        if step.before == step.after {
            found.push((Effect::Nothing, None));
            continue;
        }
        let last = &recorded.last().unwrap().after;
        found.push(match left(step, last) {
            (0, _) => ended(&recorded, at),
            (kept, of) if kept == of => (Effect::InEffect, None),
            _ => (Effect::InPart, None),
        });
    }
    found
}

fn ended(recorded: &[&&Step], at: usize) -> (Effect, Option<usize>) {
    let step = recorded[at];
    // All states behind the step, the last first, each with who made it. A rewind that was undone never
    // was, and neither was the undo.
    let mut states: Vec<(&Text, Option<usize>)> = vec![(&step.after, None)];
    let mut begins: Vec<(Option<i64>, usize)> = Vec::new();
    for (later, other) in recorded.iter().enumerate().skip(at + 1) {
        let undone = |(operation, _): &(Option<i64>, usize)| *operation == other.undoes;
        if other.undoes.is_some()
            && let Some(place) = begins.iter().rposition(undone)
        {
            states.truncate(begins[place].1);
            begins.truncate(place);
            begins.push((other.operation, states.len()));
            states.push((&other.after, None));
        } else {
            begins.push((other.operation, states.len()));
            states.push((&other.before, None));
        }
        states.push((&other.after, Some(later)));
    }
    for pair in states.windows(2).rev() {
        let [(was, _), (is, by)] = pair else {
            unreachable!()
        };
        if left(step, was).0 > 0 && left(step, is).0 == 0 {
            return match by {
                None => (Effect::Outside, None),
                Some(by) if recorded[*by].by == By::Tool => (Effect::Overwritten, Some(*by)),
                Some(by) => (Effect::Rewound, Some(*by)),
            };
        }
    }
    panic!("it never stood: {step:?}");
}

/// The steps of a path, in order.
pub fn of_path<'w>(world: &'w World, path: &Path) -> Vec<&'w Step> {
    world
        .steps
        .iter()
        .filter(|step| step.path == path)
        .collect()
}

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The step at this place among all.
    Step(usize),
    Before,
    Outside,
}

/// Who wrote each line that ever was. Every line is another one, so the first to leave it wrote it.
pub fn writers(world: &World) -> HashMap<&str, Writer> {
    let mut writers = HashMap::new();
    let mut tracked = HashSet::new();
    for (at, step) in world.steps.iter().enumerate() {
        if step.by != By::Outside {
            for line in step.before.iter().flatten() {
                // There before anything of the file was recorded.
                let writer = match tracked.contains(&step.path) {
                    true => Writer::Outside,
                    false => Writer::Before,
                };
                writers.entry(line.as_str()).or_insert(writer);
            }
            tracked.insert(&step.path);
        }
        let writer = match step.by {
            By::Outside if tracked.contains(&step.path) => Writer::Outside,
            By::Outside => Writer::Before,
            _ => Writer::Step(at),
        };
        for line in minus(&step.after, &step.before) {
            writers.entry(line.as_str()).or_insert(writer);
        }
    }
    writers
}
