//! Random stories of a few sessions: what is said, called, answered, noted, forked and gone back
//! from. Beside each session stands what its notes must be, worked out the obvious way.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use turnkeep::{
    AppendOptions, Durability, ForkOptions, NewMessage, OpenOptions, ResumeOptions, Session,
    Settle, Store,
};

use crate::kit::TestStore;

pub type Notes = BTreeMap<String, Value>;

/// One thing that happens. Numbers pick a message, a call or a session among those there are.
#[derive(Clone, Debug)]
pub enum Step {
    Prompt,
    Answer,
    /// A response with so many parallel calls, as one entry or as one for each of them.
    Calls(usize, bool),
    /// A result comes: the first one, or one for a call that has one.
    Result(usize),
    /// A call is settled, in one of five ways.
    Settle(usize, usize),
    Set(usize),
    Unset(usize),
    Compact(usize),
    /// A fork up to a message, or as the session is; the story goes on in it.
    Fork(Option<usize>),
    /// The story goes on in another of its sessions.
    Visit(usize),
    /// The head is moved to a message. Whatever else moves a head, a rewind of the conversation and
    /// its undo, is a step like this one.
    Move(usize),
    /// A prompt or an answer that hangs from a message.
    HangFrom(usize, bool),
    /// An entry of another writer, who knows only the message that his prompt hangs from.
    Entry(usize),
    /// The process ends, and another one opens the store.
    Reopen,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..1000_usize;
    let step = prop_oneof![
        4 => Just(Step::Prompt),
        3 => Just(Step::Answer),
        5 => (1..4_usize, any::<bool>()).prop_map(|(calls, split)| Step::Calls(calls, split)),
        4 => number.clone().prop_map(Step::Result),
        3 => (number.clone(), 0..5_usize).prop_map(|(call, how)| Step::Settle(call, how)),
        4 => (0..3_usize).prop_map(Step::Set),
        1 => (0..3_usize).prop_map(Step::Unset),
        1 => (0..5_usize).prop_map(Step::Compact),
        2 => proptest::option::of(number.clone()).prop_map(Step::Fork),
        1 => number.clone().prop_map(Step::Visit),
        2 => number.clone().prop_map(Step::Move),
        2 => (number.clone(), any::<bool>()).prop_map(|(at, prompt)| Step::HangFrom(at, prompt)),
        1 => number.prop_map(Step::Entry),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..24)
}

/// A message, and what must hold of it.
#[derive(Clone)]
pub struct Said {
    pub uuid: String,
    /// The notes as of it.
    pub notes: Notes,
    /// The prompt of its turn, by its place among the messages.
    turn: Option<usize>,
}

/// A session, and what its notes must be.
pub struct Told {
    pub session: Session,
    /// The notes now.
    pub notes: Notes,
    /// Its messages, in the order in which they were stored.
    pub messages: Vec<Said>,
    /// The turn of its head.
    turn: Option<usize>,
}

impl Told {
    fn place(&self, uuid: &str) -> Option<usize> {
        self.messages.iter().position(|said| said.uuid == uuid)
    }

    /// Notes down the messages that a step stored. What hangs from another turn than the head's
    /// has the notes of its parent; a prompt there brings them back.
    fn take_in(&mut self) {
        for entry in entries(&self.session).split_off(self.messages.len()) {
            let content = &entry["message"]["content"];
            let is_prompt =
                entry["type"] == "user" && content.is_string() && entry["isCompactSummary"] != true;
            let parent = entry["parentUuid"].as_str();
            let parent = parent.map(|uuid| self.place(uuid).unwrap());
            let elsewhere = parent.filter(|parent| self.messages[*parent].turn != self.turn);
            let notes = match elsewhere {
                Some(parent) => self.messages[parent].notes.clone(),
                None => self.notes.clone(),
            };
            let turn = match parent {
                _ if is_prompt => Some(self.messages.len()),
                Some(parent) => self.messages[parent].turn,
                None => self.turn,
            };
            if is_prompt {
                self.notes = notes.clone();
                self.turn = turn;
            }
            let uuid = entry["uuid"].as_str().unwrap().to_owned();
            self.messages.push(Said { uuid, notes, turn });
        }
        let head = head(&self.session).and_then(|head| self.place(&head));
        self.turn = head.and_then(|head| self.messages[head].turn);
    }
}

pub struct Story {
    pub test: TestStore,
    pub told: Vec<Told>,
    at: usize,
    made: usize,
}

impl Story {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("store.db"));
        let test = TestStore { folder, store };
        let first = Told {
            session: test.session(),
            notes: Notes::new(),
            messages: Vec::new(),
            turn: None,
        };
        Self {
            test,
            told: vec![first],
            at: 0,
            made: 0,
        }
    }

    pub fn now(&self) -> &Told {
        &self.told[self.at]
    }

    /// Everything is opened anew, as after a crash.
    pub fn reopen(&mut self) {
        self.test.store = open(self.test.store.path());
        for told in &mut self.told {
            let again = self.test.store.sessions().get(told.session.key());
            told.session = again.unwrap();
        }
    }

    /// Lets a step happen, if it can.
    pub fn step(&mut self, step: &Step) {
        self.made += 1;
        let text = format!("text {}", self.made);
        let session = self.now().session.clone();
        let messages = session.messages();
        match *step {
            Step::Prompt => drop(messages.append(NewMessage::user(text)).unwrap()),
            Step::Answer => drop(messages.append(NewMessage::assistant(text)).unwrap()),
            Step::Calls(calls, split) => self.calls(&session, calls, split),
            Step::Result(at) => {
                if let Some(call) = self.call(at) {
                    messages
                        .append(NewMessage::tool_result(call, text))
                        .unwrap();
                }
            }
            Step::Settle(at, how) => {
                if let Some(call) = self.call(at) {
                    session.tools().settle(&call, &settle(how, text)).unwrap();
                }
            }
            Step::Set(key) => {
                let (key, value) = (format!("k{key}"), json!(self.made));
                session.scratchpad().set(&key, &value).unwrap();
                self.told[self.at].notes.insert(key, value);
            }
            Step::Unset(key) => {
                let key = format!("k{key}");
                session.scratchpad().delete(&key).unwrap();
                self.told[self.at].notes.remove(&key);
            }
            Step::Compact(keep) => {
                // Before anything was said there is nothing to compact.
                let compacted = session.compact(&text, keep);
                assert_eq!(compacted.is_ok(), head(&session).is_some());
            }
            Step::Fork(at) => self.fork(&session, at),
            Step::Visit(at) => self.at = at % self.told.len(),
            Step::Move(at) => {
                if let Some(said) = self.message(at) {
                    self.go(&session, &said);
                    session.switch_to(&said.uuid).unwrap();
                    assert_eq!(head(&session), Some(said.uuid));
                }
            }
            Step::HangFrom(at, is_prompt) => {
                if let Some(said) = self.message(at) {
                    self.go(&session, &said);
                    let new = if is_prompt {
                        NewMessage::user(text)
                    } else {
                        NewMessage::assistant(text)
                    };
                    let options = AppendOptions::new().hang_from(&said.uuid);
                    let new = messages.append_with(new, &options).unwrap();
                    assert_eq!(head(&session), Some(new.uuid));
                }
            }
            Step::Entry(at) => {
                if let Some(parent) = self.message(at) {
                    let entry = json!({"type": "user", "uuid": format!("entry-{}", self.made), "parentUuid": parent.uuid,
                        "isSidechain": false, "message": {"role": "user", "content": text}});
                    let options = AppendOptions::new();
                    messages
                        .append_entries([entry.to_string()], &options)
                        .unwrap();
                }
            }
            Step::Reopen => self.reopen(),
        }
        self.told[self.at].take_in();
    }

    fn calls(&self, session: &Session, calls: usize, split: bool) {
        let block = |at| {
            let id = format!("call-{}-{at}", self.made);
            json!({"type": "tool_use", "id": id, "name": "X", "input": {"n": 1.0}})
        };
        let blocks: Vec<Value> = (0..calls).map(block).collect();
        let each: Vec<&[Value]> = blocks.chunks(if split { 1 } else { calls }).collect();
        for blocks in each {
            let response = json!({"id": format!("m{}", self.made), "role": "assistant", "content": blocks, "usage": {"output_tokens": 3}});
            let response = NewMessage::response(&response);
            session.messages().append(response).unwrap();
        }
    }

    fn fork(&mut self, session: &Session, at: Option<usize>) {
        let told = self.now();
        let cut = at.and_then(|at| at.checked_rem(told.messages.len()));
        let options = match cut {
            Some(cut) => ForkOptions::new().up_to(&told.messages[cut].uuid),
            None => ForkOptions::new(),
        };
        let fork = session.fork(&options).unwrap();
        let mut messages = told.messages.clone();
        messages.truncate(cut.map_or(messages.len(), |cut| cut + 1));
        let inherited = entries(&fork);
        assert_eq!(inherited.len(), messages.len());
        for (said, entry) in messages.iter_mut().zip(inherited) {
            said.uuid = entry["uuid"].as_str().unwrap().to_owned();
        }
        let notes = cut
            .map_or(&told.notes, |cut| &told.messages[cut].notes)
            .clone();
        let told = Told {
            session: fork,
            notes,
            messages,
            turn: None,
        };
        self.told.push(told);
        self.at = self.told.len() - 1;
    }

    /// The conversation is about to go on from a message: its notes are those of now.
    fn go(&mut self, session: &Session, to: &Said) {
        if head(session).as_deref() != Some(&to.uuid) {
            let told = &mut self.told[self.at];
            told.notes = to.notes.clone();
            told.turn = to.turn;
        }
    }

    fn message(&self, at: usize) -> Option<Said> {
        let messages = &self.now().messages;
        messages.get(at.checked_rem(messages.len())?).cloned()
    }

    fn call(&self, at: usize) -> Option<String> {
        let mut calls = self.now().session.tools().list().unwrap();
        let at = at.checked_rem(calls.len())?;
        Some(calls.swap_remove(at).id)
    }
}

fn open(path: &Path) -> Store {
    // A story is thrown away: it need not survive a power cut.
    let options = OpenOptions::new().durability(Durability::Normal);
    Store::open_with(path, &options).unwrap()
}

fn head(session: &Session) -> Option<String> {
    session.resume(&ResumeOptions::new()).unwrap().head
}

/// The entries of a transcript that are messages.
fn entries(session: &Session) -> Vec<Value> {
    let lines = session.transcript("").unwrap().into_iter();
    let entries = lines.map(|line| serde_json::from_str(&line.entry.unwrap()).unwrap());
    entries
        .filter(|entry: &Value| entry["uuid"].is_string())
        .collect()
}

fn settle(how: usize, text: String) -> Settle {
    match how {
        0 => Settle::Result(json!(text)),
        1 => Settle::Failed(json!(text)),
        2 => Settle::Rejected(text),
        3 => Settle::Interrupted,
        _ => Settle::Rerun,
    }
}
