//! Importing: what is new of each file goes in, in bounded transactions, and the source is left as
//! it is.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use super::beside;
use super::layout::{FoundSession, FoundTranscript, find};
use super::lines::{self, Handed, Numbered, Prefix};
use super::matching::{Matching, Outcome};
use super::report::{ImportReport, Progress};
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;
use crate::store::{Feed, Origin, Store};
use crate::tables::import_sources::{self, SourceRow};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{messages, operations, transcripts};
use crate::transcript::line::{Ending, Fault};

/// How many batches of lines wait for the writer at most.
const WAITING: usize = 2;

/// How many lines are looked at to tell whose a file is.
const PEEKED: usize = 200;

/// How an import is to be done.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    project_key: Option<String>,
}

impl ImportOptions {
    /// As the source says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files everything under this project key, in place of the folder's name.
    pub fn into_project(mut self, project_key: impl Into<String>) -> Self {
        self.project_key = Some(project_key.into());
        self
    }
}

/// Imports what is new at `path`: a Claude Code config folder, one project's folder, or one
/// transcript. `watch` is told of the progress and may stop the import; what was done is kept.
///
/// A bad line costs that line, a bad file that file: both are reported. Memory does not depend on
/// the size of the source, only on its longest line.
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) if there are no transcripts at `path`; those of the store. What was stored
/// before an error is kept, and the next import goes on from there.
pub fn import(
    store: &Store,
    path: &Path,
    options: &ImportOptions,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<ImportReport> {
    let mut report = ImportReport::default();
    let found = find(path, &mut report)?;
    let total = |of: fn(&FoundSession) -> u64| found.iter().map(of).sum::<u64>();
    let mut import = Import {
        store,
        report,
        watch,
        files: (
            0,
            total(|session| (session.transcripts.len() + session.files.len()) as u64),
        ),
        bytes: (
            0,
            total(|session| session.transcripts.iter().map(|file| file.bytes).sum()),
        ),
        touched: Vec::new(),
    };
    let mut stopped = false;
    for mut session in found {
        if let Some(key) = &options.project_key {
            session.project_key.clone_from(key);
        }
        if import.session(&session)?.is_break() {
            import
                .report
                .problem(path, None, "the import was stopped; what was done is kept");
            stopped = true;
            break;
        }
    }
    import.count_sessions()?;
    let mut report = import.report;
    report.partial = stopped || !report.problems.is_empty();
    Ok(report)
}

struct Import<'a> {
    store: &'a Store,
    report: ImportReport,
    watch: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    files: (u64, u64),
    bytes: (u64, u64),
    touched: Vec<SessionKey>,
}

/// One file on its way in.
struct Run<'a> {
    file: &'a FoundTranscript,
    key: SessionKey,
    /// Whether entries that name another session go there.
    sorts_out: bool,
    path: String,
    matching: Option<Matching>,
    foreign: HashMap<String, Matching>,
    /// How many entries its whole lines hold.
    entries: u64,
    stored: u64,
    /// Whether the last line that was read has ended.
    ended: bool,
}

impl Import<'_> {
    fn session(&mut self, found: &FoundSession) -> Result<ControlFlow<()>> {
        let mut key = None;
        for file in &found.transcripts {
            let session_id = found
                .session_id
                .clone()
                .map_or_else(|| self.peek_session(file), |id| Ok(Some(id)))?;
            let Some(session_id) = session_id else {
                self.report.problem(
                    &file.path,
                    None,
                    "no entry names a session; nothing was stored of it",
                );
                continue;
            };
            let of_file = SessionKey::new(found.project_key.clone(), session_id)?;
            if self.transcript(file, &of_file)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            key = Some(of_file);
        }
        let named = found
            .session_id
            .clone()
            .map(|id| SessionKey::new(found.project_key.clone(), id));
        if let Some(key) = named.transpose()?.or(key) {
            return self.files(found, &key);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The session that the entries of a file name, where its name tells none.
    fn peek_session(&mut self, file: &FoundTranscript) -> Result<Option<String>> {
        let named = self.peek(file)?;
        let stem = file
            .path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        Ok(named
            .into_iter()
            .next()
            .or(stem.filter(|_| file.subpath.is_empty())))
    }

    /// The sessions that the first lines of a file name, each once.
    fn peek(&mut self, file: &FoundTranscript) -> Result<Vec<String>> {
        let mut named = Vec::new();
        let from_start = Prefix::default();
        with_reader(&file.path, from_start, |handed| {
            let mut lines = 0;
            while let Ok(Handed::Batch(batch, _)) = handed.recv() {
                for Numbered { reading, .. } in &batch {
                    lines += 1;
                    if let Some(session) = reading
                        .session_id
                        .clone()
                        .filter(|session| !named.contains(session))
                    {
                        named.push(session);
                    }
                }
                if lines >= PEEKED {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(named)
    }

    fn transcript(&mut self, file: &FoundTranscript, key: &SessionKey) -> Result<ControlFlow<()>> {
        if self.tell(file).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let path = file.path.to_string_lossy().into_owned();
        let known = self.known(key, file, &path)?;
        let mut entries = 0;
        let (prefix, matching) = match known {
            Some(source) => match lines::read_prefix(&file.path, source.lines, source.bytes) {
                Ok(Some(prefix)) if prefix.hash() == source.prefix_hash => {
                    entries = source.entries;
                    (prefix, source.in_sync_seq.map(Matching::behind_known))
                }
                Ok(_) => (Prefix::default(), None),
                Err(error) => {
                    self.report
                        .problem(&file.path, None, format!("cannot be read: {error}"));
                    return Ok(ControlFlow::Continue(()));
                }
            },
            None => (Prefix::default(), None),
        };
        let sorts_out = file.subpath.is_empty() && {
            let named = self.peek(file)?;
            named.is_empty() || named.contains(&key.session_id)
        };
        if !sorts_out && file.subpath.is_empty() {
            let what = "its entries name another session than the file; they were filed under the file's name";
            self.report.problem(&file.path, None, what);
        }
        self.report.entries += entries;
        self.report.duplicate_entries += entries;
        let run = Run {
            file,
            key: key.clone(),
            sorts_out,
            path,
            matching,
            foreign: HashMap::new(),
            entries,
            stored: 0,
            ended: true,
        };
        let done_before = self.bytes.0;
        let flow = self.run(run, prefix)?;
        self.files.0 += 1;
        self.bytes.0 = done_before + file.bytes;
        Ok(flow)
    }

    /// What is known of a file whose transcript is exactly what was read of it.
    fn known(
        &self,
        key: &SessionKey,
        file: &FoundTranscript,
        path: &str,
    ) -> Result<Option<SourceRow>> {
        self.store.db().read(|db| {
            let Some(session) = sessions::find(db, key)? else {
                return Ok(None);
            };
            let Some(source) = import_sources::find(db, session.id, &file.subpath, path)? else {
                return Ok(None);
            };
            let transcript = transcripts::find(db, session.id, &file.subpath)?;
            let in_sync = transcript
                .is_some_and(|transcript| source.in_sync_seq == Some(transcript.next_seq));
            Ok(in_sync.then_some(source))
        })
    }

    fn run(&mut self, mut run: Run<'_>, prefix: Prefix) -> Result<ControlFlow<()>> {
        let path = run.file.path.clone();
        with_reader(&path, prefix, |handed| {
            for handed in handed {
                match handed {
                    Handed::Batch(batch, bytes) => {
                        self.batch(&mut run, &batch)?;
                        let so_far = self.bytes.0;
                        self.bytes.0 += bytes;
                        let flow = self.tell(run.file);
                        self.bytes.0 = so_far;
                        if flow.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                    Handed::TooLong(line) => {
                        self.report.malformed_lines += 1;
                        let what = "is longer than 990,000,000 bytes, which a store cannot keep; it was left out";
                        self.report.problem(&path, Some(line), what);
                    }
                    Handed::End(prefix) => self.end(&mut run, &prefix)?,
                    Handed::Failed(error) => {
                        let what =
                            format!("cannot be read further: {error}; the next import tries again");
                        self.report.problem(&path, None, what);
                    }
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Stores what is new of some lines, in one transaction.
    fn batch(&mut self, run: &mut Run<'_>, batch: &[Numbered]) -> Result<()> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let keys = self.store.db().write(|tx| {
            outcomes.clear();
            let (session, source) = open_source(tx, run)?;
            let mut feed = Feed::open(tx, session, &run.file.subpath, Origin::Import(source))?;
            let next_seq = feed.transcript.next_seq;
            let matching = run
                .matching
                .get_or_insert_with(|| Matching::from_the_start(next_seq));
            matching.resume(&feed, tx)?;
            let mut keys = vec![feed.session.key.clone()];
            let mut foreign: HashMap<String, Feed<'_, '_>> = HashMap::new();
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
                            keys.push(key);
                        }
                        let Some(feed) = foreign.get_mut(other) else {
                            continue;
                        };
                        if !run.foreign.contains_key(other) {
                            let matching = Matching::foreign(
                                tx,
                                feed.session.id,
                                "",
                                feed.transcript.next_seq,
                            )?;
                            run.foreign.insert(other.to_owned(), matching);
                        }
                        let Some(matching) = run.foreign.get_mut(other) else {
                            continue;
                        };
                        matching.resume(feed, tx)?;
                        matching.take(feed, tx, reading, rest)?
                    }
                };
                outcomes.push((outcome, other.is_some()));
            }
            feed.finish()?;
            for feed in foreign.into_values() {
                feed.finish()?;
            }
            Ok(keys)
        })?;
        for key in keys {
            self.touch(key);
        }
        for (Numbered { line, reading }, (outcome, is_foreign)) in batch.iter().zip(outcomes) {
            self.count(run, *line, reading, outcome, is_foreign);
        }
        Ok(())
    }

    fn count(
        &mut self,
        run: &mut Run<'_>,
        line: u64,
        reading: &crate::transcript::reading::Reading,
        outcome: Outcome,
        is_foreign: bool,
    ) {
        let report = &mut self.report;
        let is_new = outcome == Outcome::New;
        run.stored += u64::from(is_new);
        run.ended = reading.ending != Ending::Eof;
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
    fn end(&mut self, run: &mut Run<'_>, prefix: &Prefix) -> Result<()> {
        if let Some(meta) = &run.file.meta {
            self.meta(run, meta)?;
        }
        let Some(matching) = &mut run.matching else {
            return Ok(());
        };
        let (key, subpath, path, stored) = (&run.key, &run.file.subpath, &run.path, run.stored);
        self.store.db().write(|tx| {
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
            let ended = last.is_none_or(|last| last.ending != Ending::Eof);
            // A line that has not ended is read again next time, so it must not count as read.
            let in_sync_seq = (exact && ended && run.ended).then_some(feed.transcript.next_seq);
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
                let detail = serde_json::json!({"path": path, "subpath": subpath, "lines": stored})
                    .to_string();
                operations::insert(tx, id, "import", None, Some(&detail))?;
            }
            Ok(())
        })
    }

    fn meta(&mut self, run: &mut Run<'_>, meta: &Path) -> Result<()> {
        match beside::read_meta(meta) {
            Err(what) => self.report.problem(meta, None, what),
            Ok(entry) => {
                let key = &run.key;
                let kept = self.store.db().write(|tx| {
                    let session = find_or_make(tx, key)?;
                    let kept = beside::keep_meta(tx, session, &run.file.subpath, &entry)?;
                    if let Some(matching) = &mut run.matching {
                        let id = find_or_make(tx, key)?.id;
                        let transcript = transcripts::find(tx, id, &run.file.subpath)?;
                        matching.expect(transcript.map_or(1, |transcript| transcript.next_seq));
                    }
                    Ok(kept)
                })?;
                self.report.entries += 1;
                self.report.new_entries += u64::from(kept);
                self.report.duplicate_entries += u64::from(!kept);
            }
        }
        Ok(())
    }

    /// Keeps the files beside a session's transcripts.
    fn files(&mut self, found: &FoundSession, key: &SessionKey) -> Result<ControlFlow<()>> {
        for (name, path) in &found.files {
            match beside::read_content(name, path) {
                Err(what) => self.report.problem(path, None, what),
                Ok(content) => {
                    self.store.db().write(|tx| {
                        let session = find_or_make(tx, key)?;
                        beside::keep(tx, session.id, &content)
                    })?;
                    self.report.file_backups += u64::from(name.starts_with("file-history/"));
                    self.touch(key.clone());
                }
            }
            self.files.0 += 1;
            let progress = Progress {
                file: path,
                files: self.files,
                bytes: self.bytes,
            };
            if (self.watch)(progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn tell(&mut self, file: &FoundTranscript) -> ControlFlow<()> {
        (self.watch)(Progress {
            file: &file.path,
            files: self.files,
            bytes: self.bytes,
        })
    }

    fn touch(&mut self, key: SessionKey) {
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    fn count_sessions(&mut self) -> Result<()> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort();
        touched.dedup();
        for key in touched {
            let repaired = self.store.db().read(|db| match sessions::find(db, &key)? {
                Some(session) => Ok(Some(messages::count_bridged(db, session.id)?)),
                None => Ok(None),
            })?;
            if let Some(repaired) = repaired {
                self.report.sessions += 1;
                self.report.repaired_links += u64::try_from(repaired).unwrap_or(0);
            }
        }
        Ok(())
    }
}

/// Reads a file on a thread of its own while `work` takes what it hands over.
fn with_reader<T>(
    path: &Path,
    from: Prefix,
    work: impl FnOnce(Receiver<Handed>) -> Result<T>,
) -> Result<T> {
    std::thread::scope(|scope| {
        let (to, handed) = sync_channel(WAITING);
        scope.spawn(move || lines::read(path, from, &to));
        work(handed)
    })
}

fn find_or_make(tx: &Tx<'_>, key: &SessionKey) -> Result<SessionRow> {
    match sessions::find(tx, key)? {
        Some(session) => Ok(session),
        None => Ok(sessions::insert(tx, key, None, None)?),
    }
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
