//! The audit: which turn, call and session changed which file, and what is left of it.

mod blame_cli;
mod blames;
mod cli;
mod copies;
mod diffs;
mod effects;
mod following;
mod forks;
mod mistyped;
mod naive;
mod patches;
mod small;
mod trace_cli;
mod trace_form;
mod trace_world;
mod traces;
mod world;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use turnkeep::{Change, ChangeCursor, ChangeFilter, ChangeSource, Effect, LineOrigin, NewsCursor};

use naive::{Writer, effects, minus, of_path, writers};
use world::{By, FILES, Step, Text, World};

fn all(world: &World, filter: &ChangeFilter, page: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut after: Option<ChangeCursor> = None;
    loop {
        let found = world.store.audit().changes(filter, after, page).unwrap();
        assert!(found.changes.len() <= page);
        changes.extend(found.changes);
        after = found.next;
        if after.is_none() {
            changes.reverse();
            return changes;
        }
    }
}

fn hash(text: &Text) -> Option<String> {
    let text = text.as_ref()?;
    Some(blake3::hash(text.concat().as_bytes()).to_hex().to_string())
}

/// A change is what the world says it is.
fn assert_is(world: &World, change: &Change, step: &Step) {
    let told = change.after.clone().unwrap();
    assert_eq!(change.path, step.path);
    assert_eq!(
        change.session,
        *world.members[step.session].session.key(),
        "{change:?}"
    );
    assert_eq!(
        change.call.as_ref().map(|call| &call.id),
        step.call.as_ref()
    );
    assert_eq!(change.agent, step.agent);
    assert_eq!(
        (change.before.hash.clone(), told.hash),
        (hash(&step.before), hash(&step.after))
    );
    let source = match step.by {
        By::Tool => ChangeSource::Tool,
        By::Rewind => ChangeSource::Rewind,
        By::Undo => ChangeSource::Undo,
        By::Outside => unreachable!(),
    };
    assert_eq!((change.source, change.is_late), (source, false));
    let counts = (
        minus(&step.after, &step.before).len(),
        minus(&step.before, &step.after).len(),
    );
    assert_eq!(change.insertions.zip(change.deletions), Some(counts));
    if step.by == By::Tool {
        let prompt = change.prompt.clone().unwrap();
        assert_eq!(prompt.text.as_deref(), Some(step.prompt.as_str()));
        if step.agent.is_none() {
            let tool = change.call.clone().unwrap().tool;
            assert_eq!(tool.as_deref(), Some(step.tool));
        }
    } else {
        assert!(change.operation.is_some());
    }
}

#[test]
fn the_answers_about_a_large_store_equal_a_naive_recomputation() {
    let mut seen = Seen::default();
    let world = World::build(|world| blames(world, &mut seen));
    blames(&world, &mut seen);
    let Seen {
        before,
        outside,
        changes,
        moved,
    } = seen;
    assert!(before.min(outside).min(changes).min(moved) > 5, "{seen:?}");
    let recorded: Vec<&Step> = world
        .steps
        .iter()
        .filter(|step| step.by != By::Outside)
        .collect();
    let everything = all(&world, &ChangeFilter::new(), 300);
    assert_eq!(everything.len(), recorded.len());
    let by_id: HashMap<i64, &Change> = everything
        .iter()
        .map(|change| (change.id, change))
        .collect();
    let mut tally: BTreeMap<&str, usize> = BTreeMap::new();
    for file in 0..FILES {
        let path = world.path(file);
        let steps = of_path(&world, &path);
        let told = all(&world, &ChangeFilter::new().path(&path), 17);
        let expected: Vec<&&Step> = steps.iter().filter(|step| step.by != By::Outside).collect();
        assert_eq!(told.len(), expected.len(), "{path:?}");
        for ((change, step), (effect, by)) in told.iter().zip(&expected).zip(effects(&steps)) {
            assert_is(&world, change, step);
            assert_eq!(by_id[&change.id], change);
            // Further back the last of several that ended it may be another one.
            if told.iter().filter(|later| later.id > change.id).count() <= 64 {
                let ended_by = by.map(|by| told[by].id);
                assert_eq!(
                    (change.effect, change.ended_by),
                    (effect, ended_by),
                    "{step:?}"
                );
            } else {
                let ends = [Effect::Overwritten, Effect::Rewound, Effect::Outside];
                let is_ended = |effect: Effect| ends.contains(&effect);
                assert!(change.effect == effect || (is_ended(effect) && is_ended(change.effect)));
            }
            *tally.entry(effect.as_str()).or_default() += 1;
        }
    }
    for word in [
        "in_effect",
        "in_part",
        "overwritten",
        "rewound",
        "outside",
        "nothing",
    ] {
        assert!(
            tally.get(word).is_some_and(|count| *count >= 5),
            "{word}: {tally:?}"
        );
    }
    let moved = recorded.iter().filter(|step| step.renamed_from.is_some());
    assert!(moved.count() > 5);
    filters(&world, &recorded);
    sessions_and_turns(&world);
    following(&world, &everything);
    trace_world::agree(&world);
}

/// How often each origin was met.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    before: usize,
    outside: usize,
    changes: usize,
    /// Of these those in a file that had another name then.
    moved: usize,
}

/// Every line of every file has the one origin that the account says, and together they are the file.
fn blames(world: &World, seen: &mut Seen) {
    let writers = writers(world);
    for file in 0..FILES {
        let path = world.path(file);
        let steps = of_path(world, &path);
        let Some(last) = steps.iter().rfind(|step| step.by != By::Outside) else {
            continue;
        };
        let blame = world.store.audit().blame(&path).unwrap();
        let content: Vec<u8> = blame
            .lines
            .iter()
            .flat_map(|line| line.content.clone())
            .collect();
        assert_eq!(
            content,
            last.after.clone().unwrap_or_default().concat().into_bytes()
        );
        assert_eq!(blame.state.hash, hash(&last.after));
        for line in &blame.lines {
            let text = std::str::from_utf8(&line.content).unwrap();
            match (blame.origin(line.number).unwrap(), writers[text]) {
                (LineOrigin::BeforeTracking, Writer::Before) => seen.before += 1,
                (
                    LineOrigin::Outside {
                        seen_by: Some(_), ..
                    },
                    Writer::Outside,
                ) => seen.outside += 1,
                (LineOrigin::Change { change }, Writer::Step(at)) => {
                    let step = &world.steps[at];
                    assert_eq!(change.path, step.path, "{text}");
                    assert_eq!(
                        change.call.as_ref().map(|call| &call.id),
                        step.call.as_ref()
                    );
                    assert_eq!(change.session, *world.members[step.session].session.key());
                    let prompt = change
                        .prompt
                        .as_ref()
                        .and_then(|prompt| prompt.text.as_ref());
                    assert_eq!(prompt, Some(&step.prompt));
                    seen.changes += 1;
                    seen.moved += usize::from(step.path != path);
                }
                other => panic!("{text} of {path:?}: {other:?}"),
            }
        }
        // What lies on the disk now may hold what nobody recorded.
        if let Some(now) = world.read(&path) {
            let blame = world
                .store
                .audit()
                .blame_content(&path, now.concat().as_bytes())
                .unwrap();
            for (line, text) in blame.lines.iter().zip(&now) {
                assert_eq!(line.content, text.as_bytes());
                let is_known = last
                    .after
                    .as_ref()
                    .is_some_and(|lines| lines.contains(text));
                let origin = blame.origin(line.number).unwrap();
                let is_new = matches!(origin, LineOrigin::Outside { seen_by: None, .. });
                assert_eq!(is_new, !is_known);
            }
            assert_eq!(blame.lines.len(), now.len());
        }
    }
}

/// Each filter chooses what the account says it should.
fn filters(world: &World, recorded: &[&Step]) {
    let same = |filter: ChangeFilter, wanted: &dyn Fn(&Step) -> bool| {
        let told = all(world, &filter.brief(), 71);
        let expected: Vec<&&Step> = recorded.iter().filter(|step| wanted(step)).collect();
        assert!(!expected.is_empty());
        let name = |path: &PathBuf, call: Option<String>| (path.clone(), call);
        let mut told: Vec<_> = told
            .iter()
            .map(|change| {
                name(
                    &change.path,
                    change.call.as_ref().map(|call| call.id.clone()),
                )
            })
            .collect();
        let mut expected: Vec<_> = expected
            .iter()
            .map(|step| name(&step.path, step.call.clone()))
            .collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected);
    };
    let folder = world.work().join("part3");
    same(ChangeFilter::new().path(&folder), &|step| {
        step.path.starts_with(&folder)
    });
    same(ChangeFilter::new().tool("Remove"), &|step| {
        step.tool == "Remove" && step.agent.is_none()
    });
    let agent = recorded.iter().find_map(|step| step.agent.clone()).unwrap();
    same(ChangeFilter::new().agent(&agent), &|step| {
        step.agent.as_ref() == Some(&agent)
    });
    same(ChangeFilter::new().main_agent().path(&folder), &|step| {
        step.agent.is_none() && step.path.starts_with(&folder)
    });
    let (prompt, uuid) = world.members[10].prompts[2].clone();
    same(ChangeFilter::new().turn(uuid), &|step| {
        step.prompt == prompt
    });
    let middle = world.store.audit().changes(&ChangeFilter::new(), None, 500);
    let middle = middle.unwrap().changes.last().unwrap().at_ms;
    let since = all(world, &ChangeFilter::new().since_ms(middle).brief(), 400);
    let until = all(world, &ChangeFilter::new().until_ms(middle).brief(), 400);
    assert_eq!(since.len() + until.len(), recorded.len());
    assert!(since.iter().all(|change| change.at_ms >= middle));
}

/// A session shows its own changes and those it inherits, each once; and a turn the files it touched.
fn sessions_and_turns(world: &World) {
    for (number, member) in world.members.iter().enumerate().step_by(7) {
        let filter = ChangeFilter::new().session(member.session.key()).brief();
        let told = all(world, &filter, 23);
        let own = world.steps.iter().filter(|step| step.session == number);
        let inherited = member.inherits.iter().map(|at| &world.steps[*at]);
        let expected: Vec<&Step> = inherited.chain(own).collect();
        assert_eq!(told.len(), expected.len(), "session {number}");
        for (change, step) in told.iter().zip(expected) {
            assert_eq!(
                (&change.path, change.call.as_ref().map(|call| &call.id)),
                (&step.path, step.call.as_ref())
            );
            assert_eq!(change.is_inherited, step.session != number);
            assert_eq!(change.session, *world.members[step.session].session.key());
            // The prompt goes by a name that this session knows.
            if let Some(prompt) = &change.prompt {
                let files = world
                    .store
                    .audit()
                    .files_of_turn(member.session.key(), &prompt.uuid);
                assert!(files.unwrap().iter().any(|file| file.path == change.path));
            }
        }
        let (prompt, uuid) = member.prompts.last().unwrap();
        let files = world
            .store
            .audit()
            .files_of_turn(member.session.key(), uuid)
            .unwrap();
        let mut expected: BTreeMap<&PathBuf, (usize, &Text, &Text)> = BTreeMap::new();
        for step in world.steps.iter().filter(|step| step.prompt == *prompt) {
            let entry = expected
                .entry(&step.path)
                .or_insert((0, &step.before, &step.after));
            entry.0 += 1;
            entry.2 = &step.after;
        }
        assert_eq!(files.len(), expected.len());
        for file in &files {
            let (changes, before, after) = expected[&file.path];
            assert_eq!(file.changes, changes);
            assert_eq!(file.before.hash, hash(before));
            assert_eq!(file.after.as_ref().unwrap().hash, hash(after));
        }
    }
    for file in [0, 13, 27] {
        let path = world.path(file);
        let told = world.store.audit().sessions_of(&path).unwrap();
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for step in of_path(world, &path)
            .iter()
            .filter(|step| step.by != By::Outside)
        {
            let id = world.members[step.session].session.id().to_owned();
            *expected.entry(id).or_default() += 1;
        }
        let told: BTreeMap<String, u64> = told
            .into_iter()
            .map(|touching| (touching.session.session_id, touching.changes))
            .collect();
        assert_eq!(told, expected);
    }
}

/// Looks of any size tell everything once, in order.
fn following(world: &World, everything: &[Change]) {
    let filter = ChangeFilter::new().brief();
    let mut cursor = NewsCursor::start();
    let (mut changes, mut messages, mut operations) = (Vec::new(), 0, 0);
    loop {
        let news = world.store.audit().news(&cursor, &filter, 700).unwrap();
        changes.extend(news.changes.iter().map(|change| change.id));
        messages += news.entries.unwrap().len();
        operations += news.operations.unwrap().len();
        // As text, as an app keeps it.
        cursor = news.cursor.to_string().parse().unwrap();
        if !news.has_more {
            break;
        }
    }
    let expected: Vec<i64> = everything.iter().map(|change| change.id).collect();
    assert_eq!(changes, expected);
    assert!(messages > 3 * world.edits / 2, "{messages}");
    assert!(operations > 100, "{operations}");
    assert_eq!(cursor, world.store.audit().now().unwrap());
    let again = world.store.audit().news(&cursor, &filter, 10).unwrap();
    assert!(again.changes.is_empty() && again.entries.unwrap().is_empty());
}
