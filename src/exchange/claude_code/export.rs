//! Exporting a config folder that the client resumes from.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::beside::meta_of_entry;
use super::snapshots::Snapshots;
use crate::error::{Error, Result};
use crate::exchange::export_jsonl;
use crate::store::{Session, read_content, read_file};
use crate::tables::messages;
use crate::workspace::names::{is_component, is_relative_path};
use crate::workspace::replace::{NewFile, make_folder};

/// What an export wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    /// How many sessions.
    pub sessions: u64,
    /// How many files.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// Writes sessions into `folder` as a Claude Code config folder: transcripts byte for byte,
/// sub-agents, large outputs and checkpoint backups. A transcript that was not read from a file gets
/// checkpoint records for what is known of its files, so that the client rewinds to it. Files and folders are readable by their
/// owner alone.
///
/// # Errors
/// [`Error::Invalid`] if an id cannot name a file: nothing is written then; [`Error::Conflict`] if a file is there already
/// with another content. A file is written whole or not at all; those written before stay.
pub fn export_config_folder(folder: &Path, sessions: &[Session]) -> Result<ExportReport> {
    let mut report = ExportReport::default();
    for session in sessions {
        check_names(session)?;
    }
    for session in sessions {
        let key = session.key();
        let project = folder.join("projects").join(&key.project_key);
        let own = project.join(&key.session_id);
        // A session known by its sub-agents alone has no file of its own.
        if session.has_main_transcript()? {
            let path = project.join(format!("{}.jsonl", key.session_id));
            let mut snapshots = Snapshots::of(session)?;
            write(&path, 0o600, &mut report, |out| {
                match snapshots.is_empty() {
                    true => export_jsonl(session, "", out).map(drop),
                    false => snapshots.export(session, out),
                }
            })?;
            export_backups(session, folder, &snapshots, &mut report)?;
        }
        for subpath in session.subpaths()? {
            export_agent(session, &subpath, &own, &mut report)?;
        }
        export_files(session, folder, &own, &mut report)?;
        report.sessions += 1;
    }
    Ok(report)
}

/// Refuses a session whose names cannot be those of files.
fn check_names(session: &Session) -> Result<()> {
    let key = session.key();
    for (what, name) in [
        ("project key", &key.project_key),
        ("session id", &key.session_id),
    ] {
        if !is_component(name) {
            let why = format!(
                "`{name}` of session `{key}` cannot name a file or folder; export that session as JSONL, and the others by their ids"
            );
            return Err(Error::invalid(what, why));
        }
    }
    for subpath in session.subpaths()? {
        if !is_relative_path(&subpath) {
            let why = format!(
                "`{subpath}` of session `{key}` cannot name a file; export it as JSONL, and the other sessions by their ids"
            );
            return Err(Error::invalid("subpath", why));
        }
    }
    Ok(())
}

fn export_agent(
    session: &Session,
    subpath: &str,
    own: &Path,
    report: &mut ExportReport,
) -> Result<()> {
    write(
        &own.join(format!("{subpath}.jsonl")),
        0o600,
        report,
        |out| export_jsonl(session, subpath, out).map(drop),
    )?;
    let entry = session.store().db().read(|db| {
        Ok(messages::last_of_kind(
            db,
            session.row_id(),
            subpath,
            "agent_metadata",
        )?)
    })?;
    let Some(meta) = entry.as_deref().and_then(meta_of_entry) else {
        return Ok(());
    };
    let path = own.join(format!("{subpath}.meta.json"));
    write(&path, 0o600, report, |out| {
        out.write_all(meta.as_bytes())
            .map_err(|error| Error::io("writing", &path, error))
    })
}

fn export_files(
    session: &Session,
    config: &Path,
    own: &Path,
    report: &mut ExportReport,
) -> Result<()> {
    let store = session.store();
    let rows = store.db().read(|db| session.kept_files(db))?;
    for row in rows {
        if !is_relative_path(&row.path) {
            let why = format!(
                "`{}` of session `{}` leads elsewhere",
                row.path,
                session.key()
            );
            return Err(Error::invalid("file", why));
        }
        let path = match row.path.strip_prefix("file-history/") {
            Some(backup) => config.join("file-history").join(session.id()).join(backup),
            None => own.join(&row.path),
        };
        let bytes = store.db().read(|db| read_file(db, store.path(), &row))?;
        write(&path, row.mode & 0o777, report, |out| {
            out.write_all(&bytes)
                .map_err(|error| Error::io("writing", &path, error))
        })?;
    }
    Ok(())
}

/// Writes the contents that records of our own name.
fn export_backups(
    session: &Session,
    config: &Path,
    snapshots: &Snapshots,
    report: &mut ExportReport,
) -> Result<()> {
    let store = session.store();
    for (name, (blob, mode)) in &snapshots.backups {
        let path = config.join("file-history").join(session.id()).join(name);
        let bytes = store
            .db()
            .read(|db| read_content(db, store.path(), *blob))?;
        write(&path, mode & 0o777, report, |out| {
            out.write_all(&bytes)
                .map_err(|error| Error::io("writing", &path, error))
        })?;
    }
    Ok(())
}

/// Writes one file beside its place and renames it there. What is there already must be the same.
fn write(
    path: &Path,
    mode: u32,
    report: &mut ExportReport,
    content: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder).map_err(|error| Error::io("making the folder", folder, error))?;
    let beside: PathBuf = path.to_owned();
    let cannot = |error| Error::io("writing", &beside, error);
    let mut out = Counted {
        file: NewFile::begin(path, mode).map_err(cannot)?,
        bytes: 0,
        hasher: blake3::Hasher::new(),
    };
    content(&mut out)?;
    let Counted {
        file,
        bytes,
        hasher,
    } = out;
    if let Ok(present) = fs::File::open(path) {
        let mut there = blake3::Hasher::new();
        there
            .update_reader(present)
            .map_err(|error| Error::io("reading", path, error))?;
        if there.finalize() != hasher.finalize() {
            let path = path.display();
            return Err(Error::Conflict(format!(
                "{path} is there already and differs; export into an empty folder"
            )));
        }
    }
    file.finish().map_err(cannot)?;
    report.files += 1;
    report.bytes += bytes;
    Ok(())
}

/// Counts and hashes what is written.
struct Counted {
    file: NewFile,
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
