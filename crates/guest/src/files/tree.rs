//! Traverses a tree of directories without following links.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, fstat, openat, openat2, seek,
    statat,
};
use rustix::io::Errno;

use super::metadata::FileId;

/// Number of parent directories held open. Deeper trees are climbed back by `..`,
/// so that depth costs no descriptors.
const HELD: usize = 32;

/// Flags for opening directories for reading, never through a link.
pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A position in a tree.
#[derive(Debug)]
pub(super) struct TreeCursor {
    above: Vec<ParentDir>,
    here: OwnedFd,
    identity: FileId,
}

#[derive(Debug)]
struct ParentDir {
    identity: FileId,
    held: Option<OwnedFd>,
}

impl TreeCursor {
    /// Starts at an open directory.
    pub(super) fn new(here: OwnedFd) -> Result<Self, Errno> {
        let identity = FileId::of(&fstat(&here)?);
        Ok(Self { above: Vec::new(), here, identity })
    }

    /// Returns the directory the cursor is in.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.here.as_fd()
    }

    /// Returns which directory the cursor is in.
    pub(super) const fn identity(&self) -> FileId {
        self.identity
    }

    /// Returns how far down the cursor is.
    pub(super) fn depth(&self) -> usize {
        self.above.len()
    }

    /// Enters a directory.
    pub(super) fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let below = openat(&self.here, name, DIRECTORY, Mode::empty())?;
        self.enter_opened(below)
    }

    /// Enters a directory. Fails with [`Errno::XDEV`] if something else is
    /// mounted there.
    pub(super) fn enter_unmounted(&mut self, name: &CStr) -> Result<(), Errno> {
        let below = open_unmounted(self.here.as_fd(), name, DIRECTORY)?;
        self.enter_opened(below)
    }

    fn enter_opened(&mut self, below: OwnedFd) -> Result<(), Errno> {
        let identity = FileId::of(&fstat(&below)?);
        let held = std::mem::replace(&mut self.here, below);
        let identity = std::mem::replace(&mut self.identity, identity);
        self.above.push(ParentDir { identity, held: Some(held) });
        if let Some(far) = self.above.len().checked_sub(HELD + 1) {
            self.above[far].held = None;
        }
        Ok(())
    }

    /// Returns to the parent directory, and returns the directory it leaves.
    /// Fails if the directory was moved in the meantime.
    pub(super) fn leave(&mut self) -> Result<OwnedFd, Errno> {
        let Some(level) = self.above.pop() else {
            return Err(Errno::STALE);
        };
        let back = match level.held {
            Some(held) => held,
            None => openat(&self.here, c"..", DIRECTORY, Mode::empty())?,
        };
        if FileId::of(&fstat(&back)?) != level.identity {
            return Err(Errno::STALE);
        }
        self.identity = level.identity;
        Ok(std::mem::replace(&mut self.here, back))
    }
}

/// Opens an entry of a directory. Fails with [`Errno::XDEV`] if something else is
/// mounted there.
pub(super) fn open_unmounted(
    directory: BorrowedFd<'_>,
    name: &CStr,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    match openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_XDEV) {
        // An old kernel, or a container's filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        done => return done,
    }
    let opened = openat(directory, name, flags, Mode::empty())?;
    if fstat(&opened)?.st_dev == fstat(directory)?.st_dev { Ok(opened) } else { Err(Errno::XDEV) }
}

/// Calls `visit` with the name and the type of each entry of a directory.
pub(super) fn each_entry<E: From<Errno>>(
    directory: BorrowedFd<'_>,
    mut visit: impl FnMut(&CStr, FileType) -> Result<(), E>,
) -> Result<(), E> {
    seek(directory, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            entry => entry?,
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        visit(name, entry.file_type())?;
    }
    Ok(())
}

/// Returns the type of an entry, and asks the file if the directory does not
/// report it. Returns nothing for an entry that vanished.
pub(super) fn type_of(
    directory: BorrowedFd<'_>,
    name: &CStr,
    listed: FileType,
) -> Result<Option<FileType>, Errno> {
    if listed != FileType::Unknown {
        return Ok(Some(listed));
    }
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
