//! Whether a message that the index names is to be shown, and how.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rusqlite::Connection;

use super::copies;
use crate::error::{Error, Result};
use crate::model::{SearchHit, SearchQuery, SearchRole, Snippet};
use crate::store::conversation::main_line;
use crate::store::history::History;
use crate::store::way::way_to;
use crate::tables::messages::{self, Place};
use crate::tables::search::{self, Asked, Hit, Span};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{tool_calls, transcripts};
use crate::transcript::search::ask::Term;
use crate::transcript::search::snippet::{Found, find, piece};
use crate::transcript::search::texts::{Field, Text, names_path, paths, texts};
use crate::transcript::search::words::words;

/// A session, and whose rows it shows.
pub(super) struct Known {
    pub(super) row: SessionRow,
    pub(super) history: History,
}

/// Judges messages by what the query allows; remembers what it looked up.
pub(super) struct Judge<'q> {
    pub(super) db: &'q Connection,
    query: &'q SearchQuery,
    terms: &'q [Term],
    fields: Vec<Field>,
    /// Messages up to this id are indexed.
    pub(super) done: i64,
    /// The session that alone is searched.
    only: Option<Rc<Known>>,
    known: HashMap<i64, Option<Rc<Known>>>,
    active: HashMap<(i64, String), HashSet<i64>>,
}

/// A message that is to be shown, and in which session.
pub(super) struct Judged {
    hit: Hit,
    session: Rc<Known>,
}

impl<'q> Judge<'q> {
    pub(super) fn new(
        db: &'q Connection,
        query: &'q SearchQuery,
        terms: &'q [Term],
        done: i64,
    ) -> Result<Self> {
        let only = match &query.session {
            Some(key) => {
                let row = sessions::find(db, key)?;
                let row = row.ok_or_else(|| Error::no_session(key.to_string()))?;
                Some(Rc::new(Known {
                    history: History::of(db, &row, "")?,
                    row,
                }))
            }
            None => None,
        };
        let mut fields: Vec<Field> = query.roles.iter().map(|role| field(*role)).collect();
        if query.tool.is_some() || query.path.is_some() {
            let of_tools = [Field::Input, Field::Output];
            fields = match fields.is_empty() {
                true => of_tools.to_vec(),
                false => fields
                    .into_iter()
                    .filter(|field| of_tools.contains(field))
                    .collect(),
            };
            if fields.is_empty() {
                let why = "only what went into tools or came out of them has a tool or a path";
                return Err(Error::invalid("role", why));
            }
        }
        Ok(Self {
            db,
            query,
            terms,
            fields,
            done,
            only,
            known: HashMap::new(),
            active: HashMap::new(),
        })
    }

    /// What the index is asked; `None` if nothing can answer.
    pub(super) fn asked(&self) -> Result<Option<Asked<'q>>> {
        let mut facets = Vec::new();
        if let Some(only) = &self.only {
            let owners = only.history.parts.iter();
            facets.push(
                owners
                    .map(|part| search::session_facet(part.owner))
                    .collect(),
            );
        }
        if let Some(key) = &self.query.project_key {
            facets.push(vec![search::project_facet(key)]);
        }
        if let Some(cwd) = &self.query.cwd {
            let projects = sessions::projects_of_cwd(self.db, cwd)?;
            if projects.is_empty() {
                return Ok(None);
            }
            let projects = projects.iter();
            facets.push(projects.map(|key| search::project_facet(key)).collect());
        }
        if let Some(tool) = &self.query.tool {
            facets.push(vec![search::tool_facet(tool)]);
        }
        if !self.fields.is_empty() {
            let fields = self.fields.iter();
            facets.push(
                fields
                    .map(|field| search::role_facet(*field).to_owned())
                    .collect(),
            );
        }
        let path = self.query.path.as_deref().map(words).unwrap_or_default();
        Ok(Some(Asked {
            terms: self.terms,
            facets,
            path,
        }))
    }

    /// Whether a span of ids holds messages of the time that is asked for.
    pub(super) fn may_hold(&self, span: &Span) -> bool {
        self.query
            .since_ms
            .is_none_or(|time| span.newest_ms >= time)
            && self.query.until_ms.is_none_or(|time| span.oldest_ms < time)
    }

    fn is_of_the_time(&self, said_ms: i64) -> bool {
        self.query.since_ms.is_none_or(|time| said_ms >= time)
            && self.query.until_ms.is_none_or(|time| said_ms < time)
    }

    pub(super) fn session(&mut self, id: i64) -> Result<Option<Rc<Known>>> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let known = match sessions::find_any(self.db, id)? {
            Some(row) => Some(Rc::new(Known {
                history: History::of(self.db, &row, "")?,
                row,
            })),
            None => None,
        };
        self.known.insert(id, known.clone());
        Ok(known)
    }

    /// Whether a message is to be shown.
    pub(super) fn judge(&mut self, hit: Hit) -> Result<Option<Judged>> {
        if !self.is_of_the_time(hit.said_ms) {
            return Ok(None);
        }
        let Some(session) = self.shown_in(&hit)? else {
            return Ok(None);
        };
        if self.only.is_none() && self.original_answers(&hit)? {
            return Ok(None);
        }
        if self.query.is_active && !self.is_active(&session, &hit)? {
            return Ok(None);
        }
        // Whose words are where the index knows of the message as a whole.
        let is_to_be_read = !self.fields.is_empty() || is_title(&hit);
        if is_to_be_read && !self.holds(&hit)? {
            return Ok(None);
        }
        Ok(Some(Judged { hit, session }))
    }

    /// The session that a message is shown in: its own, or of a deleted one the first fork that still
    /// shows it.
    fn shown_in(&mut self, hit: &Hit) -> Result<Option<Rc<Known>>> {
        if let Some(only) = &self.only {
            let is_shown = hit.session == only.row.id && !hit.subpath.is_empty()
                || only.history.part_of(&place(hit)).is_some();
            return Ok(is_shown.then(|| only.clone()));
        }
        let own = self.session(hit.session)?;
        let shown = match own.filter(|known| !known.row.is_deleted) {
            Some(own) => Some(own),
            None => copies::forks_showing(self, hit, 1)?.into_iter().next(),
        };
        Ok(shown.filter(|known| self.allows(&known.row)))
    }

    /// Whether the query allows for messages of a session.
    pub(super) fn allows(&self, row: &SessionRow) -> bool {
        let key = self.query.project_key.as_deref();
        let cwd = self.query.cwd.as_deref();
        key.is_none_or(|key| row.key.project_key == key)
            && cwd.is_none_or(|cwd| row.tally.listing.cwd.as_deref() == Some(cwd))
    }

    /// Whether a message is a client's copy of one that answers too.
    fn original_answers(&mut self, hit: &Hit) -> Result<bool> {
        for (session, id) in copies::originals(self, hit)? {
            let said_ms = messages::said_ms(self.db, id)?.unwrap_or(i64::MIN);
            let is_shown = !session.row.is_deleted && self.allows(&session.row);
            if is_shown && id <= self.done && self.is_of_the_time(said_ms) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a message is in its conversation as that stands now.
    fn is_active(&mut self, session: &Known, hit: &Hit) -> Result<bool> {
        let key = (session.row.id, hit.subpath.clone());
        if !self.active.contains_key(&key) {
            let history = History::of(self.db, &session.row, &hit.subpath)?;
            let head = transcripts::head(self.db, session.row.id, &hit.subpath)?;
            let mut ids = HashSet::new();
            let (rows, line) = main_line(self.db, &history, 0)?;
            way_to(self.db, &history, (&rows, &line), head, |place| {
                ids.insert(rows[place].id);
                Ok(())
            })?;
            self.active.insert(key.clone(), ids);
        }
        // A title is in no conversation, and of all of them.
        Ok(is_title(hit)
            || self
                .active
                .get(&key)
                .is_some_and(|ids| ids.contains(&hit.id)))
    }

    /// Whether all of these terms stand in a message, as the index would say.
    pub(super) fn stands_in(&self, hit: &Hit, terms: &[Term]) -> Result<bool> {
        let Some(entry) = messages::entry(self.db, hit.id)? else {
            return Ok(false);
        };
        let texts = texts(&hit.kind, &entry);
        let there = texts
            .iter()
            .fold(0, |there, text| there | find(&text.text, terms).terms);
        Ok(there == u64::MAX >> (64 - terms.len()))
    }

    /// Whether what is looked for stands where it is asked for; of a title that was given again, in
    /// the last one.
    fn holds(&self, hit: &Hit) -> Result<bool> {
        let Some(entry) = messages::entry(self.db, hit.id)? else {
            return Ok(false);
        };
        let texts = texts(&hit.kind, &entry);
        let all = u64::MAX >> (64 - self.terms.len());
        let text = match self.best_text(hit, &texts)? {
            Some((text, _, _, there)) if there == all => text,
            _ => return Ok(false),
        };
        if text.field != Field::Title {
            return Ok(true);
        }
        let later = search::same_title(self.db, hit.session, &words(&text.text), hit.id)?;
        Ok(!later.iter().any(|entry| {
            let kinds = ["custom-title", "ai-title", "summary"];
            kinds
                .iter()
                .any(|kind| texts_of(kind, entry).is_some_and(|title| title == text.text))
        }))
    }

    /// The text in which most of what is looked for stands, its tool, the places in it, and which
    /// terms stand in any text that may be looked at.
    fn best_text<'t>(&self, hit: &Hit, texts: &'t [Text<'t>]) -> Result<Option<Best<'t>>> {
        let mut best: Option<Best<'_>> = None;
        let mut there = 0;
        for text in texts {
            if !self.fields.is_empty() && !self.fields.contains(&text.field) {
                continue;
            }
            let found = find(&text.text, self.terms);
            if found.terms == 0 {
                continue;
            }
            let call = match (&text.call, text.field) {
                (Some(call), Field::Output) => {
                    tool_calls::answered(self.db, hit.session, hit.id, call)?
                }
                _ => None,
            };
            if let Some(asked) = &self.query.path {
                let input = call
                    .as_ref()
                    .map(|(_, input)| String::from_utf8_lossy(input));
                let of_call = input.as_deref().map(paths).unwrap_or_default();
                let mut named = text.paths.iter().chain(&of_call);
                if !named.any(|path| names_path(path, asked)) {
                    continue;
                }
            }
            let tool = match &text.tool {
                Some(tool) => Some(tool.to_string()),
                None => call.map(|(tool, _)| tool),
            };
            if self.query.tool.is_some() && tool != self.query.tool {
                continue;
            }
            there |= found.terms;
            let most = best.as_ref().map_or(0, |best| best.2.terms.count_ones());
            if found.terms.count_ones() > most {
                best = Some((text, tool, found, 0));
            }
        }
        Ok(best.map(|(text, tool, found, _)| (text, tool, found, there)))
    }

    /// A message as it is shown.
    pub(super) fn show(&mut self, judged: Judged) -> Result<SearchHit> {
        let Judged { hit, session } = judged;
        let entry = messages::entry(self.db, hit.id)?.unwrap_or_default();
        let texts = texts(&hit.kind, &entry);
        let best = self.best_text(&hit, &texts)?;
        let (field, tool, shown) = match best {
            Some((text, tool, found, _)) => (text.field, tool, piece(&text.text, &found.places)),
            None => (Field::User, None, Default::default()),
        };
        let turn = match hit.turn {
            Some(turn) => messages::place_of(self.db, turn)?
                .and_then(|place| session.history.shown_uuid(&place)),
            None => None,
        };
        let uuid = if hit.subpath.is_empty() {
            session.history.shown_uuid(&place(&hit))
        } else {
            hit.uuid.clone()
        };
        Ok(SearchHit {
            also_in: copies::also_in(self, &hit, session.row.id)?,
            session: session.row.key.clone(),
            summary: session.row.info().summary,
            uuid,
            turn,
            role: role(field),
            tool,
            said_ms: hit.said_ms,
            snippet: Snippet {
                text: shown.text,
                marks: shown.marks,
            },
            score: None,
            subpath: hit.subpath,
        })
    }
}

/// A text, its tool, the places in it, and which terms stand there.
type Best<'t> = (&'t Text<'t>, Option<String>, Found, u64);

fn is_title(hit: &Hit) -> bool {
    hit.kind.ends_with("title") || hit.kind == "summary"
}

fn texts_of(kind: &str, entry: &str) -> Option<String> {
    let mut texts = texts(kind, entry);
    texts.pop().map(|text| text.text.into_owned())
}

/// Where a message is, as far as its history asks.
pub(super) fn place(hit: &Hit) -> Place {
    Place {
        id: hit.id,
        session: hit.session,
        subpath: hit.subpath.clone(),
        seq: hit.seq,
        line: None,
        uuid: hit.uuid.clone(),
        parent: None,
        turn: hit.turn,
    }
}

fn field(role: SearchRole) -> Field {
    match role {
        SearchRole::User => Field::User,
        SearchRole::Assistant => Field::Assistant,
        SearchRole::ToolInput => Field::Input,
        SearchRole::ToolOutput => Field::Output,
        SearchRole::Title => Field::Title,
    }
}

fn role(field: Field) -> SearchRole {
    match field {
        Field::User => SearchRole::User,
        Field::Assistant => SearchRole::Assistant,
        Field::Input => SearchRole::ToolInput,
        Field::Output => SearchRole::ToolOutput,
        Field::Title => SearchRole::Title,
    }
}
