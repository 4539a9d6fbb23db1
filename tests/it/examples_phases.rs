//! The example of a task in phases, killed at every step.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use turnkeep::{Phase, PhaseState, Session};

use crate::examples::{Left, Told, messages, run, session};

const PHASES: [&str; 4] = ["scaffold", "implement", "test", "announce"];

fn runs(folder: &Path, args: &[&str]) -> Told {
    // A dead process's claim lapses soon, so that nobody waits for it.
    let args = [&["--claim-ms", "40"], args].concat();
    run("phase_runner", folder, &args, "")
}

fn phases(session: &Session) -> Vec<Phase> {
    let mut phases = session.scene().unwrap().phases;
    phases.remove("release").unwrap_or_default()
}

fn done(session: &Session) -> Vec<Phase> {
    let mut phases = phases(session);
    phases.retain(|phase| phase.state == PhaseState::Done);
    phases
}

/// All that the task comes to, but for times and the numbers of attempts.
fn state(folder: &Path) -> Value {
    let session = session(folder).unwrap();
    let scene = session.scene().unwrap();
    assert!(scene.pending.is_empty());
    let phases: Vec<Value> = phases(&session)
        .into_iter()
        .map(|phase| {
            json!([
                phase.name,
                phase.state,
                phase.idempotency_key,
                phase.result,
                phase.error,
                phase.changes
            ])
        })
        .collect();
    json!({
        "messages": messages(&session),
        "transcript": session.conversation("").unwrap().entries.len(),
        "task": scene.task,
        "rounds": scene.rounds,
        "scratchpad": scene.scratchpad,
        "phases": phases,
        "effects": fs::read_to_string(folder.join("effects.txt")).unwrap(),
    })
}

/// Starts it again behind a process that died. What was done is as it was, and is said to be.
fn goes_on(folder: &Path, args: &[&str]) -> Told {
    let before = session(folder);
    let was_done = before.as_ref().map(done).unwrap_or_default();
    let left = before.as_ref().map(Left::behind);
    drop(before);
    let told = runs(folder, args);
    let after = session(folder).unwrap();
    if let Some(left) = left {
        left.check(&told, Some(&after));
    }
    assert_eq!(done(&after)[..was_done.len()], was_done, "{}", told.out);
    let skipped: Vec<&str> = told
        .lines("skipped, done before: ")
        .iter()
        .map(|line| line.split_once(' ').unwrap().0)
        .collect();
    let names: Vec<&str> = was_done.iter().map(|phase| phase.name.as_str()).collect();
    assert!(names.starts_with(&skipped), "{skipped:?} of {names:?}");
    assert!(!told.ended || skipped == names, "{skipped:?} of {names:?}");
    told
}

#[test]
fn the_phase_runner_killed_at_every_step_runs_no_finished_phase_again_and_loses_none() {
    let undisturbed = tempfile::tempdir().unwrap();
    assert!(runs(undisturbed.path(), &[]).ended);
    let expected = state(undisturbed.path());
    assert_eq!(
        expected["messages"].as_array().unwrap().len(),
        1 + 2 * PHASES.len()
    );
    let (mut deaths, mut found) = (0, 0);
    for step in 1.. {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let died = runs(folder, &["--die-at", &step.to_string()]);
        if died.ended {
            break;
        }
        deaths += 1;
        // It dies once more on the way, each time elsewhere, and then comes to its end.
        goes_on(folder, &["--die-at", &(2 + step * 7 % 11).to_string()]);
        let told = goes_on(folder, &[]);
        assert!(told.ended, "killed at step {step}: {}", told.out);
        assert_eq!(
            state(folder),
            expected,
            "killed at step {step}: {}",
            told.out
        );
        found += told.lines("had taken effect: ").len();
    }
    // The session, the prompt and the plan; and of each phase that it began, its call, its effect,
    // what it changed, the call's result, and that it is done.
    assert_eq!(deaths, 3 + 6 * PHASES.len());
    assert!(found > 0, "no effect was found without its record");
}

#[test]
fn a_phase_that_fails_stops_the_task_and_the_next_run_begins_with_it() {
    let undisturbed = tempfile::tempdir().unwrap();
    assert!(runs(undisturbed.path(), &[]).ended);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let told = runs(folder, &["--fail", "test"]);
    assert!(
        !told.ended && told.lines("done: ").len() == 2,
        "{}",
        told.out
    );
    let failed = phases(&session(folder).unwrap()).remove(2);
    assert_eq!((failed.state, failed.attempt), (PhaseState::Failed, 1));
    assert_eq!(failed.error.as_deref(), Some("2 of 40 are red"));
    let told = goes_on(folder, &[]);
    assert!(
        told.ended && told.lines("done: ").len() == 2,
        "{}",
        told.out
    );
    let tried = phases(&session(folder).unwrap()).remove(2);
    assert_eq!((tried.state, tried.attempt), (PhaseState::Done, 2));
    assert_eq!(state(folder), state(undisturbed.path()));
    let told = goes_on(folder, &[]);
    assert_eq!(told.lines("skipped, done before: ").len(), PHASES.len());
}
