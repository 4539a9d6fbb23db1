//! Tasks in phases: run once, in order, each fork for itself.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use turnkeep::{
    Error, ErrorKind, ForkOptions, NewMessage, NewSession, PhaseError, PhaseState, Session, Store,
    Task,
};

use crate::kit::TestStore;

const PHASES: [&str; 3] = ["scaffold", "implement", "test"];

fn session(test: &TestStore) -> Session {
    let session = test
        .store
        .sessions()
        .create(NewSession::in_project("p").cwd("/srv"))
        .unwrap();
    session.messages().append(NewMessage::user("go")).unwrap();
    session
}

/// Runs a task to its end, or to the phase that fails, and notes which works were called.
fn run(
    task: &Task,
    fails: Option<&str>,
    calls: &RefCell<Vec<String>>,
) -> Result<(), PhaseError<String>> {
    for phase in PHASES {
        let result = task.run(phase, |run| {
            calls
                .borrow_mut()
                .push(format!("{}#{}", run.name, run.attempt));
            run.note_change(json!(format!("{phase}.rs"))).unwrap();
            if fails == Some(phase) {
                return Err(format!("{phase} is red"));
            }
            Ok(json!({"phase": phase}))
        })?;
        assert_eq!(result, json!({"phase": phase}), "also when it was skipped");
    }
    Ok(())
}

fn conflict(error: PhaseError<Error>) -> String {
    match error {
        PhaseError::Store(error) if error.kind() == ErrorKind::Conflict => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_that_fails_in_phase_3_goes_on_in_phase_3() {
    let test = TestStore::new();
    let session = session(&test);
    let calls = RefCell::new(Vec::new());
    let failed = run(
        &session.task("release", PHASES).unwrap(),
        Some("test"),
        &calls,
    );
    assert!(matches!(failed, Err(PhaseError::Work(text)) if text == "test is red"));
    let reopened = Store::open(test.store.path()).unwrap();
    let session = reopened.sessions().get(session.key()).unwrap();
    let task = session.task("release", PHASES).unwrap();
    let stands = task.phases().unwrap();
    assert_eq!(stands[2].state, PhaseState::Failed);
    assert_eq!(stands[2].error.as_deref(), Some("test is red"));
    let key = stands[2].idempotency_key.clone();
    run(&task, None, &calls).unwrap();
    run(&task, None, &calls).unwrap();
    let once = ["scaffold#1", "implement#1", "test#1", "test#2"];
    assert_eq!(*calls.borrow(), once);
    let stands = task.phases().unwrap();
    assert!(stands.iter().all(|phase| phase.state == PhaseState::Done));
    assert_eq!((stands[2].attempt, &stands[2].error), (2, &None));
    assert_eq!(stands[2].idempotency_key, key);
    assert_eq!(stands[1].changes, [json!("implement.rs")]);
    assert!(stands[0].finished_ms >= stands[0].started_ms);
    assert_eq!(session.tasks().unwrap(), ["release"]);
    assert!(session.scratchpad().list().unwrap().is_empty());
}

#[test]
fn a_phase_is_run_by_one_at_a_time_and_a_claim_lapses() {
    let test = TestStore::new();
    let session = session(&test);
    let task = session
        .task("t", PHASES)
        .unwrap()
        .claim_for(Duration::from_millis(300));
    let other = session.find_task("t").unwrap();
    let result = task.run("scaffold", |first| {
        let refused = other
            .run("scaffold", |_| Ok::<_, Error>(json!(2)))
            .unwrap_err();
        let refused = conflict(refused);
        assert!(refused.contains("run by another process"), "{refused}");
        first.renew()?;
        sleep(Duration::from_millis(400));
        // The claim lapsed: the phase is as one whose process died.
        let taken = other.run("scaffold", |second| {
            assert!(second.was_interrupted);
            assert_eq!((first.attempt, second.attempt), (1, 2));
            assert_eq!(first.idempotency_key, second.idempotency_key);
            Ok::<_, Error>(json!("second"))
        });
        assert_eq!(taken.unwrap(), "second");
        assert_eq!(first.renew().unwrap_err().kind(), ErrorKind::Conflict);
        Ok::<_, Error>(json!("first"))
    });
    let refused = conflict(result.unwrap_err());
    assert!(refused.contains("taken over"), "{refused}");
    assert_eq!(task.phases().unwrap()[0].result, Some(json!("second")));
}

#[test]
fn a_changed_plan_is_shown_and_taken_only_when_accepted() {
    let test = TestStore::new();
    let session = session(&test);
    let calls = RefCell::new(Vec::new());
    run(&session.task("t", PHASES).unwrap(), None, &calls).unwrap();
    let error = session.task("t", ["scaffold", "ship", "test"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("-implement +ship"), "{error}");
    let error = session
        .task("t", ["test", "implement", "scaffold"])
        .unwrap_err();
    assert!(error.to_string().contains("another order"), "{error}");
    let task = session.replan("t", ["scaffold", "ship", "test"]).unwrap();
    let states: Vec<PhaseState> = task
        .phases()
        .unwrap()
        .iter()
        .map(|phase| phase.state)
        .collect();
    assert_eq!(
        states,
        [PhaseState::Done, PhaseState::Waiting, PhaseState::Done]
    );
    for plan in [vec![], vec![""], vec!["a", "a"]] {
        assert_eq!(
            session.task("u", plan).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
    assert_eq!(
        session.find_task("u").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let early = session.task("v", PHASES).unwrap();
    let never =
        |_: &turnkeep::PhaseRun<'_>| -> Result<Value, Error> { panic!("it is not its turn") };
    assert!(
        matches!(early.run("test", never), Err(PhaseError::Store(error)) if error.kind() == ErrorKind::Invalid)
    );
    assert!(
        matches!(early.run("nope", never), Err(PhaseError::Store(error)) if error.kind() == ErrorKind::NotFound)
    );
}

#[test]
fn a_fork_made_in_phase_3_keeps_what_came_of_phases_1_and_2() {
    let test = TestStore::new();
    let source = session(&test);
    let calls = RefCell::new(Vec::new());
    let task = source.task("t", PHASES).unwrap();
    let in_three = task.run("scaffold", |_| Ok::<_, Error>(json!({"phase": "scaffold"})));
    in_three.unwrap();
    task.run("implement", |_| {
        Ok::<_, Error>(json!({"phase": "implement"}))
    })
    .unwrap();
    let mut fork = None;
    task.run("test", |_| {
        fork = Some(source.fork(&ForkOptions::new())?);
        Ok::<_, Error>(json!({"phase": "test"}))
    })
    .unwrap();
    let fork = fork.unwrap();
    assert_eq!(source.scene().unwrap().phases["t"].len(), 3);
    let forked = fork.task("t", PHASES).unwrap();
    let stands = forked.phases().unwrap();
    assert_eq!(stands[2].state, PhaseState::Begun);
    assert_ne!(
        stands[2].idempotency_key,
        task.phases().unwrap()[2].idempotency_key
    );
    run(&forked, None, &calls).unwrap();
    assert_eq!(
        *calls.borrow(),
        ["test#2"],
        "the claim of the source is not the fork's"
    );
    assert_eq!(
        task.phases().unwrap()[2].attempt,
        1,
        "and the source is as it was"
    );
    source.delete().unwrap();
    assert!(
        forked
            .phases()
            .unwrap()
            .iter()
            .all(|phase| phase.state == PhaseState::Done)
    );
}

#[test]
fn the_librarys_own_notes_are_out_of_an_apps_reach() {
    let test = TestStore::new();
    let session = session(&test);
    session.set_task("x").unwrap();
    let notes = session.scratchpad();
    assert!(notes.list().unwrap().is_empty() && notes.summary(100).unwrap().is_empty());
    let refused = [
        notes.set("turnkeep:task", "y"),
        notes.delete("turnkeep:task"),
        notes.compare_and_set("turnkeep:task", Some(&json!("x")), None),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("library's own"), "{error}");
    }
    assert_eq!(session.scene().unwrap().task.as_deref(), Some("x"));
}
