//! Paths: those that a stored call names, and how a path is stored.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::history::History;
use crate::store::ledger::find_call;
use crate::store::write::SessionTx;
use crate::tables::{messages, tool_calls};
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
    let entry = messages::entry(tx.tx(), call.message)?;
    let cwd = entry.as_deref().and_then(|entry| {
        Object::parse(entry).and_then(|entry| entry.string("cwd").map(|cwd| PathBuf::from(&*cwd)))
    });
    let input = String::from_utf8_lossy(&call.input).into_owned();
    let Some(input) = Object::parse(&input) else {
        return Ok(Vec::new());
    };
    let named = ["file_path", "notebook_path"].into_iter();
    let paths = named.filter_map(|name| input.string(name).map(|path| PathBuf::from(&*path)));
    Ok(paths
        .map(|path| cwd.as_ref().map_or(path.clone(), |cwd| cwd.join(&path)))
        .collect())
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

/// A path below the innermost root that holds it, or as it is.
pub(super) fn below_root<'p>(roots: &[PathBuf], path: &'p Path) -> &'p Path {
    let holding = roots.iter().filter(|root| is_within(root, path));
    let innermost = holding.max_by_key(|root| root.components().count());
    innermost
        .and_then(|root| path.strip_prefix(root).ok())
        .unwrap_or(path)
}
