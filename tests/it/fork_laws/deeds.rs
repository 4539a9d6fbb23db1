//! What is done to one session changes no other, and nothing is left of what is deleted.

use std::collections::HashMap;

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};
use turnkeep::{AppendOptions, ForkOptions, Kin, NewMessage, Session};

use super::sessions::{Maker, Step, steps};
use super::{check_uuids, imported, messages, new_store, runner};
use crate::kit::{TestStore, all_sessions, exported};

/// What is done to a session, and at which of its messages.
#[derive(Clone, Debug)]
enum Deed {
    Append,
    Late(usize),
    Switch(usize),
    Rename,
    Fork(usize),
    ForkHead,
    Delete,
    /// The parent that a broken link names is written at last.
    Fill(usize),
    Agent,
    DeleteAgent,
    /// The file it was imported from has grown.
    Grow(Vec<Step>),
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Deed)>> {
    let deed = prop_oneof![
        3 => Just(Deed::Append),
        2 => any::<usize>().prop_map(Deed::Late),
        2 => any::<usize>().prop_map(Deed::Switch),
        1 => Just(Deed::Rename),
        4 => any::<usize>().prop_map(Deed::Fork),
        2 => Just(Deed::ForkHead),
        2 => Just(Deed::Delete),
        2 => any::<usize>().prop_map(Deed::Fill),
        2 => Just(Deed::Agent),
        1 => Just(Deed::DeleteAgent),
        1 => steps(5).prop_map(Deed::Grow),
    ];
    prop::collection::vec((any::<usize>(), deed), 4..16)
}

const AGENT: &str = "subagents/agent-a1";

fn agent_call() -> Value {
    json!({"type": "assistant", "isSidechain": true, "agentId": "a1", "message": {"id": "m", "role": "assistant", "content": [{"type": "tool_use", "id": "toolu_agent", "name": "Bash", "input": {}}]}})
}

struct World {
    test: TestStore,
    maker: Maker,
    sessions: Vec<Session>,
    written: usize,
}

impl World {
    fn new(steps: &[Step]) -> Self {
        let test = new_store();
        let mut maker = Maker::new(1);
        maker.write(steps);
        let source = imported(&test, "p", &maker.session_id, maker.file().as_bytes());
        Self {
            test,
            maker,
            sessions: vec![source],
            written: 0,
        }
    }

    fn do_to(&mut self, who: usize, deed: &Deed) {
        let session = self.sessions[who].clone();
        let messages = messages(&session);
        let at = |at: usize| {
            at.checked_rem(messages.len())
                .map(|at| messages[at].as_str())
        };
        self.written += 1;
        let (text, uuid) = (
            format!("deed {}", self.written),
            format!("{}-{}", session.id(), self.written),
        );
        let raw = |entry: Value| {
            session
                .messages()
                .append_entries([entry.to_string()], &AppendOptions::new())
                .unwrap();
        };
        match deed {
            Deed::Append => drop(session.messages().append(NewMessage::user(text)).unwrap()),
            Deed::Late(place) => raw(
                json!({"type": "assistant", "uuid": uuid, "parentUuid": at(*place), "message": {"id": uuid, "role": "assistant", "content": text}}),
            ),
            Deed::Switch(place) => at(*place)
                .into_iter()
                .for_each(|at| session.switch_to(at).unwrap()),
            Deed::Rename => session.rename(&text).unwrap(),
            Deed::Fork(place) => {
                let forks =
                    at(*place).map(|at| session.fork(&ForkOptions::new().up_to(at)).unwrap());
                self.sessions.extend(forks);
            }
            Deed::ForkHead => self
                .sessions
                .push(session.fork(&ForkOptions::new()).unwrap()),
            Deed::Delete => {
                session.delete().unwrap();
                self.sessions.remove(who);
            }
            Deed::Fill(place) => {
                let missing = &self.maker.missing;
                if let Some(at) = place.checked_rem(missing.len()) {
                    let parent = messages.first();
                    raw(
                        json!({"type": "user", "uuid": missing[at], "parentUuid": parent, "message": {"role": "user", "content": text}}),
                    );
                }
            }
            Deed::Agent => {
                let mut entry = agent_call();
                entry["uuid"] = json!(uuid);
                let options = AppendOptions::new().to_subpath(AGENT);
                session
                    .messages()
                    .append_entries([entry.to_string()], &options)
                    .unwrap();
            }
            Deed::DeleteAgent => {
                let key = session.key().transcript(AGENT);
                self.test.store.session_store().delete(&key).unwrap();
            }
            Deed::Grow(steps) => {
                self.maker.write(steps);
                if session.id() == self.maker.session_id {
                    imported(&self.test, "p", session.id(), self.maker.file().as_bytes());
                }
            }
        }
    }

    /// Everything that is shown of a session.
    fn shown(session: &Session) -> Vec<String> {
        let mut shown = vec![
            format!("{:?}", session.info().unwrap()),
            format!("{:?}", session.conversation("").unwrap()),
            format!("{:?}", session.context("").unwrap()),
            format!("{:?}", session.branches().unwrap()),
        ];
        // The message that a client's copy was made at goes with its origin.
        let is_this = |kin: &&Kin| kin.key == *session.key() && !kin.is_inferred;
        let family = session.family().unwrap();
        shown.extend(
            family
                .iter()
                .find(is_this)
                .map(|kin| format!("{:?}", kin.forked_at)),
        );
        for subpath in session
            .subpaths()
            .unwrap()
            .into_iter()
            .chain([String::new()])
        {
            let text = String::from_utf8(exported(session, &subpath)).unwrap();
            shown.extend(text.lines().map(String::from));
        }
        shown
    }

    fn all_shown(&self) -> HashMap<String, Vec<String>> {
        let shown = |session: &Session| (session.id().to_owned(), Self::shown(session));
        self.sessions.iter().map(shown).collect()
    }
}

/// Fails with the first thing that differs.
fn assert_same(now: &[String], before: &[String], deed: &Deed) {
    for (now, before) in now.iter().zip(before) {
        assert_eq!(now, before, "{deed:?}");
    }
    assert_eq!(now.len(), before.len(), "{deed:?}");
}

#[test]
fn what_is_done_to_one_session_changes_no_other() {
    let cases = (steps(16), deeds());
    let judged = runner(40).run(&cases, |(steps, deeds)| {
        let mut world = World::new(&steps);
        let mut shown = world.all_shown();
        for (who, deed) in &deeds {
            let Some(who) = who.checked_rem(world.sessions.len()) else {
                break;
            };
            let id = world.sessions[who].id().to_owned();
            world.do_to(who, deed);
            let now = world.all_shown();
            for (other, before) in shown.iter().filter(|(other, _)| **other != id) {
                assert_same(&now[other], before, deed);
            }
            shown = now;
        }
        check_uuids(&world.sessions, &world.maker.missing);
        assert_eq!(world.test.store.verify().unwrap().findings, []);
        for session in &world.sessions {
            session.delete().unwrap();
        }
        check_nothing_is_left(&world.test);
        Ok(())
    });
    judged.unwrap();
}

fn check_nothing_is_left(test: &TestStore) {
    let db = Connection::open(test.path("store.db")).unwrap();
    for table in [
        "messages",
        "tool_calls",
        "tool_results",
        "lineage",
        "listing_marks",
        "left_turns",
        "session_files",
        "blobs",
        "blob_parts",
        "import_sources",
        "transcripts",
    ] {
        let count = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get(0)
        });
        assert_eq!(count, Ok(0), "{table}");
    }
    assert_eq!(test.store.verify().unwrap().findings, []);
}

#[test]
fn nothing_is_left_of_real_sessions_and_their_forks_in_whatever_order_they_go() {
    let cases = prop::collection::vec((any::<usize>(), any::<usize>()), 3..10);
    let runs = ["subagent_checkpoint", "parallel", "compact_manual"];
    let judged = runner(4).run(&cases, |cuts| {
        for run in runs {
            let (test, _) = TestStore::with(&format!("transcripts/{run}"));
            let mut sessions = all_sessions(&test.store);
            for (who, at) in &cuts {
                let from = &sessions[who % sessions.len()];
                let messages = messages(from);
                let fork = from
                    .fork(&ForkOptions::new().up_to(&messages[at % messages.len()]))
                    .unwrap();
                sessions.push(fork);
            }
            let mut shown: Vec<_> = sessions.iter().map(World::shown).collect();
            for (_, turn) in cuts.iter().cycle() {
                let Some(at) = turn.checked_rem(sessions.len()) else {
                    break;
                };
                sessions.remove(at).delete().unwrap();
                shown.remove(at);
                let now: Vec<_> = sessions.iter().map(World::shown).collect();
                for (now, before) in now.iter().zip(&shown) {
                    assert_same(now, before, &Deed::Delete);
                }
            }
            check_nothing_is_left(&test);
        }
        Ok(())
    });
    judged.unwrap();
}
