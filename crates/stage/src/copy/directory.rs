//! One directory.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use super::attributes::Of;
use super::count::is_dots;
use super::failure::Failure;
use super::tree::{Anchor, Failed, Pending, Scratch, Tree, is_open};
use super::{beneath, cancel, metadata};

/// How often a file is looked at again that is not what it was a moment ago.
pub(super) const ATTEMPTS: usize = 5;

/// A directory that is being filled.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    pub(super) path: &'a [u8],
    pub(super) open: Arc<Anchor>,
    /// Where the way to it began.
    pub(super) reached_from: Option<&'a Arc<Anchor>>,
}

/// An entry of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) directory: &'a Directory<'a>,
    pub(super) name: &'a CStr,
}

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is copied, or there is nothing to copy.
    Done,
    /// It is something else than it was said to be.
    SomethingElse,
}

impl Entry<'_> {
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

    /// Returns what the original is like, unless it is gone.
    pub(super) fn stat(&self, tree: &Tree) -> Result<Option<Stat>, Failure> {
        match statat(self.from(), self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(tree.from.failed("look at", &self.path())(errno)),
        }
    }
}

impl Tree {
    /// Fills a directory of the copy, which is there and empty.
    pub(super) fn directory(
        &self,
        pending: &Pending,
        scratch: &mut Scratch,
    ) -> Result<(), Failure> {
        let path = &*pending.path;
        let open = match self.open(pending) {
            Ok(open) => Arc::new(open),
            Err((Failed::To, errno)) => return Err(self.to.failed("open", path)(errno)),
            Err((Failed::From(to), Errno::XDEV)) => return self.mount_point(path, to.as_fd()),
            // Gone meanwhile.
            Err((Failed::From(_), Errno::NOENT)) if !path.is_empty() => return self.unmake(path),
            Err((Failed::From(_), errno)) => return Err(self.from.failed("open", path)(errno)),
        };
        let stat = fstat(&open.from).map_err(self.from.failed("look at", path))?;
        if self.is_copy(&stat) {
            return Err(Failure::IntoItself(self.from.path.clone()));
        }
        let directory = Directory { path, open, reached_from: pending.anchor.as_ref() };
        if !self.is_mounted(&stat) {
            self.fill(&directory, scratch)?;
        }
        self.finish(&directory, &stat, scratch)
    }

    fn fill(&self, directory: &Directory<'_>, scratch: &mut Scratch) -> Result<(), Failure> {
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut entries = RawDir::new(&directory.open.from, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(self.from.failed("list", directory.path))?;
            if is_dots(entry.file_name().to_bytes()) {
                continue;
            }
            cancel::check()?;
            self.entry(Entry { directory, name: entry.file_name() }, entry.file_type(), scratch)?;
        }
        Ok(())
    }

    /// Copies an entry of a directory; what is in it follows if it is one itself.
    fn entry(
        &self,
        entry: Entry<'_>,
        kind: FileType,
        scratch: &mut Scratch,
    ) -> Result<(), Failure> {
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
                    Outcome::Done
                }
                FileType::RegularFile => self.file(entry, scratch)?,
                FileType::Symlink => self.symlink(entry, scratch)?,
                // What it led to ended with the process that made it.
                FileType::Socket => {
                    self.progress.skip();
                    Outcome::Done
                }
                _ => self.special(entry, scratch)?,
            };
            if outcome == Outcome::Done {
                return Ok(());
            }
            kind = FileType::Unknown;
        }
        Err(Failure::Changing(self.from.name(&entry.path())))
    }

    /// Gives a directory that has all its entries what else it has.
    fn finish(
        &self,
        directory: &Directory<'_>,
        stat: &Stat,
        scratch: &mut Scratch,
    ) -> Result<(), Failure> {
        let (from, to) = (directory.open.from.as_fd(), directory.open.to.as_fd());
        let changed = |errno| self.to.failed("change", directory.path)(errno);
        metadata::owner(to, stat).map_err(changed)?;
        let read = self.from.failed("read the attributes of", directory.path);
        if scratch.attributes.find(Of::Open(from)).map_err(read)? {
            let set = self.to.failed("set the attributes of", directory.path);
            scratch.attributes.copy(Of::Open(from), Of::Open(to)).map_err(set)?;
        }
        if directory.path.is_empty() || !is_open(stat) {
            self.close_later(directory.path, metadata::mode(stat));
        } else {
            metadata::permissions(to, stat).map_err(changed)?;
        }
        metadata::times(to, stat).map_err(changed)
    }

    /// Leaves a directory empty that something is mounted on. It looks like
    /// what is mounted there: what is below cannot be seen.
    fn mount_point(&self, path: &[u8], to: BorrowedFd<'_>) -> Result<(), Failure> {
        let (parent, name) =
            beneath::parent(self.from.top.as_fd(), path).map_err(self.from.failed("open", path))?;
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(self.from.failed("look at", path))?;
        let changed = |errno| self.to.failed("change", path)(errno);
        metadata::owner(to, &stat).map_err(changed)?;
        if is_open(&stat) {
            metadata::permissions(to, &stat).map_err(changed)?;
        } else {
            self.close_later(path, metadata::mode(&stat));
        }
        metadata::times(to, &stat).map_err(changed)
    }

    /// Leaves a file empty that something is mounted on.
    pub(super) fn mounted_file(&self, entry: Entry<'_>) -> Result<Outcome, Failure> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(Outcome::Done);
        };
        let path = entry.path();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(entry.to(), entry.name, flags, metadata::plain_mode(&stat))
            .map_err(self.to.failed("create", &path))?;
        let changed = |errno| self.to.failed("change", &path)(errno);
        metadata::owner(file.as_fd(), &stat).map_err(changed)?;
        metadata::times(file.as_fd(), &stat).map_err(changed)?;
        self.progress.file();
        Ok(Outcome::Done)
    }

    /// Takes a directory back that is no longer in the original.
    fn unmake(&self, path: &[u8]) -> Result<(), Failure> {
        let removed = beneath::parent(self.to.top.as_fd(), path)
            .and_then(|(parent, name)| unlinkat(parent, name, AtFlags::REMOVEDIR));
        removed.map_err(self.to.failed("remove", path))
    }
}
