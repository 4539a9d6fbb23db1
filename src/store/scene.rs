//! The execution scene: what a restarted process needs to go on with a task.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;
use serde_json::Value;

use super::context::{self, Context};
use super::conversation::main_line;
use super::history::History;
use super::phases::Phase;
use super::scratchpad;
use super::session::Session;
use super::tools::{calls, pending_of};
use super::way::way_to;
use super::write::SessionTx;
use crate::error::{Error, Result};
use crate::model::ToolCall;
use crate::tables::messages::{self, LightKind};
use crate::tables::{tool_calls, tool_results, transcripts};
use crate::transcript::context::OpenEnd;
use crate::transcript::dialect::Said;
use crate::transcript::json::Object;
use crate::transcript::prompt::Opens;
use crate::transcript::reading::Reading;

/// The scratchpad keys under which an app's own words for the scene are kept, so that forks and
/// branches each have theirs.
const TASK: &str = "turnkeep:task";
const ROUNDS_BEFORE: &str = "turnkeep:rounds_before";
const TOKENS_BEFORE: &str = "turnkeep:tokens_before";

/// Where a task stands.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The task: what the app set, else the whole text of the first prompt.
    pub task: Option<String>,
    /// How many rounds have run: model responses with calls, and the results that answer them.
    /// Counted along the conversation, back through compactions.
    pub rounds: u64,
    /// The tokens used, as a limit counts them: what the app added, and the output tokens of each
    /// response once.
    pub tokens_used: u64,
    /// All sums, each response counted once.
    pub tokens: Tokens,
    /// The messages: they end at an open call, if there is one, and no result is made up.
    pub context: Context,
    /// The calls that have no result.
    pub pending: Vec<ToolCall>,
    /// The session's notes.
    pub scratchpad: BTreeMap<String, Value>,
    /// Its tasks, by name, with their phases in order.
    pub phases: BTreeMap<String, Vec<Phase>>,
}

/// Tokens along a conversation, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Read by the model.
    pub input: u64,
    /// Written by it.
    pub output: u64,
    /// Read from the prompt cache.
    pub cache_read: u64,
    /// Written to it.
    pub cache_write: u64,
}

impl Session {
    /// The execution scene: all that a restarted process needs to go on with the task, in one
    /// reading. Its context is the save point as it is, and ends at an open call; once the calls
    /// are settled, or to go on from an earlier message, [`Self::resume`] tells what a model is to
    /// be sent. Changes nothing and starts nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn scene(&self) -> Result<Scene> {
        self.store().db().read(|db| {
            let row = self.row(db)?;
            let history = History::of(db, &row, "")?;
            let head = transcripts::head(db, row.id, "")?;
            let spent = spent(db, &history, head)?;
            let notes = scratchpad::now(db, row.id)?;
            let own = &notes.reserved;
            let number = |key: &str| own.get(key).and_then(Value::as_u64).unwrap_or(0);
            let task = own.get(TASK).and_then(Value::as_str);
            // A list shows a slash command where nothing else was said.
            let listed = || row.tally.listing.first_prompt().map(String::from);
            Ok(Scene {
                task: task
                    .map(String::from)
                    .or(spent.first_prompt)
                    .or_else(listed),
                rounds: number(ROUNDS_BEFORE) + spent.rounds,
                tokens_used: number(TOKENS_BEFORE) + spent.tokens.output,
                tokens: spent.tokens,
                context: context::read_from(db, &history, head, OpenEnd::Left)?,
                pending: pending_of(calls(db, &row, &history)?),
                phases: self.phases_in(own)?,
                scratchpad: notes.of_the_app,
            })
        })
    }

    /// Sets the task, in place of the first prompt.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank one.
    pub fn set_task(&self, task: &str) -> Result<()> {
        if task.trim().is_empty() {
            return Err(Error::invalid("task", "it is blank"));
        }
        self.write(|tx| tx.set_task(task))
    }

    /// Adds tokens that no stored response tells of to those used.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted.
    pub fn add_tokens(&self, tokens: u64) -> Result<()> {
        self.write(|tx| tx.add_spent(0, tokens))
    }
}

impl SessionTx<'_, '_> {
    /// Counts on from these numbers: what the stored messages tell of is a part of them.
    pub(crate) fn count_on_from(&self, rounds: u64, tokens: u64) -> Result<()> {
        let row = self.row()?;
        let history = History::of(self.tx(), &row, "")?;
        let spent = spent(
            self.tx(),
            &history,
            transcripts::head(self.tx(), row.id, "")?,
        )?;
        self.add_spent(
            rounds.saturating_sub(spent.rounds),
            tokens.saturating_sub(spent.tokens.output),
        )
    }

    /// Adds rounds and tokens that no stored message tells of.
    fn add_spent(&self, rounds: u64, tokens: u64) -> Result<()> {
        for (key, more) in [(ROUNDS_BEFORE, rounds), (TOKENS_BEFORE, tokens)] {
            if more == 0 {
                continue;
            }
            let before = self.noted(key)?.and_then(|note| note.as_u64());
            let before = before.unwrap_or(0);
            self.set_reserved(key, before.saturating_add(more))?;
        }
        Ok(())
    }

    /// Sets the task.
    pub(crate) fn set_task(&self, task: &str) -> Result<()> {
        self.set_reserved(TASK, task)
    }
}

#[derive(Default)]
struct Spent {
    first_prompt: Option<String>,
    rounds: u64,
    tokens: Tokens,
}

/// What the way to a message cost, back through compactions.
fn spent(db: &Connection, history: &History, head: Option<i64>) -> Result<Spent> {
    let mut spent = Spent::default();
    let (mut calls, mut results) = (HashMap::new(), HashSet::new());
    let (rows, line) = main_line(db, history, 0)?;
    // An origin's results behind the cut answer nothing here.
    let shown: HashSet<i64> = rows.iter().map(|row| row.id).collect();
    for part in &history.parts {
        calls.extend(tool_calls::by_message(db, part.owner)?);
        let of_part = tool_results::by_message(db, part.owner)?.into_iter();
        let of_part = of_part.filter(|(message, _)| shown.contains(message));
        results.extend(of_part.flat_map(|(_, calls)| calls));
    }
    let mut users: Vec<(usize, i64)> = Vec::new();
    let mut counted: HashMap<String, Tokens> = HashMap::new();
    let mut rounds: HashMap<String, bool> = HashMap::new();
    way_to(db, history, (&rows, &line), head, |place| {
        let row = &rows[place];
        if row.kind == LightKind::User && !row.is_meta {
            users.push((place, row.id));
        }
        if row.kind != LightKind::Assistant {
            return Ok(());
        }
        let response = &line.links[place].response;
        let response = response.clone().unwrap_or_else(|| row.id.to_string());
        // Early entries of a response hold partial counts: the last one's stand.
        counted.insert(response.clone(), tokens(messages::usage(db, row.id)?));
        for call in calls.get(&row.id).into_iter().flatten() {
            let answered = rounds.entry(response.clone()).or_insert(true);
            *answered = *answered && results.contains(call);
        }
        Ok(())
    })?;
    users.sort_unstable();
    spent.first_prompt = first_prompt(db, users.iter().map(|(_, id)| *id))?;
    spent.rounds = rounds.values().filter(|answered| **answered).count() as u64;
    for tokens in counted.values() {
        spent.tokens.input += tokens.input;
        spent.tokens.output += tokens.output;
        spent.tokens.cache_read += tokens.cache_read;
        spent.tokens.cache_write += tokens.cache_write;
    }
    Ok(spent)
}

/// What the first prompt among these messages says, all of it.
fn first_prompt(db: &Connection, users: impl Iterator<Item = i64>) -> Result<Option<String>> {
    for id in users {
        let entry = messages::entry(db, id)?;
        if let Some(text) = entry.as_deref().and_then(prompt_text) {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn prompt_text(entry: &str) -> Option<String> {
    let reading = Reading::of_entry(entry)?;
    let message = Object::parse(entry)?.object("message")?;
    let text = Said::read(&message).texts().join("\n");
    (reading.opens == Some(Opens::Prompt) && !text.trim().is_empty()).then_some(text)
}

fn tokens(counts: [Option<i64>; 4]) -> Tokens {
    let [input, output, cache_read, cache_write] =
        counts.map(|count| u64::try_from(count.unwrap_or(0)).unwrap_or(0));
    Tokens {
        input,
        output,
        cache_read,
        cache_write,
    }
}
