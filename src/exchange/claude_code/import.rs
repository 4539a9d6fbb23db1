//! Importing: what is new of each file goes in, in bounded transactions, and the source is left as
//! it is.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::beside;
use super::checkpoints::{self, BACKUPS, Made};
use super::layout::{FoundSession, find};
use super::one_file::Stage;
use super::origins::infer_origins;
use super::report::{ImportReport, Note, Progress};
use super::work::{Next, Work};
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;
use crate::store::{Store, ancestors};
use crate::tables::sessions::{self, SessionRow};
use crate::tables::{checkpoints_due, import_sources, messages};

/// When a transaction holds enough. Longer ones would keep other writers waiting, and take more
/// back when the process dies.
const GROUP_BYTES: u64 = 4 << 20;
const GROUP_TIME: Duration = Duration::from_millis(200);

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
    let mut found = find(path, &mut report)?;
    if let Some(key) = &options.project_key {
        for session in &mut found {
            session.project_key.clone_from(key);
        }
    }
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
        done: 0,
        touched: Vec::new(),
    };
    let stopped = std::thread::scope(|scope| import.all(&mut Work::new(scope, &found)))?.is_break();
    if stopped {
        let what = "the import was stopped; what was done is kept";
        import.report.problem(path, None, what);
    }
    // Once all sessions are there.
    infer_origins(store)?;
    import.end_sessions(stopped)?;
    let mut report = import.report;
    report.partial = stopped || !report.problems.is_empty();
    Ok(report)
}

/// An import on its way.
pub(super) struct Import<'a> {
    store: &'a Store,
    pub(super) report: ImportReport,
    watch: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    files: (u64, u64),
    bytes: (u64, u64),
    /// The bytes of the files that are done.
    done: u64,
    touched: Vec<SessionKey>,
}

impl Import<'_> {
    /// Takes everything in, in transactions of bounded size that hold many small files each.
    fn all(&mut self, work: &mut Work<'_, '_>) -> Result<ControlFlow<()>> {
        let mut at = PathBuf::new();
        loop {
            if let Some(path) = work.at() {
                path.clone_into(&mut at);
            }
            let progress = Progress {
                file: &at,
                files: self.files,
                bytes: self.bytes,
            };
            if (self.watch)(progress).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if work.is_done() {
                return Ok(ControlFlow::Continue(()));
            }
            self.store.db().write(|tx| self.some(tx, work))?;
            // Not inside the transaction: others may write meanwhile.
            work.wait();
        }
    }

    /// Takes in as much as one transaction is to hold.
    fn some(&mut self, tx: &Tx<'_>, work: &mut Work<'_, '_>) -> Result<()> {
        let begun = Instant::now();
        let enough = self.bytes.0 + GROUP_BYTES;
        while self.bytes.0 < enough && begun.elapsed() < GROUP_TIME {
            match work.next(tx, &mut self.report)? {
                None => break,
                Some(Next::File(key, name, path)) => self.file(tx, &key, name, path)?,
                Some(Next::Part(file, run)) => match self.part(tx, run)? {
                    Stage::Waiting => break,
                    Stage::Going(bytes) => self.bytes.0 = self.done + bytes,
                    Stage::Done => {
                        self.done += file.bytes;
                        self.bytes.0 = self.done;
                        self.files.0 += 1;
                        work.close();
                    }
                },
            }
        }
        Ok(())
    }

    /// Keeps a file beside a session's transcripts.
    fn file(&mut self, tx: &Tx<'_>, key: &SessionKey, name: &str, path: &Path) -> Result<()> {
        match beside::read_content(name, path) {
            Err(what) => self.report.problem(path, None, what),
            Ok(content) => {
                let session = find_or_make(tx, key)?;
                let is_new = beside::keep(tx, session.id, &content)?;
                let is_backup = name.starts_with(BACKUPS);
                self.report.file_backups += u64::from(is_backup);
                if is_backup && is_new {
                    checkpoints_due::insert(tx, session.id)?;
                }
                self.touch(key.clone());
            }
        }
        self.files.0 += 1;
        Ok(())
    }

    pub(super) fn touch(&mut self, key: SessionKey) {
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    /// Makes file changes of what the sessions tell of edits, and counts them. An import that was
    /// stopped leaves that to the next.
    fn end_sessions(&mut self, stopped: bool) -> Result<()> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort();
        touched.dedup();
        // Copies behind what they were copied from: who follows the store is told of a change once.
        let copies = |key: &SessionKey| {
            self.store.db().read(|db| match sessions::find(db, key)? {
                Some(row) if row.is_inferred_fork => Ok(ancestors(db, &row)?.len()),
                _ => Ok(0),
            })
        };
        let mut ordered = Vec::with_capacity(touched.len());
        for key in touched {
            ordered.push((copies(&key)?, key));
        }
        ordered.sort();
        let makes_changes = !stopped && self.store.file_options().enabled;
        for (_, key) in ordered {
            if makes_changes {
                self.make_changes(&key)?;
            }
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

impl Import<'_> {
    fn make_changes(&mut self, key: &SessionKey) -> Result<()> {
        loop {
            let made = self.store.db().write(|tx| match sessions::find(tx, key)? {
                Some(session) if checkpoints_due::is_noted(tx, session.id)? => {
                    let file = import_sources::newest_path(tx, session.id)?;
                    Ok(Some((checkpoints::make(tx, &session)?, file)))
                }
                _ => Ok(None),
            })?;
            let Some((made, file)) = made else {
                return Ok(());
            };
            self.report.file_changes += made.changes;
            if !made.goes_on {
                self.tell(key, &made, Path::new(&file.unwrap_or_default()));
                return Ok(());
            }
        }
    }

    /// Reports what is to be known of a session's checkpoints.
    fn tell(&mut self, key: &SessionKey, made: &Made, file: &Path) {
        for what in &made.refused {
            self.report.problem(file, None, what);
        }
        let notes = made.notes().into_iter().map(|what| Note {
            project_key: key.project_key.clone(),
            session_id: key.session_id.clone(),
            what,
        });
        self.report.notes.extend(notes);
    }
}

/// The session with this key, made if there is none.
pub(super) fn find_or_make(tx: &Tx<'_>, key: &SessionKey) -> Result<SessionRow> {
    match sessions::find(tx, key)? {
        Some(session) => Ok(session),
        None => Ok(sessions::insert(tx, key, None, None)?),
    }
}
