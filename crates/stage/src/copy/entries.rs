//! Copies one entry of a tree: a directory, a file, a link or a special file.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, Stat, chmodat, fchmod, fstat, ftruncate, linkat,
    mkdirat, mknodat, openat, readlinkat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::beneath;
use super::metadata::{self, AttributeFile, FileStamp};
use super::program::{self, StageCopyError, is_dots};
use super::tree::{Anchor, CopyBuffers, CopyTree, FailedSide, Pending, is_open};

/// How often an entry that keeps changing its type is tried again.
pub(super) const ATTEMPTS: usize = 5;

/// A directory being filled.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    pub(super) path: &'a [u8],
    pub(super) open: Arc<Anchor>,
    /// The open directory from which it was reached.
    pub(super) reached_from: Option<&'a Arc<Anchor>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct TreeEntry<'a> {
    pub(super) directory: &'a Directory<'a>,
    pub(super) name: &'a CStr,
}

/// Result of copying an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EntryOutcome {
    /// It is copied, or there is nothing to copy.
    Done,
    /// Its type is not the expected one.
    SomethingElse,
}

impl TreeEntry<'_> {
    /// Returns the entry's path in the tree.
    pub(super) fn path(&self) -> Vec<u8> {
        beneath::join(self.directory.path, self.name.to_bytes())
    }

    pub(super) fn from(&self) -> BorrowedFd<'_> {
        self.directory.open.from.as_fd()
    }

    pub(super) fn to(&self) -> BorrowedFd<'_> {
        self.directory.open.to.as_fd()
    }

    /// Returns the metadata of the original, unless it is gone.
    pub(super) fn stat(&self, tree: &CopyTree) -> Result<Option<Stat>, StageCopyError> {
        match statat(self.from(), self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(tree.from.failed("look at", &self.path())(errno)),
        }
    }
}

impl CopyTree {
    /// Fills a directory of the copy, which exists and is empty.
    pub(super) fn directory(
        &self,
        pending: &Pending,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let path = &*pending.path;
        let open = match self.open(pending) {
            Ok(open) => Arc::new(open),
            Err((FailedSide::To, errno)) => return Err(self.to.failed("open", path)(errno)),
            Err((FailedSide::From(to), Errno::XDEV)) => return self.mount_point(path, to.as_fd()),
            // It was removed meanwhile.
            Err((FailedSide::From(_), Errno::NOENT)) if !path.is_empty() => {
                return self.unmake(path);
            }
            Err((FailedSide::From(_), errno)) => return Err(self.from.failed("open", path)(errno)),
        };
        let stat = fstat(&open.from).map_err(self.from.failed("look at", path))?;
        if self.is_copy(&stat) {
            return Err(StageCopyError::IntoItself(self.from.path.clone()));
        }
        let directory = Directory { path, open, reached_from: pending.anchor.as_ref() };
        if !self.is_mounted(&stat) {
            self.fill(&directory, buffers)?;
        }
        self.finish(&directory, &stat, buffers)
    }

    fn fill(
        &self,
        directory: &Directory<'_>,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&directory.open.from, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(self.from.failed("list", directory.path))?;
            if is_dots(entry.file_name().to_bytes()) {
                continue;
            }
            program::check_cancelled()?;
            self.entry(
                TreeEntry { directory, name: entry.file_name() },
                entry.file_type(),
                buffers,
            )?;
        }
        Ok(())
    }

    /// Copies an entry. The content of a directory is queued.
    fn entry(
        &self,
        entry: TreeEntry<'_>,
        kind: FileType,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let mut kind = kind;
        for _ in 0..ATTEMPTS {
            if kind == FileType::Unknown {
                kind = match entry.stat(self)? {
                    Some(stat) => FileType::from_raw_mode(stat.st_mode),
                    None => return Ok(()),
                };
            }
            let outcome = match kind {
                FileType::Directory => {
                    let path = entry.path();
                    mkdirat(entry.to(), entry.name, Mode::RWXU)
                        .map_err(self.to.failed("create", &path))?;
                    self.progress.file();
                    self.add(path, entry.directory);
                    EntryOutcome::Done
                }
                FileType::RegularFile => self.file(entry, buffers)?,
                FileType::Symlink => self.symlink(entry, buffers)?,
                // A socket ended with the process that created it.
                FileType::Socket => {
                    self.progress.skip();
                    EntryOutcome::Done
                }
                _ => self.special(entry, buffers)?,
            };
            if outcome == EntryOutcome::Done {
                return Ok(());
            }
            kind = FileType::Unknown;
        }
        Err(StageCopyError::Changing(self.from.name(&entry.path())))
    }

    /// Copies the metadata of a directory after all its entries.
    fn finish(
        &self,
        directory: &Directory<'_>,
        stat: &Stat,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let (from, to) = (directory.open.from.as_fd(), directory.open.to.as_fd());
        let changed = |errno| self.to.failed("change", directory.path)(errno);
        metadata::set_owner(to, stat).map_err(changed)?;
        let read = self.from.failed("read the attributes of", directory.path);
        if buffers.attributes.find(AttributeFile::Open(from)).map_err(read)? {
            let set = self.to.failed("set the attributes of", directory.path);
            buffers
                .attributes
                .copy(AttributeFile::Open(from), AttributeFile::Open(to))
                .map_err(set)?;
        }
        if directory.path.is_empty() || !is_open(stat) {
            self.close_later(directory.path, metadata::mode(stat));
        } else {
            metadata::set_permissions(to, stat).map_err(changed)?;
        }
        metadata::set_times(to, stat).map_err(changed)
    }

    /// Leaves a mount point empty. It gets the metadata of what is mounted there,
    /// because the directory below is not visible.
    fn mount_point(&self, path: &[u8], to: BorrowedFd<'_>) -> Result<(), StageCopyError> {
        let (parent, name) =
            beneath::parent(self.from.top.as_fd(), path).map_err(self.from.failed("open", path))?;
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(self.from.failed("look at", path))?;
        let changed = |errno| self.to.failed("change", path)(errno);
        metadata::set_owner(to, &stat).map_err(changed)?;
        if is_open(&stat) {
            metadata::set_permissions(to, &stat).map_err(changed)?;
        } else {
            self.close_later(path, metadata::mode(&stat));
        }
        metadata::set_times(to, &stat).map_err(changed)
    }

    /// Leaves a file empty if something is mounted on it.
    fn mounted_file(&self, entry: TreeEntry<'_>) -> Result<EntryOutcome, StageCopyError> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(EntryOutcome::Done);
        };
        let path = entry.path();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(entry.to(), entry.name, flags, metadata::plain_mode(&stat))
            .map_err(self.to.failed("create", &path))?;
        let changed = |errno| self.to.failed("change", &path)(errno);
        metadata::set_owner(file.as_fd(), &stat).map_err(changed)?;
        metadata::set_times(file.as_fd(), &stat).map_err(changed)?;
        self.progress.file();
        Ok(EntryOutcome::Done)
    }

    /// Removes a directory that is no longer in the original.
    fn unmake(&self, path: &[u8]) -> Result<(), StageCopyError> {
        let removed = beneath::parent(self.to.top.as_fd(), path)
            .and_then(|(parent, name)| unlinkat(parent, name, AtFlags::REMOVEDIR));
        removed.map_err(self.to.failed("remove", path))
    }

    /// Copies a regular file.
    pub(super) fn file(
        &self,
        entry: TreeEntry<'_>,
        buffers: &mut CopyBuffers,
    ) -> Result<EntryOutcome, StageCopyError> {
        // If it was replaced by a pipe, opening it does not block.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let from = match beneath::entry(entry.from(), entry.name, flags) {
            Ok(from) => from,
            Err(Errno::NOENT) => return Ok(EntryOutcome::Done),
            Err(Errno::XDEV) => return self.mounted_file(entry),
            Err(Errno::LOOP | Errno::NXIO) => return Ok(EntryOutcome::SomethingElse),
            Err(errno) => return Err(self.from.failed("read", &entry.path())(errno)),
        };
        let stat = fstat(&from).map_err(|e| self.from.failed("look at", &entry.path())(e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(EntryOutcome::SomethingElse);
        }
        if self.is_mounted(&stat) {
            return self.mounted_file(entry);
        }
        if let Some(to) = self.make_or_link(entry, &stat, || self.make(entry, &stat))? {
            self.content(entry, &from, &to, stat, buffers)?;
        }
        self.progress.file();
        Ok(EntryOutcome::Done)
    }

    fn make(&self, entry: TreeEntry<'_>, stat: &Stat) -> Result<OwnedFd, StageCopyError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(entry.to(), entry.name, flags, metadata::plain_mode(stat))
            .map_err(|errno| self.to.failed("create", &entry.path())(errno))
    }

    /// Creates a file, or links it if the original is a hard link to a file that
    /// is already copied.
    fn make_or_link<T>(
        &self,
        entry: TreeEntry<'_>,
        stat: &Stat,
        make: impl FnOnce() -> Result<T, StageCopyError>,
    ) -> Result<Option<T>, StageCopyError> {
        if stat.st_nlink < 2 {
            return make().map(Some);
        }
        let path = entry.path();
        let link = |first: &[u8]| {
            let linked = beneath::parent(self.to.top.as_fd(), first).and_then(|(at, name)| {
                linkat(at, name, entry.to(), entry.name.to_bytes(), AtFlags::empty())
            });
            match linked {
                Ok(()) => Ok(true),
                // The filesystem allows no more hard links to this file, or none
                // at all.
                Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(false),
                Err(errno) => Err(self.to.failed("link", &path)(errno)),
            }
        };
        self.links.link_or_make((stat.st_dev, stat.st_ino), &path, link, make)
    }

    /// Copies content and metadata. A file that is written meanwhile is copied
    /// again, so that no copy mixes two versions.
    fn content(
        &self,
        entry: TreeEntry<'_>,
        from: &OwnedFd,
        to: &OwnedFd,
        mut stat: Stat,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let (from, to) = (from.as_fd(), to.as_fd());
        let changed = |errno| self.to.failed("change", &entry.path())(errno);
        for _ in 0..ATTEMPTS {
            let copied = self
                .methods
                .copy(from, to, &stat, &mut buffers.buffer, &self.progress)
                .map_err(|errno| self.to.failed("write", &entry.path())(errno))?;
            program::check_cancelled()?;
            metadata::set_owner(to, &stat).map_err(changed)?;
            let more = self.attributes(
                entry,
                (AttributeFile::Open(from), AttributeFile::Open(to)),
                &stat,
                buffers,
            )?;
            if more || metadata::has_more_than_plain(&stat) {
                metadata::set_permissions(to, &stat).map_err(changed)?;
            }
            let now = fstat(from).map_err(|e| self.from.failed("look at", &entry.path())(e))?;
            if FileStamp::of(&now) == FileStamp::of(&stat) {
                return metadata::set_times(to, &stat).map_err(changed);
            }
            self.progress.again(copied);
            ftruncate(to, 0).map_err(changed)?;
            fchmod(to, metadata::plain_mode(&now)).map_err(changed)?;
            stat = now;
        }
        Err(StageCopyError::Changing(self.from.name(&entry.path())))
    }

    /// Copies the attributes of an open file. Returns whether its permissions
    /// changed.
    fn attributes(
        &self,
        entry: TreeEntry<'_>,
        (from, to): (AttributeFile<'_>, AttributeFile<'_>),
        stat: &Stat,
        buffers: &mut CopyBuffers,
    ) -> Result<bool, StageCopyError> {
        let read = |errno| self.from.failed("read the attributes of", &entry.path())(errno);
        if !buffers.attributes.find(from).map_err(read)? {
            return Ok(false);
        }
        let set = |errno| self.to.failed("set the attributes of", &entry.path())(errno);
        // Some attributes need write permission, even for the owner.
        if let AttributeFile::Open(file) = to
            && !metadata::mode(stat).contains(Mode::WUSR)
        {
            fchmod(file, Mode::RUSR | Mode::WUSR).map_err(set)?;
        }
        buffers.attributes.copy(from, to).map_err(set)?;
        Ok(true)
    }

    /// Copies a link as it is.
    fn symlink(
        &self,
        entry: TreeEntry<'_>,
        buffers: &mut CopyBuffers,
    ) -> Result<EntryOutcome, StageCopyError> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(EntryOutcome::Done);
        };
        let text = match readlinkat(entry.from(), entry.name, Vec::new()) {
            Ok(text) => text,
            Err(Errno::NOENT) => return Ok(EntryOutcome::Done),
            Err(Errno::INVAL) => return Ok(EntryOutcome::SomethingElse),
            Err(errno) => return Err(self.from.failed("read", &entry.path())(errno)),
        };
        let make = || {
            symlinkat(text.as_c_str(), entry.to(), entry.name)
                .map_err(|errno| self.to.failed("create", &entry.path())(errno))
        };
        if self.make_or_link(entry, &stat, make)?.is_some() {
            let changed = |errno| self.to.failed("change", &entry.path())(errno);
            metadata::set_owner_at(entry.to(), entry.name, &stat).map_err(changed)?;
            self.named_attributes(entry, buffers)?;
            metadata::set_times_at(entry.to(), entry.name, &stat).map_err(changed)?;
        }
        self.progress.file();
        Ok(EntryOutcome::Done)
    }

    /// Copies a pipe or a device, in particular the whiteouts of an overlay.
    pub(super) fn special(
        &self,
        entry: TreeEntry<'_>,
        buffers: &mut CopyBuffers,
    ) -> Result<EntryOutcome, StageCopyError> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(EntryOutcome::Done);
        };
        if self.is_mounted(&stat) {
            return self.mounted_file(entry);
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let special =
            matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice);
        if !special {
            return Ok(EntryOutcome::SomethingElse);
        }
        let make = || {
            match mknodat(entry.to(), entry.name, kind, metadata::plain_mode(&stat), stat.st_rdev) {
                Ok(()) => Ok(true),
                // Only root of the host can create devices, and only root uses
                // them.
                Err(Errno::PERM) => Ok(false),
                Err(errno) => Err(self.to.failed("create", &entry.path())(errno)),
            }
        };
        match self.make_or_link(entry, &stat, make)? {
            Some(true) => {
                let changed = |errno| self.to.failed("change", &entry.path())(errno);
                metadata::set_owner_at(entry.to(), entry.name, &stat).map_err(changed)?;
                if metadata::has_more_than_plain(&stat) {
                    // It cannot be a link: it was just created in a directory
                    // that only this process can access.
                    chmodat(entry.to(), entry.name, metadata::mode(&stat), AtFlags::empty())
                        .map_err(changed)?;
                }
                self.named_attributes(entry, buffers)?;
                metadata::set_times_at(entry.to(), entry.name, &stat).map_err(changed)?;
            }
            Some(false) => {
                self.progress.skip();
                return Ok(EntryOutcome::Done);
            }
            None => {}
        }
        self.progress.file();
        Ok(EntryOutcome::Done)
    }

    /// Copies the attributes of a file that is not opened.
    fn named_attributes(
        &self,
        entry: TreeEntry<'_>,
        buffers: &mut CopyBuffers,
    ) -> Result<(), StageCopyError> {
        let read = |errno| self.from.failed("read the attributes of", &entry.path())(errno);
        let from = named(entry.from(), entry.name.to_bytes()).map_err(read)?;
        let found = match buffers.attributes.find(AttributeFile::Named(&from)) {
            // It was removed meanwhile.
            Err(Errno::NOENT) if entry.stat(self)?.is_none() => false,
            found => found.map_err(read)?,
        };
        if found {
            let set = |errno| self.to.failed("set the attributes of", &entry.path())(errno);
            let to = named(entry.to(), entry.name.to_bytes()).map_err(set)?;
            buffers
                .attributes
                .copy(AttributeFile::Named(&from), AttributeFile::Named(&to))
                .map_err(set)?;
        }
        Ok(())
    }
}

/// Returns a path to an entry of an open directory. Older kernels have no other
/// way to access the attributes of a file that is not open.
fn named(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<CString> {
    let mut path = format!("/proc/self/fd/{}/", at.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    CString::new(path).map_err(|_| Errno::INVAL)
}
