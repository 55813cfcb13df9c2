//! Links and special files.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType, chmodat, mknodat, readlinkat, symlinkat};
use rustix::io::Errno;

use super::attributes::Of;
use super::directory::{Entry, Outcome};
use super::failure::Failure;
use super::metadata;
use super::tree::{Scratch, Tree};

impl Tree {
    /// Copies a link as it is.
    pub(super) fn symlink(
        &self,
        entry: Entry<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome, Failure> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(Outcome::Done);
        };
        let text = match readlinkat(entry.from(), entry.name, Vec::new()) {
            Ok(text) => text,
            Err(Errno::NOENT) => return Ok(Outcome::Done),
            Err(Errno::INVAL) => return Ok(Outcome::SomethingElse),
            Err(errno) => return Err(self.from.failed("read", &entry.path())(errno)),
        };
        let make = || {
            symlinkat(text.as_c_str(), entry.to(), entry.name)
                .map_err(|errno| self.to.failed("create", &entry.path())(errno))
        };
        if self.make_or_link(entry, &stat, make)?.is_some() {
            let changed = |errno| self.to.failed("change", &entry.path())(errno);
            metadata::owner_of(entry.to(), entry.name, &stat).map_err(changed)?;
            self.named_attributes(entry, scratch)?;
            metadata::times_of(entry.to(), entry.name, &stat).map_err(changed)?;
        }
        self.progress.file();
        Ok(Outcome::Done)
    }

    /// Copies a pipe or a device: above all those that stand for what is gone
    /// in a layer.
    pub(super) fn special(
        &self,
        entry: Entry<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome, Failure> {
        let Some(stat) = entry.stat(self)? else {
            return Ok(Outcome::Done);
        };
        if self.is_mounted(&stat) {
            return self.mounted_file(entry);
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let special =
            matches!(kind, FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice);
        if !special {
            return Ok(Outcome::SomethingElse);
        }
        let make = || {
            match mknodat(entry.to(), entry.name, kind, metadata::plain_mode(&stat), stat.st_rdev) {
                Ok(()) => Ok(true),
                // Only root of the machine makes devices, and only it uses them.
                Err(Errno::PERM) => Ok(false),
                Err(errno) => Err(self.to.failed("create", &entry.path())(errno)),
            }
        };
        match self.make_or_link(entry, &stat, make)? {
            Some(true) => {
                let changed = |errno| self.to.failed("change", &entry.path())(errno);
                metadata::owner_of(entry.to(), entry.name, &stat).map_err(changed)?;
                if metadata::has_more_than_plain(&stat) {
                    // Nothing is a link here: it was made a moment ago, where
                    // nobody else comes in.
                    chmodat(entry.to(), entry.name, metadata::mode(&stat), AtFlags::empty())
                        .map_err(changed)?;
                }
                self.named_attributes(entry, scratch)?;
                metadata::times_of(entry.to(), entry.name, &stat).map_err(changed)?;
            }
            Some(false) => {
                self.progress.skip();
                return Ok(Outcome::Done);
            }
            None => {}
        }
        self.progress.file();
        Ok(Outcome::Done)
    }

    /// Copies the attributes of a file that is not opened.
    fn named_attributes(&self, entry: Entry<'_>, scratch: &mut Scratch) -> Result<(), Failure> {
        let read = |errno| self.from.failed("read the attributes of", &entry.path())(errno);
        let from = named(entry.from(), entry.name.to_bytes()).map_err(read)?;
        let found = match scratch.attributes.find(Of::Named(&from)) {
            // Gone meanwhile.
            Err(Errno::NOENT) if entry.stat(self)?.is_none() => false,
            found => found.map_err(read)?,
        };
        if found {
            let set = |errno| self.to.failed("set the attributes of", &entry.path())(errno);
            let to = named(entry.to(), entry.name.to_bytes()).map_err(set)?;
            scratch.attributes.copy(Of::Named(&from), Of::Named(&to)).map_err(set)?;
        }
        Ok(())
    }
}

/// Returns a path of an entry of an open directory: older kernels know no other
/// way to the attributes of what is not opened.
fn named(at: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<CString> {
    let mut path = format!("/proc/self/fd/{}/", at.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    CString::new(path).map_err(|_| Errno::INVAL)
}
