//! What an import has still to do, in order. One file is read ahead while another is stored.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread::Scope;

use super::layout::{FoundSession, FoundTranscript};
use super::lines;
use super::one_file::Run;
use super::report::ImportReport;
use crate::db::Tx;
use crate::error::Result;
use crate::model::SessionKey;

/// How many lines are looked at, at most, to tell whose a file is.
const PEEKED: usize = 4000;

/// How many files are read at a time: the one being stored, and the next ones.
const OPEN: usize = 4;

/// Something to take in.
enum Task<'f> {
    Transcript(&'f FoundSession, &'f FoundTranscript),
    /// A file beside the transcripts, by its name in the session.
    File(&'f FoundSession, &'f str, &'f Path),
}

/// What comes next.
pub(super) enum Next<'w, 'f> {
    /// A part of a transcript.
    Part(&'f FoundTranscript, &'w mut Run<'f>),
    /// A file beside a session's transcripts.
    File(SessionKey, &'f str, &'f Path),
}

/// The work of one import.
pub(super) struct Work<'s, 'f> {
    scope: &'s Scope<'s, 'f>,
    left: VecDeque<Task<'f>>,
    open: VecDeque<(&'f FoundTranscript, Run<'f>)>,
}

impl<'s, 'f> Work<'s, 'f> {
    pub(super) fn new(scope: &'s Scope<'s, 'f>, found: &'f [FoundSession]) -> Self {
        let left = found.iter().flat_map(|session| {
            let transcripts = session.transcripts.iter();
            let transcripts = transcripts.map(move |file| Task::Transcript(session, file));
            let files = session.files.iter();
            transcripts.chain(files.map(move |(name, path)| Task::File(session, name, path)))
        });
        Self {
            scope,
            left: left.collect(),
            open: VecDeque::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.open.is_empty() && self.left.is_empty()
    }

    /// The file that comes next.
    pub(super) fn at(&self) -> Option<&'f Path> {
        match (self.open.front(), self.left.front()) {
            (Some((file, _)), _) | (None, Some(Task::Transcript(_, file))) => Some(&file.path),
            (None, Some(Task::File(_, _, path))) => Some(path),
            (None, None) => None,
        }
    }

    /// What comes next, after beginning to read what comes behind it.
    pub(super) fn next(
        &mut self,
        tx: &Tx<'_>,
        report: &mut ImportReport,
    ) -> Result<Option<Next<'_, 'f>>> {
        while self.open.len() < OPEN
            && let Some(Task::Transcript(session, file)) = self.left.front()
        {
            let (session, file) = (*session, *file);
            self.left.pop_front();
            match session.session_id.clone().or_else(|| peek_session(file)) {
                Some(id) => {
                    let key = SessionKey::new(session.project_key.clone(), id)?;
                    let run = Run::open(self.scope, tx, file, key)?;
                    self.open.push_back((file, run));
                }
                None => {
                    let what = "no entry names a session; nothing was stored of it";
                    report.problem(&file.path, None, what);
                }
            }
        }
        if let Some((file, run)) = self.open.front_mut() {
            return Ok(Some(Next::Part(file, run)));
        }
        let Some(Task::File(session, name, path)) = self.left.pop_front() else {
            return Ok(None);
        };
        // Only a session that its folder names has files.
        let id = session.session_id.clone().unwrap_or_default();
        let key = SessionKey::new(session.project_key.clone(), id)?;
        Ok(Some(Next::File(key, name, path)))
    }

    /// Forgets the file that is done.
    pub(super) fn close(&mut self) {
        self.open.pop_front();
    }

    /// Waits until there is something to do.
    pub(super) fn wait(&mut self) {
        if let Some((_, run)) = self.open.front_mut() {
            run.wait();
        }
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
