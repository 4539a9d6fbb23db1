//! Checkpoint records for an export: what this store knows of a session's files, as the client
//! writes it, so that the client rewinds to it.
//!
//! They stand beside prompts that have no record of the client's own: of an app's session, whose
//! changes were captured here, and of a fork, whose origin's records may lie behind the cut although
//! they name a prompt before it. A transcript that was read from a file is given back as it was.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::store::{AsFile, AtPrompt, History, Session, at_prompts};
use crate::tables::file_states::{PathRow, StateRow};
use crate::tables::{import_sources, messages};
use crate::transcript::file_history::{DELTA, Record, SNAPSHOT};
use crate::transcript::json::Object;

/// How many lines are read at a time.
const PAGE: usize = 256;

/// Records to be written, and the backups they name.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// By the prompt they stand behind.
    lines: HashMap<String, String>,
    /// By name: the content and the mode.
    pub(super) backups: BTreeMap<String, (i64, u32)>,
}

impl Snapshots {
    /// The records that the main transcript of a session lacks.
    pub(super) fn of(session: &Session) -> Result<Self> {
        session.store().db().read(|db| {
            let row = session.row(db)?;
            if import_sources::newest_path(db, row.id)?.is_some() {
                return Ok(Self::default());
            }
            let history = History::of(db, &row, "")?;
            let prompts = at_prompts(db, &history)?;
            let mut noted: HashSet<String> = HashSet::new();
            for part in &history.parts {
                let piece = (part.owner, part.after_seq, part.until_seq);
                messages::each_of_kinds(db, piece, (SNAPSHOT, DELTA), |entry| -> Result<()> {
                    let Some(record) = Record::read(entry) else {
                        return Ok(());
                    };
                    let named = history.find_in(db, part, &record.prompt)?;
                    let place = match named {
                        Some(named) => messages::place_of(db, named)?,
                        None => None,
                    };
                    noted.extend(place.and_then(|place| history.shown_uuid(&place)));
                    Ok(())
                })?;
            }
            let cwd = row.tally.listing.cwd.as_deref();
            Ok(Self::written(&prompts, &noted, cwd))
        })
    }

    fn written(prompts: &[AtPrompt], noted: &HashSet<String>, cwd: Option<&str>) -> Self {
        let mut all = Self::default();
        let mut versions: BTreeMap<&PathRow, (u32, &StateRow)> = BTreeMap::new();
        for prompt in prompts {
            let mut files = Map::new();
            for (path, state) in &prompt.files {
                let (version, last) = versions.entry(path).or_insert((1, state));
                if *last != state {
                    (*version, *last) = (*version + 1, state);
                }
                files.insert(
                    tracking_path(&path.text, cwd),
                    all.backup(path, *version, state, prompt.at_ms),
                );
            }
            if !files.is_empty() && !noted.contains(&prompt.uuid) {
                let line = json!({
                    "type": SNAPSHOT,
                    "messageId": prompt.uuid,
                    "snapshot": {
                        "messageId": prompt.uuid,
                        "trackedFileBackups": files,
                        "timestamp": iso(prompt.at_ms),
                    },
                    "isSnapshotUpdate": false,
                });
                all.lines.insert(prompt.uuid.clone(), line.to_string());
            }
        }
        if all.lines.is_empty() {
            all.backups.clear();
        }
        all
    }

    fn backup(&mut self, path: &PathRow, version: u32, state: &StateRow, at_ms: i64) -> Value {
        let name = match state {
            StateRow::File {
                blob,
                mode: Some(mode),
            } => {
                // Not the hash that the client takes, so that its own backups are others.
                let hash = blake3::hash(path.text.as_bytes()).to_hex();
                let name = format!("{}@v{version}", &hash[..16]);
                self.backups.insert(name.clone(), (*blob, *mode));
                Some(name)
            }
            _ => None,
        };
        json!({
            "backupFileName": name,
            "version": version,
            "backupTime": iso(at_ms),
            "realParentDir": Path::new(&path.text).parent().map(Path::to_string_lossy),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Writes the main transcript, with the records beside their prompts.
    pub(super) fn export(&mut self, session: &Session, out: &mut dyn Write) -> Result<()> {
        let refused =
            |error: std::io::Error| Error::io("writing the export of", session.id(), error);
        let (mut after, mut file) = (0, AsFile::default());
        loop {
            let page = session.transcript_page("", after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.seq;
            for line in &page {
                let Some(bytes) = file.next(line, "") else {
                    continue;
                };
                out.write_all(&bytes).map_err(refused)?;
                let uuid = line.entry.as_deref().and_then(|entry| {
                    Object::parse(entry).and_then(|entry| entry.string("uuid").map(String::from))
                });
                // Not between the halves of a line.
                let record = uuid.filter(|_| bytes.ends_with(b"\n"));
                if let Some(record) = record.and_then(|uuid| self.lines.remove(&uuid)) {
                    out.write_all(format!("{record}\n").as_bytes())
                        .map_err(refused)?;
                }
            }
        }
    }
}

/// A path as the client names it: relative below the session's folder.
fn tracking_path(path: &str, cwd: Option<&str>) -> String {
    let below = cwd.and_then(|cwd| Path::new(path).strip_prefix(cwd).ok());
    below.map_or(path.to_owned(), |below| {
        below.to_string_lossy().into_owned()
    })
}

fn iso(epoch_ms: i64) -> String {
    DateTime::from_timestamp_millis(epoch_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}
