//! Computing anew what every append keeps up: heads, counters, listings, calls and results, what imports know.

use std::collections::{BTreeMap, HashSet};

use super::counting::Counting;
use super::heads::mend_transcript;
use super::known::Known;
use crate::db::Tx;
use crate::error::Result;
use crate::store::history::History;
use crate::store::ledger::{find_inherited_call, write_ledger};
use crate::store::listing::is_listed;
use crate::tables::mending::{self as sql, forks, notes};
use crate::tables::messages::{self, Stored};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{tool_calls, tool_results};
use crate::transcript::ids::IdMap;
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

/// How many lines of a transcript are read at a time.
pub(super) const LINES: usize = 1000;
pub(super) const BYTES: usize = 8 << 20;

/// What mending has to know of the copy.
pub(super) struct Copied {
    /// The sessions whose row was made anew.
    pub(super) rowless: HashSet<i64>,
    /// Whether left turns were lost.
    pub(super) left_lost: bool,
}

/// Brings everything into agreement with the messages that are there: a session that was forked before its forks.
pub(super) fn mend(tx: &Tx<'_>, copied: &Copied, lost: &mut Vec<String>) -> Result<()> {
    sql::bind_parents(tx)?;
    let followed = notes::mend_chains(tx)?;
    if followed > 0 {
        lost.push(format!(
            "scratchpad: {followed} of its rows followed one that is lost; each follows the one as of its message now"
        ));
    }
    sql::forget_lost_turns(tx)?;
    let mut attempts = sql::forget_lost_calls(tx)?;
    let mut subpaths: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for (session, subpath) in sql::transcripts(tx)? {
        subpaths.entry(session).or_default().push(subpath);
    }
    for id in sql::session_ids(tx)? {
        if let Some(row) = sessions::find_any(tx, id)? {
            let subpaths = subpaths.remove(&id).unwrap_or_default();
            attempts += mend_session(tx, row, &subpaths, copied, lost)?;
        }
    }
    if attempts > 0 {
        lost.push(format!(
            "tool_attempts: {attempts} of its rows belonged to rows of tool_calls that are lost, and went with them"
        ));
    }
    for id in notes::without_newest(tx)?.iter().chain(&copied.rowless) {
        notes::find_newest(tx, *id)?;
    }
    sql::bind_results(tx)?;
    bind_inherited(tx)
}

/// Mends what belongs to one session, and answers how many attempts at its calls went.
fn mend_session(
    tx: &Tx<'_>,
    row: SessionRow,
    subpaths: &[String],
    copied: &Copied,
    lost: &mut Vec<String>,
) -> Result<usize> {
    let mut counting = Counting::begin(tx, &row)?;
    let mut ledger = Ledger::read(tx, row.id)?;
    for subpath in subpaths {
        let history = History::of(tx, &row, subpath)?;
        let mut known = None;
        if !row.is_deleted {
            let transcript = mend_transcript(tx, &row, &history, copied.left_lost)?;
            known = Some(Known::begin(tx, &row, &history, &transcript)?);
        }
        each_line(tx, row.id, subpath, |line, reading| {
            if subpath.is_empty() {
                counting.take(&line, reading)?;
            }
            if let Some(reading) = reading {
                ledger.mend(&line, subpath.is_empty(), reading)?;
            }
            if let Some(known) = &mut known {
                known.take(line);
            }
            Ok(())
        })?;
        if let Some(known) = known {
            known.compare(tx, lost)?;
        }
    }
    let (tally, said) = counting.end()?;
    if row.is_deleted {
        return Ok(ledger.attempts);
    }
    let is_new = copied.rowless.contains(&row.id);
    let has_others = subpaths.iter().any(|subpath| !subpath.is_empty());
    mend_row(tx, row, tally, said, is_new, has_others)?;
    Ok(ledger.attempts)
}

/// Makes a session's row agree with what was counted.
fn mend_row(
    tx: &Tx<'_>,
    mut row: SessionRow,
    counted: Tally,
    said: Option<i64>,
    is_new: bool,
    has_others: bool,
) -> Result<()> {
    let (created, newest) = (counted.listing.created_ms, counted.listing.newest_ms);
    let tally = Tally {
        listing: counted.listing.beside(&row.tally.listing),
        ..counted
    };
    if !is_new && said.is_none() && tally == row.tally {
        return Ok(());
    }
    row.tally = tally;
    row.listed = is_listed(&row.tally, has_others);
    row.conversed_ms = row.conversed_ms.or(said);
    if is_new {
        row.created_ms = created.map_or(row.created_ms, |time| time.min(row.created_ms));
        row.last_modified_ms = newest.unwrap_or(row.last_modified_ms);
    }
    Ok(sessions::update(tx, &row)?)
}

/// Calls `each` with every line of a transcript that is the session's own, and what it says if it holds a record.
pub(super) fn each_line(
    tx: &Tx<'_>,
    session: i64,
    subpath: &str,
    mut each: impl FnMut(Stored, Option<&Reading>) -> Result<()>,
) -> Result<()> {
    let mut after = 0;
    loop {
        let lines = messages::page(tx, (session, subpath, after, i64::MAX), LINES, BYTES)?;
        let Some(last) = lines.last() else {
            return Ok(());
        };
        after = last.seq;
        for line in lines {
            let reading = line.entry.as_deref().and_then(Reading::of_entry);
            each(line, reading.as_ref())?;
        }
    }
}

/// Binds the results in forks that answer a call they inherited.
fn bind_inherited(tx: &Tx<'_>) -> Result<()> {
    let mut history: Option<(i64, History)> = None;
    for (result, session, tool_use_id) in forks::unbound_results(tx)? {
        if history.as_ref().is_none_or(|(id, _)| *id != session) {
            let row = sessions::find_any(tx, session)?;
            let of_row = row.map(|row| History::of(tx, &row, "")).transpose()?;
            history = of_row.map(|history| (session, history));
        }
        if let Some((_, history)) = &history
            && let Some(call) = find_inherited_call(tx, history, &tool_use_id)?
        {
            forks::bind_result(tx, result, call)?;
        }
    }
    Ok(())
}

/// The calls and results of a session, by message.
struct Ledger<'t, 'c> {
    tx: &'t Tx<'c>,
    session: i64,
    calls: IdMap<Vec<String>>,
    results: IdMap<Vec<String>>,
    /// How many attempts at calls that were wrong went with them.
    attempts: usize,
}

impl<'t, 'c> Ledger<'t, 'c> {
    fn read(tx: &'t Tx<'c>, session: i64) -> Result<Self> {
        Ok(Self {
            tx,
            session,
            calls: tool_calls::by_message(tx, session)?,
            results: tool_results::by_message(tx, session)?,
            attempts: 0,
        })
    }

    /// Writes the calls and results of a message anew where they are not those that it holds.
    fn mend(&mut self, line: &Stored, is_main: bool, reading: &Reading) -> Result<()> {
        let (tx, session) = (self.tx, self.session);
        let calls = self.calls.remove(&line.id).unwrap_or_default();
        let results = self.results.remove(&line.id).unwrap_or_default();
        let held = reading.calls.iter().map(|call| &call.id);
        let answered = reading.results.iter().map(|answer| &answer.call);
        if calls.iter().eq(held) && results.iter().eq(answered) {
            return Ok(());
        }
        // A row that repeats a uuid has no calls of its own.
        let answers = reading.uuid.is_none() || line.uuid.is_some();
        if !calls.is_empty() || !results.is_empty() {
            self.attempts += sql::forget_calls_of(tx, session, line.id)?;
        }
        if answers {
            let (turn, stored_ms) = sql::times(tx, line.id)?;
            // Which call a result answers is told when all are there.
            let place = (line.id, turn, is_main);
            write_ledger(&tx.at(stored_ms), session, place, reading, |_| Ok(None))?;
        }
        Ok(())
    }
}
