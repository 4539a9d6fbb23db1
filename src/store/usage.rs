//! Usage: each provider response counted once, however many lines, copies and forks hold it.
//!
//! A response is written in several lines, of which the early ones hold partial counts: the last
//! line's stand. Forks have no lines of what they inherit. Copies that a client made are told by the
//! origin inferred for them, or that they name, and where there is none, by the response's id and time:
//! an id alone may be used again in a session that has nothing to do with it. Running totals that
//! clients write (`cost-state`) are no responses and are not added up.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::Connection;

use super::Store;
use crate::error::{Error, Result};
use crate::model::{SessionKey, UsageBy, UsageQuery, UsageReport, UsageRow, Used};
use crate::tables::messages;
use crate::tables::sessions::{self, SessionRow};
use crate::tables::usage::{self, Origin, UsageLine};

impl Store {
    /// Sums up the tokens of the responses that are stored.
    ///
    /// Holds in memory the rows of the report, one family of copied sessions at a time, and eight
    /// bytes for each response.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session is not there.
    pub fn usage(&self, query: &UsageQuery) -> Result<UsageReport> {
        self.db().read(|db| {
            if let Some(key) = &query.session
                && sessions::find(db, key)?.is_none()
            {
                return Err(Error::no_session(key.to_string()));
            }
            let mut counting = Counting {
                db,
                query,
                seen: HashSet::new(),
                groups: BTreeMap::new(),
                report: UsageReport::default(),
                unpriced: HashSet::new(),
            };
            for family in families(usage::origins(db)?) {
                counting.family(&family)?;
            }
            Ok(counting.finish())
        })
    }
}

/// Sessions that are copies of each other, origins first. Where an origin is not here, the first
/// session that names it stands in its place.
fn families(origins: Vec<Origin>) -> Vec<Vec<Origin>> {
    let copied: HashMap<i64, Option<i64>> = origins
        .iter()
        .map(|origin| (origin.session, origin.copied_from))
        .collect();
    let mut first: HashMap<String, i64> = HashMap::new();
    let mut stand_ins: HashMap<i64, i64> = HashMap::new();
    for origin in &origins {
        if let Some(name) = &origin.claimed {
            let first = first.entry(name.clone()).or_insert(origin.session);
            stand_ins.insert(origin.session, *first);
        }
    }
    let mut families: BTreeMap<i64, Vec<(usize, Origin)>> = BTreeMap::new();
    for origin in origins {
        let (mut root, mut depth) = (origin.session, 0);
        while let Some(Some(from)) = copied.get(&root) {
            if depth > copied.len() {
                break;
            }
            (root, depth) = (*from, depth + 1);
        }
        let root = stand_ins.get(&root).copied().unwrap_or(root);
        families.entry(root).or_default().push((depth, origin));
    }
    let sorted = families.into_values().map(|mut family| {
        family.sort_by_key(|(depth, origin)| (*depth, origin.session));
        family.into_iter().map(|(_, origin)| origin).collect()
    });
    sorted.collect()
}

/// The place of a group in the report, and what it is.
type Group = (i64, Option<String>);

struct Counting<'q> {
    db: &'q Connection,
    query: &'q UsageQuery,
    /// The responses counted, by their id, model and time.
    seen: HashSet<u64>,
    groups: BTreeMap<Group, UsageRow>,
    report: UsageReport,
    unpriced: HashSet<String>,
}

/// A response in one transcript: its last line, and when its first one was said.
struct Response {
    line: UsageLine,
    begun_ms: i64,
}

impl Counting<'_> {
    fn family(&mut self, family: &[Origin]) -> Result<()> {
        let mut counted: HashSet<String> = HashSet::new();
        for origin in family.iter().filter(|origin| !origin.is_deleted) {
            let Some(row) = sessions::find_row(self.db, origin.session)? else {
                continue;
            };
            let mut responses: Vec<Response> = Vec::new();
            let mut places: HashMap<(String, String), usize> = HashMap::new();
            for line in usage::lines(self.db, origin.session)? {
                let place = line.response.as_ref().map(|response| {
                    let key = (line.subpath.clone(), response.clone());
                    *places.entry(key).or_insert(responses.len())
                });
                match place.and_then(|place| responses.get_mut(place)) {
                    Some(response) => {
                        response.begun_ms = response.begun_ms.min(line.said_ms);
                        response.line = line;
                    }
                    None => responses.push(Response {
                        begun_ms: line.said_ms,
                        line,
                    }),
                }
            }
            for response in responses {
                if let Some(id) = &response.line.response {
                    let mut hasher = DefaultHasher::new();
                    (id, &response.line.model, response.begun_ms).hash(&mut hasher);
                    let is_new = counted.insert(id.clone());
                    if !is_new || !self.seen.insert(hasher.finish()) {
                        continue;
                    }
                }
                self.count(&row, &response)?;
            }
        }
        Ok(())
    }

    fn count(&mut self, row: &SessionRow, response: &Response) -> Result<()> {
        let (query, line) = (self.query, &response.line);
        let is_asked_for = query.session.as_ref().is_none_or(|key| row.key == *key)
            && matches(&query.project_key, Some(&row.key.project_key))
            && matches(&query.cwd, row.tally.listing.cwd.as_deref())
            && matches(&query.model, line.model.as_deref())
            && query.since_ms.is_none_or(|time| response.begun_ms >= time)
            && query.until_ms.is_none_or(|time| response.begun_ms < time);
        if !is_asked_for {
            return Ok(());
        }
        let model = line.model.as_deref().unwrap_or_default();
        let cost = query
            .prices
            .as_ref()
            .map(|prices| prices.cost(model, line.tokens));
        if cost == Some(None) {
            self.unpriced.insert(model.to_owned());
        }
        let (group, session) = self.group(row, response)?;
        let entry = self.groups.entry(group).or_insert_with_key(|key| UsageRow {
            group: key.1.clone(),
            session,
            used: Used::default(),
        });
        entry.used.add(line.tokens, cost);
        self.report.total.add(line.tokens, cost);
        Ok(())
    }

    fn group(&self, row: &SessionRow, response: &Response) -> Result<(Group, Option<SessionKey>)> {
        let line = &response.line;
        let key = || Some(row.key.clone());
        Ok(match self.query.by {
            UsageBy::Day => ((0, day(response.begun_ms)), None),
            UsageBy::Model => ((0, line.model.clone()), None),
            UsageBy::Project => ((0, Some(row.key.project_key.clone())), None),
            UsageBy::Session => ((row.id, Some(row.key.to_string())), key()),
            UsageBy::Response => ((line.id, line.response.clone()), key()),
            UsageBy::Turn => {
                let turn = match line.turn {
                    Some(turn) => messages::place_of(self.db, turn)?,
                    None => None,
                };
                let id = turn.as_ref().map_or(-row.id, |turn| turn.id);
                ((id, turn.and_then(|turn| turn.uuid)), key())
            }
        })
    }

    fn finish(self) -> UsageReport {
        let mut unpriced: Vec<String> = self.unpriced.into_iter().collect();
        unpriced.sort();
        UsageReport {
            rows: self.groups.into_values().collect(),
            unpriced,
            ..self.report
        }
    }
}

fn matches(wanted: &Option<String>, value: Option<&str>) -> bool {
    wanted.as_deref().is_none_or(|wanted| Some(wanted) == value)
}

/// The day of a time, in UTC.
fn day(epoch_ms: i64) -> Option<String> {
    let time = chrono::DateTime::from_timestamp_millis(epoch_ms)?;
    Some(time.format("%Y-%m-%d").to_string())
}
