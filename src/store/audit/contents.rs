//! Contents that are looked at several times while a page of changes is told.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Connection;

use crate::error::Result;
use crate::store::blobs as contents;
use crate::store::copies::Copies;
use crate::tables::file_states::StateRow;
use crate::workspace::line_diff::is_text;

/// How many bytes are remembered.
const MOST: usize = 32 << 20;

/// Reads contents, and remembers some of them.
pub(super) struct Contents<'d> {
    pub(super) db: &'d Connection,
    pub(super) copies: Copies<'d>,
    known: RefCell<HashMap<i64, Option<Rc<[u8]>>>>,
    bytes: Cell<usize>,
}

impl<'d> Contents<'d> {
    pub(super) fn new(db: &'d Connection) -> Self {
        Self {
            db,
            copies: Copies::new(db),
            known: RefCell::default(),
            bytes: Cell::new(0),
        }
    }

    /// The content of a blob; `None` if it is damaged or gone: one content that cannot be read hides
    /// no other.
    pub(super) fn get(&self, blob: i64) -> Result<Option<Rc<[u8]>>> {
        if let Some(known) = self.known.borrow().get(&blob) {
            return Ok(known.clone());
        }
        let content: Option<Rc<[u8]>> = contents::content(self.db, blob)?.ok().map(Rc::from);
        let len = content.as_ref().map_or(0, |content| content.len());
        if self.bytes.get() + len > MOST {
            self.known.borrow_mut().clear();
            self.bytes.set(0);
        }
        self.bytes.set(self.bytes.get() + len);
        self.known.borrow_mut().insert(blob, content.clone());
        Ok(content)
    }

    /// The content of a state that is a file; `None` if it is none, or not kept.
    pub(super) fn file(&self, state: &StateRow) -> Result<Option<Rc<[u8]>>> {
        match state {
            StateRow::File { blob, .. } => self.get(*blob),
            _ => Ok(None),
        }
    }

    /// What a state holds line by line: of nothing no lines; `None` if it is no text, or not kept.
    pub(super) fn text(&self, state: &StateRow) -> Result<Option<Rc<[u8]>>> {
        Ok(match state {
            StateRow::Absent => Some(Rc::from([])),
            StateRow::File { blob, .. } => self.get(*blob)?.filter(|content| is_text(content)),
            _ => None,
        })
    }
}
