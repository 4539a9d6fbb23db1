//! Rows that stand where they cannot have stood, sessions without a row, and what is missing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use super::order::out_of_order;
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;
use crate::tables::mending::{self as sql, Rowless, forks};
use crate::tables::operations;
use crate::tables::salvage::{self, Table};

/// The project key of sessions whose row is lost.
const PROJECT: &str = "salvaged";

/// A transcript: its session's row, and its subpath.
type Transcript = (i64, String);

/// Where the messages of each transcript stand: id and seq, by id.
pub(super) struct Places(BTreeMap<Transcript, Vec<(i64, i64)>>);

/// The seqs that each transcript lacks, as ranges.
pub(super) struct Missing(BTreeMap<Transcript, Vec<(i64, i64)>>);

impl Missing {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, session: i64, subpath: &str, seq: i64) -> bool {
        let ranges = self.0.get(&(session, subpath.to_owned()));
        ranges.is_some_and(|ranges| {
            ranges
                .iter()
                .any(|(first, last)| (first..=last).contains(&&seq))
        })
    }
}

impl Places {
    pub(super) fn read(tx: &Tx<'_>) -> Result<Self> {
        let mut places: BTreeMap<Transcript, Vec<(i64, i64)>> = BTreeMap::new();
        sql::standings(tx, |place| {
            places
                .entry((place.session, place.subpath))
                .or_default()
                .push((place.id, place.seq));
        })?;
        Ok(Self(places))
    }

    /// Takes away the messages whose seq does not rise with their id: both are given in the same order, so one of the
    /// two is not what it was. Returns their ids.
    pub(super) fn take_misplaced_away(&mut self, tx: &Tx<'_>) -> Result<Vec<i64>> {
        let mut misplaced = Vec::new();
        for rows in self.0.values_mut() {
            let seqs: Vec<i64> = rows.iter().map(|(_, seq)| *seq).collect();
            let out: HashSet<usize> = out_of_order(&seqs).into_iter().collect();
            let mut place = 0;
            rows.retain(|(id, _)| {
                let out = out.contains(&place);
                place += 1;
                if out {
                    misplaced.push(*id);
                }
                !out
            });
        }
        for id in &misplaced {
            salvage::take_away(tx, "messages", *id)?;
        }
        Ok(misplaced)
    }

    /// What is not there of the transcripts of live sessions, and of what forks show of others: seqs are given without
    /// gaps, but for those that are noted.
    pub(super) fn missing(&self, tx: &Tx<'_>) -> Result<Missing> {
        let deleted = sql::deleted_sessions(tx)?;
        let inherited = forks::inherited_seqs(tx)?;
        let shown = forks::shown_seqs(tx)?;
        let noted: BTreeMap<Transcript, i64> = sql::next_seqs(tx)?.into_iter().collect();
        let completed = completed(tx)?;
        let mut missing = BTreeMap::new();
        for transcript in noted.keys().chain(self.0.keys()) {
            let (session, subpath) = transcript;
            let is_deleted = deleted.contains(session);
            let shown = shown.get(session).filter(|_| subpath.is_empty());
            if missing.contains_key(transcript) || (is_deleted && shown.is_none()) {
                continue;
            }
            let mut next = match inherited.get(session) {
                Some(last) if subpath.is_empty() => last + 1,
                _ => 1,
            };
            let rows = self.0.get(transcript).into_iter().flatten();
            let mut seqs: BTreeSet<i64> = rows.map(|(_, seq)| *seq).collect();
            seqs.extend(completed.get(transcript).into_iter().flatten());
            let mut gaps = Vec::new();
            for seq in seqs {
                if seq > next {
                    gaps.push((next, seq - 1));
                }
                next = next.max(seq.saturating_add(1));
            }
            let noted = noted.get(transcript).filter(|_| !is_deleted).copied();
            let cut = shown.map_or(0, |last| last.saturating_add(1));
            let end = noted.unwrap_or(next).max(cut);
            if end > next {
                gaps.push((next, end - 1));
            }
            if !gaps.is_empty() {
                missing.insert(transcript.clone(), gaps);
            }
        }
        Ok(Missing(missing))
    }
}

/// The numbers of half lines that were stored whole under another.
fn completed(tx: &Tx<'_>) -> Result<BTreeMap<Transcript, Vec<i64>>> {
    let mut completed: BTreeMap<Transcript, Vec<i64>> = BTreeMap::new();
    for (session, detail) in operations::completions(tx)? {
        let detail: Value = serde_json::from_str(&detail).unwrap_or_default();
        if let (Some(subpath), Some(seq)) = (detail["subpath"].as_str(), detail["seq"].as_i64()) {
            let transcript = (session, subpath.to_owned());
            completed.entry(transcript).or_default().push(seq);
        }
    }
    Ok(completed)
}

pub(super) fn tell_misplaced(misplaced: &[i64], lost: &mut Vec<String>) {
    lost.extend(
        misplaced
            .iter()
            .map(|id| format!("messages: row {id}: in a wrong place of its transcript")),
    );
}

/// Says which entries are missing.
pub(super) fn tell_missing(tx: &Tx<'_>, missing: &Missing, lost: &mut Vec<String>) -> Result<()> {
    let shown = forks::shown_seqs(tx)?;
    for ((id, subpath), gaps) in &missing.0 {
        let session = sql::session_name(tx, *id)?;
        let transcript = transcript_name(subpath);
        let shown = shown.get(id).filter(|_| subpath.is_empty());
        for (first, last) in gaps {
            let lines = if first == last {
                format!("line {first} is")
            } else {
                format!("lines {first} to {last} are")
            };
            let in_forks = match shown {
                Some(last) if first <= last => ", and in its forks",
                _ => "",
            };
            lost.push(format!(
                "messages: {lines} missing in the {transcript} of session {session}{in_forks}"
            ));
        }
    }
    Ok(())
}

/// A transcript's name in a sentence.
pub(super) fn transcript_name(subpath: &str) -> String {
    if subpath.is_empty() {
        "main transcript".to_owned()
    } else {
        format!("transcript `{subpath}`")
    }
}

/// Gives a row to each session that has lost it. Returns their ids.
pub(super) fn name_sessions(tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<HashSet<i64>> {
    let rowless = sql::rowless_sessions(tx)?;
    for row in &rowless {
        let key = free_key(tx, row.id)?;
        sql::make_session(tx, row, &key)?;
        let Rowless { id, entries, .. } = row;
        lost.push(format!(
            "sessions: row {id} is lost; the {entries} entries that name it are kept as session `{key}`"
        ));
    }
    Ok(rowless.iter().map(|row| row.id).collect())
}

/// The key of a session whose own is lost.
fn free_key(tx: &Tx<'_>, id: i64) -> Result<SessionKey> {
    let mut key = SessionKey::new(PROJECT, format!("session-{id}"))?;
    let mut again = 1;
    while sql::key_is_taken(tx, &key)? {
        again += 1;
        key.session_id = format!("session-{id}-{again}");
    }
    Ok(key)
}

/// Lets no two rows have what only one can: a session's key, a uuid, a place on the main line.
pub(super) fn settle_doubles(tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<()> {
    for id in sql::repeated_keys(tx)? {
        let old = sql::session_name(tx, id)?;
        let key = free_key(tx, id)?;
        sql::set_key(tx, id, &key)?;
        lost.push(format!(
            "sessions: row {id} has the key {old} of another session; it is kept as session `{key}`"
        ));
    }
    for id in sql::forget_repeated_uuids(tx)? {
        lost.push(format!(
            "messages: row {id} has the uuid of another entry of its transcript; it is kept as a line only"
        ));
    }
    let renumbered = sql::renumber_lines(tx)?;
    if renumbered > 0 {
        lost.push(format!(
            "messages: the places of {renumbered} messages on their main line did not rise; they were counted anew"
        ));
    }
    Ok(())
}

/// Removes rows that belong to others that are not there.
pub(super) fn remove_unreferred(
    tx: &Tx<'_>,
    tables: &[Table],
    lost: &mut Vec<String>,
) -> Result<()> {
    for (session, path) in sql::files_without_content(tx)? {
        let session = sql::session_name(tx, session)?;
        lost.push(format!(
            "session_files: the content of `{path}` of session {session} is lost"
        ));
    }
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    for removed in sql::remove_unreferred(tx, &names)? {
        let (table, parent, rows) = (removed.table, removed.parent, removed.rows);
        lost.push(if removed.are_kept {
            format!("{table}: {rows} of its rows named rows of {parent} that are lost, and do so no more")
        } else {
            format!("{table}: {rows} of its rows belonged to rows of {parent} that are lost, and went with them")
        });
    }
    Ok(())
}
