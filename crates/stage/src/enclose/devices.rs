//! `/dev` with the few devices that programs expect, and `/proc` with the sandbox's
//! own processes and as little as possible of the host.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, major, minor, mkdirat, openat, symlinkat};
use rustix::io::Errno;

use super::build::{BuildContext, Builder, NewRoot, Tmpfs, attach};
use super::sources::{SAFE_ATTRIBUTES, clone_mount};
use crate::failure::{BuildStep, StepFailure, failed_at};
use crate::sys::{MountScope, add_attributes};

const NULL: (&str, u32, u32) = ("null", 1, 3);

/// Devices and their numbers, which are the same on every machine.
const DEVICES: [(&str, u32, u32); 6] =
    [NULL, ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Size of `/dev` itself, where programs should not write.
const SIZE: u64 = 64 << 10;

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const QUIET: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

/// Entries of `/proc` that are read-only.
pub const READ_ONLY_PROC: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Entries of `/proc` that reveal too much of the host or give access to its
/// memory. Container engines mask the same.
pub const MASKED_PROC: [&str; 13] = [
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "keys",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];

const ATTRIBUTES: u64 = SAFE_ATTRIBUTES | libc::MOUNT_ATTR_NOEXEC;

impl Builder<'_> {
    /// Mounts `/dev`.
    pub(super) fn devices(
        &self,
        root: &mut NewRoot,
        target: &[u8],
        shared_memory: u64,
    ) -> Result<(), StepFailure> {
        let at = root.directory(target, 0o755)?;
        let tmpfs = Tmpfs { size: SIZE, mode: 0o755, exec: false };
        let devices = self
            .tmpfs_with(BuildStep::Dev, &tmpfs, SAFE_ATTRIBUTES | libc::MOUNT_ATTR_NOEXEC)
            .map_err(|failure| failure.at(target))?;
        root.attach_own(&devices, &at).map_err(failed_at(BuildStep::Dev, target))?;
        for device in DEVICES {
            let part = [target, b"/", device.0.as_bytes()].concat();
            device_of_host(root, &devices, device).map_err(|failure| failure.at(&part))?;
        }
        for (name, text) in LINKS {
            root.make(|| symlinkat(text, &devices, name))
                .map_err(failed_at(BuildStep::Dev, target))?;
        }
        let shared = Tmpfs { size: shared_memory, mode: 0o1777, exec: false };
        let shared =
            self.tmpfs_with(BuildStep::Dev, &shared, SAFE_ATTRIBUTES | libc::MOUNT_ATTR_NOEXEC);
        for (name, mount) in [("pts", self.terminals()), ("shm", shared)] {
            let part = [target, b"/", name.as_bytes()].concat();
            let mount = mount.map_err(|failure| failure.at(&part))?;
            mount_below(root, &devices, name, &mount).map_err(failed_at(BuildStep::Dev, &part))?;
        }
        Ok(())
    }

    /// Returns a mount of the sandbox's own terminals.
    fn terminals(&self) -> Result<OwnedFd, StepFailure> {
        let mut context = BuildContext::new(BuildStep::Dev, "devpts")?
            .set("mode", "620")?
            .set("ptmxmode", "666")?;
        if let Some(group) = self.terminals {
            context = context.set("gid", &group.to_string())?;
        }
        context.mount(QUIET)
    }
}

fn mount_below(
    root: &NewRoot,
    devices: &OwnedFd,
    name: &str,
    mount: &OwnedFd,
) -> std::io::Result<()> {
    root.make(|| mkdirat(devices, name, Mode::from_raw_mode(0o755)))?;
    let at = openat(devices, name, PATH, Mode::empty())?;
    Ok(attach(mount, &at)?)
}

/// Mounts a device of the host: a sandbox cannot create one.
fn device_of_host(
    root: &NewRoot,
    devices: &OwnedFd,
    device: (&str, u32, u32),
) -> Result<(), StepFailure> {
    let failed = |error: Errno| StepFailure::of(BuildStep::Dev, error);
    let source = open_device(device)?;
    let mount = clone_mount(&source, MountScope::Single).map_err(failed)?;
    add_attributes(&mount, MountScope::Single, QUIET)
        .map_err(|error| StepFailure::of(BuildStep::Dev, error))?;
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    root.make(|| openat(devices, device.0, create, Mode::from_raw_mode(0o644)))
        .map_err(|error| StepFailure::of(BuildStep::Dev, error))?;
    let at = openat(devices, device.0, PATH, Mode::empty()).map_err(failed)?;
    attach(&mount, &at).map_err(failed)
}

/// Opens a device of the host and checks that it is the expected one.
fn open_device(
    (name, wanted_major, wanted_minor): (&str, u32, u32),
) -> Result<OwnedFd, StepFailure> {
    let failed = |error: Errno| StepFailure::of(BuildStep::Dev, error);
    let source = openat(CWD, format!("/dev/{name}"), PATH, Mode::empty()).map_err(failed)?;
    let stat = fstat(&source).map_err(failed)?;
    let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && (major(stat.st_rdev), minor(stat.st_rdev)) == (wanted_major, wanted_minor);
    if is_it {
        return Ok(source);
    }
    Err(StepFailure::new(
        BuildStep::Dev,
        format!("/dev/{name} of the host is not the expected device"),
    ))
}

/// Opens `/dev/null`.
fn open_null() -> Result<OwnedFd, StepFailure> {
    open_device(NULL)
}

/// Mounts `/proc`.
pub(super) fn mount_processes(root: &NewRoot, target: &[u8]) -> Result<(), StepFailure> {
    let at = root.directory(target, 0o555)?;
    let context =
        BuildContext::new(BuildStep::Proc, "proc").map_err(|failure| failure.at(target))?;
    let mount = context.mount(ATTRIBUTES).map_err(|failure| failure.at(target))?;
    attach(&mount, &at).map_err(failed_at(BuildStep::Proc, target))?;
    for name in READ_ONLY_PROC {
        let part = [target, b"/", name.as_bytes()].concat();
        cover(&mount, name, |found| {
            let copy = clone_mount(found, MountScope::Recursive)?;
            add_attributes(&copy, MountScope::Recursive, ATTRIBUTES | libc::MOUNT_ATTR_RDONLY)?;
            Ok(copy)
        })
        .map_err(failed_at(BuildStep::Proc, &part))?;
    }
    mask(&mount, target)
}

fn mask(mount: &OwnedFd, target: &[u8]) -> Result<(), StepFailure> {
    let read_only = libc::MOUNT_ATTR_RDONLY;
    let empty = BuildContext::new(BuildStep::Proc, "tmpfs")?
        .set("size", "4096")?
        .set("mode", "555")?
        .mount(ATTRIBUTES | read_only)?;
    let null = open_null().map_err(|failure| failure.at(b"/dev/null"))?;
    for name in MASKED_PROC {
        let part = [target, b"/", name.as_bytes()].concat();
        cover(mount, name, |found| {
            if FileType::from_raw_mode(fstat(found)?.st_mode) == FileType::Directory {
                return Ok(clone_mount(&empty, MountScope::Single)?);
            }
            let copy = clone_mount(&null, MountScope::Single)?;
            // It must stay a device to read as empty.
            let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | read_only;
            add_attributes(&copy, MountScope::Single, attributes)?;
            Ok(copy)
        })
        .map_err(failed_at(BuildStep::Proc, &part))?;
    }
    Ok(())
}

/// Mounts something over an entry of `/proc`, if the kernel has it.
fn cover(
    processes: &OwnedFd,
    name: &str,
    with: impl FnOnce(&OwnedFd) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(processes, name, flags, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    Ok(attach(with(&found)?, &found)?)
}
