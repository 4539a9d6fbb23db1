//! Recording a rewind: one transaction, before the first file is touched.

use serde_json::json;

use super::aim::Target;
use super::apply::temp_name;
use super::course::Ground;
use super::plan::{PlannedFile, Trees};
use super::rewind::RewindPlan;
use crate::error::{Error, Result};
use crate::model::{FileAction, FileOutcome};
use crate::store::session::Session;
use crate::store::write::SessionTx;
use crate::tables::file_states::{StateRow, os_bytes};
use crate::tables::operations;
use crate::tables::rewinds::{self, RewindFileRow, RewindRow};
use crate::workspace::folders::missing_folders;

/// A rewind as it was recorded, and the files that it touches.
pub(super) type Recorded = (RewindRow, Vec<RewindFileRow>);

/// Looks at the plan again, and records everything that is needed to finish it or to put it back.
pub(super) fn record(
    tx: &SessionTx<'_, '_>,
    session: &Session,
    planned: &RewindPlan,
) -> Result<Option<Recorded>> {
    let (options, aim, store) = (&planned.options, &planned.aim, session.store());
    let ground = Ground::of(tx.tx(), session, options, aim)?;
    let now = ground.course(tx.tx(), store, options, aim, false)?;
    if !planned.course.is_still(&now) {
        return Err(Error::Conflict(
            "the session or its files changed since this was planned; nothing was done".to_owned(),
        ));
    }
    let (row, target) = (ground.row, now.target);
    let touches = now.files.iter().any(PlannedFile::has_work);
    let moves = options.restore.conversation() && target.head != now.head;
    if !touches && !moves {
        return Ok(None);
    }
    let detail = json!({"point": aim.name(), "restore": options.restore});
    let detail = detail.to_string();
    let kind = aim.kind();
    let operation =
        operations::insert(tx.tx(), row.id, kind, options.by.as_deref(), Some(&detail))?;
    let Target { head, scratch, .. } = target;
    let rewind = RewindRow {
        operation,
        session: row.id,
        kind: kind.to_owned(),
        restores: options.restore.as_str().to_owned(),
        point: aim.name(),
        undoes: aim.undoes(),
        status: "unfinished".to_owned(),
        accepts_part: options.accept_part,
        head_before: now.head,
        head_after: if options.restore.conversation() {
            head
        } else {
            now.head
        },
        scratch_before: row.scratch,
        scratch_after: scratch,
        begun_ms: tx.tx().now_ms(),
    };
    rewinds::insert(tx.tx(), &rewind)?;
    let mut trees = Trees::default();
    let mut recorded = Vec::new();
    for (position, file) in (0..).zip(&now.files) {
        let recorded_file = record_file(tx, &mut trees, position, file)?;
        rewinds::insert_file(tx.tx(), operation, &recorded_file)?;
        if file.has_work() {
            recorded.push(recorded_file);
        }
    }
    Ok(Some((rewind, recorded)))
}

fn record_file(
    tx: &SessionTx<'_, '_>,
    trees: &mut Trees,
    position: i64,
    file: &PlannedFile,
) -> Result<RewindFileRow> {
    let touches = file.has_work();
    let root = file.root.clone().unwrap_or_default();
    let id = match touches {
        true => trees
            .get_or_make(&root)
            .map(|tree| tree.id())
            .map_err(|error| Error::io("opening", &root, error))
            .map(|id| (id.device as i64, id.inode as i64))?,
        false => (0, 0),
    };
    let goes = file.target == StateRow::Absent;
    Ok(RewindFileRow {
        position,
        root: os_bytes(root.as_os_str()),
        root_id: id,
        path: file.path.clone(),
        action: file.report.action.as_str().to_owned(),
        outcome: match touches {
            true => FileOutcome::Planned,
            false if file.report.action.leaves() => FileOutcome::Left,
            false => FileOutcome::Done,
        }
        .as_str()
        .to_owned(),
        reason: file.report.reason.clone(),
        before: if touches {
            file.found.keep(tx.tx())?
        } else {
            file.found.known()
        },
        after: match file.report.action {
            // Perhaps because its content is gone: then no row may name it.
            FileAction::Refused => StateRow::NotKept {
                why: "it was left alone".to_owned(),
            },
            _ => file.target.clone(),
        },
        // Also for a deletion: the file may have to be put back.
        temp: touches.then(temp_name),
        new_folders: if touches {
            missing_folders(&file.report.path)
        } else {
            0
        },
        old_folders: if goes { file.made_folders } else { 0 },
        change: None,
    })
}
