//! Transcripts as a client grows them: trees whose every link is there.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// What is written next, hanging from the tip of the conversation.
#[derive(Clone, Debug)]
pub enum Step {
    Prompt,
    /// A response of so many texts, each an entry of its own.
    Answer(u8),
    Tools(Tools),
    /// An attachment, a system entry, or a hook's progress; on the way to what follows, or beside it.
    Link(&'static str, bool),
    /// A user entry that the harness wrote; on the way to what follows, or beside it.
    Meta(bool),
    /// A sub-agent's entries in the same file; from the tip, or from nothing.
    Sidechain(u8, bool),
    /// The conversation goes on from an earlier message: what followed that one is a dead branch.
    Back(Index),
    /// The conversation is compacted; the boundary may name the last message as kept.
    Compact(bool),
    /// A line without a uuid.
    Note,
}

/// A response that calls tools, one entry a block, and the results.
#[derive(Clone, Debug)]
pub struct Tools {
    calls: usize,
    /// A thinking block and a text before the calls.
    lead: [bool; 2],
    form: Form,
    /// Which of the open calls is answered next.
    order: Vec<Index>,
    /// Calls that are never answered.
    lost: [bool; 4],
    /// Results that hang from the newest entry and not from their call.
    stray: [bool; 4],
    /// Results that hang from a hook's entry, which hangs from their call.
    hooked: [bool; 4],
    /// Call ids that other responses use too.
    same_ids: bool,
    /// The entry that the conversation goes on from; `None`: the newest.
    next: Option<Index>,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    /// All calls, then the results.
    Fan,
    /// Results come in while further calls are written; these hang from the call before.
    Streaming,
    /// The same, but each further call hangs from the newest entry.
    Chained,
    /// One message with all results.
    Together,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..22)
}

fn step() -> impl Strategy<Value = Step> {
    let link = prop::sample::select(vec!["attachment", "system", "progress"]);
    prop_oneof![
        5 => Just(Step::Prompt),
        3 => (1..3_u8).prop_map(Step::Answer),
        6 => tools().prop_map(Step::Tools),
        3 => (link, prop::bool::weighted(0.7)).prop_map(|(kind, on)| Step::Link(kind, on)),
        1 => any::<bool>().prop_map(Step::Meta),
        1 => (1..4_u8, any::<bool>()).prop_map(|(length, from_tip)| Step::Sidechain(length, from_tip)),
        2 => any::<Index>().prop_map(Step::Back),
        1 => any::<bool>().prop_map(Step::Compact),
        1 => Just(Step::Note),
    ]
}

fn tools() -> impl Strategy<Value = Tools> {
    let form = prop::sample::select(vec![
        Form::Fan,
        Form::Streaming,
        Form::Chained,
        Form::Together,
    ]);
    let rarely = || prop::array::uniform4(prop::bool::weighted(0.12));
    let next = prop::option::weighted(0.25, any::<Index>());
    let order = vec(any::<Index>(), 4);
    let same_ids = prop::bool::weighted(0.1);
    (
        1..5_usize,
        any::<[bool; 2]>(),
        form,
        order,
        rarely(),
        rarely(),
        rarely(),
        same_ids,
        next,
    )
        .prop_map(
            |(calls, lead, form, order, lost, stray, hooked, same_ids, next)| Tools {
                calls,
                lead,
                form,
                order,
                lost,
                stray,
                hooked,
                same_ids,
                next,
            },
        )
}

/// A transcript being written.
#[derive(Default)]
pub struct Tree {
    pub entries: Vec<Value>,
    tip: Option<String>,
    /// What the next message may go on from.
    stops: Vec<String>,
    responses: usize,
    clock_ms: u64,
}

impl Tree {
    /// Writes all of `steps`.
    pub fn grow(steps: &[Step]) -> Self {
        let mut tree = Self::default();
        for step in steps {
            tree.take(step);
        }
        tree.close();
        tree
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Prompt => self.say("user", json!({"content": "a prompt"}), json!({})),
            Step::Answer(texts) => {
                let response = self.response();
                for _ in 0..*texts {
                    let text = json!([{"type": "text", "text": "an answer"}]);
                    self.say(
                        "assistant",
                        json!({"id": response, "content": text}),
                        json!({}),
                    );
                }
            }
            Step::Tools(tools) => self.tools(tools),
            Step::Link(kind, on_the_way) => {
                let fields = json!({"subtype": "hook", "attachment": {"type": "hook"}});
                let uuid = self.write(kind, self.tip.clone(), fields);
                if *on_the_way {
                    self.go_on_from(uuid);
                }
            }
            Step::Meta(on_the_way) => {
                let fields =
                    json!({"isMeta": true, "message": {"role": "user", "content": "a note"}});
                let uuid = self.write("user", self.tip.clone(), fields);
                if *on_the_way {
                    self.go_on_from(uuid);
                }
            }
            Step::Sidechain(length, from_tip) => {
                let mut parent = self.tip.clone().filter(|_| *from_tip);
                for number in 0..*length {
                    let kind = ["user", "assistant"][usize::from(number % 2)];
                    let message = json!({"role": kind, "content": "in a sub-agent"});
                    let fields = json!({"isSidechain": true, "agentId": "a1", "message": message});
                    parent = Some(self.write(kind, parent, fields));
                }
            }
            Step::Back(to) => {
                if !self.stops.is_empty() {
                    self.tip = Some(to.get(&self.stops).clone());
                }
            }
            Step::Compact(keeps) => self.compact(*keeps),
            Step::Note => self
                .entries
                .push(json!({"type": "mode", "mode": "default"})),
        }
    }

    fn tools(&mut self, tools: &Tools) {
        let response = self.response();
        let mut written = Vec::new();
        let leads = [
            json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
            json!({"type": "text", "text": "let me look"}),
        ];
        let mut newest = self.tip.clone();
        let block = |tree: &mut Self, parent: Option<String>, block: Value| {
            let message = json!({"id": response, "role": "assistant", "content": [block]});
            tree.write("assistant", parent, json!({ "message": message }))
        };
        for (lead, _) in leads
            .into_iter()
            .zip(tools.lead)
            .filter(|(_, written)| *written)
        {
            newest = Some(block(self, newest, lead));
        }
        let mut before = newest.clone();
        let mut open: Vec<(usize, String, String)> = Vec::new();
        for number in 0..tools.calls {
            let id = match tools.same_ids {
                true => format!("toolu_{number}"),
                false => format!("toolu_{response}_{number}"),
            };
            let call = json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
            let parent = match tools.form {
                Form::Chained => newest.clone(),
                Form::Fan | Form::Streaming | Form::Together => before,
            };
            let uuid = block(self, parent, call);
            (before, newest) = (Some(uuid.clone()), Some(uuid.clone()));
            written.push(uuid.clone());
            if !tools.lost[number] {
                open.push((number, id, uuid));
            }
            let comes_in = matches!(tools.form, Form::Streaming | Form::Chained);
            if comes_in && number % 2 == 1 && !open.is_empty() {
                let next = open.remove(tools.order[number].index(open.len()));
                newest = Some(self.result(tools, &[next], newest));
                written.extend(newest.clone());
            }
        }
        while !open.is_empty() {
            let answered: Vec<_> = match tools.form {
                Form::Together => std::mem::take(&mut open),
                _ => vec![open.remove(tools.order[open.len() - 1].index(open.len()))],
            };
            newest = Some(self.result(tools, &answered, newest));
            written.extend(newest.clone());
        }
        self.stops.extend(written.iter().cloned());
        self.tip = match tools.next {
            Some(next) => Some(next.get(&written).clone()),
            None => newest,
        };
    }

    /// Writes one message with the results of `calls`.
    fn result(
        &mut self,
        tools: &Tools,
        calls: &[(usize, String, String)],
        newest: Option<String>,
    ) -> String {
        let (number, _, home) = &calls[calls.len() - 1];
        let parent = match (tools.stray[*number], tools.hooked[*number]) {
            (true, _) => newest,
            (_, true) => {
                let kind = ["progress", "attachment"][number % 2];
                let fields = json!({"attachment": {"type": "hook"}});
                Some(self.write(kind, Some(home.clone()), fields))
            }
            _ => Some(home.clone()),
        };
        let block = |(_, id, _): &(usize, String, String)| json!({"type": "tool_result", "tool_use_id": id, "content": "done"});
        let blocks: Vec<Value> = calls.iter().map(block).collect();
        let fields = json!({
            "message": {"role": "user", "content": blocks},
            "sourceToolAssistantUUID": home,
        });
        self.write("user", parent, fields)
    }

    fn compact(&mut self, keeps: bool) {
        let mut boundary = json!({
            "subtype": "compact_boundary",
            "logicalParentUuid": self.tip,
            "compactMetadata": {"trigger": "auto"},
        });
        if let Some(kept) = self.tip.clone().filter(|_| keeps) {
            // To go on from a kept message means something else here than in the SDK: it stands
            // behind the summary.
            self.stops.retain(|stop| *stop != kept);
            boundary["compactMetadata"]["preservedMessages"] = json!({ "uuids": [kept] });
        }
        let boundary = self.write("system", None, boundary);
        let message = json!({"role": "user", "content": "the story so far"});
        let fields = json!({"isCompactSummary": true, "message": message});
        let summary = self.write("user", Some(boundary), fields);
        self.go_on_from(summary);
    }

    /// The SDK takes no message as the end that a sub-agent's or the harness's entry hangs from, if
    /// there is another end anywhere; here the newest message is the head. So the file ends with a
    /// message, unless it is one line from beginning to end.
    fn close(&mut self) {
        let is_side = |entry: &Value| entry["isSidechain"] == true || entry["isMeta"] == true;
        let speaks = |entry: &Value| entry["type"] == "user" || entry["type"] == "assistant";
        let last = self.entries.iter().rev().find(|entry| speaks(entry));
        let mut parents: Vec<&Value> = self
            .entries
            .iter()
            .filter_map(|entry| entry.get("parentUuid"))
            .collect();
        let all = parents.len();
        parents.sort_by_key(|parent| parent.as_str());
        parents.dedup();
        let is_line = parents.len() == all;
        let is_shadowed = last.is_some_and(is_side) && !is_line;
        if is_shadowed || self.entries.is_empty() {
            self.take(&Step::Prompt);
        }
    }

    fn say(&mut self, kind: &str, message: Value, fields: Value) {
        let mut fields = fields;
        fields["message"] = message;
        fields["message"]["role"] = json!(kind);
        let uuid = self.write(kind, self.tip.clone(), fields);
        self.go_on_from(uuid);
    }

    fn go_on_from(&mut self, uuid: String) {
        self.stops.push(uuid.clone());
        self.tip = Some(uuid);
    }

    fn response(&mut self) -> String {
        self.responses += 1;
        format!("msg_{}", self.responses)
    }

    fn write(&mut self, kind: &str, parent: Option<String>, mut fields: Value) -> String {
        let number = self.entries.len();
        let uuid = format!("00000000-0000-4000-8000-{number:012}");
        // Every third entry has the time of the one before it.
        self.clock_ms += u64::from(number % 3 != 2);
        fields["type"] = json!(kind);
        fields["uuid"] = json!(uuid);
        fields["parentUuid"] = json!(parent);
        fields["timestamp"] = json!(format!("2026-01-02T03:04:05.{:03}Z", self.clock_ms));
        self.entries.push(fields);
        uuid
    }
}
