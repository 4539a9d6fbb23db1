//! Writing a file so that it is there whole or not at all: beside it, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// A file being written. Until it is put in place nothing shows under its name; dropped before
/// that, it is gone.
pub(crate) struct NewFile {
    file: Option<io::BufWriter<File>>,
    beside: PathBuf,
    target: PathBuf,
}

impl NewFile {
    /// Begins a file that only its owner may read, in a folder that exists.
    pub(crate) fn begin(target: &Path, mode: u32) -> io::Result<Self> {
        let folder = target
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let beside = folder
            .unwrap_or(Path::new("."))
            .join(format!(".turnkeep-{}", Uuid::new_v4()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        set_mode(&mut options, mode);
        let file = options.open(&beside)?;
        Ok(Self {
            file: Some(io::BufWriter::with_capacity(1 << 16, file)),
            beside,
            target: target.to_owned(),
        })
    }

    /// Puts the file in place, in place of what is there, and makes it durable.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
        }
        fs::rename(&self.beside, &self.target)?;
        sync_folder(&self.target)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nothing to do about a failure: the name tells whose it is.
            drop(fs::remove_file(&self.beside));
        }
    }
}

/// Makes a folder, and those above it, that only their owner may enter.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(unix)]
fn set_mode(options: &mut OpenOptions, mode: u32) {
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
}

#[cfg(not(unix))]
fn set_mode(_: &mut OpenOptions, _: u32) {}

#[cfg(unix)]
fn sync_folder(target: &Path) -> io::Result<()> {
    let folder = target
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let mut begun = NewFile::begin(&target, 0o600).unwrap();
        begun.write_all(b"x").unwrap();
        assert!(!target.exists());
        drop(begun);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut whole = NewFile::begin(&target, 0o600).unwrap();
        whole.write_all(b"whole").unwrap();
        whole.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
