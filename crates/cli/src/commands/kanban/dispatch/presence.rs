//! Whether somebody dispatches: whoever does holds a lock for as long, which
//! the system takes back from a process that dies.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use vestal_board::boards::Slug;

use crate::commands::kanban::desk::Desk;
use crate::error::Failure;

/// The sign that somebody dispatches, for as long as it is there.
#[derive(Debug)]
pub(super) struct Presence {
    _file: File,
}

impl Presence {
    /// Shows it, for all boards or for one.
    pub(super) fn show(desk: &Desk<'_>, only: Option<&Slug>) -> Result<Self, Failure> {
        let path = sign(desk, only);
        let shown = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(desk.boards().root())?;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path)?;
            file.lock_shared()?;
            Ok(file)
        };
        let failed = |error| Failure::io(&format!("lock {}", path.display()), &error);
        Ok(Self { _file: shown().map_err(failed)? })
    }
}

fn sign(desk: &Desk<'_>, only: Option<&Slug>) -> PathBuf {
    let name = match only {
        Some(slug) => format!(".watching-{slug}.lock"),
        None => ".watching.lock".to_owned(),
    };
    desk.boards().root().join(name)
}

/// Reports whether somebody on this machine dispatches the board. What cannot
/// be found out counts as yes: nobody is told what may be false.
pub(in crate::commands::kanban) fn is_dispatched(desk: &Desk<'_>) -> bool {
    let held = |path: PathBuf| match File::open(path) {
        // It is given back at once, when the file is closed.
        Ok(file) => match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
        },
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    held(sign(desk, None)) || held(sign(desk, Some(desk.slug())))
}
