//! What imports know of a transcript: the files that it is said to equal, and the hash of each.

use super::mending::{BYTES, LINES};
use super::placing::transcript_name;
use crate::db::Tx;
use crate::error::Result;
use crate::store::history::History;
use crate::store::transcript::{AsFile, Line};
use crate::tables::mending as sql;
use crate::tables::messages::Stored;
use crate::tables::sessions::SessionRow;
use crate::tables::transcripts::TranscriptRow;

/// A transcript on its way into the hash of the file that it is of.
pub(super) struct Known {
    name: String,
    subpath: String,
    sources: Vec<(i64, String, Vec<u8>)>,
    file: AsFile,
    hasher: blake3::Hasher,
}

impl Known {
    /// Begins with what a fork inherits.
    pub(super) fn begin(
        tx: &Tx<'_>,
        session: &SessionRow,
        history: &History,
        transcript: &TranscriptRow,
    ) -> Result<Self> {
        let subpath = transcript.subpath.clone();
        let mut known = Self {
            name: format!("{} of session `{}`", transcript_name(&subpath), session.key),
            sources: sql::sources_in_sync(tx, session.id, &subpath, transcript.next_seq)?,
            subpath,
            file: AsFile::default(),
            hasher: blake3::Hasher::new(),
        };
        let own_after = history.own().map_or(0, |own| own.after_seq);
        let mut after = 0;
        while after < own_after && !known.sources.is_empty() {
            let lines = history.page(tx, after, LINES, BYTES)?;
            let Some(last) = lines.last() else { break };
            after = last.seq;
            for line in lines.into_iter().filter(|line| line.seq <= own_after) {
                known.take(line);
            }
        }
        Ok(known)
    }

    pub(super) fn take(&mut self, line: Stored) {
        if self.sources.is_empty() {
            return;
        }
        if let Some(bytes) = self.file.next(&Line::from(line), &self.subpath) {
            self.hasher.update(&bytes);
        }
    }

    /// Lets the next import compare all of a file that the transcript no longer equals.
    pub(super) fn compare(self, tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<()> {
        let hash = self.hasher.finalize();
        for (source, path, expected) in self.sources {
            if expected != hash.as_bytes() {
                sql::forget_sync(tx, source)?;
                lost.push(format!(
                    "messages: the {} is no longer what was imported from `{path}`; import that file again to complete it",
                    self.name
                ));
            }
        }
        Ok(())
    }
}
