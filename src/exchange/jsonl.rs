//! A transcript as JSONL, byte for byte.

use std::io::{self, Write};

use crate::error::{Error, Result};
use crate::store::{AsFile, Session};
use crate::transcript::reading::Reading;

/// How many lines are read at a time: memory stays flat, and no snapshot outlives a page.
const PAGE: usize = 256;

/// Writes a transcript as JSONL; `subpath` is empty for the main one. What was imported from one
/// file comes out as that file's bytes.
///
/// Each record is written with its line feed in one go, and a record behind an unfinished line
/// begins on a line of its own. A sub-agent's `agent_metadata` entries stand in a file beside the
/// transcript (`.meta.json`) and are left out here. Returns how many lines were written.
///
/// # Errors
/// [`Error::NotFound`] if the session or the transcript is not there; [`Error::Io`] if `out`
/// refuses.
pub fn export_jsonl(session: &Session, subpath: &str, out: &mut dyn Write) -> Result<u64> {
    let refused = |error: io::Error| Error::io("writing the export of", session.id(), error);
    let (mut after, mut lines) = (0, 0);
    let mut file = AsFile::default();
    loop {
        let page = session.transcript_page(subpath, after, PAGE)?;
        let Some(last) = page.last() else {
            return Ok(lines);
        };
        after = last.seq;
        for line in &page {
            if let Some(bytes) = file.next(line, subpath) {
                out.write_all(&bytes).map_err(refused)?;
                lines += 1;
            }
        }
    }
}

/// Whether `text` is an entry that can be appended: one JSON object on one line.
pub fn is_entry(text: &str) -> bool {
    Reading::of_entry(text).is_some()
}
