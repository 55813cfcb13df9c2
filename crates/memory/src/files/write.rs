//! Writes notes, wholly or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::{Files, Trouble};
use crate::target::Target;

impl Files {
    /// Puts a text in the place of a file. The lock is held by the caller.
    pub(super) fn write(&self, target: Target, text: &str) -> Result<(), Trouble> {
        let path = self.path(target);
        let written = self.make_dir().and_then(|()| replace(&real(&path)?, text));
        written.map_err(|source| Trouble::Write { path, source })
    }

    fn make_dir(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)
    }
}

/// Returns the file itself where a person has put a link in its place: what the
/// link leads to is changed, and the link stays.
fn real(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(error),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(ErrorKind::InvalidInput));
    };
    // Under the lock there is one at a time; what a crash left behind goes.
    let new = dir.join(format!(".{}.new", name.to_string_lossy()));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&new, text).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written?;
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
