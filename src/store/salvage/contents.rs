//! Contents that are made of parts: whole with all of them, or lost.

use crate::db::Tx;
use crate::error::Result;
use crate::store::blobs::content;
use crate::tables::{blob_parts, blobs};

/// How many are looked at between two readings of the table.
const AT_ONCE: usize = 1000;

/// Removes the contents that do not come to what their hash is of. What names them is told of later.
pub(super) fn remove_broken(tx: &Tx<'_>, lost: &mut Vec<String>) -> Result<()> {
    blob_parts::delete_strays(tx)?;
    let mut broken = Vec::new();
    let mut after = 0;
    loop {
        let ids = blobs::made_of_parts(tx, after, AT_ONCE)?;
        let Some(last) = ids.last() else { break };
        after = *last;
        for id in ids {
            if let Err(why) = content(tx, id)? {
                broken.push(id);
                lost.push(format!("blobs: row {id} is lost: it {why}"));
            }
        }
    }
    // All at the end: those they are parts of are broken by themselves.
    for id in &broken {
        blobs::delete(tx, *id)?;
    }
    Ok(())
}
