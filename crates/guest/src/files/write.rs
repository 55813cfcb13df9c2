//! Writes a file as a whole.
//!
//! The new content is first stored beside the file, so a lost connection, a full
//! disk or a crash leaves the file as it was. Then, in one short step, the
//! conditions are checked again and the new file takes the name of the old one.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, Mode, OFlags, Stat, fallocate, fchmod, fstat, ftruncate, openat,
    unlinkat,
};
use rustix::io::{Errno, pwrite};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{CreateMode, Fault, FaultCode, FileKind, FileReply, FileVersion, Metadata};

use super::metadata::{
    ExactVersion, FileId, adopt, describe, kind, kind_name, permissions, size, stamp, version,
};
use super::paths::{DirTarget, ParentDirs, locate, names_directory, permission_bits, resolve};
use super::perform::{OrFault, PathRoots, failed, refused};
use super::read::{FinalLink, read_at};
use super::spool::{Spool, lock_file, lock_name};

/// A request to write a file.
#[derive(Debug)]
pub(super) struct FileWrite<'a> {
    pub(super) path: &'a [u8],
    pub(super) create: CreateMode,
    pub(super) parents: bool,
    pub(super) mode: Option<u32>,
    pub(super) expect: Option<FileVersion>,
}

/// Writes a file.
pub(super) fn write(
    request: &FileWrite<'_>,
    roots: &PathRoots,
    input: &mut dyn Read,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let path = resolve_file(request.path, roots)?;
    let replacement = ReplaceRequest {
        path: &path,
        create: request.create,
        parents: request.parents.into(),
        mode: permission_bits(request.mode)?,
        precondition: request.expect.map_or(Precondition::Nothing, Precondition::Version),
    };
    let done = replace(&replacement, input, cancelled)?;
    Ok(FileReply::Written {
        metadata: done.metadata,
        created: done.created,
        in_place: done.in_place,
        replaced: 0,
    })
}

/// Resolves a path that must not name a directory.
pub(super) fn resolve_file(raw: &[u8], roots: &PathRoots) -> Result<std::path::PathBuf, Fault> {
    let path = resolve(raw, roots)?;
    if names_directory(raw) {
        let why = "the path names a directory";
        return Err(refused(FaultCode::WrongKind, "write", Path::new(&path), why));
    }
    Ok(path)
}

/// What must still exist when the content is replaced.
#[derive(Debug, Clone, Copy)]
pub(super) enum Precondition {
    /// Anything.
    Nothing,
    /// A file of this version.
    Version(FileVersion),
    /// Exactly this file, completely unchanged.
    ExactVersion(ExactVersion),
}

/// What to replace, and under which conditions.
#[derive(Debug)]
pub(super) struct ReplaceRequest<'a> {
    /// The requested path.
    pub(super) path: &'a Path,
    pub(super) create: CreateMode,
    pub(super) parents: ParentDirs,
    pub(super) mode: Option<Mode>,
    pub(super) precondition: Precondition,
}

/// Result of a replacement.
#[derive(Debug)]
pub(super) struct ReplaceResult {
    pub(super) metadata: Metadata,
    pub(super) created: bool,
    pub(super) in_place: bool,
}

/// How the content gets into the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteMethod {
    /// The new file takes the name of the old one.
    Rename,
    /// The old file gets the content of the new one.
    InPlace,
}

impl ReplaceRequest<'_> {
    /// Fails if the file does not meet the conditions.
    pub(super) fn check(&self, found: Option<&Stat>) -> Result<(), Fault> {
        match (self.create, found) {
            (CreateMode::New, Some(_)) => return Err(failed("write", self.path, Errno::EXIST)),
            (CreateMode::Existing, None) => return Err(failed("write", self.path, Errno::NOENT)),
            _ => {}
        }
        let unchanged = match self.precondition {
            Precondition::Nothing => true,
            Precondition::Version(expected) => {
                found.is_some_and(|found| version(found) == expected)
            }
            Precondition::ExactVersion(expected) => {
                found.is_some_and(|found| ExactVersion::of(found) == expected)
            }
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

/// Replaces the content of a file.
pub(super) fn replace(
    replacement: &ReplaceRequest<'_>,
    content: &mut dyn Read,
    cancelled: &AtomicBool,
) -> Result<ReplaceResult, Fault> {
    let links = match replacement.create {
        // A link counts as existing, wherever it points.
        CreateMode::New => FinalLink::Keep,
        CreateMode::Any | CreateMode::Existing => FinalLink::Follow,
    };
    let target = locate(replacement.path, links, replacement.parents)?;
    if replacement.create == CreateMode::New && target.is_taken()? {
        return Err(failed("write", replacement.path, Errno::EXIST));
    }
    let old = target.lookup()?;
    replacement.check(old.as_ref())?;

    let elsewhere;
    let (mut spool, method) = match prepare(replacement, &target, old.as_ref()) {
        Ok(prepared) => prepared,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) if old.is_some() => {
            elsewhere = open_scratch().or_fault("keep the new content of", replacement.path)?;
            let spool = Spool::new(elsewhere.as_fd(), Mode::from_raw_mode(0o600))
                .or_fault("keep the new content of", replacement.path)?;
            (spool, WriteMethod::InPlace)
        }
        Err(errno) => return Err(failed("write", replacement.path, errno)),
    };
    spool.fill(content, replacement.path, cancelled)?;
    if method == WriteMethod::Rename {
        finish(replacement, &spool, old.as_ref()).or_fault("write", replacement.path)?;
    }
    commit(Commit { replacement, target: &target, spool, method })
}

/// Creates the new file beside the old one and copies the attributes of the old
/// one. If that fails, the old file is written in place.
fn prepare<'t>(
    replacement: &ReplaceRequest<'_>,
    target: &'t DirTarget,
    old: Option<&Stat>,
) -> Result<(Spool<'t>, WriteMethod), Errno> {
    let Some(old) = old else {
        // Without a requested mode the umask decides; with one, the file stays
        // private until the mode is set.
        let first = if replacement.mode.is_some() { 0o600 } else { 0o666 };
        let spool = Spool::new(target.dir.as_fd(), Mode::from_raw_mode(first))?;
        return Ok((spool, WriteMethod::Rename));
    };
    let spool = Spool::new(target.dir.as_fd(), Mode::from_raw_mode(0o600))?;
    let keeps_all =
        old.st_nlink == 1 && adopt(spool.file(), old, replacement.mode, &target.path).is_ok();
    Ok((spool, if keeps_all { WriteMethod::Rename } else { WriteMethod::InPlace }))
}

/// Opens a directory for temporary content, if the file's own directory is not
/// writable.
fn open_scratch() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, c"/tmp", flags, Mode::empty())
        .or_else(|_| openat(CWD, c"/var/tmp", flags, Mode::empty()))
}

/// Restores what writing the content has changed.
fn finish(
    replacement: &ReplaceRequest<'_>,
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

/// What is needed to finish a write.
#[derive(Debug)]
pub(super) struct Commit<'a> {
    pub(super) replacement: &'a ReplaceRequest<'a>,
    pub(super) target: &'a DirTarget,
    pub(super) spool: Spool<'a>,
    pub(super) method: WriteMethod,
}

/// Finishes a write. No other write of this guest comes between the check of the
/// conditions and the replacement.
fn commit(mut commit: Commit<'_>) -> Result<ReplaceResult, Fault> {
    let Commit { replacement, target, .. } = commit;
    let _name = lock_name(target.directory()?, target.name.as_bytes());
    let old = target.lookup()?;
    replacement.check(old.as_ref())?;
    if commit.method == WriteMethod::Rename {
        match take_name(&mut commit, old.as_ref()) {
            Ok(()) => {
                let now = fstat(commit.spool.file()).or_fault("look at", replacement.path)?;
                return Ok(ReplaceResult {
                    metadata: describe(replacement.path, &now),
                    created: old.is_none(),
                    in_place: false,
                });
            }
            Err(errno) if rename_cannot(errno) => {}
            Err(errno) => return Err(failed("write", replacement.path, errno)),
        }
    }
    let now = write_in_place(&commit, old.as_ref())?;
    Ok(ReplaceResult {
        metadata: describe(replacement.path, &now),
        created: old.is_none(),
        in_place: true,
    })
}

/// Returns whether the file may be writable although it cannot be replaced: a
/// mount point, a sticky directory, or a link that is not permitted or, without
/// `/proc`, not possible.
const fn rename_cannot(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::BUSY
            | Errno::XDEV
            | Errno::PERM
            | Errno::ACCESS
            | Errno::ROFS
            | Errno::OPNOTSUPP
            | Errno::NOENT
    )
}

fn take_name(commit: &mut Commit<'_>, old: Option<&Stat>) -> Result<(), Errno> {
    let name = &commit.target.name;
    if old.is_none() {
        match commit.spool.appear_as(name) {
            Err(Errno::EXIST) if commit.replacement.create != CreateMode::New => {}
            done => return done,
        }
    }
    commit.spool.replace(name)
}

/// Writes the content into the existing file.
fn write_in_place(commit: &Commit<'_>, old: Option<&Stat>) -> Result<Stat, Fault> {
    let Commit { replacement, target, spool, .. } = commit;
    let path = replacement.path;
    let file = open_in_place(commit, old).or_fault("write", path)?;
    let found = fstat(&file).or_fault("write", path)?;
    if kind(&found) != FileKind::File {
        return Err(refused(FaultCode::WrongKind, "write", path, kind_name(kind(&found))));
    }
    let _file = lock_file(FileId::of(&found));
    if old.is_some() {
        // Another write may have used another name of the file.
        replacement.check(Some(&fstat(&file).or_fault("write", path)?))?;
    }
    let written = overwrite(&file, spool.file(), replacement.mode);
    if written.is_err() && old.is_none() {
        unlinkat(&target.dir, &target.name, AtFlags::empty()).ok();
    }
    written.or_fault("write", path)?;
    fstat(&file).or_fault("look at", path)
}

fn open_in_place(commit: &Commit<'_>, old: Option<&Stat>) -> Result<File, Errno> {
    let mut flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    if old.is_none() {
        flags |= OFlags::CREATE | OFlags::EXCL;
    }
    let target = commit.target;
    Ok(openat(&target.dir, &target.name, flags, Mode::from_raw_mode(0o666))?.into())
}

/// Copies the content of `new` over `file`. Steps that can fail come first, while
/// the old content is still complete.
fn overwrite(file: &File, new: &File, mode: Option<Mode>) -> Result<(), Errno> {
    if let Some(mode) = mode {
        fchmod(file, mode)?;
    }
    let length = size(&fstat(new)?);
    if length > 0 {
        let set_aside = fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, length);
        // Other failures only mean that the filesystem cannot reserve space.
        if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = set_aside {
            return Err(errno);
        }
    }
    let mut piece = vec![0; MAX_DATA];
    let mut done = 0;
    loop {
        let got = read_at(new, &mut piece, done)?;
        if got == 0 {
            break;
        }
        let mut rest = &piece[..got];
        while !rest.is_empty() {
            match pwrite(file, rest, done) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    rest = &rest[count..];
                    done += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    ftruncate(file, done)?;
    stamp(file);
    Ok(())
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "write_child_tests.rs"]
#[expect(unsafe_code, reason = "a child is prepared between fork and exec")]
mod child_tests;
