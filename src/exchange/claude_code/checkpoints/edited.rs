//! The edits that a session's transcripts tell of: where they stand among the client's checkpoints,
//! and what they did.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use rusqlite::Connection;

use super::recorded::{Noted, Recorded};
use crate::error::Result;
use crate::store::{Bound, History, launched_by, resolve_path};
use crate::tables::file_states::PathRow;
use crate::tables::sessions::SessionRow;
use crate::tables::tool_calls::{self, CallRow};
use crate::tables::{messages, tool_results};
use crate::transcript::edits::{EDITORS, Edit, READER, Seen, answer};
use crate::transcript::json::Object;

/// How many bytes of contents that were followed are kept at hand.
const AT_HAND: usize = 64 << 20;

/// An edit that succeeded.
#[derive(Clone, Debug)]
pub(super) struct Edited {
    pub(super) call: i64,
    pub(super) tool_use_id: String,
    pub(super) subpath: String,
    pub(super) agent: Option<String>,
    pub(super) path: PathRow,
    /// The message that holds its result.
    pub(super) answer: i64,
    pub(super) at_ms: i64,
    /// The turn and the message that it belongs to.
    pub(super) place: Bound,
    /// The message of the call.
    pub(super) message: i64,
    /// How many of the prompts that were noted came before it.
    pub(super) behind: usize,
}

/// The edits of a session, in the order in which they were made.
pub(super) fn edits(
    db: &Connection,
    session: &SessionRow,
    history: &History,
    recorded: &Recorded,
) -> Result<Vec<Edited>> {
    let mut found: Vec<Edited> = Vec::new();
    let mut launches: HashMap<String, Option<Bound>> = HashMap::new();
    // Within a transcript the order is that of its lines, whatever its clock says.
    let mut clocks: HashMap<String, i64> = HashMap::new();
    tool_calls::each_of(db, (session.id, None), tools(), |call| -> Result<()> {
        if call.name == READER {
            return Ok(());
        }
        let Some(answer) = success(db, &call)? else {
            return Ok(());
        };
        let Some(path) = path_of(session, &call) else {
            return Ok(());
        };
        let clock = clocks.entry(call.subpath.clone()).or_insert(i64::MIN);
        let at_ms = messages::said_ms(db, answer)?.unwrap_or(0).max(*clock);
        *clock = at_ms;
        let (place, behind) = if call.subpath.is_empty() {
            let place = Bound {
                call: Some(call.id),
                turn: call.turn,
                message: Some(call.message),
            };
            (place, before(&recorded.points, call.message))
        } else {
            let launch = match launches.get(&call.subpath) {
                Some(launch) => *launch,
                None => {
                    let launch = launched_by(db, session.id, history, &call.subpath)?;
                    *launches.entry(call.subpath.clone()).or_insert(launch)
                }
            };
            let place = launch.unwrap_or_default();
            let launched = place.message.map_or(0, |at| before(&recorded.points, at));
            let by_clock = recorded.behind(at_ms);
            let place = Bound {
                call: Some(call.id),
                ..place
            };
            (place, by_clock.max(launched))
        };
        found.push(Edited {
            call: call.id,
            tool_use_id: call.tool_use_id,
            subpath: call.subpath,
            agent: call.agent,
            path: PathRow::of(&path),
            answer,
            at_ms,
            place,
            message: call.message,
            behind,
        });
        Ok(())
    })?;
    found.sort_by_key(|edit| (edit.behind, edit.at_ms, edit.message, edit.call));
    Ok(found)
}

fn tools() -> [&'static str; 5] {
    let [a, b, c, d] = EDITORS;
    [a, b, c, d, READER]
}

/// How many of the noted prompts stand before a message, or are it.
pub(super) fn before(points: &[Noted], message: i64) -> usize {
    points.partition_point(|point| point.message <= message)
}

/// The message with the result of a call that succeeded.
fn success(db: &Connection, call: &CallRow) -> Result<Option<i64>> {
    let mut results = tool_results::of_call(db, call.id)?.into_iter();
    Ok(results
        .find(|(_, outcome)| outcome == "ok")
        .map(|(message, _)| message))
}

fn path_of(session: &SessionRow, call: &CallRow) -> Option<PathBuf> {
    let input = String::from_utf8_lossy(&call.input);
    let input = Object::parse(&input)?;
    let mut names = ["file_path", "notebook_path"].into_iter();
    let named = names.find_map(|name| input.string(name))?;
    let base = session.tally.listing.cwd.as_deref().unwrap_or_default();
    resolve_path(&PathBuf::from(base).join(&*named)).ok()
}

/// What edits did, read or followed when it is asked for.
pub(super) struct Contents<'a> {
    db: &'a Connection,
    session: i64,
    /// The calls that will be asked for.
    wanted: HashSet<i64>,
    followed: HashMap<String, HashMap<i64, Edit>>,
    bytes: usize,
}

impl<'a> Contents<'a> {
    pub(super) fn new(db: &'a Connection, session: i64, wanted: HashSet<i64>) -> Self {
        Self {
            db,
            session,
            wanted,
            followed: HashMap::new(),
            bytes: 0,
        }
    }

    /// What an edit did; `None` if nothing tells.
    pub(super) fn of(&mut self, edit: &Edited) -> Result<Option<Edit>> {
        let entry = messages::entry(self.db, edit.answer)?;
        if let Some(told) = entry.as_deref().and_then(Edit::told) {
            return Ok(Some(told));
        }
        if edit.subpath.is_empty() {
            return Ok(None);
        }
        if !self.followed.contains_key(&edit.subpath) {
            if self.bytes > AT_HAND {
                self.followed.clear();
                self.bytes = 0;
            }
            let followed = self.follow(&edit.subpath)?;
            self.followed.insert(edit.subpath.clone(), followed);
        }
        let followed = self.followed.get(&edit.subpath);
        Ok(followed.and_then(|edits| edits.get(&edit.call).cloned()))
    }

    /// Follows what a sub-agent read and wrote.
    fn follow(&mut self, subpath: &str) -> Result<HashMap<i64, Edit>> {
        let (db, session) = (self.db, self.session);
        let (mut seen, mut found) = (Seen::default(), HashMap::new());
        tool_calls::each_of(
            db,
            (session, Some(subpath)),
            tools(),
            |call| -> Result<()> {
                let Some(message) = success(db, &call)? else {
                    return Ok(());
                };
                let entry = messages::entry(db, message)?.unwrap_or_default();
                let result = answer(&entry, &call.tool_use_id).unwrap_or_default();
                let input = String::from_utf8_lossy(&call.input);
                let edit = seen.follow(&call.name, &input, &result);
                if let Some(edit) = edit.filter(|_| self.wanted.contains(&call.id)) {
                    self.bytes += edit.after.as_ref().map_or(0, String::len);
                    found.insert(call.id, edit);
                }
                Ok(())
            },
        )?;
        Ok(found)
    }
}
