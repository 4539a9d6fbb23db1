//! Blame as an [Agent Trace](https://agent-trace.dev) record: who wrote each line of some files, in
//! a form that other tools read (RFC 0.1.0).
//!
//! A record says what [`Audit::blame`](crate::Audit::blame) says, and no more: lines that a recorded
//! call wrote are an agent's, in the session, turn and model that made the call; all others are
//! unknown, and never somebody's by a guess. It is made of the store and the files alone: no version
//! control system is asked.

mod conversations;
mod names;
mod options;
mod record;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use options::{TraceOptions, Vcs, VcsKind};
pub use record::{
    Contributor, ContributorKind, LeftOut, LeftOutKind, LineRange, Related, TraceMetadata,
    TraceNotes, TraceRecord, TraceTool, TracedConversation, TracedFile,
};

use self::conversations::conversations;
use crate::error::{Error, Result};
use crate::model::{Blame, StateKind};
use crate::store::Store;
use crate::workspace::line_diff::{MOST, is_text};
use crate::workspace::path::{absolute, is_within};
use crate::workspace::present::{FileId, Present, file_id, look};

/// Makes a record of the files that `options` choose. Files without lines are not in it, and those
/// that cannot be are named in its metadata. One file's content is in memory at a time.
///
/// Nothing is waited for: a link, a FIFO or a device under the name of a file is left out, and so are
/// the store's own files, which are not opened.
///
/// ```
/// use turnkeep::agent_trace::{self, TraceOptions};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let (db, repository) = (folder.path().join("turnkeep.db"), folder.path());
/// let store = turnkeep::Store::open(db)?;
/// let record = agent_trace::record(&store, &TraceOptions::below(repository))?;
/// println!("{}", serde_json::to_string(&record)?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::NotFound`] if no change is recorded of a path that is named, or of any file below it;
/// [`Error::Invalid`] if one lies outside the root, or the root is no folder and what lies on the
/// disk is asked for; [`Error::Io`] if a path cannot be resolved.
pub fn record(store: &Store, options: &TraceOptions) -> Result<TraceRecord> {
    let root = place(&options.root)?;
    if !options.recorded && !root.is_dir() {
        let why = format!(
            "{} is no folder; name the one that the files lie below",
            options.root.display()
        );
        return Err(Error::invalid("root", why));
    }
    let mut notes = TraceNotes {
        recorded: options.recorded,
        left_out: Vec::new(),
    };
    let own = store.own_files();
    let mut files = Vec::new();
    for (path, is_named) in chosen(store, &root, options)? {
        let below = path.strip_prefix(&root).unwrap_or(&path);
        let blame = match blame(store, &path, options.recorded, &own)? {
            Ok(blame) => blame,
            // Of the files of a folder those that are gone are none of it.
            Err((LeftOutKind::Gone, _)) if !is_named => continue,
            Err((kind, reason)) => {
                notes.left_out.push(left_out(below, kind, &reason));
                continue;
            }
        };
        if blame.lines.is_empty() {
            continue;
        }
        let Some(path) = in_words(below) else {
            notes.left_out.push(left_out(
                below,
                LeftOutKind::Name,
                "its name is not UTF-8, which JSON cannot hold",
            ));
            continue;
        };
        let conversations = conversations(&blame, |change| store.audit().model_of(change.id))?;
        files.push(TracedFile {
            path,
            conversations,
        });
    }
    Ok(TraceRecord {
        version: record::VERSION,
        id: uuid::Uuid::new_v4().to_string(),
        timestamp: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        vcs: options.vcs.clone(),
        tool: TraceTool {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
        },
        files,
        metadata: TraceMetadata { turnkeep: notes },
    })
}

/// The files that are asked for, and whether each was named itself.
fn chosen(store: &Store, root: &Path, options: &TraceOptions) -> Result<Vec<(PathBuf, bool)>> {
    if options.paths.is_empty() {
        let all = store.audit().files(root)?.into_iter();
        return Ok(all.map(|path| (path, false)).collect());
    }
    let mut found = BTreeSet::new();
    let mut named = BTreeSet::new();
    for given in &options.paths {
        let path = place(given)?;
        if !is_within(root, &path) {
            let why = format!(
                "{} lies outside {}; name a root that holds it",
                given.display(),
                root.display()
            );
            return Err(Error::invalid("path", why));
        }
        let files = store.audit().files(&path)?;
        if files.is_empty() {
            return Err(Error::NotFound {
                what: "recorded change of the file",
                id: path.display().to_string(),
            });
        }
        found.extend(files);
        named.insert(path);
    }
    let told = found.into_iter().map(|path| {
        let is_named = named.contains(&path);
        (path, is_named)
    });
    Ok(told.collect())
}

/// A path as changes are recorded of it; of a folder under the name of a link the folder's.
fn place(path: &Path) -> Result<PathBuf> {
    let refused = |error| Error::io("finding", path, error);
    if path.is_dir() {
        return path.canonicalize().map_err(refused);
    }
    let base = match path.is_absolute() {
        true => PathBuf::from("/"),
        false => std::env::current_dir().map_err(refused)?,
    };
    absolute(&base, path).map_err(refused)
}

/// Who wrote the lines of a file, or why that cannot be told.
fn blame(
    store: &Store,
    path: &Path,
    recorded: bool,
    own: &[FileId],
) -> Result<Result<Blame, (LeftOutKind, String)>> {
    if recorded {
        return store.audit().blame_briefly(path, None).map(known);
    }
    // To open and close one of them would drop the locks on it.
    if file_id(path).is_some_and(|id| own.contains(&id)) {
        return Ok(Err((LeftOutKind::Own, "it is the store's own".to_owned())));
    }
    let content = match look(path, MOST as u64) {
        Present::File { bytes, .. } => bytes,
        other => return Ok(Err(not_read(&other))),
    };
    if !is_text(&content) {
        return Ok(Err(no_text()));
    }
    store.audit().blame_briefly(path, Some(&content)).map(Ok)
}

/// What was recorded last, if all of it is known and has lines.
fn known(blame: Blame) -> Result<Blame, (LeftOutKind, String)> {
    match blame.state.kind {
        StateKind::File => {}
        StateKind::Absent => return Err(gone()),
        StateKind::Symlink => return Err(no_file("a link")),
        StateKind::Directory => return Err(no_file("a folder")),
        StateKind::NotKept => return Err(not_kept()),
    }
    let bytes = blame.state.bytes.unwrap_or(0);
    if bytes > MOST as u64 {
        return Err(too_large(bytes));
    }
    let mut hash = blake3::Hasher::new();
    for line in &blame.lines {
        if line.content.contains(&0) {
            return Err(no_text());
        }
        hash.update(&line.content);
    }
    match blame.state.hash == Some(hash.finalize().to_hex().to_string()) {
        true => Ok(blame),
        false => Err(not_kept()),
    }
}

fn not_read(present: &Present) -> (LeftOutKind, String) {
    match present {
        Present::Absent | Present::File { .. } => gone(),
        Present::TooLarge { len, .. } => too_large(*len),
        Present::Symlink { .. } => no_file("a link"),
        Present::Directory => no_file("a folder"),
        Present::Other(what) => no_file(what),
        Present::Unreadable(why) => {
            let reason = format!("it cannot be read: {why}");
            (LeftOutKind::NotReadable, reason)
        }
    }
}

fn gone() -> (LeftOutKind, String) {
    (LeftOutKind::Gone, "nothing is there".to_owned())
}

fn no_text() -> (LeftOutKind, String) {
    (LeftOutKind::NotText, "it is not text".to_owned())
}

fn no_file(what: &str) -> (LeftOutKind, String) {
    (LeftOutKind::NoFile, format!("it is {what}"))
}

fn not_kept() -> (LeftOutKind, String) {
    let reason = "what was recorded last is not kept".to_owned();
    (LeftOutKind::NotKept, reason)
}

fn too_large(bytes: u64) -> (LeftOutKind, String) {
    let reason = format!("it has {bytes} bytes; up to {MOST} are told by line");
    (LeftOutKind::TooLarge, reason)
}

fn left_out(below: &Path, kind: LeftOutKind, reason: &str) -> LeftOut {
    let parts = below.iter().map(|part| part.to_string_lossy());
    LeftOut {
        path: parts.collect::<Vec<_>>().join("/"),
        kind,
        reason: reason.to_owned(),
    }
}

/// A path below the root with forward slashes; `None` if it is not UTF-8.
fn in_words(below: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    Some(parts?.join("/"))
}
