//! `/dev`: the few devices that programs expect.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, major, minor, mkdirat, openat, symlinkat};
use rustix::io::Errno;

use super::Builder;
use super::bind::{HARMLESS, copy};
use super::context::Context;
use super::memory::Memory;
use super::target::{NewRoot, attach};
use crate::failure::{Failure, Step, failed_at};
use crate::sys::mount::{Reach, add_attributes};

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

/// Bytes for what programs leave in `/dev` itself, which should be nothing.
const SIZE: u64 = 64 << 10;

const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const QUIET: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;

impl Builder<'_> {
    /// Mounts the devices.
    pub(super) fn devices(
        &self,
        root: &mut NewRoot,
        target: &[u8],
        shared_memory: u64,
    ) -> Result<(), Failure> {
        let at = root.directory(target, 0o755)?;
        let memory = Memory { size: SIZE, mode: 0o755, exec: false };
        let devices = self
            .memory_with(Step::Devices, &memory, HARMLESS | libc::MOUNT_ATTR_NOEXEC)
            .map_err(|failure| failure.at(target))?;
        root.own(&devices, &at).map_err(failed_at(Step::Devices, target))?;
        for device in DEVICES {
            let part = [target, b"/", device.0.as_bytes()].concat();
            device_of_host(root, &devices, device).map_err(|failure| failure.at(&part))?;
        }
        for (name, text) in LINKS {
            root.make(|| symlinkat(text, &devices, name))
                .map_err(failed_at(Step::Devices, target))?;
        }
        let shared = Memory { size: shared_memory, mode: 0o1777, exec: false };
        let shared = self.memory_with(Step::Devices, &shared, HARMLESS | libc::MOUNT_ATTR_NOEXEC);
        for (name, mount) in [("pts", self.terminals()), ("shm", shared)] {
            let part = [target, b"/", name.as_bytes()].concat();
            let mount = mount.map_err(|failure| failure.at(&part))?;
            below(root, &devices, name, &mount).map_err(failed_at(Step::Devices, &part))?;
        }
        Ok(())
    }

    /// Returns terminals of the sandbox's own.
    fn terminals(&self) -> Result<OwnedFd, Failure> {
        let mut context =
            Context::new(Step::Devices, "devpts")?.set("mode", "620")?.set("ptmxmode", "666")?;
        if let Some(group) = self.terminals {
            context = context.set("gid", &group.to_string())?;
        }
        context.mount(QUIET)
    }
}

fn below(root: &NewRoot, devices: &OwnedFd, name: &str, mount: &OwnedFd) -> std::io::Result<()> {
    root.make(|| mkdirat(devices, name, Mode::from_raw_mode(0o755)))?;
    let at = openat(devices, name, PATH, Mode::empty())?;
    Ok(attach(mount, &at)?)
}

/// Shows a device of the host: nobody in a sandbox can make one.
fn device_of_host(
    root: &NewRoot,
    devices: &OwnedFd,
    device: (&str, u32, u32),
) -> Result<(), Failure> {
    let failed = |error: Errno| Failure::of(Step::Devices, error);
    let source = open(device)?;
    let mount = copy(&source, Reach::One).map_err(failed)?;
    add_attributes(&mount, Reach::One, QUIET).map_err(|error| Failure::of(Step::Devices, error))?;
    let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    root.make(|| openat(devices, device.0, create, Mode::from_raw_mode(0o644)))
        .map_err(|error| Failure::of(Step::Devices, error))?;
    let at = openat(devices, device.0, PATH, Mode::empty()).map_err(failed)?;
    attach(&mount, &at).map_err(failed)
}

/// Opens a device of the host, which may have anything under that name.
fn open((name, wanted_major, wanted_minor): (&str, u32, u32)) -> Result<OwnedFd, Failure> {
    let failed = |error: Errno| Failure::of(Step::Devices, error);
    let source = openat(CWD, format!("/dev/{name}"), PATH, Mode::empty()).map_err(failed)?;
    let stat = fstat(&source).map_err(failed)?;
    let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && (major(stat.st_rdev), minor(stat.st_rdev)) == (wanted_major, wanted_minor);
    if is_it {
        return Ok(source);
    }
    Err(Failure::new(Step::Devices, format!("/dev/{name} of the host is something else")))
}

/// Opens the device that holds nothing.
pub(super) fn open_null() -> Result<OwnedFd, Failure> {
    open(NULL)
}
