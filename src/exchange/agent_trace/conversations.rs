//! A file's blame as conversations and ranges.

use std::collections::HashMap;

use super::names;
use super::record::{Contributor, ContributorKind, LineRange, Related, TracedConversation};
use crate::error::Result;
use crate::model::{Blame, Change, LineOrigin, SessionKey};

/// Who wrote lines, as far as the form tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Writer {
    Agent {
        session: SessionKey,
        prompt: Option<String>,
        agent: Option<String>,
        model: Option<String>,
    },
    Nobody(&'static str),
}

/// The conversations of a file, in the order of the first line of each. `model` tells the model that
/// made a change.
pub(super) fn conversations(
    blame: &Blame,
    mut model: impl FnMut(&Change) -> Result<Option<String>>,
) -> Result<Vec<TracedConversation>> {
    let mut places: HashMap<Writer, usize> = HashMap::new();
    let mut found: Vec<TracedConversation> = Vec::new();
    // Origins stand in the order of their first lines, and so do conversations then.
    let mut of_origins = Vec::with_capacity(blame.origins.len());
    for origin in &blame.origins {
        let writer = writer(origin, &mut model)?;
        let place = *places.entry(writer).or_insert_with_key(|writer| {
            found.push(begun(writer));
            found.len() - 1
        });
        if let (LineOrigin::Change { change }, Some(_)) = (origin, &found[place].url)
            && let Some(call) = &change.call
        {
            let url = names::within(&change.session, "tool-calls", &call.id);
            let related = &mut found[place].related;
            if related.iter().all(|known| known.url != url) {
                related.push(Related {
                    kind: "tool_call",
                    url,
                });
            }
        }
        of_origins.push(place);
    }
    for lines in blame
        .lines
        .chunk_by(|one, next| of_origins[one.origin] == of_origins[next.origin])
    {
        let mut hash = blake3::Hasher::new();
        for line in lines {
            hash.update(&line.content);
        }
        found[of_origins[lines[0].origin]].ranges.push(LineRange {
            start_line: lines[0].number,
            end_line: lines[lines.len() - 1].number,
            content_hash: format!("blake3:{}", hash.finalize().to_hex()),
        });
    }
    Ok(found)
}

fn writer(
    origin: &LineOrigin,
    model: &mut impl FnMut(&Change) -> Result<Option<String>>,
) -> Result<Writer> {
    Ok(match origin {
        // What a rewind brought back from nobody knows where it did not write.
        LineOrigin::Change { change } if !change.source.restores() => Writer::Agent {
            session: change.session.clone(),
            prompt: change.prompt.as_ref().map(|prompt| prompt.uuid.clone()),
            agent: change.agent.clone(),
            model: model(change)?.and_then(|recorded| names::model_id(&recorded)),
        },
        LineOrigin::BeforeTracking => Writer::Nobody("before_tracking"),
        LineOrigin::Outside { .. } => Writer::Nobody("outside"),
        LineOrigin::Change { .. } | LineOrigin::NotKept { .. } => Writer::Nobody("not_kept"),
    })
}

/// A conversation without ranges yet.
fn begun(writer: &Writer) -> TracedConversation {
    let mut begun = TracedConversation {
        url: None,
        contributor: Contributor {
            kind: ContributorKind::Unknown,
            model_id: None,
        },
        ranges: Vec::new(),
        related: Vec::new(),
    };
    let mut relate = |kind, url| begun.related.push(Related { kind, url });
    match writer {
        Writer::Nobody(word) => relate("origin", names::origin(word)),
        Writer::Agent {
            session,
            prompt,
            agent,
            model,
        } => {
            if let Some(uuid) = prompt {
                relate("prompt", names::within(session, "messages", uuid));
            }
            if let Some(agent) = agent {
                relate("agent", names::within(session, "agents", agent));
            }
            begun.url = Some(names::session(session));
            begun.contributor = Contributor {
                kind: ContributorKind::Ai,
                model_id: model.clone(),
            };
        }
    }
    begun
}
