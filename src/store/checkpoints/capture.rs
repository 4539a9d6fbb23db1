//! Capturing: the state before a tool's write, committed ahead of it, and what the tool left.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::binding::bound;
use super::keeping::{Keeper, is_kept, tell};
use super::paths::{named_paths, resolve};
use super::roots::{base_of, roots_of};
use super::states::Found;
use super::watch::finish_open;
use super::{Files, is_enabled};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::{Captured, ToolRef};
use crate::store::history::History;
use crate::store::write::SessionTx;
use crate::tables::file_changes::{self, Bound, ChangeRow, NewChange};
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::{sessions, tool_results};
use crate::workspace::folders::{linked_file, missing_folders};
use crate::workspace::present::Present;

/// How long after a change of another session below the same folder both are said to be at work.
pub(super) const AT_WORK_MS: i64 = 10 * 60 * 1000;

/// Why a change has no content from before.
const NO_BACKUP: &str = "no backup was made before the edit";

impl Files {
    /// Stores the state of paths ahead of a tool's write: content, mode, link target, or that
    /// nothing is there. When this returns, the write can be taken back, whatever happens next.
    /// Relative paths are seen from the session's cwd. Repeating it for the same call and path
    /// keeps the first state.
    ///
    /// The call, its prompt and its message need not be stored yet. What cannot be kept (too
    /// large, excluded, a folder, not a file) is in [`Captured::not_kept`]: ask before the tool writes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a relative path in a session without a cwd; [`Error::NotFound`] if
    /// the session was deleted.
    pub fn before<P: AsRef<Path>>(
        &self,
        call: impl Into<ToolRef>,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Captured> {
        let call = call.into();
        self.recover();
        self.session.write(|tx| tx.before(call, paths))
    }

    /// Stores the state of the paths that a stored call names (`file_path`, `notebook_path`, seen
    /// from the cwd of its entry), ahead of its write.
    ///
    /// # Errors
    /// As [`Files::before`]; [`Error::NotFound`] if the session has no such call.
    pub fn before_call(&self, tool_use_id: &str) -> Result<Captured> {
        self.recover();
        self.session.write(|tx| {
            let paths = named_paths(tx, tool_use_id)?;
            tx.before(tool_use_id, paths)
        })
    }

    /// Records what a tool left at paths: see [`SessionTx::after`].
    ///
    /// # Errors
    /// As [`Files::before`].
    pub fn after<P: AsRef<Path>>(
        &self,
        call: impl Into<ToolRef>,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Captured> {
        let call = call.into();
        self.session.write(|tx| tx.after(call, paths))
    }

    /// Finishes a rewind that was cut short before a tool changes its files. If that cannot be, the
    /// tool need not wait for it.
    fn recover(&self) {
        let _ = self.session.store().recover_if_free(self.session.row_id());
    }
}

impl SessionTx<'_, '_> {
    /// Stores the state of paths ahead of a tool's write: see [`Files::before`].
    ///
    /// # Errors
    /// As [`Files::before`].
    pub fn before<P: AsRef<Path>>(
        &self,
        call: impl Into<ToolRef>,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Captured> {
        let capture = Capture::new(self, call.into())?;
        let mut captured = Captured::default();
        if !capture.is_on {
            return Ok(captured);
        }
        let mut recorded = HashMap::new();
        for change in file_changes::of_call(self.tx(), capture.session, &capture.call.id)? {
            // Gateways use ids again: what was recorded for a call that is over is another's.
            let is_over = match change.call {
                Some(call) => !tool_results::of_call(self.tx(), call)?.is_empty(),
                None => false,
            };
            if !is_over {
                recorded.insert(change.path, change.before);
            }
        }
        for path in capture.resolve(paths)? {
            capture.before(&path, &mut recorded, &mut captured)?;
        }
        capture.warn(&mut captured)?;
        Ok(captured)
    }

    /// Records what a tool left at paths; without paths, at all that were captured before it. A
    /// path that was not captured before is recorded as changed without a backup.
    ///
    /// # Errors
    /// As [`Files::before`].
    pub fn after<P: AsRef<Path>>(
        &self,
        call: impl Into<ToolRef>,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Captured> {
        let capture = Capture::new(self, call.into())?;
        let mut captured = Captured::default();
        if !capture.is_on {
            return Ok(captured);
        }
        let mut paths = capture.resolve(paths)?;
        let recorded = file_changes::of_call(self.tx(), capture.session, &capture.call.id)?;
        if paths.is_empty() {
            paths = recorded.iter().map(|change| change.path.path()).collect();
        }
        let newest: HashMap<PathRow, ChangeRow> = recorded
            .into_iter()
            .map(|change| (change.path.clone(), change))
            .collect();
        let keeper = &capture.keeper;
        for path in paths {
            let row = PathRow::of(&path);
            if keeper.is_own(&path, &mut captured) {
                continue;
            }
            let change = newest.get(&row);
            let found = keeper.left(self.tx(), &path, change, &mut captured)?;
            let after = found.keep(self.tx())?;
            match change {
                Some(change) => file_changes::set_after(self.tx(), change.id, &after, false)?,
                None => {
                    let before = StateRow::NotKept {
                        why: NO_BACKUP.to_owned(),
                    };
                    capture.insert(&row, &before, Some(&after), 0)?;
                }
            }
            if is_kept(&after) {
                captured.kept.push(path);
            }
        }
        Ok(captured)
    }
}

/// Records what is found now as what a call left, where the tool's own word is missing: a call was
/// settled, or the next capture of a path comes.
pub(in crate::store) fn seen_late(tx: &SessionTx<'_, '_>, tool_use_id: &str) -> Result<()> {
    let capture = Capture::new(tx, ToolRef::new(tool_use_id))?;
    if !capture.is_on {
        return Ok(());
    }
    finish_open(tx, tool_use_id)?;
    let keeper = &capture.keeper;
    for change in file_changes::of_call(tx.tx(), capture.session, tool_use_id)? {
        let (path, mut untold) = (change.path.path(), Captured::default());
        if change.after.is_none() && !keeper.is_own(&path, &mut untold) {
            let found = keeper.left(tx.tx(), &path, Some(&change), &mut untold)?;
            file_changes::set_after(tx.tx(), change.id, &found.keep(tx.tx())?, true)?;
        }
    }
    Ok(())
}

/// One capture within a transaction.
pub(super) struct Capture<'a, 't, 'c> {
    tx: &'a SessionTx<'t, 'c>,
    pub(super) session: i64,
    call: ToolRef,
    agent: Option<String>,
    place: Bound,
    base: Option<PathBuf>,
    keeper: Keeper,
    pub(super) is_on: bool,
    pub(super) source: &'static str,
}

impl<'a, 't, 'c> Capture<'a, 't, 'c> {
    pub(super) fn new(tx: &'a SessionTx<'t, 'c>, call: ToolRef) -> Result<Self> {
        if call.id.trim().is_empty() {
            return Err(Error::invalid("tool call", "its id is blank"));
        }
        let row = tx.row()?;
        let history = History::of(tx.tx(), &row, "")?;
        let is_on = is_enabled(tx.store(), tx.tx(), row.id)?;
        let (place, agent) = bound(tx.tx(), row.id, &history, &call)?;
        Ok(Self {
            place,
            agent,
            base: base_of(&row),
            keeper: Keeper::new(tx.store(), roots_of(tx.tx(), &row, &history)?)?,
            session: row.id,
            tx,
            call,
            is_on,
            source: "tool",
        })
    }

    /// For what a watched command did.
    pub(super) fn of_watch(tx: &'a SessionTx<'t, 'c>, call: ToolRef) -> Result<Self> {
        Ok(Self {
            source: "watch",
            ..Self::new(tx, call)?
        })
    }

    fn db(&self) -> &Connection {
        self.tx.tx()
    }

    /// Paths as they are stored: absolute, each once.
    fn resolve<P: AsRef<Path>>(&self, paths: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
        let mut seen = HashSet::new();
        let mut resolved = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let path = resolve(self.base.as_deref(), path)?;
            if seen.insert(path.clone()) {
                resolved.push(path);
            }
        }
        Ok(resolved)
    }

    fn before(
        &self,
        path: &Path,
        recorded: &mut HashMap<PathRow, StateRow>,
        captured: &mut Captured,
    ) -> Result<()> {
        if self.keeper.is_own(path, captured) {
            return Ok(());
        }
        let present = self.keeper.look(path);
        // A tool may write through a link.
        let beneath = match present {
            Present::Symlink { .. } => linked_file(path, &self.keeper.roots),
            _ => None,
        };
        let found = Found::of(self.db(), present)?;
        self.before_found(path, found, recorded, captured)?;
        if let Some(beneath) = beneath
            && !self.keeper.is_own(&beneath, captured)
        {
            let found = Found::of(self.db(), self.keeper.look(&beneath))?;
            self.before_found(&beneath, found, recorded, captured)?;
        }
        Ok(())
    }

    /// Records the state of a path before the call.
    fn before_found(
        &self,
        path: &Path,
        found: Found,
        recorded: &mut HashMap<PathRow, StateRow>,
        captured: &mut Captured,
    ) -> Result<()> {
        let row = PathRow::of(path);
        if let Some(before) = recorded.get(&row) {
            // The first state stands: the call may have begun.
            tell(path, before, captured);
            if is_kept(before) {
                captured.kept.push(path.to_owned());
            }
            return Ok(());
        }
        let found = self.keeper.admit(found, path, captured);
        let before = found.keep(self.tx.tx())?;
        if let Some(last) = file_changes::last_of_path(self.db(), &row)?
            && last.after.is_none()
        {
            file_changes::set_after(self.tx.tx(), last.id, &before, true)?;
        }
        self.insert(&row, &before, None, missing_folders(path))?;
        recorded.insert(row, before.clone());
        if is_kept(&before) {
            captured.kept.push(path.to_owned());
        }
        Ok(())
    }

    pub(super) fn insert(
        &self,
        path: &PathRow,
        before: &StateRow,
        after: Option<&StateRow>,
        new_folders: u32,
    ) -> Result<i64> {
        let tx: &Tx<'_> = self.tx.tx();
        Ok(file_changes::insert(
            tx,
            &NewChange {
                session: self.session,
                source: self.source,
                operation: None,
                tool_use_id: Some(&self.call.id),
                agent: self.agent.as_deref(),
                prompt_id: self.call.prompt_id.as_deref(),
                place: self.place,
                path,
                before,
                after,
                new_folders,
                told: None,
            },
        )?)
    }

    /// Says that another session is changing files below the same folder.
    fn warn(&self, captured: &mut Captured) -> Result<()> {
        let since = self.tx.tx().now_ms() - AT_WORK_MS;
        for root in &self.keeper.roots {
            let mut folder = root.to_string_lossy().into_owned();
            if !folder.ends_with('/') {
                folder.push('/');
            }
            let other = file_changes::others_below(self.db(), self.session, &folder, since)?;
            let other = match other {
                Some(other) => sessions::find_row(self.db(), other)?,
                None => None,
            };
            if let Some(other) = other {
                captured.warnings.push(format!(
                    "session `{}` is changing files below {folder} too",
                    other.key
                ));
            }
        }
        Ok(())
    }
}
