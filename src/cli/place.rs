//! Which store and which session a command is about.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use turnkeep::{Error, OpenOptions, Scope, Session, Store};

use super::Call;
use super::fail::Failure;

// Where a session is looked for by its name. (A doc comment here would become the command's own.)
#[derive(Debug, clap::Args)]
pub(super) struct Within {
    /// Look only in this project: its key, or a directory
    #[arg(long, value_name = "KEY|DIR", allow_hyphen_values = true)]
    project: Option<String>,
}

impl Within {
    pub(super) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }
}

impl Call {
    /// The file of the store.
    pub(super) fn store_path(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.store {
            return Ok(path.clone());
        }
        let folders = etcetera::choose_base_strategy().map_err(|_| {
            Failure::wrong_use("the user's data folder is not known")
                .hint("name a store with --store FILE")
        })?;
        Ok(folders.data_dir().join("turnkeep").join("turnkeep.db"))
    }

    /// Opens the store for writing; makes it if `create`.
    pub(super) fn open(&self, create: bool) -> Result<Store, Failure> {
        self.open_with(&OpenOptions::new().create(create))
    }

    fn open_with(&self, options: &OpenOptions) -> Result<Store, Failure> {
        let store = Store::open_with(self.store_path()?, options)?;
        for note in store.notes() {
            eprintln!("note: {note}");
        }
        Ok(store)
    }

    /// Opens the store to look at it: one that can only be read will do.
    pub(super) fn look(&self) -> Result<Store, Failure> {
        match self.open_with(&OpenOptions::new().create(false).recover(false)) {
            Err(Failure::Store(Error::ReadOnly { path })) => Ok(Store::open_with(
                path,
                &OpenOptions::new().create(false).read_only(true),
            )?),
            opened => opened,
        }
    }
}

/// Finds a session by what the user calls it.
pub(super) fn session(
    store: &Store,
    name: &str,
    project: Option<&str>,
) -> Result<Session, Failure> {
    let name = plain(name);
    Ok(store.sessions().resolve(name, &scope(store, project)?)?)
}

/// A name that begins with a hyphen, and that `./` brought past the flags.
fn plain(name: &str) -> &str {
    name.strip_prefix("./")
        .filter(|rest| rest.starts_with('-'))
        .unwrap_or(name)
}

/// What `--project` means: a project key that is there, else a directory.
pub(super) fn scope(store: &Store, project: Option<&str>) -> Result<Scope, Failure> {
    let Some(project) = project else {
        return Ok(Scope::default());
    };
    let project = plain(project);
    if project.is_empty() {
        return Err(
            Failure::wrong_use("--project is empty").hint("give a project key or a directory")
        );
    }
    if store.sessions().has_project(project)? || !looks_like_a_path(project) {
        return Ok(Scope {
            project_key: Some(project.to_owned()),
            cwd: None,
        });
    }
    let path = Path::new(project);
    let real = std::fs::canonicalize(path)
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned());
    Ok(Scope {
        project_key: None,
        cwd: Some(real.to_string_lossy().into_owned()),
    })
}

/// A file as the user means it. A relative path is seen from the current folder, as a shell sees it,
/// if that lies within the session's folders or what it names there does; else, as the library does,
/// from the session's cwd.
pub(super) fn file(session: &Session, path: &Path) -> Result<PathBuf, Failure> {
    let roots = session.files().roots()?;
    let current = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let Ok(here) = current else {
        return Ok(path.to_owned());
    };
    let named = here.join(path);
    let within = |root: &PathBuf| here.starts_with(root) || named.starts_with(root);
    match roots.is_empty() || roots.iter().any(within) {
        true => Ok(named),
        false => Ok(path.to_owned()),
    }
}

fn looks_like_a_path(text: &str) -> bool {
    text.contains(['/', '\\']) || text == "." || text == ".." || Path::new(text).is_dir()
}
