//! Making a file.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// Held while a file is made. The system drops all of a process's locks on a
/// file when the process closes it, however it was opened; so nobody in this
/// process may have it open yet.
static MAKING: Mutex<()> = Mutex::new(());

/// Makes a file unless it is there: empty, and never open to others, whatever
/// the process's mask is. The files that the database puts beside it get its mode.
pub fn make(path: &Path) -> Result<()> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    made(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

/// Reports whether there is a file, and not one that is just being made.
pub fn is_there(path: &Path) -> Result<bool> {
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    path.try_exists().map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn made(path: &Path) -> io::Result<()> {
    let news = with_news(path);
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(0o600))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    // What is in a file survives a loss of power only if its name does.
    news.iter().try_for_each(|dir| File::open(dir)?.sync_all())
}

/// Returns the directories that get a new name in them when a file is made.
fn with_news(path: &Path) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for dir in path.ancestors().skip(1) {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        dirs.push(dir.to_owned());
        if dir.exists() {
            break;
        }
    }
    dirs
}
