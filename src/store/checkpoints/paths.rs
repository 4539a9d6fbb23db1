//! Paths: those that a stored call names, and how a path is stored.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::store::history::History;
use crate::store::ledger::find_call;
use crate::store::write::SessionTx;
use crate::tables::messages;
use crate::tables::tool_calls::{self, CallRow};
use crate::transcript::json::Object;
use crate::workspace::path::{absolute, is_within};

/// The paths that a stored call names.
pub(super) fn named_paths(tx: &SessionTx<'_, '_>, tool_use_id: &str) -> Result<Vec<PathBuf>> {
    let row = tx.row()?;
    let history = History::of(tx.tx(), &row, "")?;
    let call = match find_call(tx.tx(), &history, row.id, tool_use_id)? {
        Some(id) => tool_calls::get(tx.tx(), id)?,
        None => None,
    };
    let call = call.ok_or_else(|| Error::NotFound {
        what: "tool call",
        id: format!("{tool_use_id}` in session `{}", tx.key()),
    })?;
    paths_of(tx.tx(), &call)
}

/// The paths that a call names, seen from the cwd of its entry.
pub(super) fn paths_of(db: &Connection, call: &CallRow) -> Result<Vec<PathBuf>> {
    let input = String::from_utf8_lossy(&call.input).into_owned();
    let Some(input) = Object::parse(&input) else {
        return Ok(Vec::new());
    };
    let named = ["file_path", "notebook_path"].into_iter();
    let named = named.filter_map(|name| input.string(name).map(|path| PathBuf::from(&*path)));
    let named: Vec<PathBuf> = named.collect();
    if named.iter().all(|path| path.is_absolute()) {
        return Ok(named);
    }
    let entry = messages::entry(db, call.message)?;
    let cwd = entry.as_deref().and_then(|entry| {
        Object::parse(entry).and_then(|entry| entry.string("cwd").map(|cwd| PathBuf::from(&*cwd)))
    });
    let seen_from = |path: PathBuf| cwd.as_ref().map_or(path.clone(), |cwd| cwd.join(&path));
    Ok(named.into_iter().map(seen_from).collect())
}

/// An absolute path as it is stored.
pub(crate) fn resolve_path(path: &Path) -> Result<PathBuf> {
    resolve(None, path)
}

/// A path as it is stored: absolute, folders without links.
pub(super) fn resolve(base: Option<&Path>, path: &Path) -> Result<PathBuf> {
    let base = match base {
        Some(base) => base,
        None if path.is_absolute() => Path::new("/"),
        None => {
            let why = "it is relative, and the session has no cwd; give an absolute path";
            return Err(Error::invalid(path.display().to_string(), why));
        }
    };
    absolute(base, path).map_err(|error| Error::io("finding", path, error))
}

/// The innermost root that holds a path: as little as possible lies between the two.
pub(super) fn innermost_root<'r>(
    roots: impl IntoIterator<Item = &'r PathBuf>,
    path: &Path,
) -> Option<&'r PathBuf> {
    let holding = roots.into_iter().filter(|root| is_within(root, path));
    holding.max_by_key(|root| root.components().count())
}

/// A path below the innermost root that holds it, or as it is.
pub(super) fn below_root<'p>(roots: &[PathBuf], path: &'p Path) -> &'p Path {
    innermost_root(roots, path)
        .and_then(|root| path.strip_prefix(root).ok())
        .unwrap_or(path)
}
