//! A root folder through which a rewind changes files, and nothing outside it.
//!
//! Every call walks from the handle on the root, one folder at a time, and refuses a folder that is a
//! link. What it then does, it does by name in the folder that it holds open. So a link that is put in
//! place of a folder, even between a check and a use, leads nowhere. What a call changed is on the disk
//! when it returns.
//!
//! What lies at the name itself may change between a look and a change: a caller who must not overwrite
//! what it has not seen looks just before.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};

use super::faults::changing;
use super::path::is_absence;
use super::present::{self, FileId, Present};
use mode::{not_a_file, set_mode};

#[cfg(test)]
mod cuts;
mod mode;
#[cfg(test)]
mod tests;

/// An open root folder.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Dir,
    path: PathBuf,
    id: FileId,
}

/// Why nothing was done at a path.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("its parent is now a symbolic link: `{}`", .0.display())]
    ParentIsLink(PathBuf),
    #[error("it does not lie below the root")]
    Outside,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A name in the folder that holds it.
struct Place {
    folder: Dir,
    name: OsString,
}

impl Tree {
    /// Opens a root. Links on the way to it are followed: its id says which folder it came to.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())?;
        let id = FileId::of(&dir.dir_metadata()?);
        Ok(Self {
            root: dir,
            path: root.to_owned(),
            id,
        })
    }

    /// Which folder it is, whatever it is called.
    /// The same, of a folder that is made if it is not there.
    pub(crate) fn open_or_make(root: &Path) -> io::Result<Self> {
        match Self::open(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                changing("making a folder", || std::fs::create_dir_all(root))?;
                Self::open(root)
            }
            opened => opened,
        }
    }

    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What lies at `rel` now, as [`present::look`] tells it.
    pub(crate) fn look(&self, rel: &Path, max_bytes: u64) -> Result<Present, Refused> {
        match self.place(rel) {
            Ok(place) => Ok(present::look_in(
                &place.folder,
                place.name.as_ref(),
                max_bytes,
            )),
            Err(Refused::Io(error)) if is_absence(&error) => Ok(Present::Absent),
            Err(Refused::Io(error)) => Ok(Present::Unreadable(error.kind())),
            Err(refused) => Err(refused),
        }
    }

    /// The folders above `rel` that are not there, outermost first.
    pub(crate) fn missing_folders(&self, rel: &Path) -> Result<Vec<PathBuf>, Refused> {
        let (folders, _) = split(rel)?;
        let (mut at, mut here) = (PathBuf::new(), Some(self.root.try_clone()?));
        let mut missing = Vec::new();
        for part in folders {
            at.push(part);
            here = match here.map(|dir| self.enter(&dir, part, &at)) {
                Some(Ok(dir)) => Some(dir),
                Some(Err(Refused::Io(error))) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                Some(Err(Refused::Io(_))) | None => None,
                Some(Err(refused)) => return Err(refused),
            };
            if here.is_none() {
                missing.push(at.clone());
            }
        }
        Ok(missing)
    }

    /// Makes one folder; those above it must be there. `false` if it is there already.
    pub(crate) fn make_folder(&self, rel: &Path) -> Result<bool, Refused> {
        let place = self.place(rel)?;
        let made = changing("making a folder", || place.folder.create_dir(&place.name));
        match made {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.enter(&place.folder, &place.name, rel)?;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        place.sync()?;
        Ok(true)
    }

    /// Writes a file named `temp` into the folder of `rel`. It is new, it never has wider rights than
    /// `mode`, and it has exactly these in the end. It gets the owner of the file at `rel`, where that
    /// is allowed. If it cannot be written whole, it is removed.
    pub(crate) fn write_beside(
        &self,
        rel: &Path,
        temp: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<(), Refused> {
        let place = self.place(rel)?;
        let temp = component(temp)?;
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .follow(FollowSymlinks::No);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::mode(&mut options, mode & 0o600);
        let mut file = changing("creating a file", || place.folder.open_with(temp, &options))?;
        let written = place.fill(&mut file, bytes, mode);
        if written.is_err() {
            // A process that dies here leaves it too: whoever recovers knows the name.
            drop(place.folder.remove_file(temp));
        }
        Ok(written?)
    }

    /// Makes the file named `temp` beside `rel` durable. Many that were written before are cheaper to sync one after
    /// another than each after its writing: the file system commits them together.
    pub(crate) fn sync_beside(&self, rel: &Path, temp: &str) -> Result<(), Refused> {
        let place = self.place(rel)?;
        let temp = component(temp)?;
        let file = mode::open(&place.folder, temp)?;
        Ok(file.sync()?)
    }

    /// Makes a symbolic link named `temp` in the folder of `rel`. Its target is text and is not looked at.
    pub(crate) fn link_beside(&self, rel: &Path, temp: &str, target: &Path) -> Result<(), Refused> {
        let place = self.place(rel)?;
        let temp = component(temp)?;
        Ok(changing("making a link", || {
            link(&place.folder, target, temp)
        })?)
    }

    /// Puts what lies beside `rel` as `temp` in its place; durable once [`Tree::sync_folder`] was called. A folder is
    /// never replaced.
    pub(crate) fn put(&self, rel: &Path, temp: &str) -> Result<(), Refused> {
        let place = self.place(rel)?;
        let temp = component(temp)?;
        place.refuse_folder()?;
        changing("renaming", || {
            place.folder.rename(temp, &place.folder, &place.name)
        })?;
        Ok(())
    }

    /// Makes durable what was put or removed in the folder of `rel`. One that is gone has nothing to be kept.
    pub(crate) fn sync_folder(&self, rel: &Path) -> Result<(), Refused> {
        match self.place(rel) {
            Err(Refused::Io(error)) if is_absence(&error) => Ok(()),
            place => Ok(place?.sync()?),
        }
    }

    /// Removes a leftover named `temp` beside `rel`. `false` if there is none, or no folder that could hold it.
    pub(crate) fn drop_beside(&self, rel: &Path, temp: &str) -> Result<bool, Refused> {
        let place = match self.place(rel) {
            Err(Refused::Io(error)) if is_absence(&error) => return Ok(false),
            place => place?,
        };
        let temp = component(temp)?;
        match changing("removing a leftover", || place.folder.remove_file(temp)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        place.sync()?;
        Ok(true)
    }

    /// Removes a file or a link; durable once [`Tree::sync_folder`] was called.
    pub(crate) fn remove(&self, rel: &Path) -> Result<(), Refused> {
        let place = self.place(rel)?;
        place.refuse_folder()?;
        changing("removing a file", || place.folder.remove_file(&place.name))?;
        Ok(())
    }

    /// Removes a folder that is empty. `false` if something is in it, or if there is no folder.
    pub(crate) fn remove_empty_folder(&self, rel: &Path) -> Result<bool, Refused> {
        let place = match self.place(rel) {
            Err(Refused::Io(error)) if is_absence(&error) => return Ok(false),
            place => place?,
        };
        match changing("removing a folder", || place.folder.remove_dir(&place.name)) {
            Ok(()) => {}
            Err(error)
                if is_absence(&error) || error.kind() == io::ErrorKind::DirectoryNotEmpty =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
        place.sync()?;
        Ok(true)
    }

    /// Gives a file its mode. It must be a regular file, and may be one that nobody can read.
    pub(crate) fn set_mode(&self, rel: &Path, mode: u32) -> Result<(), Refused> {
        let place = self.place(rel)?;
        let file = mode::open(&place.folder, &place.name)?;
        if !file.is_file() {
            return Err(not_a_file().into());
        }
        changing("setting a mode", || file.set_mode(mode))?;
        // A file that may not even be opened has its mode all the same, and the disk follows.
        Ok(file.sync()?)
    }

    /// The open folder that holds `rel`.
    fn place(&self, rel: &Path) -> Result<Place, Refused> {
        let (folders, name) = split(rel)?;
        let (mut at, mut folder) = (PathBuf::new(), self.root.try_clone()?);
        for part in folders {
            at.push(part);
            folder = self.enter(&folder, part, &at)?;
        }
        Ok(Place {
            folder,
            name: name.to_owned(),
        })
    }

    /// Opens a folder by its name. `at` is its path below the root.
    fn enter(&self, folder: &Dir, name: &OsStr, at: &Path) -> Result<Dir, Refused> {
        let error = match folder.open_dir_nofollow(name) {
            Ok(dir) => return Ok(dir),
            Err(error) => error,
        };
        match folder.symlink_metadata(name) {
            Ok(found) if found.is_symlink() => Err(Refused::ParentIsLink(self.path.join(at))),
            Ok(found) if !found.is_dir() => {
                Err(io::Error::from(io::ErrorKind::NotADirectory).into())
            }
            _ => Err(error.into()),
        }
    }
}

impl Place {
    fn refuse_folder(&self) -> io::Result<()> {
        match self.folder.symlink_metadata(&self.name) {
            Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => Ok(()),
            // Nothing is there, or it cannot be told: what is to be done next finds out.
            Err(_) => Ok(()),
        }
    }

    fn fill(&self, file: &mut File, bytes: &[u8], mode: u32) -> io::Result<()> {
        changing("writing a file", || file.write_all(bytes))?;
        self.give_owner(file)?;
        // Last: a write, and a change of the owner, take the bits for other users away.
        changing("setting a mode", || set_mode(file, mode))?;
        if mode & 0o600 == 0 {
            // Its owner cannot open it again to sync it.
            changing("making a file durable", || file.sync_all())?;
        }
        Ok(())
    }

    /// Gives a file the owner and group of the one it is to replace. Only root may do all of it; a
    /// member of the group may give that.
    #[cfg(unix)]
    fn give_owner(&self, file: &File) -> io::Result<()> {
        use cap_std::fs::MetadataExt;
        use std::os::unix::fs::fchown;
        let Ok(there) = self.folder.symlink_metadata(&self.name) else {
            return Ok(());
        };
        let own = file.metadata()?;
        let (uid, gid) = (there.uid(), there.gid());
        if (uid, gid) == (own.uid(), own.gid()) {
            return Ok(());
        }
        changing("giving a file its owner", || {
            if fchown(file, Some(uid), Some(gid)).is_err() {
                drop(fchown(file, None, Some(gid)));
            }
            Ok(())
        })
    }

    #[cfg(not(unix))]
    fn give_owner(&self, _: &File) -> io::Result<()> {
        Ok(())
    }

    /// Makes the names in the folder durable.
    #[cfg(unix)]
    fn sync(&self) -> io::Result<()> {
        changing("making a folder durable", || {
            match self.folder.open(".") {
                Ok(folder) => folder.sync_all(),
                // One that may be written and not be read: there is no handle to do it with.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    /// Elsewhere a folder cannot be synced.
    #[cfg(not(unix))]
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn link(folder: &Dir, target: &Path, name: &OsStr) -> io::Result<()> {
    folder.symlink_contents(target, name)
}

#[cfg(not(unix))]
fn link(_: &Dir, _: &Path, _: &OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The folders and the name of a path below the root.
fn split(rel: &Path) -> Result<(Vec<&OsStr>, &OsStr), Refused> {
    let mut parts = Vec::new();
    for part in rel.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            _ => return Err(Refused::Outside),
        }
    }
    let name = parts.pop().ok_or(Refused::Outside)?;
    Ok((parts, name))
}

/// A name that is one component.
fn component(name: &str) -> Result<&OsStr, Refused> {
    match split(Path::new(name))? {
        (folders, only) if folders.is_empty() && only.len() == name.len() => Ok(only),
        _ => Err(Refused::Outside),
    }
}
