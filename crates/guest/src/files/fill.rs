//! Fills an empty directory with a home of the image.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstat, open, openat, stat};
use rustix::io::Errno;
use vestal_wire::Fault;

use super::copy::copy_home;
use super::erase::erase;
use super::fault::{OrFault, Stop};
use super::metadata::Identity;
use super::tree::{DIRECTORY, each_entry};
use super::walk::is_kernel_window;

/// Whether a directory was filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// It is a copy of the home.
    Yes,
    /// It holds something already, or there is no home to copy.
    No,
}

/// Fills `to`, if it is empty, with what is in `home`, and makes it like that.
/// When that fails, it is empty again.
pub(crate) fn fill(home: &Path, to: &Path) -> Result<Filled, Fault> {
    let target = openat(CWD, to, DIRECTORY, Mode::empty()).or_fault("fill", to)?;
    if !is_empty(&target).or_fault("fill", to)? {
        return Ok(Filled::No);
    }
    let Some(source) = open_home(home, &target).or_fault("copy", home)? else {
        return Ok(Filled::No);
    };
    copy_home(source, target, home).inspect_err(|_| {
        // What is left of it is worth less than the chance to try again.
        erase(to, &mut |_| {}).ok();
    })?;
    Ok(Filled::Yes)
}

/// Opens a home, if it is one: not the root, which is nobody's own, nor
/// something the kernel shows, nor the directory that is to be filled.
fn open_home(home: &Path, target: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let source = match open(home, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        opened => opened?,
    };
    let found = Identity::of(&fstat(&source)?);
    let other = found != Identity::of(&stat("/")?) && found != Identity::of(&fstat(target)?);
    Ok((other && !is_kernel_window(source.as_fd())).then_some(source))
}

fn is_empty(directory: &OwnedFd) -> Result<bool, Errno> {
    match each_entry(directory.as_fd(), |_, _| Err(Stop::System(Errno::NOTEMPTY))) {
        Ok(()) => Ok(true),
        Err(Stop::System(Errno::NOTEMPTY)) => Ok(false),
        Err(Stop::System(errno)) => Err(errno),
        Err(Stop::Fault(_)) => Err(Errno::IO),
    }
}

#[cfg(test)]
#[path = "fill_tests.rs"]
mod tests;
