//! Blame: a path's replay, told.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use super::replay::{Replay, Version, Whose};
use super::telling::{Teller, state_info};
use super::{Audit, seen_from};
use crate::error::{Error, Result};
use crate::model::{Blame, BlameLine, LineOrigin, StateInfo, StateKind};
use crate::tables::audit::model_of;
use crate::tables::file_changes;
use crate::tables::file_states::PathRow;
use crate::workspace::lines::lines;

impl Audit {
    /// Who wrote each line of a file, as it was recorded last: all changes of the path, by any
    /// session, are replayed in order. A relative path is seen from the process's current folder.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no change of the file is recorded.
    pub fn blame(&self, path: impl AsRef<Path>) -> Result<Blame> {
        self.blamed(path.as_ref(), None, false)
    }

    /// The same of a content that is given, such as what lies on the disk now: lines that were not
    /// recorded are somebody's outside.
    ///
    /// # Errors
    /// As [`Audit::blame`].
    pub fn blame_content(&self, path: impl AsRef<Path>, content: &[u8]) -> Result<Blame> {
        self.blamed(path.as_ref(), Some(content), false)
    }

    /// The model that made the call of a change, as its message names it.
    pub(crate) fn model_of(&self, change: i64) -> Result<Option<String>> {
        self.db().read(|db| Ok(model_of(db, change)?))
    }

    /// The same, of what is given or else of what was recorded last, without the lines and the effect of
    /// each change.
    pub(crate) fn blame_briefly(&self, path: &Path, given: Option<&[u8]>) -> Result<Blame> {
        self.blamed(path, given, true)
    }

    fn blamed(&self, path: &Path, given: Option<&[u8]>, brief: bool) -> Result<Blame> {
        let path = seen_from(None, path)?;
        self.db().read(|db| {
            let mut teller = Teller::new(db, None, brief);
            let replayed = Replay::new(&teller.contents).path(&PathRow::of(&path), None)?;
            let replayed = replayed.ok_or_else(|| Error::NotFound {
                what: "recorded change of the file",
                id: path.display().to_string(),
            })?;
            let mut state = state_info(db, &replayed.state)?;
            let version = match (replayed.version, given) {
                (version, None) => version,
                (Some(version), Some(given)) => {
                    Some(version.becomes(Rc::from(given), Whose::OutsideNow))
                }
                (None, Some(given)) => {
                    let nothing = Version {
                        content: Rc::from([]),
                        whose: Rc::from([]),
                    };
                    Some(nothing.becomes(Rc::from(given), Whose::OutsideNow))
                }
            };
            if let Some(given) = given {
                state = StateInfo {
                    kind: StateKind::File,
                    hash: Some(blake3::hash(given).to_hex().to_string()),
                    bytes: Some(given.len() as u64),
                    mode: state.mode,
                    target: None,
                    reason: None,
                };
            }
            let mut blame = Blame {
                path: path.clone(),
                state,
                lines: Vec::new(),
                origins: Vec::new(),
            };
            let Some(version) = version else {
                return Ok(blame);
            };
            let mut places: HashMap<Whose, usize> = HashMap::new();
            for (number, (line, whose)) in (1..).zip(
                lines(&version.content)
                    .into_iter()
                    .zip(version.whose.iter()),
            ) {
                let origin = match places.get(whose) {
                    Some(place) => *place,
                    None => {
                        blame.origins.push(origin(&mut teller, *whose)?);
                        places.insert(*whose, blame.origins.len() - 1);
                        blame.origins.len() - 1
                    }
                };
                blame.lines.push(BlameLine {
                    number,
                    content: line.to_vec(),
                    origin,
                });
            }
            Ok(blame)
        })
    }
}

fn origin(teller: &mut Teller<'_>, whose: Whose) -> Result<LineOrigin> {
    let row = |teller: &Teller<'_>, id: i64| {
        let row = file_changes::get(teller.contents.db, id)?;
        row.ok_or_else(|| Error::NotFound {
            what: "change",
            id: id.to_string(),
        })
    };
    Ok(match whose {
        Whose::BeforeTracking => LineOrigin::BeforeTracking,
        Whose::OutsideNow => LineOrigin::Outside {
            seen_by: None,
            seen_ms: None,
        },
        Whose::Outside(id) => LineOrigin::Outside {
            seen_by: Some(id),
            seen_ms: Some(row(teller, id)?.before_ms),
        },
        Whose::Change(id) => {
            let row = row(teller, id)?;
            let change = Box::new(teller.tell(&row)?);
            LineOrigin::Change { change }
        }
        Whose::NotKept(id) => {
            let row = row(teller, id)?;
            let change = Box::new(teller.tell(&row)?);
            LineOrigin::NotKept { change }
        }
    })
}
