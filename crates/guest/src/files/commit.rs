//! The last step of a write: the new content becomes the file's.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, Stat, fallocate, fchmod, fstat, ftruncate, openat,
    unlinkat,
};
use rustix::io::{Errno, pwrite};
use vestal_wire::limits::MAX_DATA;
use vestal_wire::{CreateMode, Fault, FaultCode, FileKind};

use super::attributes::stamp;
use super::fault::{OrFault, failed, refused};
use super::locate::Target;
use super::locks::{lock_file, lock_name};
use super::metadata::{Identity, describe, kind, kind_name, size};
use super::read::read_at;
use super::replace::{Replaced, Replacement, Way};
use super::spool::Spool;

/// All that is needed to finish a write.
#[derive(Debug)]
pub(super) struct Commit<'a> {
    pub(super) replacement: &'a Replacement<'a>,
    pub(super) target: &'a Target,
    pub(super) spool: Spool<'a>,
    pub(super) way: Way,
}

/// Finishes a write. Nobody who goes through the guest comes between the check
/// of the conditions and what follows.
pub(super) fn commit(mut commit: Commit<'_>) -> Result<Replaced, Fault> {
    let Commit { replacement, target, .. } = commit;
    let _name = lock_name(target.directory()?, target.name.as_bytes());
    let old = target.lookup()?;
    replacement.check(old.as_ref())?;
    if commit.way == Way::Rename {
        match take_name(&mut commit, old.as_ref()) {
            Ok(()) => {
                let now = fstat(commit.spool.file()).or_fault("look at", replacement.path)?;
                return Ok(Replaced {
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
    Ok(Replaced {
        metadata: describe(replacement.path, &now),
        created: old.is_none(),
        in_place: true,
    })
}

/// Tells whether the file can perhaps be written although its name cannot be
/// taken: a mount point, a sticky directory, a link the system does not permit
/// or, without `/proc`, cannot make.
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

/// Writes the content into the file that is there.
fn write_in_place(commit: &Commit<'_>, old: Option<&Stat>) -> Result<Stat, Fault> {
    let Commit { replacement, target, spool, .. } = commit;
    let path = replacement.path;
    let file = open_in_place(commit, old).or_fault("write", path)?;
    let found = fstat(&file).or_fault("write", path)?;
    if kind(&found) != FileKind::File {
        return Err(refused(FaultCode::WrongKind, "write", path, kind_name(kind(&found))));
    }
    let _file = lock_file(Identity::of(&found));
    if old.is_some() {
        // Another write may have come through another name of the file.
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

/// Copies the content of `new` over that of `file`. What can fail comes first,
/// while the old content is still whole.
fn overwrite(file: &File, new: &File, mode: Option<Mode>) -> Result<(), Errno> {
    if let Some(mode) = mode {
        fchmod(file, mode)?;
    }
    let length = size(&fstat(new)?);
    if length > 0 {
        let set_aside = fallocate(file.as_fd(), FallocateFlags::KEEP_SIZE, 0, length);
        // Other failures only mean that the filesystem cannot set space aside.
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
