//! Watching a command that names no path: a bounded scan of the work tree before it and after it.
//!
//! What could change must be known before: the contents of the files in bounds are kept ahead, once,
//! and later scans read only what changed since. What lay outside the bounds is told, by number. If
//! the process dies while the command runs, settling the call compares what is there then, and goes
//! no further than the watch did.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::capture::Capture;
use super::meanwhile::{Meanwhile, Own};
use super::reach::Reach;
use super::roots::{real_folder, roots_of};
use super::{Files, covered};
use crate::db::Tx;
use crate::error::{Error, Result};
use crate::model::{NotCovered, ToolRef, WatchOptions, Watched};
use crate::store::history::History;
use crate::store::session::Session;
use crate::store::write::SessionTx;
use crate::store::{Store, blobs as contents};
use crate::tables::blobs;
use crate::tables::file_changes;
use crate::tables::file_states::{PathRow, StateRow, os_bytes};
use crate::tables::watched_calls::{self, Since, WatchRow};
use crate::workspace::present::{Present, look};
use crate::workspace::scan::changes::Kind;
use crate::workspace::scan::{Content, Entry, Scanned, What, scan};

/// A command that is being watched.
#[derive(Debug)]
pub struct Watch {
    session: Session,
    call: ToolRef,
    reach: Reach,
    /// What was there before in each root, and since when others' changes count.
    scans: Vec<(Scanned, Since)>,
}

impl Files {
    /// Begins to watch a call that names no path, such as a shell command: run it once this has
    /// returned, then call [`Watch::finish`].
    ///
    /// Files that git's rules leave out, those of the store, those excluded, and what is over the
    /// limits are not covered, and reported as such.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the session has no root and none is given; [`Error::NotEnabled`] if
    /// checkpoints are off; [`Error::Io`] if a root cannot be read.
    pub fn watch(&self, call: impl Into<ToolRef>, options: &WatchOptions) -> Result<Watch> {
        let (session, call) = (self.session.clone(), call.into());
        if !self.is_enabled()? {
            return Err(Error::NotEnabled);
        }
        let roots = self.watched_roots(options)?;
        // Run again after its watcher died: what the first run left is recorded first.
        let at_ms = session.write(|tx| {
            finish_open(tx, &call.id)?;
            Ok(tx.tx().now_ms())
        })?;
        let reach = Reach::of(options, session.store().file_options());
        let mut scans = Vec::new();
        for root in roots {
            let store = session.store();
            let (last, change) = store
                .db()
                .read(|db| Ok((last_scan(db, &root)?, file_changes::newest(db)?)))?;
            let since = Since { change, at_ms };
            // Looking takes its time: the other writers need not wait for it.
            let mut before = look_over(store, &root, &reach, last.as_ref())?;
            session.write(|tx| {
                keep_unread(tx, &mut before, &reach)?;
                let row = WatchRow {
                    root: PathRow::of(&root),
                    scan: before.pack(),
                    options: Some(reach.text()),
                    agent: call.agent.clone(),
                    prompt_id: call.prompt_id.clone(),
                    since: Some(since),
                };
                watched_calls::begin(tx.tx(), tx.row()?.id, &call.id, &row)?;
                watched_calls::save_scan(tx.tx(), &row.root, &row.scan)?;
                Ok(())
            })?;
            scans.push((before, since));
        }
        Ok(Watch {
            session,
            call,
            reach,
            scans,
        })
    }

    fn watched_roots(&self, options: &WatchOptions) -> Result<Vec<PathBuf>> {
        let mut roots = Vec::new();
        for root in &options.roots {
            roots.push(real_folder(None, root)?);
        }
        if roots.is_empty() {
            let store = self.session.store();
            roots = store.db().read(|db| {
                let row = self.session.row(db)?;
                roots_of(db, &row, &History::of(db, &row, "")?)
            })?;
        }
        if roots.is_empty() {
            let why = "the session has no cwd; name the folder to be watched";
            return Err(Error::invalid("root", why));
        }
        Ok(roots)
    }

    /// Records what commands left whose watcher died: what is there now is taken for it. A rewind
    /// that is to take them back needs this first. A command that still runs is recorded as far as
    /// it is; the rest of it when it is over.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the session was deleted; [`Error::Io`] if a root cannot be read.
    pub fn finish_watches(&self) -> Result<usize> {
        // What a rewind left unfinished is no command's work. One that cannot be finished stays so.
        let _ = self.session.store().recover_if_free(self.session.row_id());
        self.session.write(|tx| {
            let open = watched_calls::open_calls(tx.tx(), tx.row()?.id)?;
            for call in &open {
                finish_open(tx, call)?;
            }
            Ok(open.len())
        })
    }
}

impl Watch {
    /// Records what the command created, changed, moved and deleted.
    ///
    /// # Errors
    /// [`Error::Io`] if a root cannot be read any more; those of the store.
    pub fn finish(self) -> Result<Watched> {
        let mut watched = Watched::default();
        for (before, since) in &self.scans {
            let store = self.session.store();
            let after = look_over(store, before.root(), &self.reach, Some(before))?;
            let done = self.session.write(|tx| {
                let row = PathRow::of(before.root());
                let open = watched_calls::open(tx.tx(), tx.row()?.id, &self.call.id)?;
                // Somebody took it for over: what it did since then is what is left to record.
                let from = match open.iter().any(|open| open.root == row) {
                    true => None,
                    false => last_scan(tx.tx(), before.root())?,
                };
                let from = from.as_ref().unwrap_or(before);
                finish(tx, &self.call, from, after, (&self.reach, Some(*since)))
            })?;
            watched.changed.extend(done.changed);
            watched.not_covered.extend(done.not_covered);
            watched.warnings.extend(done.warnings);
        }
        Ok(watched)
    }
}

/// Ends the watches of a call whose process died, as far as they reached: what is there now is taken
/// for what it left.
pub(super) fn finish_open(tx: &SessionTx<'_, '_>, tool_use_id: &str) -> Result<()> {
    for row in watched_calls::open(tx.tx(), tx.row()?.id, tool_use_id)? {
        let (root, store) = (row.root.path(), tx.store());
        if let Some(before) = Scanned::unpack(root, &row.scan) {
            let options = row.options.as_deref();
            let reach = Reach::read(options, store.file_options(), store.path())?;
            let call = ToolRef {
                id: tool_use_id.to_owned(),
                agent: row.agent,
                prompt_id: row.prompt_id,
            };
            let after = look_over(store, before.root(), &reach, Some(&before))?;
            finish(tx, &call, &before, after, (&reach, row.since))?;
        }
    }
    Ok(())
}

fn finish(
    tx: &SessionTx<'_, '_>,
    call: &ToolRef,
    before: &Scanned,
    mut after: Scanned,
    (reach, since): (&Reach, Option<Since>),
) -> Result<Watched> {
    let (db, root) = (tx.tx(), before.root());
    keep_unread(tx, &mut after, reach)?;
    let capture = Capture::of_watch(tx, call.clone())?;
    let changes = Scanned::changes(before, &after);
    let made: Vec<&Path> = changes
        .list
        .iter()
        .filter(|change| matches!(change.kind, Kind::Created { .. }) && is_folder(change.after))
        .map(|change| change.path)
        .collect();
    let session = tx.row()?.id;
    let mut meanwhile = Meanwhile::of(db, (session, &call.id), since);
    let mut watched = Watched::default();
    let mut unknown = 0;
    for change in &changes.list {
        let folders = is_folder(change.before) || is_folder(change.after);
        if folders && (change.before.is_none() || change.after.is_none()) {
            // Folders come and go with what lies in them.
            continue;
        }
        let path = root.join(change.path);
        let row = PathRow::of(&path);
        let (mut was, is) = (state(db, change.before)?, state(db, change.after)?);
        match meanwhile.own(&row, &is)? {
            Own::All => {}
            Own::From(left) => was = left,
            Own::Nothing => continue,
            Own::Unknown => {
                unknown += 1;
                continue;
            }
        }
        let parents = change.path.ancestors().skip(1);
        let new_folders = parents.take_while(|folder| made.contains(folder)).count();
        let new_folders = u32::try_from(new_folders).unwrap_or(0);
        capture.insert(&row, &was, Some(&is), new_folders)?;
        watched.changed.push(path);
    }
    watched.not_covered = outside(&after, changes.unsure, unknown);
    let told = covered::text(&watched.not_covered);
    let row = PathRow::of(root);
    meanwhile.warn(&row, &mut watched)?;
    watched_calls::end(db, session, &call.id, &row, &told)?;
    watched_calls::save_scan(db, &row, &after.pack())?;
    Ok(watched)
}

fn is_folder(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.what == What::Folder)
}

fn last_scan(db: &Connection, root: &Path) -> Result<Option<Scanned>> {
    let packed = watched_calls::last_scan(db, &PathRow::of(root))?;
    Ok(packed.and_then(|packed| Scanned::unpack(root.to_owned(), &packed)))
}

/// Scans a root.
fn look_over(
    store: &Store,
    root: &Path,
    reach: &Reach,
    cache: Option<&Scanned>,
) -> Result<Scanned> {
    let (excludes, limits) = (reach.excludes()?, reach.limits());
    match scan(root, &excludes, limits, cache, &store.own_files()) {
        // It was removed: nothing is left of it.
        Err(error) if error.kind() == io::ErrorKind::NotFound && cache.is_some() => {
            Ok(Scanned::nothing(root))
        }
        scanned => scanned.map_err(|error| Error::io("reading", root, error)),
    }
}

/// Keeps the contents that are not kept yet.
fn keep_unread(tx: &SessionTx<'_, '_>, scanned: &mut Scanned, reach: &Reach) -> Result<()> {
    let most = reach.limits().file_bytes;
    let unread: Vec<PathBuf> = scanned.unread().map(Path::to_owned).collect();
    for path in unread {
        if let Present::File { bytes, .. } = look(&scanned.root().join(&path), most) {
            contents::keep(tx.tx(), &bytes)?;
            scanned.note_kept(&path, *blake3::hash(&bytes).as_bytes());
        }
    }
    Ok(())
}

/// What a scan saw at a path.
fn state(tx: &Tx<'_>, entry: Option<&Entry>) -> Result<StateRow> {
    let not_kept = |why: &str| StateRow::NotKept {
        why: why.to_owned(),
    };
    let Some(entry) = entry else {
        return Ok(StateRow::Absent);
    };
    Ok(match &entry.what {
        What::Folder => StateRow::Directory,
        What::Symlink { target } => StateRow::Symlink {
            target: os_bytes(target.as_os_str()),
        },
        What::File(Content::Kept(hash)) => match blobs::find(tx, hash)? {
            Some(blob) => StateRow::File {
                blob,
                mode: Some(entry.stamp.mode & 0o7777),
            },
            None => not_kept("backup missing"),
        },
        What::File(Content::TooLarge) => not_kept("too large for a scan"),
        What::File(Content::TooMuch) => not_kept("more than a scan may read"),
        What::File(Content::Unread) => not_kept("it could not be read"),
    })
}

/// What lay outside the bounds, in words.
fn outside(scanned: &Scanned, unsure: u64, unknown: u64) -> Vec<NotCovered> {
    let uncovered = scanned.uncovered();
    let counts = [
        (uncovered.ignored, "left out by git's rules"),
        (uncovered.excluded, "excluded"),
        (uncovered.too_large, "too large for a scan"),
        (uncovered.too_much, "more than a scan may read"),
        (uncovered.unreadable, "not readable"),
        (uncovered.other, "no file, link or folder"),
        (unsure, "whether they are new, or gone, is not known"),
        (unknown, "another call was changing them too"),
        (
            u64::from(uncovered.has_more),
            "more files than a scan covers, nobody knows how many",
        ),
    ];
    let what = scanned.root().to_string_lossy();
    let told = counts.into_iter().filter(|(count, _)| *count > 0);
    told.map(|(count, reason)| NotCovered {
        what: what.clone().into_owned(),
        count: usize::try_from(count).unwrap_or(usize::MAX),
        reason: reason.to_owned(),
    })
    .collect()
}
