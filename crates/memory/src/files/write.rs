//! Writes notes, wholly or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{Files, Trouble};
use crate::target::Target;

/// What came of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It has the new text.
    Yes,
    /// Somebody who knows of no lock, as an editor, saved it meanwhile. It has
    /// their text.
    Overtaken,
}

impl Files {
    /// Puts a text in the place of the one a file was read with. The lock is held
    /// by the caller.
    pub(super) fn write(&self, target: Target, from: &str, text: &str) -> Result<Written, Trouble> {
        let path = self.path(target);
        let failed = |source| Trouble::Write { path: path.clone(), source };
        self.make_dir().map_err(failed)?;
        let new = New::write(&self.real(target).map_err(failed)?, text).map_err(failed)?;
        // Looked at again at the last moment: writing to a disk takes its time.
        if self.read_text(target)? != from {
            return Ok(Written::Overtaken);
        }
        new.put_in_place().map_err(failed)?;
        Ok(Written::Yes)
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }

    /// Returns the file itself where a person has put a link in its place: what
    /// the link leads to is changed, and the link stays.
    pub(super) fn real(&self, target: Target) -> io::Result<PathBuf> {
        let missing = |error: &io::Error| error.kind() == ErrorKind::NotFound;
        match fs::canonicalize(self.path(target)) {
            Err(error) if missing(&error) => match fs::canonicalize(&self.dir) {
                Ok(dir) => Ok(dir.join(target.file_name())),
                Err(error) if missing(&error) => Ok(self.path(target)),
                Err(error) => Err(error),
            },
            found => found,
        }
    }
}

/// A text that waits beside a file to take its place, and is gone if it does not.
struct New {
    dir: File,
    waiting: PathBuf,
    place: PathBuf,
}

impl New {
    fn write(place: &Path, text: &str) -> io::Result<Self> {
        let (Some(dir), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        };
        // A rename would not ask.
        if fs::metadata(place).is_ok_and(|metadata| metadata.permissions().readonly()) {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "it is write-protected"));
        }
        // Under the lock there is one at a time; what a crash left behind goes.
        let waiting = dir.join(format!(".{}.new", name.to_string_lossy()));
        match fs::remove_file(&waiting) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let new = Self { dir: File::open(dir)?, waiting, place: place.to_owned() };
        write_new(&new.waiting, text)?;
        Ok(new)
    }

    fn put_in_place(self) -> io::Result<()> {
        fs::rename(&self.waiting, &self.place)?;
        // It is in place: a disk that cannot promise to keep it takes nothing back.
        if let Err(error) = self.dir.sync_all() {
            tracing::warn!(%error, path = %self.place.display(), "notes may not survive a loss of power");
        }
        Ok(())
    }
}

impl Drop for New {
    fn drop(&mut self) {
        // Not there any more once it is in place.
        fs::remove_file(&self.waiting).ok();
    }
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
