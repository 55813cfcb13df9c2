//! Builds the filesystem of a sandbox.
//!
//! Everything is named by descriptors: sources are opened before anything is
//! mounted, and targets are resolved below the new root without following a link.
//! A link that a command planted in either therefore leads nowhere.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, fstat, mkdirat, openat, openat2,
    statx, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_change,
    move_mount, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use vestal_wire::{Enclosure, Purpose};

use super::devices::mount_processes;
use super::first::InnerPipes;
use super::sources::{RootMount, RootPart, SAFE_ATTRIBUTES, clone_directory, open_parts};
use crate::failpoint::failpoint;
use crate::failure::{BuildStep, StepFailure, failed};
use crate::sys::as_everyone;
use crate::users::{SandboxRoot, host_id};

/// Maximum length of a kernel message.
const MAX_MESSAGE: usize = 512;

/// Attempts to create an entry that is removed again. Nothing removes it: no
/// other process runs in the sandbox yet.
const ATTEMPTS: usize = 3;

/// What is needed to build all parts of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct Builder<'a> {
    /// The owner of the sandbox's files.
    pub(super) owner: SandboxRoot,
    /// The group of terminals, as this process sees it.
    pub(super) terminals: Option<u32>,
    /// The user namespace of the sandbox, for idmapped mounts.
    pub(super) users: Option<BorrowedFd<'a>>,
    /// Whether changes must survive a crash of the machine.
    pub(super) durable: bool,
}

/// Builds the filesystem of a sandbox and leaves the host's.
pub(super) fn build(
    plan: &Enclosure,
    users: Option<BorrowedFd<'_>>,
    pipes: &InnerPipes,
) -> Result<(), StepFailure> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed(BuildStep::PrivateMounts))?;
    let (root, parts) = open_parts(plan)?;
    let builder = Builder {
        owner: SandboxRoot::of(&plan.users),
        terminals: terminals(plan),
        users,
        durable: plan.purpose != Purpose::Trial,
    };
    let parts = parts.into_iter().map(|part| {
        let clone = match &part {
            RootMount::Bind { bind, source } => Some(builder.clone_source(bind, source)?),
            _ => None,
        };
        Ok::<_, StepFailure>((part, clone))
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let mut root = builder.root(root)?;
    failpoint!("stage.first.after-root");
    for (part, clone) in parts {
        pipes.check();
        builder.mount_part(&mut root, part, clone.as_ref())?;
    }
    failpoint!("stage.first.after-places");
    pivot(&root).map_err(failed(BuildStep::Pivot))
}

/// The group `tty`, which has the same number in every distribution.
const TTY: u32 = 5;

/// Returns the group of terminals, if the sandbox has it.
fn terminals(plan: &Enclosure) -> Option<u32> {
    let on_host = host_id(&plan.users.gids, TTY)?;
    match SandboxRoot::of(&plan.users) {
        SandboxRoot::Myself => Some(TTY),
        SandboxRoot::Other { .. } => Some(on_host),
    }
}

impl Builder<'_> {
    fn root(&self, root: RootPart<'_>) -> Result<NewRoot, StepFailure> {
        let (mount, at) = match root {
            RootPart::Directory { path, source } => {
                let mount = clone_directory(&source)
                    .map_err(|error| StepFailure::of(BuildStep::Root, error).at(path))?;
                (mount, source)
            }
            RootPart::Overlay(layers) => {
                let mount = self.layers(&layers).map_err(|failure| failure.at(b"/"))?;
                (mount, layers.upper)
            }
        };
        // The root is mounted over its own directory, which certainly exists and
        // is not in the way.
        attach(&mount, &at).map_err(|error| StepFailure::of(BuildStep::Root, error).at(b"/"))?;
        NewRoot::new(mount, self.owner)
    }

    fn mount_part(
        &self,
        root: &mut NewRoot,
        part: RootMount<'_>,
        clone: Option<&OwnedFd>,
    ) -> Result<(), StepFailure> {
        match part {
            RootMount::Bind { bind, source } => match clone {
                Some(mount) => self.bind(root, bind, &source, mount),
                None => {
                    let failure = StepFailure::new(BuildStep::Bind, "its source was not opened");
                    Err(failure.at(bind.target.as_slice()))
                }
            },
            RootMount::Overlay { target, layers } => {
                let at = root.directory(target, 0o755)?;
                let mount = self.layers(&layers).map_err(|failure| failure.at(target))?;
                root.attach_own(&mount, &at)
                    .map_err(|error| StepFailure::of(BuildStep::Overlay, error).at(target))
            }
            RootMount::Tmpfs { target, tmpfs } => {
                let at = root.directory(target, tmpfs.mode)?;
                let mount = self.tmpfs(&tmpfs).map_err(|failure| failure.at(target))?;
                root.attach_own(&mount, &at)
                    .map_err(|error| StepFailure::of(BuildStep::Tmpfs, error).at(target))
            }
            RootMount::Proc { target } => mount_processes(root, target),
            RootMount::Dev { target, shared_memory } => self.devices(root, target, shared_memory),
            RootMount::Symlink { target, text } => root.link(target, text),
            RootMount::Directory { target, mode } => root.directory(target, mode).map(drop),
        }
    }

    /// Returns a mount of a tmpfs.
    pub(super) fn tmpfs(&self, tmpfs: &Tmpfs) -> Result<OwnedFd, StepFailure> {
        let exec = if tmpfs.exec { 0 } else { libc::MOUNT_ATTR_NOEXEC };
        self.tmpfs_with(BuildStep::Tmpfs, tmpfs, SAFE_ATTRIBUTES | exec)
    }

    /// Returns a mount of a tmpfs with attributes.
    pub(super) fn tmpfs_with(
        &self,
        step: BuildStep,
        tmpfs: &Tmpfs,
        attributes: u64,
    ) -> Result<OwnedFd, StepFailure> {
        let mut context = BuildContext::new(step, "tmpfs")?
            .set("size", &tmpfs.size.to_string())?
            .set("mode", &format!("{:o}", tmpfs.mode))?;
        if let SandboxRoot::Other { uid, gid } = self.owner {
            context = context.set("uid", &uid.to_string())?.set("gid", &gid.to_string())?;
        }
        context.mount(attributes)
    }
}

/// A filesystem that is being configured.
#[derive(Debug)]
pub(super) struct BuildContext {
    step: BuildStep,
    context: OwnedFd,
}

impl BuildContext {
    /// Starts to configure a filesystem of a type.
    pub(super) fn new(step: BuildStep, sort: &str) -> Result<Self, StepFailure> {
        let context = fsopen(sort, FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(|error| StepFailure::of(step, error).with_detail(sort))?;
        Ok(Self { step, context })
    }

    /// Sets an option.
    pub(super) fn set(self, key: &str, value: &str) -> Result<Self, StepFailure> {
        match fsconfig_set_string(&self.context, key, value) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.failed(error.into()).with_detail(key)),
        }
    }

    /// Sets an option without value.
    pub(super) fn flag(self, key: &str) -> Result<Self, StepFailure> {
        match fsconfig_set_flag(&self.context, key) {
            Ok(()) => Ok(self),
            Err(error) => Err(self.failed(error.into()).with_detail(key)),
        }
    }

    /// Creates the filesystem and returns a mount of it.
    pub(super) fn mount(self, attributes: u64) -> Result<OwnedFd, StepFailure> {
        fsconfig_create(&self.context).map_err(|error| self.failed(error.into()))?;
        self.mount_created(attributes)
    }

    /// Creates a filesystem that lies over others, which the kernel accesses for it
    /// with the rights of its creator: here those that everyone has.
    pub(super) fn mount_for_everyone(self, attributes: u64) -> Result<OwnedFd, StepFailure> {
        let created = as_everyone(|| fsconfig_create(&self.context));
        created.and_then(|created| Ok(created?)).map_err(|error| self.failed(error))?;
        self.mount_created(attributes)
    }

    fn mount_created(self, attributes: u64) -> Result<OwnedFd, StepFailure> {
        let bits = u32::try_from(attributes).map_err(|_| self.failed(invalid()))?;
        let attributes = MountAttrFlags::from_bits_retain(bits);
        fsmount(&self.context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(|error| self.failed(error.into()))
    }

    /// Returns a failure with the kernel's message.
    fn failed(&self, error: io::Error) -> StepFailure {
        let failure = StepFailure::of(self.step, error);
        let mut message = [0; MAX_MESSAGE];
        match rustix::io::read(&self.context, &mut message) {
            // It starts with a letter for the severity and a space.
            Ok(count @ 3..) => {
                let text = String::from_utf8_lossy(&message[2..count]).into_owned();
                failure.with_detail(text.trim())
            }
            _ => failure,
        }
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

/// Size and permissions of a tmpfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tmpfs {
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) exec: bool,
}

/// The root of the sandbox while it is built.
#[derive(Debug)]
pub(super) struct NewRoot {
    mount: OwnedFd,
    owner: SandboxRoot,
    /// Mounts whose content belongs to the sandbox, so that obstacles can be
    /// removed. Entries in host directories are kept.
    own: HashSet<u64>,
}

/// Attaches a mount over the file of a descriptor.
pub(super) fn attach(mount: impl AsFd, at: impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount.as_fd(), "", at.as_fd(), "", flags)
}

impl NewRoot {
    /// Uses a mount as the root of a sandbox.
    pub(super) fn new(mount: OwnedFd, owner: SandboxRoot) -> Result<Self, StepFailure> {
        let own = HashSet::from([mount_id(mount.as_fd()).map_err(failed(BuildStep::Root))?]);
        Ok(Self { mount, owner, own })
    }

    /// Returns the root itself.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.mount.as_fd()
    }

    /// Attaches a mount whose content belongs to the sandbox.
    pub(super) fn attach_own(&mut self, mount: &OwnedFd, at: &OwnedFd) -> rustix::io::Result<()> {
        attach(mount, at)?;
        self.own.insert(mount_id(mount.as_fd())?);
        Ok(())
    }

    /// Creates a file that belongs to root of the sandbox.
    pub(super) fn make<T>(&self, make: impl FnOnce() -> rustix::io::Result<T>) -> io::Result<T> {
        self.owner.make(make)
    }

    /// Opens a directory. Creates it and its parents if they are missing.
    pub(super) fn directory(&self, target: &[u8], mode: u32) -> Result<OwnedFd, StepFailure> {
        let failed = |error: io::Error| StepFailure::of(BuildStep::Target, error).at(target);
        let names = names(target).map_err(failed)?;
        let last = names.len().saturating_sub(1);
        let mut directory = self.mount.try_clone().map_err(failed)?;
        for (index, name) in names.iter().enumerate() {
            let mode = if index == last { mode } else { 0o755 };
            directory = self.enter(&directory, name, mode).map_err(failed)?;
        }
        Ok(directory)
    }

    /// Opens a file to mount over. Creates it if it is missing.
    pub(super) fn file(&self, target: &[u8]) -> Result<OwnedFd, StepFailure> {
        let failed = |error: io::Error| StepFailure::of(BuildStep::Target, error).at(target);
        let (directory, name) = self.parent(target)?;
        for _ in 0..ATTEMPTS {
            let found = open_beneath(&directory, name, OFlags::empty());
            match found {
                Ok(found) => match kind(&found).map_err(failed)? {
                    FileType::Directory => return Err(failed(Errno::ISDIR.into())),
                    FileType::Symlink => self.remove_obstacle(&directory, name).map_err(failed)?,
                    _ => return Ok(found),
                },
                Err(Errno::NOENT) => {
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                    let mode = Mode::from_raw_mode(0o644);
                    self.make(|| openat(&directory, name, flags, mode)).map_err(failed)?;
                }
                Err(error) => return Err(failed(error.into())),
            }
        }
        Err(failed(Errno::BUSY.into()))
    }

    /// Creates a symbolic link if nothing exists there, or replaces an empty
    /// directory that was a mount point before.
    pub(super) fn link(&self, target: &[u8], text: &[u8]) -> Result<(), StepFailure> {
        let failed = |error: io::Error| StepFailure::of(BuildStep::Symlink, error).at(target);
        let (directory, name) = self.parent(target)?;
        let text = OsStr::from_bytes(text);
        let make = || self.make(|| symlinkat(text, &directory, name));
        match make() {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                match unlinkat(&directory, name, AtFlags::REMOVEDIR) {
                    Ok(()) => make().map_err(failed),
                    Err(_) => Ok(()),
                }
            }
            made => made.map_err(failed),
        }
    }

    /// Opens the parent directory of a target, and returns the target's name.
    fn parent<'t>(&self, target: &'t [u8]) -> Result<(OwnedFd, &'t OsStr), StepFailure> {
        let failed = |error: io::Error| StepFailure::of(BuildStep::Target, error).at(target);
        let names = names(target).map_err(failed)?;
        let Some((name, way)) = names.split_last() else {
            return Err(failed(Errno::INVAL.into()));
        };
        let mut directory = self.mount.try_clone().map_err(failed)?;
        for name in way {
            directory = self.enter(&directory, name, 0o755).map_err(failed)?;
        }
        Ok((directory, name))
    }

    fn enter(&self, directory: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
        let mode = Mode::from_raw_mode(mode);
        for _ in 0..ATTEMPTS {
            match open_beneath(directory, name, OFlags::DIRECTORY) {
                Ok(found) => return Ok(found),
                Err(Errno::NOENT) => {}
                Err(Errno::NOTDIR | Errno::LOOP) => self.remove_obstacle(directory, name)?,
                Err(error) => return Err(error.into()),
            }
            self.make(|| mkdirat(directory, name, mode))?;
        }
        Err(Errno::BUSY.into())
    }

    /// Removes an obstacle, if it belongs to the sandbox.
    fn remove_obstacle(&self, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if self.own.contains(&mount_id(directory.as_fd())?) {
            return Ok(unlinkat(directory, name, AtFlags::empty())?);
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} is in the way in a directory of the host", name.display()),
        ))
    }
}

/// Splits the path of a target into names.
fn names(target: &[u8]) -> io::Result<Vec<&OsStr>> {
    let names: Vec<_> =
        target.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    if !target.starts_with(b"/") || names.iter().any(|name| matches!(*name, b"." | b"..")) {
        return Err(Errno::INVAL.into());
    }
    Ok(names.into_iter().map(OsStr::from_bytes).collect())
}

/// Opens an entry of a directory without following a link.
fn open_beneath(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if flags.contains(OFlags::DIRECTORY) {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    openat2(directory, name, flags, Mode::empty(), resolve)
}

fn kind(file: &OwnedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(fstat(file)?.st_mode))
}

fn mount_id(file: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    Ok(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id)
}

/// Makes the new root the root, and detaches the old one.
pub(super) fn pivot(root: &NewRoot) -> rustix::io::Result<()> {
    fchdir(root.as_fd())?;
    // The old root is mounted over the new one, where nothing can be planted, and
    // is detached from there.
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_whole_paths_without_detours() {
        assert_eq!(names(b"/").unwrap(), Vec::<&OsStr>::new());
        assert_eq!(names(b"//a/b/").unwrap(), [OsStr::new("a"), OsStr::new("b")]);
        for wrong in [&b""[..], b"a", b"/a/../b", b"/./a"] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }
}
