//! Checking a store: is the file whole, and does what is kept up agree with the entries?

use rusqlite::Connection;

use super::Store;
use super::blobs::content;
use super::history::History;
use super::listing::add;
use super::search::index;
use crate::error::Result;
use crate::tables::sessions::SessionRow;
use crate::tables::{blobs, checks, messages, sessions, transcripts};
use crate::transcript::listing::Tally;
use crate::transcript::reading::Reading;

/// How many findings of SQLite's own check are reported.
const MOST_FINDINGS: usize = 100;

/// How many sessions, and lines of one, are read at a time.
const SESSIONS: usize = 100;
const LINES: usize = 1000;
const BYTES: usize = 8 << 20;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many sessions were checked.
    pub sessions: u64,
    /// How many entries are stored, sub-agents' as well; what a fork shows of another session is
    /// counted there.
    pub entries: u64,
    /// What is wrong. Empty: all is well.
    pub findings: Vec<Finding>,
    /// Whether one of them is about the search index, which
    /// [`rebuild_search`](Store::rebuild_search) makes anew. The last one is.
    pub is_search_damaged: bool,
    /// How many pages of the file are in no table and not free: what is left of a damaged search
    /// index that was made anew. That is no finding, unless there is another one, besides the index.
    pub unused_pages: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The session it concerns; `None` if it is the file as a whole.
    pub session: Option<String>,
    /// What is wrong.
    pub what: String,
}

impl Store {
    /// Checks the whole file, and recomputes from the entries what every append keeps up.
    /// Changes nothing.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) if the file cannot be read to its end.
    pub fn verify(&self) -> Result<Verified> {
        let mut verified = Verified::default();
        let (told, search) = self.db().read(|db| {
            let told = checks::integrity(db, MOST_FINDINGS)?;
            Ok((told, index::check(db)?))
        })?;
        let of_file = |what: String| Finding {
            session: None,
            what,
        };
        let of_search = told.is_of_search.then(|| {
            let why = "the search index is damaged: `turnkeep reindex` makes it anew, and nothing else depends on it";
            why.to_owned()
        });
        let of_search = search.or(of_search);
        verified.is_search_damaged = of_search.is_some();
        verified.unused_pages = told.unused_pages;
        verified
            .findings
            .extend(told.findings.into_iter().map(of_file));
        let mut after = 0;
        loop {
            let rows = self
                .db()
                .read(|db| Ok(sessions::after(db, after, SESSIONS)?))?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in rows {
                // The row is read anew in the snapshot its entries are read in.
                self.db().read(|db| match sessions::find_row(db, row.id)? {
                    Some(row) => check_session(db, &row, &mut verified),
                    None => Ok(()),
                })?;
                verified.sessions += 1;
            }
        }
        self.verify_contents(&mut verified)?;
        if verified.unused_pages > 0 && !verified.findings.is_empty() {
            let pages = verified.unused_pages;
            let what = format!("{pages} page(s) of the file are in no table, and not free");
            verified.findings.push(of_file(what));
        }
        verified.findings.extend(of_search.map(of_file));
        Ok(verified)
    }

    /// Checks that every content that is kept is what was stored.
    fn verify_contents(&self, verified: &mut Verified) -> Result<()> {
        let mut after = 0;
        loop {
            let ids = self.db().read(|db| Ok(blobs::ids(db, after, SESSIONS)?))?;
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = *last;
            for id in ids {
                if let Err(why) = self.db().read(|db| content(db, id))? {
                    verified.findings.push(Finding {
                        session: None,
                        what: format!("the content kept as blob {id} {why}"),
                    });
                }
            }
        }
    }
}

fn check_session(db: &Connection, row: &SessionRow, verified: &mut Verified) -> Result<()> {
    let mut found = |what: String| {
        verified.findings.push(Finding {
            session: Some(row.key.to_string()),
            what,
        });
    };
    let counted = count(db, row)?;
    let listing = counted.listing.beside(&row.tally.listing);
    if listing != row.tally.listing {
        found(format!(
            "the listing is {:?}, its entries say {listing:?}",
            row.tally.listing
        ));
    }
    for (name, kept, counted) in [
        ("entries", row.tally.entries, counted.entries),
        ("messages", row.tally.messages, counted.messages),
        ("turns", row.tally.turns, counted.turns),
    ] {
        if kept != counted {
            found(format!("{name}: {kept} are noted, {counted} are there"));
        }
    }
    let mut subpaths = transcripts::subpaths(db, row.id)?;
    subpaths.push(String::new());
    for subpath in subpaths {
        let Some(transcript) = transcripts::find(db, row.id, &subpath)? else {
            continue;
        };
        let (next_seq, next_line, entries) = checks::counted(db, row.id, &subpath)?;
        verified.entries += u64::try_from(entries).unwrap_or(0);
        let dangling = messages::count_dangling(db, row.id, &subpath)?;
        let kept = (
            transcript.next_seq,
            transcript.next_line,
            transcript.entries,
            transcript.dangling,
        );
        // Numbers are never used again, so they may only be ahead.
        let right =
            kept.0 >= next_seq && kept.1 >= next_line && kept.2 == entries && kept.3 == dangling;
        if !right {
            found(format!(
                "transcript `{subpath}`: {kept:?} is noted, {:?} is there",
                (next_seq, next_line, entries, dangling)
            ));
        }
    }
    Ok(())
}

fn count(db: &Connection, session: &SessionRow) -> Result<Tally> {
    let history = History::of(db, session, "")?;
    let mut counted = Tally::default();
    let mut after = 0;
    loop {
        let lines = history.page(db, after, LINES, BYTES)?;
        let Some(last) = lines.last() else {
            return Ok(counted);
        };
        after = last.seq;
        for line in &lines {
            let reading = line.entry.as_deref().and_then(Reading::of_entry);
            add(&mut counted, line, reading.as_ref());
        }
    }
}
