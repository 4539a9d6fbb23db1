//! Traces of a large store.

use std::fs;

use turnkeep::LineOrigin;
use turnkeep::agent_trace::TraceOptions;

use super::naive::{Writer, of_path, writers};
use super::trace_form::Record;
use super::traces::{left_out, record, said, within};
use super::world::{By, FILES, World, model};

/// They say of every line what its own account says, and what blame says.
pub fn agree(world: &World) {
    let writers = writers(world);
    let options = TraceOptions::below(world.work());
    let (recorded, now) = (
        record(&world.store, &options.clone().recorded()),
        record(&world.store, &options),
    );
    assert_eq!((left_out(&recorded), left_out(&now)), (vec![], vec![]));
    let (mut agents, mut outside) = (0, 0);
    for file in 0..FILES {
        let path = world.path(file);
        let name = path.strip_prefix(world.work()).unwrap().to_str().unwrap();
        let find = |record: &Record| record.files.iter().position(|file| file.path == name);
        let steps = of_path(world, &path);
        let last = steps.iter().rfind(|step| step.by != By::Outside);
        let last = last.and_then(|step| step.after.clone());
        let last = last.filter(|lines| !lines.is_empty());
        assert_eq!(find(&recorded).is_some(), last.is_some(), "{name}");
        if let Some((at, lines)) = find(&recorded).zip(last) {
            let told = &recorded.files[at];
            told.assert_holds(lines.concat().as_bytes());
            for (conversation, text) in told.writers().into_iter().zip(&lines) {
                let Writer::Step(step) = writers[text.as_str()] else {
                    assert_eq!(conversation.url, None);
                    continue;
                };
                let (step, member) = (&world.steps[step], &world.members);
                let member = &member[step.session];
                let id = member.session.id();
                assert_eq!(
                    conversation.url,
                    Some(within(id, "").trim_end_matches('/').into())
                );
                let prompt = member.prompts.iter().find(|(text, _)| *text == step.prompt);
                let uuid = &prompt.unwrap().1;
                let prompts = conversation.related("prompt");
                assert_eq!(prompts, [within(id, &format!("messages/{uuid}"))]);
                let call = step.call.as_ref().unwrap();
                let call = within(id, &format!("tool-calls/{call}"));
                assert!(conversation.related("tool_call").contains(&&*call));
                let model = step.agent.is_none().then(|| model(step.session));
                let model = model.map(|model| format!("anthropic/{model}"));
                assert_eq!(conversation.contributor.model_id, model);
                assert_eq!(
                    conversation.related("agent").len(),
                    usize::from(step.agent.is_some())
                );
                agents += usize::from(step.agent.is_some());
            }
        }
        let content = fs::read(&path).unwrap_or_default();
        let Some(at) = find(&now) else {
            assert!(content.is_empty() || steps.iter().all(|step| step.by == By::Outside));
            continue;
        };
        now.files[at].assert_holds(&content);
        let blame = world.store.audit().blame_content(&path, &content).unwrap();
        for (conversation, number) in now.files[at].writers().into_iter().zip(1..) {
            let told = said(conversation);
            match blame.origin(number).unwrap() {
                LineOrigin::Change { change } => {
                    let call = &change.call.as_ref().unwrap().id;
                    let call = within(&change.session.session_id, &format!("tool-calls/{call}"));
                    assert!(conversation.related("tool_call").contains(&&*call));
                }
                LineOrigin::BeforeTracking => assert_eq!(told, "before_tracking"),
                LineOrigin::Outside { .. } => {
                    assert_eq!(told, "outside");
                    outside += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(agents > 5 && outside > 5, "{agents} {outside}");
}
