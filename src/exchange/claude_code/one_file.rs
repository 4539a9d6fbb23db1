//! Importing one transcript: read on one thread, matched and stored part by part on another.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use rusqlite::Connection;

use super::import::{Import, find_or_make};
use super::layout::FoundTranscript;
use super::lines::{self, Handed, Numbered, Prefix};
use super::matching::{Matching, Outcome};
use super::work::may_be_of;
use super::{beside, checkpoints};
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;
use crate::store::{Feed, Origin};
use crate::tables::import_sources::{self, SourceRow};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{checkpoints_due, claims, messages, operations, transcripts};
use crate::transcript::line::{Ending, Fault};
use crate::transcript::reading::Reading;

/// How many batches of lines wait for the writer at most.
const WAITING: usize = 2;

/// How long a transaction waits for a reader before it is ended.
const PATIENCE: Duration = Duration::from_millis(5);

/// One file on its way in.
pub(super) struct Run<'f> {
    file: &'f FoundTranscript,
    key: SessionKey,
    path: String,
    handed: Receiver<Handed>,
    /// What was received ahead.
    next: Option<Handed>,
    /// What was read of it before, if the transcript is exactly that.
    known: Option<SourceRow>,
    /// Whether entries that name another session go there.
    sorts_out: bool,
    matching: Option<Matching>,
    foreign: HashMap<String, Matching>,
    /// How many entries its whole lines hold.
    entries: u64,
    stored: u64,
    /// Whether its last line has not ended.
    is_unfinished: bool,
    /// The session that its entries name as the one they were copied from.
    copied_from: Option<String>,
}

impl<'f> Run<'f> {
    /// Begins to read a file, on a thread of its own.
    pub(super) fn open<'s>(
        scope: &'s Scope<'s, 'f>,
        tx: &Tx<'_>,
        file: &'f FoundTranscript,
        key: SessionKey,
    ) -> Result<Self> {
        let path = file.path.to_string_lossy().into_owned();
        let known = known(tx, &key, file, &path)?;
        let (to, handed) = sync_channel(WAITING);
        let (source, session_id) = (known.clone(), key.session_id.clone());
        scope.spawn(move || {
            let is_own = || file.subpath.is_empty() && may_be_of(file, &session_id);
            lines::read(&file.path, source.as_ref(), is_own, &to);
        });
        Ok(Self {
            file,
            key,
            path,
            handed,
            next: None,
            known,
            sorts_out: false,
            matching: None,
            foreign: HashMap::new(),
            entries: 0,
            stored: 0,
            is_unfinished: false,
            copied_from: None,
        })
    }

    /// Waits until the reader has something, or is gone.
    pub(super) fn wait(&mut self) {
        if self.next.is_none() {
            self.next = self.handed.recv().ok();
        }
    }
}

/// How far a file is.
pub(super) enum Stage {
    /// The reader has nothing yet.
    Waiting,
    /// There is more of it; so many of its bytes were read.
    Going(u64),
    /// It is done.
    Done,
}

impl Import<'_> {
    /// Takes in the next part of a file.
    pub(super) fn part(&mut self, tx: &Tx<'_>, run: &mut Run<'_>) -> Result<Stage> {
        let handed = match run.next.take() {
            Some(handed) => Ok(handed),
            None => run.handed.recv_timeout(PATIENCE),
        };
        let path = &run.file.path;
        match handed {
            Ok(Handed::Begun { is_known, is_own }) => {
                self.touch(run.key.clone());
                self.begin(run, is_known, is_own);
                Ok(Stage::Going(0))
            }
            Ok(Handed::Batch(batch, bytes)) => {
                self.batch(tx, run, &batch)?;
                Ok(Stage::Going(bytes))
            }
            Ok(Handed::TooLong(line)) => {
                self.report.malformed_lines += 1;
                let what =
                    "is longer than 990,000,000 bytes, which a store cannot keep; it was left out";
                self.report.problem(path, Some(line), what);
                Ok(Stage::Going(0))
            }
            Ok(Handed::End(prefix)) => {
                self.end(tx, run, &prefix)?;
                Ok(Stage::Done)
            }
            Ok(Handed::Failed(error)) => {
                let what = format!("cannot be read further: {error}; the next import tries again");
                self.report.problem(path, None, what);
                Ok(Stage::Done)
            }
            Err(RecvTimeoutError::Timeout) => Ok(Stage::Waiting),
            Err(RecvTimeoutError::Disconnected) => Ok(Stage::Done),
        }
    }

    fn begin(&mut self, run: &mut Run<'_>, is_known: bool, is_own: bool) {
        run.sorts_out = is_own;
        if !is_own && run.file.subpath.is_empty() {
            let what = "its entries name another session than the file; they were filed under the file's name";
            self.report.problem(&run.file.path, None, what);
        }
        if let Some(source) = run.known.take().filter(|_| is_known) {
            run.entries = source.entries;
            run.matching = source.in_sync_seq.map(Matching::behind_known);
            self.report.entries += source.entries;
            self.report.duplicate_entries += source.entries;
        }
    }

    /// Stores what is new of some lines.
    fn batch(&mut self, tx: &Tx<'_>, run: &mut Run<'_>, batch: &[Numbered]) -> Result<()> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let (session, source) = open_source(tx, run)?;
        let mut feed = Feed::open(tx, session, &run.file.subpath, Origin::Import(source))?;
        let next_seq = feed.transcript.next_seq;
        let matching = run
            .matching
            .get_or_insert_with(|| Matching::from_the_start(next_seq));
        matching.resume(&feed, tx)?;
        let mut foreign: HashMap<String, Feed<'_, '_>> = HashMap::new();
        // Whose files the news tell of.
        let mut due: HashSet<Option<&str>> = HashSet::new();
        for (at, Numbered { line, reading }) in batch.iter().enumerate() {
            let rest = &batch[at..];
            let rest = &rest[..rest.partition_point(|behind| behind.line == *line)];
            let other = reading.session_id.as_deref();
            let other = other.filter(|other| run.sorts_out && *other != run.key.session_id);
            let outcome = match other {
                None => matching.take(&mut feed, tx, reading, rest)?,
                Some(other) => {
                    if !foreign.contains_key(other) {
                        let key = SessionKey::new(run.key.project_key.clone(), other)?;
                        foreign.insert(other.to_owned(), open_foreign(tx, &key, source)?);
                        self.touch(key);
                    }
                    let Some(feed) = foreign.get_mut(other) else {
                        continue;
                    };
                    if !run.foreign.contains_key(other) {
                        let matching = Matching::foreign(feed, tx)?;
                        run.foreign.insert(other.to_owned(), matching);
                    }
                    let Some(matching) = run.foreign.get_mut(other) else {
                        continue;
                    };
                    matching.resume(feed, tx)?;
                    matching.take(feed, tx, reading, rest)?
                }
            };
            if outcome == Outcome::New && checkpoints::tells_of_edits(reading) {
                due.insert(other);
            }
            outcomes.push((outcome, other.is_some()));
        }
        let own = feed.finish()?.0.id;
        if due.contains(&None) {
            checkpoints_due::insert(tx, own)?;
        }
        for (other, feed) in foreign {
            let id = feed.finish()?.0.id;
            if due.contains(&Some(other.as_str())) {
                checkpoints_due::insert(tx, id)?;
            }
        }
        let was_known = run.copied_from.is_some();
        for (Numbered { line, reading }, (outcome, is_foreign)) in batch.iter().zip(outcomes) {
            self.count(run, *line, reading, outcome, is_foreign);
        }
        // With the entries that say so: an import that ends here has no other chance.
        if let Some(origin) = run.copied_from.as_deref()
            && !was_known
            && run.file.subpath.is_empty()
        {
            claims::note(tx, own, origin)?;
        }
        Ok(())
    }

    fn count(
        &mut self,
        run: &mut Run<'_>,
        line: u64,
        reading: &Reading,
        outcome: Outcome,
        is_foreign: bool,
    ) {
        let report = &mut self.report;
        let is_new = outcome == Outcome::New;
        if is_new && !is_foreign && run.copied_from.is_none() {
            run.copied_from.clone_from(&reading.copied_from);
        }
        run.stored += u64::from(is_new);
        run.is_unfinished |= reading.ending == Ending::Eof;
        if let Some(fault) = reading
            .fault
            .filter(|fault| is_new || *fault == Fault::Torn)
        {
            report.malformed_lines += 1;
            report.problem(&run.file.path, Some(line), fault.text());
        }
        if reading.entry.is_none() {
            return;
        }
        report.entries += 1;
        run.entries += u64::from(reading.ending != Ending::Eof);
        match outcome {
            Outcome::New => report.new_entries += 1,
            Outcome::Known | Outcome::Repeated => report.duplicate_entries += 1,
            Outcome::Differing => report.differing_entries += 1,
        }
        report.foreign_entries += u64::from(is_foreign && is_new);
    }

    /// Notes how far the file was read.
    fn end(&mut self, tx: &Tx<'_>, run: &mut Run<'_>, prefix: &Prefix) -> Result<()> {
        if let Some(meta) = &run.file.meta {
            self.meta(tx, run, meta)?;
        }
        let Some(matching) = &mut run.matching else {
            return Ok(());
        };
        let (key, subpath, path, stored) = (&run.key, &run.file.subpath, &run.path, run.stored);
        let Some(session) = sessions::find(tx, key)? else {
            return Ok(());
        };
        let Some(source) = import_sources::find(tx, session.id, subpath, path)? else {
            return Ok(());
        };
        let id = session.id;
        let feed = Feed::open(tx, session, subpath, Origin::Import(source.id))?;
        matching.resume(&feed, tx)?;
        let exact = matching.is_exact(&feed, tx)?;
        let last = messages::last(tx, id, subpath)?;
        let ended = !run.is_unfinished && last.is_none_or(|last| last.ending != Ending::Eof);
        let in_sync_seq = (exact && ended).then_some(feed.transcript.next_seq);
        let read = SourceRow {
            lines: prefix.lines,
            entries: run.entries,
            bytes: prefix.bytes,
            prefix_hash: prefix.hash(),
            in_sync_seq,
            ..source
        };
        import_sources::update(tx, &read)?;
        if stored > 0 {
            let detail =
                serde_json::json!({"path": path, "subpath": subpath, "lines": stored}).to_string();
            operations::insert(tx, id, "import", None, Some(&detail))?;
        }
        Ok(())
    }

    fn meta(&mut self, tx: &Tx<'_>, run: &mut Run<'_>, meta: &Path) -> Result<()> {
        match beside::read_meta(meta) {
            Err(what) => self.report.problem(meta, None, what),
            Ok(entry) => {
                let key = &run.key;
                let session = find_or_make(tx, key)?;
                let id = session.id;
                let kept = beside::keep_meta(tx, session, &run.file.subpath, &entry)?;
                if kept {
                    checkpoints_due::insert(tx, id)?;
                }
                if let Some(matching) = &mut run.matching {
                    let transcript = transcripts::find(tx, id, &run.file.subpath)?;
                    matching.expect(transcript.map_or(1, |transcript| transcript.next_seq));
                }
                self.report.entries += 1;
                self.report.new_entries += u64::from(kept);
                self.report.duplicate_entries += u64::from(!kept);
            }
        }
        Ok(())
    }
}

/// What is known of a file whose transcript is exactly what was read of it.
fn known(
    db: &Connection,
    key: &SessionKey,
    file: &FoundTranscript,
    path: &str,
) -> Result<Option<SourceRow>> {
    let Some(session) = sessions::find(db, key)? else {
        return Ok(None);
    };
    let Some(source) = import_sources::find(db, session.id, &file.subpath, path)? else {
        return Ok(None);
    };
    let transcript = transcripts::find(db, session.id, &file.subpath)?;
    let in_sync =
        transcript.is_some_and(|transcript| source.in_sync_seq == Some(transcript.next_seq));
    Ok(in_sync.then_some(source))
}

fn open_source(tx: &Tx<'_>, run: &Run<'_>) -> Result<(SessionRow, i64)> {
    let session = find_or_make(tx, &run.key)?;
    let source = match import_sources::find(tx, session.id, &run.file.subpath, &run.path)? {
        Some(source) => source.id,
        None => import_sources::insert(tx, session.id, &run.file.subpath, &run.path)?,
    };
    Ok((session, source))
}

fn open_foreign<'t, 'c>(tx: &'t Tx<'c>, key: &SessionKey, source: i64) -> Result<Feed<'t, 'c>> {
    Feed::open(tx, find_or_make(tx, key)?, "", Origin::Import(source))
}
