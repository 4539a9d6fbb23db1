//! Reading a transcript file line by line, on a thread beside the writer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::SyncSender;

use crate::tables::import_sources::SourceRow;
use crate::transcript::line::Ending;
use crate::transcript::reading::Reading;

/// How much is handed over at a time.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_READINGS: usize = 1000;

/// The longest line that is kept: SQLite takes no value over 1,000,000,000 bytes.
const MAX_LINE: usize = 990_000_000;

/// A reading and the line it stands on, counted from 1.
pub(super) struct Numbered {
    pub(super) line: u64,
    pub(super) reading: Reading,
}

/// What the reader hands over.
pub(super) enum Handed {
    /// The beginning of the file.
    Begun {
        /// Whether it is as it was read before: only what is behind that follows.
        is_known: bool,
        /// Whether its first lines name the session that it was taken for, or none.
        is_own: bool,
    },
    /// Some lines, and how many bytes were read in all.
    Batch(Vec<Numbered>, u64),
    /// A line that is too long to keep.
    TooLong(u64),
    /// The end of the file.
    End(Box<Prefix>),
    /// The file could not be read further.
    Failed(io::Error),
}

/// The whole lines at the beginning of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefix {
    pub(super) lines: u64,
    pub(super) bytes: u64,
    hasher: blake3::Hasher,
}

impl Prefix {
    pub(super) fn hash(&self) -> Vec<u8> {
        self.hasher.finalize().as_bytes().to_vec()
    }
}

/// Reads what was read of a file before; `None` if it is not there any more as it was.
fn read_prefix(path: &Path, known: &SourceRow) -> io::Result<Option<Prefix>> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() < known.bytes {
        return Ok(None);
    }
    let mut hasher = blake3::Hasher::new();
    let bytes = io::copy(&mut file.by_ref().take(known.bytes), &mut hasher)?;
    let prefix = Prefix {
        lines: known.lines,
        bytes,
        hasher,
    };
    let is_same = bytes == known.bytes && prefix.hash() == known.prefix_hash;
    Ok(is_same.then_some(prefix))
}

/// Tells of the sessions that the first `lines` lines of a file name, until `each` has seen enough.
///
/// # Errors
/// Those of reading.
pub(super) fn peek(
    path: &Path,
    lines: usize,
    mut each: impl FnMut(String) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut file = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    for _ in 0..lines {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = file.by_ref().take(limit).read_until(b'\n', &mut line)?;
        let ended = line.pop_if(|last| *last == b'\n').is_some();
        if read == 0 || (!ended && read > MAX_LINE) {
            break;
        }
        for reading in Reading::of_line(&line, Ending::Lf) {
            if reading
                .session_id
                .is_some_and(|session| each(session).is_break())
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Reads the lines of a file behind what is `known` of it, and hands them over until the receiver is
/// gone. `is_own` tells from the file whether it is its session's own.
pub(super) fn read(
    path: &Path,
    known: Option<&SourceRow>,
    is_own: impl FnOnce() -> bool,
    to: &SyncSender<Handed>,
) {
    let end = match known.map_or(Ok(None), |known| read_prefix(path, known)) {
        Err(error) => Handed::Failed(error),
        Ok(prefix) => {
            let begun = Handed::Begun {
                is_known: prefix.is_some(),
                is_own: is_own(),
            };
            let mut reader = Lines {
                prefix: prefix.unwrap_or_default(),
                batch: Vec::new(),
                batch_bytes: 0,
                to,
            };
            match to.send(begun).map(|()| reader.read_file(path)) {
                Ok(Ok(())) => Handed::End(Box::new(reader.prefix)),
                Ok(Err(error)) => Handed::Failed(error),
                Err(_) => return,
            }
        }
    };
    // The receiver is gone only if the import was stopped.
    drop(to.send(end));
}

struct Lines<'a> {
    prefix: Prefix,
    batch: Vec<Numbered>,
    batch_bytes: usize,
    to: &'a SyncSender<Handed>,
}

impl Lines<'_> {
    fn read_file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(self.prefix.bytes))?;
        self.read(file)
    }

    /// Reads up to the end, or to a line that has none yet: what a client writes behind that
    /// meanwhile is the rest of that line, and is read with it by the next import.
    fn read(&mut self, file: impl Read) -> io::Result<()> {
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        let mut number = self.prefix.lines;
        loop {
            line.clear();
            let read = file
                .by_ref()
                .take(MAX_LINE as u64 + 1)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            number += 1;
            let ended = line.last() == Some(&b'\n');
            if !ended && read > MAX_LINE {
                self.prefix.hasher.update(&line);
                self.prefix.bytes += read as u64 + self.skip_line(&mut file)?;
                self.prefix.lines = number;
                if !self.hand_over() || self.to.send(Handed::TooLong(number)).is_err() {
                    return Ok(());
                }
                continue;
            }
            if ended {
                self.prefix.hasher.update(&line);
                self.prefix.bytes += read as u64;
                self.prefix.lines = number;
                line.pop();
            }
            let ending = if ended { Ending::Lf } else { Ending::Eof };
            self.batch
                .extend(
                    Reading::of_line(&line, ending)
                        .into_iter()
                        .map(|reading| Numbered {
                            line: number,
                            reading,
                        }),
                );
            self.batch_bytes += read;
            let full = self.batch_bytes >= BATCH_BYTES || self.batch.len() >= BATCH_READINGS;
            if full && !self.hand_over() {
                return Ok(());
            }
            if !ended {
                break;
            }
        }
        self.hand_over();
        Ok(())
    }

    /// Hands over what was read; `false` if nobody takes it any more.
    fn hand_over(&mut self) -> bool {
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        batch.is_empty()
            || self
                .to
                .send(Handed::Batch(batch, self.prefix.bytes))
                .is_ok()
    }

    /// Reads to the end of a line that is too long, and returns how many bytes that was.
    fn skip_line(&mut self, file: &mut impl BufRead) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let part = file.fill_buf()?;
            let end = part.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let taken = end.unwrap_or(part.len());
            self.prefix.hasher.update(&part[..taken]);
            skipped += taken as u64;
            file.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(skipped);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    /// A file whose writer goes on as soon as its end was read.
    struct Growing(Vec<&'static [u8]>);

    impl Read for Growing {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            into[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn what_arrives_behind_half_a_line_is_no_line_of_its_own() {
        let (to, from) = sync_channel(8);
        let mut lines = Lines {
            prefix: Prefix::default(),
            batch: Vec::new(),
            batch_bytes: 0,
            to: &to,
        };
        let parts: [&[u8]; 4] = [b"{\"type\":\"a\"}\n{\"ty", b"", b"pe\":\"b\"}\n", b""];
        lines.read(Growing(parts.to_vec())).unwrap();
        assert_eq!((lines.prefix.lines, lines.prefix.bytes), (1, 13));
        assert_eq!(
            lines.prefix.hash(),
            blake3::hash(b"{\"type\":\"a\"}\n").as_bytes()
        );
        let Ok(Handed::Batch(batch, 13)) = from.try_recv() else {
            panic!("one batch")
        };
        let numbers: Vec<u64> = batch.iter().map(|numbered| numbered.line).collect();
        assert_eq!(numbers, [1, 2]);
    }
}
