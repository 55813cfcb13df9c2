//! Host files in a sandbox: opens them, binds them and puts overlays over them.
//!
//! Files of a lower directory are hidden by one more layer. In it, a character
//! device 0:0 marks an entry as removed. The directories above such an entry are
//! in that layer too, with the owner and permissions of the lower ones.
//!
//! What not everyone may read is kept from the sandbox by an overlay whose creator
//! had no rights: the kernel looks at both the rights of the caller over the
//! overlay, in which root of the sandbox owns what belongs to the host's root, and
//! those of the creator over what lies below.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use minicbor::bytes::ByteVec;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
    chmodat, chownat, fstat, makedev, mkdirat, mknodat, openat, openat2, utimensat,
};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use vestal_wire::{Bind, Enclosure, OverlayDirs, Root, SandboxMount};

use super::build::{BuildContext, Builder, NewRoot, Tmpfs, attach};
use crate::failure::{BuildStep, StepFailure, failed, failed_at};
use crate::sys::{MountScope, add_attributes, shift_owners};
use crate::users::SandboxRoot;

/// Attributes of every host file in a sandbox: no set-user-ID programs and no
/// devices.
pub(super) const SAFE_ATTRIBUTES: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// The root of a sandbox, with its source open.
#[derive(Debug)]
pub(super) enum RootPart<'p> {
    Directory { path: &'p [u8], source: OwnedFd },
    Overlay(OpenOverlay),
}

/// A mount below the root, with its source open.
#[derive(Debug)]
pub(super) enum RootMount<'p> {
    Bind { bind: &'p Bind, source: OwnedFd },
    Overlay { target: &'p [u8], layers: OpenOverlay },
    Tmpfs { target: &'p [u8], tmpfs: Tmpfs },
    Proc { target: &'p [u8] },
    Dev { target: &'p [u8], shared_memory: u64 },
    Symlink { target: &'p [u8], text: &'p [u8] },
    Directory { target: &'p [u8], mode: u32 },
}

/// An overlay with its directories open.
#[derive(Debug)]
pub(super) struct OpenOverlay {
    pub(super) lower: OwnedFd,
    pub(super) shifted: bool,
    pub(super) upper: OwnedFd,
    pub(super) work: OwnedFd,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) public_only: bool,
}

/// Opens all sources of a plan, before anything is mounted over them.
pub(super) fn open_parts(
    plan: &Enclosure,
) -> Result<(RootPart<'_>, Vec<RootMount<'_>>), StepFailure> {
    let root = match &plan.root {
        Root::Directory(path) => RootPart::Directory { path, source: open_source(path)? },
        Root::Overlay(layers) => RootPart::Overlay(open_layers(layers)?),
    };
    let parts = plan.mounts.iter().map(open_part).collect::<Result<_, _>>()?;
    Ok((root, parts))
}

fn open_part(mount: &SandboxMount) -> Result<RootMount<'_>, StepFailure> {
    Ok(match mount {
        SandboxMount::Bind(bind) => RootMount::Bind { bind, source: open_bind_source(bind)? },
        SandboxMount::Overlay { target, layers } => {
            RootMount::Overlay { target, layers: open_layers(layers)? }
        }
        SandboxMount::Tmpfs { target, size, mode, exec } => {
            RootMount::Tmpfs { target, tmpfs: Tmpfs { size: *size, mode: *mode, exec: *exec } }
        }
        SandboxMount::Proc { target } => RootMount::Proc { target },
        SandboxMount::Dev { target, shared_memory } => {
            RootMount::Dev { target, shared_memory: *shared_memory }
        }
        SandboxMount::Symlink { target, text } => RootMount::Symlink { target, text },
        SandboxMount::Directory { target, mode } => RootMount::Directory { target, mode: *mode },
    })
}

fn open_layers(layers: &OverlayDirs) -> Result<OpenOverlay, StepFailure> {
    Ok(OpenOverlay {
        lower: open_source(&layers.lower)?,
        shifted: layers.shifted,
        upper: open_source(&layers.upper)?,
        work: open_source(&layers.work)?,
        hidden: paths(&layers.hidden),
        public_only: layers.public_only,
    })
}

/// Returns bytes as paths.
pub(super) fn paths(bytes: &[ByteVec]) -> Vec<PathBuf> {
    bytes.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Opens the source of a bind. If the plan names the expected file, the path must
/// not contain a link, and the open file is compared: the name may change at any
/// moment, the open file does not.
fn open_bind_source(bind: &Bind) -> Result<OwnedFd, StepFailure> {
    let Some(expected) = bind.identity else {
        return open_source(&bind.source);
    };
    let opened = open_at(&bind.source, ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS)?;
    let found = fstat(&opened).map_err(failed_at(BuildStep::Source, &bind.source))?;
    if (found.st_dev, found.st_ino) == (expected.device, expected.inode) {
        return Ok(opened);
    }
    Err(StepFailure::new(BuildStep::Source, "it was replaced while the sandbox was built")
        .at(&bind.source))
}

/// Opens a host file by its absolute path. Links of the host are followed, but
/// not the kernel's own, which lead to descriptors and roots of other processes.
fn open_source(path: &[u8]) -> Result<OwnedFd, StepFailure> {
    open_at(path, ResolveFlags::NO_MAGICLINKS)
}

fn open_at(path: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, StepFailure> {
    if !path.starts_with(b"/") {
        return Err(StepFailure::of(BuildStep::Source, rustix::io::Errno::INVAL).at(path));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, OsStr::from_bytes(path), flags, Mode::empty(), resolve)
        .map_err(failed_at(BuildStep::Source, path))
}

/// Clones a mount, or the part below a descriptor.
pub(super) fn clone_mount(source: &OwnedFd, scope: MountScope) -> rustix::io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    if scope == MountScope::Recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(source, "", flags)
}

/// Returns a mount of a directory that belongs to the sandbox.
pub(super) fn clone_directory(source: &OwnedFd) -> io::Result<OwnedFd> {
    let mount = clone_mount(source, MountScope::Single)?;
    add_attributes(&mount, MountScope::Single, SAFE_ATTRIBUTES)?;
    Ok(mount)
}

impl Builder<'_> {
    /// Clones the source of a bind. This happens before anything of the sandbox
    /// is mounted: the source may contain the sandbox's own directories, and must
    /// not show the sandbox in them.
    pub(super) fn clone_source(
        &self,
        bind: &Bind,
        source: &OwnedFd,
    ) -> Result<OwnedFd, StepFailure> {
        self.clone_with_attributes(bind, source).map_err(failed_at(BuildStep::Bind, &bind.target))
    }

    /// Mounts a host file in the sandbox.
    pub(super) fn bind(
        &self,
        root: &NewRoot,
        bind: &Bind,
        source: &OwnedFd,
        mount: &OwnedFd,
    ) -> Result<(), StepFailure> {
        let target = bind.target.as_slice();
        let stat = fstat(source).map_err(failed_at(BuildStep::Source, &bind.source))?;
        let at = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => root.directory(target, 0o755)?,
            _ => root.file(target)?,
        };
        attach(mount, &at).map_err(failed_at(BuildStep::Bind, target))?;
        if bind.hidden.is_empty() && !bind.public_only {
            return Ok(());
        }
        // The mount attached above is only visible through the overlay that hides
        // parts of it.
        let hidden = paths(&bind.hidden);
        let part = if bind.public_only {
            self.public_part(mount, &hidden, &at)
        } else {
            self.hide_entries(mount, &hidden, &at)
        };
        let part = part.map_err(|failure| failure.at(target))?;
        attach(part, &at).map_err(failed_at(BuildStep::Bind, target))
    }

    fn clone_with_attributes(&self, bind: &Bind, source: &OwnedFd) -> io::Result<OwnedFd> {
        let scope = if bind.recursive { MountScope::Recursive } else { MountScope::Single };
        let read_only = if bind.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 };
        let mount = clone_mount(source, scope)?;
        match (bind.shifted, self.users) {
            (false, _) => add_attributes(&mount, scope, SAFE_ATTRIBUTES | read_only)?,
            (true, Some(users)) => {
                shift_owners(&mount, scope, SAFE_ATTRIBUTES | read_only, users)?;
            }
            (true, None) => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(mount)
    }

    /// Returns a mount of an overlay.
    pub(super) fn layers(&self, layers: &OpenOverlay) -> Result<OwnedFd, StepFailure> {
        if layers.public_only && !layers.shifted {
            let failure = "only what is shown with other owners is kept from them";
            return Err(StepFailure::new(BuildStep::Plan, failure));
        }
        if !layers.shifted {
            return self.overlay(&layers.lower, &layers.hidden, layers);
        }
        let Some(users) = self.users else {
            return Err(StepFailure::new(BuildStep::Plan, "only root can map owners"));
        };
        let lower =
            clone_mount(&layers.lower, MountScope::Single).map_err(failed(BuildStep::Overlay))?;
        let attributes = SAFE_ATTRIBUTES | libc::MOUNT_ATTR_RDONLY;
        shift_owners(&lower, MountScope::Single, attributes, users).map_err(|error| {
            StepFailure::of(BuildStep::Overlay, error).with_detail("cannot map owners")
        })?;
        // Most kernels only accept mounted directories as layers. It is mounted
        // over a directory that nobody uses any more, and goes with the old root:
        // unmounting it separately would take longer than everything else.
        attach(&lower, &layers.upper).map_err(failed(BuildStep::Overlay))?;
        if !layers.public_only {
            return self.overlay(&lower, &layers.hidden, layers);
        }
        let public = self.public_part(&lower, &layers.hidden, &layers.work)?;
        attach(&public, &layers.upper).map_err(failed(BuildStep::Overlay))?;
        self.overlay(&public, &[], layers)
    }

    fn overlay(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        layers: &OpenOverlay,
    ) -> Result<OwnedFd, StepFailure> {
        let whiteouts = self.whiteouts(lower, hidden, &layers.work)?;
        let context = overlay(whiteouts.iter().chain([lower]))?
            .set("upperdir", &handle(&layers.upper))?
            .set("workdir", &handle(&layers.work))?;
        let context = match self.owner {
            SandboxRoot::Other { .. } => context,
            // Only root of the host may use the attributes that are used
            // otherwise.
            SandboxRoot::Myself => context.flag("userxattr")?,
        };
        // Otherwise unmounting waits for the disk.
        let context = if self.durable { context } else { context.flag("volatile")? };
        context.mount(SAFE_ATTRIBUTES)
    }

    /// Returns a read-only mount of a directory without its hidden entries. `at`
    /// is where the layer that hides them is mounted.
    pub(super) fn hide_entries(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        at: &OwnedFd,
    ) -> Result<OwnedFd, StepFailure> {
        let whiteouts = self.whiteouts(lower, hidden, at)?;
        let layers = whiteouts.iter().chain([lower]);
        overlay(layers)?.mount(SAFE_ATTRIBUTES | libc::MOUNT_ATTR_RDONLY)
    }

    /// Returns a read-only mount of a directory without its hidden entries, through
    /// which nobody can read what not everyone may read. `at` is where a layer of it
    /// is mounted.
    fn public_part(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        at: &OwnedFd,
    ) -> Result<OwnedFd, StepFailure> {
        let whiteouts = self.whiteouts(lower, hidden, at)?;
        // Without an upper directory, an overlay needs two layers.
        let empty = match whiteouts {
            Some(_) => None,
            None => Some(empty_layer(at)?),
        };
        let layers = whiteouts.iter().chain([lower]).chain(&empty);
        overlay(layers)?.mount_for_everyone(SAFE_ATTRIBUTES | libc::MOUNT_ATTR_RDONLY)
    }

    /// Returns a layer that hides entries of a directory, mounted at `at`, or
    /// nothing if there is nothing to hide.
    pub(super) fn whiteouts(
        &self,
        lower: &OwnedFd,
        hidden: &[PathBuf],
        at: &OwnedFd,
    ) -> Result<Option<OwnedFd>, StepFailure> {
        if hidden.is_empty() {
            return Ok(None);
        }
        if self.owner == SandboxRoot::Myself {
            // Only root can create whiteouts. Other users do not need them:
            // permissions protect the files.
            return Err(StepFailure::new(BuildStep::Plan, "only root can hide files"));
        }
        let layer = empty_layer(at)?;
        Whiteouts { lower, layer: &layer, directories: BTreeMap::new() }.make(hidden).map_err(
            |error| StepFailure::of(BuildStep::Overlay, error).with_detail("cannot hide files"),
        )?;
        Ok(Some(layer))
    }
}

/// Returns an empty layer, mounted at `at`: most kernels only accept mounted
/// directories as layers.
fn empty_layer(at: &OwnedFd) -> Result<OwnedFd, StepFailure> {
    let layer = BuildContext::new(BuildStep::Overlay, "tmpfs")?
        .set("mode", "755")?
        .mount(SAFE_ATTRIBUTES)?;
    attach(&layer, at).map_err(failed(BuildStep::Overlay))?;
    Ok(layer)
}

/// Configures an overlay of layers, the first on top, without upper directory.
///
/// It uses descriptors instead of paths: paths may be longer than an option, and
/// options are visible in the sandbox. Layers are copied, and the lower one
/// changes with the host, so nothing may tie the upper one to the inodes of
/// either.
fn overlay<'a>(layers: impl IntoIterator<Item = &'a OwnedFd>) -> Result<BuildContext, StepFailure> {
    let lowers: Vec<String> = layers.into_iter().map(handle).collect();
    BuildContext::new(BuildStep::Overlay, "overlay")?
        .set("lowerdir", &lowers.join(":"))?
        .set("index", "off")?
        .set("metacopy", "off")?
        .set("redirect_dir", "nofollow")
}

/// Returns the path of a descriptor.
fn handle(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// A layer of whiteouts being created.
struct Whiteouts<'a> {
    lower: &'a OwnedFd,
    layer: &'a OwnedFd,
    /// The directories in it, and the metadata of the corresponding lower ones.
    directories: BTreeMap<PathBuf, Stat>,
}

impl Whiteouts<'_> {
    fn make(mut self, hidden: &[PathBuf]) -> io::Result<()> {
        let top = fstat(self.lower)?;
        copy_owner(self.layer, OsStr::new("."), &top)?;
        self.directories.insert(PathBuf::new(), top);
        for path in hidden {
            self.mark(path)?;
        }
        // Creating entries has changed the times of directories.
        for (path, lower) in &self.directories {
            let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            utimensat(self.layer, at, &times(lower), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    fn mark(&mut self, path: &Path) -> io::Result<()> {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(above), Some(name), true) = (path.parent(), path.file_name(), plain) else {
            return Err(Errno::INVAL.into());
        };
        // If the parent is no longer a directory, there is nothing to hide.
        if !self.directory(above)? {
            return Ok(());
        }
        let dir = self.open(above)?;
        match mknodat(&dir, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)) {
            Err(Errno::EXIST) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a directory and its parents. Returns false if the lower directory
    /// does not exist, or is hidden already.
    fn directory(&mut self, path: &Path) -> io::Result<bool> {
        if self.directories.contains_key(path) {
            return Ok(true);
        }
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(false);
        };
        if !self.directory(above)? {
            return Ok(false);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let lower = match openat2(self.lower, path, flags, Mode::empty(), resolve) {
            Ok(lower) => fstat(&lower)?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let dir = self.open(above)?;
        match mkdirat(&dir, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        copy_owner(&dir, name, &lower)?;
        self.directories.insert(path.to_owned(), lower);
        Ok(true)
    }

    /// Opens a directory of the layer.
    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        openat(self.layer, path, flags, Mode::empty())
    }
}

/// Copies owner and permissions of a directory.
fn copy_owner(dir: &OwnedFd, name: &OsStr, like: &Stat) -> rustix::io::Result<()> {
    let owner = (Uid::from_raw(like.st_uid), Gid::from_raw(like.st_gid));
    chownat(dir, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)?;
    chmodat(dir, name, Mode::from_raw_mode(like.st_mode & 0o7777), AtFlags::empty())
}

fn times(of: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.try_into().unwrap_or_default(),
    };
    Timestamps {
        last_access: time(of.st_atime, of.st_atime_nsec),
        last_modification: time(of.st_mtime, of.st_mtime_nsec),
    }
}
