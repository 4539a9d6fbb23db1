//! What git would leave out, by the rules in `.gitignore` files and a repository's own list.
//!
//! Only files are read. git itself is never asked, nor is its index: a file that is tracked although a
//! rule names it counts as left out. The user's rules outside the tree are not read.

use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::present::{Present, look};

/// A list of rules is at most this long.
const MOST_BYTES: u64 = 1 << 20;

/// The rules of a folder, above those of the folders around it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Option<Arc<Layer>>);

#[derive(Debug)]
struct Layer {
    own: Gitignore,
    around: Rules,
}

impl Rules {
    /// The rules that apply in a root: those of the folders around it, up to the repository that it is in.
    pub(super) fn around(root: &Path) -> Self {
        let mut folders = Vec::new();
        for folder in root.ancestors().skip(1) {
            folders.push(folder);
            if is_there(&folder.join(".git")) {
                let rules = folders.into_iter().rev();
                return rules.fold(Self::default(), |rules, folder| {
                    let is_repository = is_there(&folder.join(".git"));
                    rules.within(folder, is_repository, true)
                });
            }
        }
        Self::default()
    }

    /// The rules within a folder. A repository has its own, and none of what lies around it.
    pub(super) fn within(&self, folder: &Path, is_repository: bool, has_list: bool) -> Self {
        let around = if is_repository {
            Self::default()
        } else {
            self.clone()
        };
        let mut lists = Vec::new();
        if is_repository {
            lists.push(folder.join(".git/info/exclude"));
        }
        if has_list {
            lists.push(folder.join(".gitignore"));
        }
        let mut own = GitignoreBuilder::new(folder);
        for list in lists {
            if let Present::File { bytes, .. } = look(&list, MOST_BYTES) {
                let text = String::from_utf8_lossy(&bytes);
                for line in text.trim_start_matches('\u{feff}').lines() {
                    // A line that is no rule is none for git either.
                    drop(own.add_line(None, line));
                }
            }
        }
        match own.build() {
            Ok(own) if !own.is_empty() => Self(Some(Arc::new(Layer { own, around }))),
            _ => around,
        }
    }

    /// Whether a path is left out. The innermost rule that names it decides.
    pub(super) fn leave_out(&self, path: &Path, is_folder: bool) -> bool {
        let mut layer = self.0.as_deref();
        while let Some(here) = layer {
            match here.own.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => layer = here.around.0.as_deref(),
            }
        }
        false
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
