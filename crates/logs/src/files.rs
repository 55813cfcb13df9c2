//! The files of one log: the one that is written, and the full ones beside it.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where a log is, and how much of it is kept.
///
/// `PATH` is written; full ones are `PATH.1`, the newest, to `PATH.N`. Files only ever move to
/// higher numbers, which readers rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFiles {
    path: PathBuf,
    max_bytes: u64,
    backups: u32,
    /// A directory that is not made again.
    within: Option<PathBuf>,
}

/// Which file it is, whatever its name is now. Holds as long as the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogFileId {
    device: u64,
    inode: u64,
}

impl LogFileId {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl LogFiles {
    /// Returns the files of a log whose file is full at `max_bytes`, and of which `backups` full
    /// ones are kept, at least one.
    pub fn new(path: impl Into<PathBuf>, max_bytes: u64, backups: u32) -> Self {
        Self { path: path.into(), max_bytes, backups: backups.max(1), within: None }
    }

    /// Makes no file and no directory once this directory is gone, if it is there now: whoever moved
    /// or deleted it does not want it back with nothing but a log in it.
    #[must_use]
    pub fn within(mut self, dir: &Path) -> Self {
        self.within = dir.is_dir().then(|| dir.to_owned());
        self
    }

    /// Returns the file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size at which a file is full.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns how many full files are kept.
    pub fn backups(&self) -> u32 {
        self.backups
    }

    /// Returns the name of a full file; 1 is the newest, 0 the one that is written.
    pub fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Opens the file that is written, and makes it if it is not there.
    pub(crate) fn open_to_append(&self) -> io::Result<File> {
        match self.try_open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.within.as_ref().is_some_and(|dir| !dir.is_dir()) {
                    return Err(error);
                }
                if let Some(dir) = self.path.parent() {
                    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
                }
                self.try_open()
            }
            opened => opened,
        }
    }

    fn try_open(&self) -> io::Result<File> {
        // A pipe in place of the file must not keep the writer waiting, and no link leads away.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(file)
    }

    /// Moves the full files one further and the one that is written to number 1. Only the holder of
    /// the lock on the file that is written may do this.
    ///
    /// The oldest is moved first, so that a crash in between leaves a gap in the numbers and no
    /// other harm. Such a gap is filled first: nothing is removed while there is room.
    pub(crate) fn rotate(&self) -> io::Result<()> {
        let mut free = 1;
        while free < self.backups && self.exists(free)? {
            free += 1;
        }
        for number in (0..free).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the number that a file has now; nothing if it was removed. Files only move to higher
    /// numbers, so that looking upwards does not miss one.
    pub(crate) fn locate(&self, file: LogFileId) -> io::Result<Option<u32>> {
        for number in 0..=self.backups {
            match std::fs::symlink_metadata(self.numbered(number)) {
                Ok(metadata) if LogFileId::of(&metadata) == file => return Ok(Some(number)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Opens the oldest file with a number below this one. A crash may have left gaps in the
    /// numbers, and a rotation may move files meanwhile.
    pub(crate) fn open_below(&self, number: u32) -> io::Result<Option<File>> {
        'again: loop {
            for candidate in (0..number).rev() {
                let file = match File::open(self.numbered(candidate)) {
                    Ok(file) => file,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                // An older one that has moved into a gap since it was looked for would be missed.
                for older in candidate + 1..number {
                    if self.exists(older)? {
                        continue 'again;
                    }
                }
                return Ok(Some(file));
            }
            return Ok(None);
        }
    }

    fn exists(&self, number: u32) -> io::Result<bool> {
        match std::fs::symlink_metadata(self.numbered(number)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}
