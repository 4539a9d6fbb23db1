//! Importing: what is new of each file goes in, in bounded transactions, and the source is left as
//! it is.

use std::ops::ControlFlow;
use std::path::Path;

use super::beside;
use super::layout::{FoundSession, FoundTranscript, find};
use super::lines;
use super::report::{ImportReport, Progress};
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;
use crate::store::Store;
use crate::tables::messages;
use crate::tables::sessions::{self, SessionRow};

/// How many lines are looked at, at most, to tell whose a file is.
const PEEKED: usize = 4000;

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

/// An import on its way.
pub(super) struct Import<'a> {
    pub(super) store: &'a Store,
    pub(super) report: ImportReport,
    watch: &'a mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    pub(super) files: (u64, u64),
    pub(super) bytes: (u64, u64),
    touched: Vec<SessionKey>,
}

impl Import<'_> {
    fn session(&mut self, found: &FoundSession) -> Result<ControlFlow<()>> {
        let mut key = None;
        for file in &found.transcripts {
            let session_id = found.session_id.clone().or_else(|| peek_session(file));
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

    pub(super) fn tell(&mut self, file: &FoundTranscript) -> ControlFlow<()> {
        (self.watch)(Progress {
            file: &file.path,
            files: self.files,
            bytes: self.bytes,
        })
    }

    pub(super) fn touch(&mut self, key: SessionKey) {
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

/// The session that the entries of a file name, where its name tells none.
fn peek_session(file: &FoundTranscript) -> Option<String> {
    let mut named = None;
    // What cannot be read is reported when the file is.
    let _ = lines::peek(&file.path, PEEKED, |session| {
        named = Some(session);
        ControlFlow::Break(())
    });
    let stem = || {
        file.path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    named.or_else(|| stem().filter(|_| file.subpath.is_empty()))
}

/// Whether the first lines of a file name this session, or none at all.
pub(super) fn may_be_of(file: &FoundTranscript, session_id: &str) -> bool {
    let (mut names_it, mut names_another) = (false, false);
    let _ = lines::peek(&file.path, PEEKED, |session| {
        if session == session_id {
            names_it = true;
            return ControlFlow::Break(());
        }
        names_another = true;
        ControlFlow::Continue(())
    });
    names_it || !names_another
}

/// The session with this key, made if there is none.
pub(super) fn find_or_make(tx: &Tx<'_>, key: &SessionKey) -> Result<SessionRow> {
    match sessions::find(tx, key)? {
        Some(session) => Ok(session),
        None => Ok(sessions::insert(tx, key, None, None)?),
    }
}
