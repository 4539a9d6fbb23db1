//! Telling changes: a row with all that belongs to it.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Connection;

use super::View;
use super::contents::Contents;
use super::effects::{Deed, NEWEST, effect, in_order};
use super::uuid_in;
use crate::error::{Error, Result};
use crate::model::{CallRef, Change, ChangeSource, Effect, PromptRef, StateInfo, StateKind};
use crate::store::checkpoints::text_of;
use crate::tables::audit::{blob_facts, tool_of};
use crate::tables::file_changes::{self, ChangeRow};
use crate::tables::file_states::{PathRow, StateRow, path_of};
use crate::tables::sessions::{self, SessionRow};

/// How much of a prompt is told, in characters.
const TEXT: usize = 2_000;

/// How many paths' chains are remembered.
const CHAINS: usize = 64;

/// Tells changes one after another, and remembers what it looked up.
pub(super) struct Teller<'d> {
    pub(super) contents: Contents<'d>,
    view: Option<&'d View>,
    brief: bool,
    sessions: HashMap<i64, Rc<SessionRow>>,
    prompts: HashMap<(i64, i64), Option<PromptRef>>,
    /// The chains of paths, each from a change on.
    chains: HashMap<PathRow, (i64, Rc<Vec<ChangeRow>>)>,
}

impl<'d> Teller<'d> {
    pub(super) fn new(db: &'d Connection, view: Option<&'d View>, brief: bool) -> Self {
        Self {
            contents: Contents::new(db),
            view,
            brief,
            sessions: HashMap::new(),
            prompts: HashMap::new(),
            chains: HashMap::new(),
        }
    }

    fn db(&self) -> &'d Connection {
        self.contents.db
    }

    /// A change with all that belongs to it.
    pub(super) fn tell(&mut self, row: &ChangeRow) -> Result<Change> {
        let db = self.db();
        let session = self.session(row.session)?;
        let seen_in = self.view.map_or(session.id, |view| view.row.id);
        let (mut counts, mut ended_by, mut came) = (None, None, Effect::Unknown);
        if !self.brief
            && let Some(deed) = Deed::of(&self.contents, row)?
        {
            let chain = self.chain(row)?;
            counts = deed.counts();
            (came, ended_by) = effect(&self.contents, row, &deed, &chain)?;
        }
        let call = match &row.tool_use_id {
            Some(id) => Some(CallRef {
                id: id.clone(),
                tool: match row.call {
                    Some(call) => tool_of(db, call)?,
                    None => None,
                },
            }),
            None => None,
        };
        Ok(Change {
            id: row.id,
            path: row.path.path(),
            session: session.key.clone(),
            is_inherited: session.id != seen_in,
            is_deleted: session.is_deleted,
            source: ChangeSource::from_word(&row.source),
            operation: row.operation,
            prompt: match self.view.map_or(row.turn, |view| view.turn(row)) {
                Some(turn) => self.prompt(seen_in, turn)?,
                None => None,
            },
            call,
            agent: row.agent.clone(),
            before: state_info(db, &row.before)?,
            after: match &row.after {
                Some(after) => Some(state_info(db, after)?),
                None => None,
            },
            is_late: row.is_late,
            insertions: counts.map(|counts| counts.0),
            deletions: counts.map(|counts| counts.1),
            effect: came,
            ended_by,
            at_ms: row.before_ms,
            after_ms: row.after_ms,
        })
    }

    pub(super) fn session(&mut self, id: i64) -> Result<Rc<SessionRow>> {
        if let Some(known) = self.sessions.get(&id) {
            return Ok(known.clone());
        }
        let found = sessions::find_any(self.db(), id)?;
        let row = Rc::new(found.ok_or_else(|| Error::no_session(format!("row {id}")))?);
        self.sessions.insert(id, row.clone());
        Ok(row)
    }

    fn prompt(&mut self, session: i64, turn: i64) -> Result<Option<PromptRef>> {
        if let Some(known) = self.prompts.get(&(session, turn)) {
            return Ok(known.clone());
        }
        let row = self.session(session)?;
        let prompt = match uuid_in(self.db(), &row, turn)? {
            Some(uuid) => Some(PromptRef {
                uuid,
                text: text_of(self.db(), turn)?.map(|text| text.chars().take(TEXT).collect()),
            }),
            None => None,
        };
        self.prompts.insert((session, turn), prompt.clone());
        Ok(prompt)
    }

    /// Tells some changes. Of each path the chain is read once, from the first of them on.
    pub(super) fn tell_all(&mut self, rows: &[ChangeRow]) -> Result<Vec<Change>> {
        let mut first: HashMap<&PathRow, &ChangeRow> = HashMap::new();
        for row in rows {
            let known = first.entry(&row.path).or_insert(row);
            if begin(row) < begin(known) {
                *known = row;
            }
        }
        if !self.brief && first.len() <= CHAINS {
            for row in first.into_values() {
                self.chain(row)?;
            }
        }
        rows.iter().map(|row| self.tell(row)).collect()
    }

    /// The chain of a change's path, at least from that change on.
    fn chain(&mut self, row: &ChangeRow) -> Result<Rc<Vec<ChangeRow>>> {
        let from = begin(row);
        match self.chains.get(&row.path) {
            Some((known, chain)) if *known <= from => return Ok(chain.clone()),
            _ => {}
        }
        let rows = file_changes::newest_of_path(self.db(), &row.path, from, NEWEST)?;
        let chain = Rc::new(in_order(&self.contents.copies, rows)?);
        if self.chains.len() >= CHAINS {
            self.chains.clear();
        }
        self.chains.insert(row.path.clone(), (from, chain.clone()));
        Ok(chain)
    }
}

/// The first change of the path that may have come behind this one: what was recorded before it came
/// before it, unless it was imported.
fn begin(row: &ChangeRow) -> i64 {
    match ChangeSource::from_word(&row.source) {
        ChangeSource::Import => 0,
        _ => row.id,
    }
}

/// A state without its content.
pub(in crate::store) fn state_info(db: &Connection, state: &StateRow) -> Result<StateInfo> {
    let mut info = StateInfo {
        kind: StateKind::Absent,
        hash: None,
        bytes: None,
        mode: None,
        target: None,
        reason: None,
    };
    match state {
        StateRow::Absent => {}
        StateRow::File { blob, mode } => {
            info.kind = StateKind::File;
            info.mode = *mode;
            if let Some((hash, bytes)) = blob_facts(db, *blob)? {
                info.hash = Some(hash.iter().map(|byte| format!("{byte:02x}")).collect());
                info.bytes = u64::try_from(bytes).ok();
            }
        }
        StateRow::Symlink { target } => {
            info.kind = StateKind::Symlink;
            info.target = Some(path_of(target));
        }
        StateRow::Directory => info.kind = StateKind::Directory,
        StateRow::NotKept { why } => {
            info.kind = StateKind::NotKept;
            info.reason = Some(why.clone());
        }
    }
    Ok(info)
}
