//! Replaces the content of a file as a whole.
//!
//! The content is taken in beside the file first, so that a lost connection, a
//! full disk or a crash leaves the file as it was. Then, in one short step, the
//! conditions are checked again and the new file takes the name of the old.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, Mode, OFlags, Stat, fchmod, openat};
use rustix::io::Errno;
use vestal_wire::{CreateMode, Fault, FaultCode, Metadata, Version};

use super::attributes::{adopt, stamp};
use super::commit::{Commit, commit};
use super::fault::{OrFault, failed, refused};
use super::locate::{Target, locate};
use super::metadata::{Exact, permissions, version};
use super::mkdir::Parents;
use super::spool::Spool;
use super::stat::Links;

/// What must still be there when the content is replaced.
#[derive(Debug, Clone, Copy)]
pub(super) enum Guard {
    /// Anything.
    Nothing,
    /// A file of this version.
    Version(Version),
    /// Just this file, and nothing about it changed.
    Exact(Exact),
}

/// What is to be replaced, and on which conditions.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    /// The file as it was asked for.
    pub(super) path: &'a Path,
    pub(super) create: CreateMode,
    pub(super) parents: Parents,
    pub(super) mode: Option<Mode>,
    pub(super) guard: Guard,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) metadata: Metadata,
    pub(super) created: bool,
    pub(super) in_place: bool,
}

/// How the content gets to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The new file takes the name of the old one.
    Rename,
    /// The old file gets the content of the new one.
    InPlace,
}

impl Replacement<'_> {
    /// Fails when what is there is not what was asked for.
    pub(super) fn check(&self, found: Option<&Stat>) -> Result<(), Fault> {
        match (self.create, found) {
            (CreateMode::New, Some(_)) => return Err(failed("write", self.path, Errno::EXIST)),
            (CreateMode::Existing, None) => return Err(failed("write", self.path, Errno::NOENT)),
            _ => {}
        }
        let unchanged = match self.guard {
            Guard::Nothing => true,
            Guard::Version(expected) => found.is_some_and(|found| version(found) == expected),
            Guard::Exact(expected) => found.is_some_and(|found| Exact::of(found) == expected),
        };
        if unchanged {
            return Ok(());
        }
        let why = if found.is_some() {
            "it has changed since it was read"
        } else {
            "it is gone since it was read"
        };
        Err(refused(FaultCode::Conflict, "write", self.path, why))
    }
}

/// Replaces the content of a file by `content`.
pub(super) fn replace(
    replacement: &Replacement<'_>,
    content: &mut dyn Read,
    cancelled: &AtomicBool,
) -> Result<Replaced, Fault> {
    let links = match replacement.create {
        // A link is something, wherever it points.
        CreateMode::New => Links::Keep,
        CreateMode::Any | CreateMode::Existing => Links::Follow,
    };
    let target = locate(replacement.path, links, replacement.parents)?;
    if replacement.create == CreateMode::New && target.is_taken()? {
        return Err(failed("write", replacement.path, Errno::EXIST));
    }
    let old = target.lookup()?;
    replacement.check(old.as_ref())?;

    let elsewhere;
    let (mut spool, way) = match prepare(replacement, &target, old.as_ref()) {
        Ok(prepared) => prepared,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if old.is_some() => {
            elsewhere = open_scratch().or_fault("keep the new content of", replacement.path)?;
            let spool = Spool::new(elsewhere.as_fd(), Mode::from_raw_mode(0o600))
                .or_fault("keep the new content of", replacement.path)?;
            (spool, Way::InPlace)
        }
        Err(errno) => return Err(failed("write", replacement.path, errno)),
    };
    spool.fill(content, replacement.path, cancelled)?;
    if way == Way::Rename {
        finish(replacement, &spool, old.as_ref()).or_fault("write", replacement.path)?;
    }
    commit(Commit { replacement, target: &target, spool, way })
}

/// Makes the new file beside the old one and gives it all the old one has, as
/// far as that goes; if it does not, the old file has to stay.
fn prepare<'t>(
    replacement: &Replacement<'_>,
    target: &'t Target,
    old: Option<&Stat>,
) -> Result<(Spool<'t>, Way), Errno> {
    let Some(old) = old else {
        // Without a mode of its own the file gets what the umask leaves; with
        // one, nobody sees it before that is set.
        let first = if replacement.mode.is_some() { 0o600 } else { 0o666 };
        let spool = Spool::new(target.dir.as_fd(), Mode::from_raw_mode(first))?;
        return Ok((spool, Way::Rename));
    };
    let spool = Spool::new(target.dir.as_fd(), Mode::from_raw_mode(0o600))?;
    let keeps_all =
        old.st_nlink == 1 && adopt(spool.file(), old, replacement.mode, &target.path).is_ok();
    Ok((spool, if keeps_all { Way::Rename } else { Way::InPlace }))
}

/// Opens a directory for content whose own directory may not be written.
fn open_scratch() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, c"/tmp", flags, Mode::empty())
        .or_else(|_| openat(CWD, c"/var/tmp", flags, Mode::empty()))
}

/// Sets what writing the content has changed.
fn finish(
    replacement: &Replacement<'_>,
    spool: &Spool<'_>,
    old: Option<&Stat>,
) -> Result<(), Errno> {
    const SET_ID: u32 = 0o6000;
    let kept = old.map(|old| Mode::from_raw_mode(permissions(old)));
    if let Some(mode) = replacement.mode.or(kept.filter(|mode| mode.as_raw_mode() & SET_ID != 0)) {
        fchmod(spool.file(), mode)?;
    }
    stamp(spool.file());
    Ok(())
}
