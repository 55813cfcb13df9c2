//! One file.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, ftruncate, linkat, openat};
use rustix::io::Errno;

use super::attributes::Of;
use super::directory::{ATTEMPTS, Entry, Outcome};
use super::failure::Failure;
use super::metadata::Version;
use super::tree::{Scratch, Tree};
use super::{beneath, cancel, metadata};

impl Tree {
    /// Copies a file with content.
    pub(super) fn file(&self, entry: Entry<'_>, scratch: &mut Scratch) -> Result<Outcome, Failure> {
        // Should it have become a pipe, opening it does not wait for the other end.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let from = match beneath::entry(entry.from(), entry.name, flags) {
            Ok(from) => from,
            Err(Errno::NOENT) => return Ok(Outcome::Done),
            Err(Errno::XDEV) => return self.mounted_file(entry),
            Err(Errno::LOOP | Errno::NXIO) => return Ok(Outcome::SomethingElse),
            Err(errno) => return Err(self.from.failed("read", &entry.path())(errno)),
        };
        let stat = fstat(&from).map_err(|e| self.from.failed("look at", &entry.path())(e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Outcome::SomethingElse);
        }
        if self.is_mounted(&stat) {
            return self.mounted_file(entry);
        }
        if let Some(to) = self.make_or_link(entry, &stat, || self.make(entry, &stat))? {
            self.content(entry, &from, &to, stat, scratch)?;
        }
        self.progress.file();
        Ok(Outcome::Done)
    }

    fn make(&self, entry: Entry<'_>, stat: &Stat) -> Result<OwnedFd, Failure> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(entry.to(), entry.name, flags, metadata::plain_mode(stat))
            .map_err(|errno| self.to.failed("create", &entry.path())(errno))
    }

    /// Makes a file, or gives one that is there another name if the original
    /// is the same, too.
    pub(super) fn make_or_link<T>(
        &self,
        entry: Entry<'_>,
        stat: &Stat,
        make: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
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
                // More names than this filesystem gives to one file, or it gives one only.
                Err(Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(false),
                Err(errno) => Err(self.to.failed("link", &path)(errno)),
            }
        };
        self.links.link_or_make((stat.st_dev, stat.st_ino), &path, link, make)
    }

    /// Gives a new file all that the original has. One that somebody writes to
    /// meanwhile is copied again, so that no copy is a mixture of two versions.
    fn content(
        &self,
        entry: Entry<'_>,
        from: &OwnedFd,
        to: &OwnedFd,
        mut stat: Stat,
        scratch: &mut Scratch,
    ) -> Result<(), Failure> {
        let (from, to) = (from.as_fd(), to.as_fd());
        let changed = |errno| self.to.failed("change", &entry.path())(errno);
        for _ in 0..ATTEMPTS {
            let copied = self
                .means
                .copy(from, to, &stat, &mut scratch.buffer, &self.progress)
                .map_err(|errno| self.to.failed("write", &entry.path())(errno))?;
            cancel::check()?;
            metadata::owner(to, &stat).map_err(changed)?;
            let more = self.attributes(entry, (Of::Open(from), Of::Open(to)), &stat, scratch)?;
            if more || metadata::has_more_than_plain(&stat) {
                metadata::permissions(to, &stat).map_err(changed)?;
            }
            let now = fstat(from).map_err(|e| self.from.failed("look at", &entry.path())(e))?;
            if Version::of(&now) == Version::of(&stat) {
                return metadata::times(to, &stat).map_err(changed);
            }
            self.progress.again(copied);
            ftruncate(to, 0).map_err(changed)?;
            fchmod(to, metadata::plain_mode(&now)).map_err(changed)?;
            stat = now;
        }
        Err(Failure::Changing(self.from.name(&entry.path())))
    }

    /// Copies the attributes of an open file, and returns whether that has
    /// changed its permissions.
    fn attributes(
        &self,
        entry: Entry<'_>,
        (from, to): (Of<'_>, Of<'_>),
        stat: &Stat,
        scratch: &mut Scratch,
    ) -> Result<bool, Failure> {
        let read = |errno| self.from.failed("read the attributes of", &entry.path())(errno);
        if !scratch.attributes.find(from).map_err(read)? {
            return Ok(false);
        }
        let set = |errno| self.to.failed("set the attributes of", &entry.path())(errno);
        // Some attributes take the permission to write, of the owner too.
        if let Of::Open(file) = to
            && !metadata::mode(stat).contains(Mode::WUSR)
        {
            fchmod(file, Mode::RUSR | Mode::WUSR).map_err(set)?;
        }
        scratch.attributes.copy(from, to).map_err(set)?;
        Ok(true)
    }
}
