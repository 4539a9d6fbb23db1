//! Files that belong to a session beside its transcripts: kept as blobs, each content once.

use rusqlite::Connection;

use crate::db::Tx;
use crate::error::{Error, Result};
use crate::tables::blobs::{self, BlobRow};
use crate::tables::session_files::{self, FileRow};

/// How hard blobs are compressed: zstd's default.
const LEVEL: i32 = 3;

/// A file's content and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileContent {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) modified_ms: Option<i64>,
}

/// Keeps a file with a session, in place of what was kept under its path. `false` if that was the
/// same.
pub(crate) fn keep_file(tx: &Tx<'_>, session: i64, file: &FileContent) -> Result<bool> {
    let blob = keep_blob(tx, &file.bytes)?;
    let row = FileRow {
        path: file.path.clone(),
        blob,
        mode: file.mode,
        modified_ms: file.modified_ms,
    };
    let before = session_files::find(tx, session, &file.path)?;
    if before
        .as_ref()
        .is_some_and(|before| before.blob == blob && before.mode == file.mode)
    {
        return Ok(false);
    }
    session_files::save(tx, session, &row)?;
    if let Some(before) = before {
        blobs::delete_if_unused(tx, before.blob)?;
    }
    Ok(true)
}

/// The content of a session's file, checked against its hash.
///
/// # Errors
/// [`Error::Damaged`] if the content is not what was stored.
pub(crate) fn read_file(
    db: &Connection,
    store: &std::path::Path,
    row: &FileRow,
) -> Result<Vec<u8>> {
    let damaged = |why: &str| Error::Damaged {
        path: store.to_owned(),
        why: format!("the content of `{}` {why}", row.path),
    };
    let blob = blobs::get(db, row.blob)?.ok_or_else(|| damaged("is missing"))?;
    unpack(&blob.hash, &blob.encoding, &blob.content).map_err(damaged)
}

/// The content of a blob, checked against its hash; if it is not what was stored, why.
pub(super) fn unpack(hash: &[u8], encoding: &str, content: &[u8]) -> Result<Vec<u8>, &'static str> {
    let bytes = match encoding {
        "zstd" => zstd::decode_all(content).map_err(|_| "cannot be unpacked")?,
        _ => content.to_vec(),
    };
    if blake3::hash(&bytes).as_bytes()[..] != hash[..] {
        return Err("does not match its hash");
    }
    Ok(bytes)
}

fn keep_blob(tx: &Tx<'_>, bytes: &[u8]) -> Result<i64> {
    let hash = blake3::hash(bytes).as_bytes().to_vec();
    if let Some(id) = blobs::find(tx, &hash)? {
        return Ok(id);
    }
    let packed = zstd::encode_all(bytes, LEVEL)
        .ok()
        .filter(|packed| packed.len() < bytes.len());
    let (encoding, content) = match packed {
        Some(packed) => ("zstd", packed),
        None => ("plain", bytes.to_vec()),
    };
    let row = BlobRow {
        hash,
        bytes: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
        encoding: encoding.to_owned(),
        content,
    };
    Ok(blobs::insert(tx, &row)?)
}
