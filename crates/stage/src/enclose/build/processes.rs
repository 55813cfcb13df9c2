//! `/proc`: the sandbox's own processes, and as little as possible of the host.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::bind::{HARMLESS, copy};
use super::context::Context;
use super::devices::open_null;
use super::target::{NewRoot, attach};
use crate::failure::{Failure, Step, failed_at};
use crate::sys::mount::{Reach, add_attributes};

/// What can be read and not be written.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// What says too much of the host, or would hand over its memory: what
/// container engines mask.
const MASKED: [&str; 13] = [
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

const ATTRIBUTES: u64 = HARMLESS | libc::MOUNT_ATTR_NOEXEC;

/// Mounts the processes.
pub(super) fn mount(root: &NewRoot, target: &[u8]) -> Result<(), Failure> {
    let at = root.directory(target, 0o555)?;
    let context = Context::new(Step::Processes, "proc").map_err(|failure| failure.at(target))?;
    let mount = context.mount(ATTRIBUTES).map_err(|failure| failure.at(target))?;
    attach(&mount, &at).map_err(failed_at(Step::Processes, target))?;
    for name in READ_ONLY {
        let part = [target, b"/", name.as_bytes()].concat();
        cover(&mount, name, |found| {
            let copy = copy(found, Reach::All)?;
            add_attributes(&copy, Reach::All, ATTRIBUTES | libc::MOUNT_ATTR_RDONLY)?;
            Ok(copy)
        })
        .map_err(failed_at(Step::Processes, &part))?;
    }
    mask(&mount, target)
}

fn mask(mount: &OwnedFd, target: &[u8]) -> Result<(), Failure> {
    let read_only = libc::MOUNT_ATTR_RDONLY;
    let empty = Context::new(Step::Processes, "tmpfs")?
        .set("size", "4096")?
        .set("mode", "555")?
        .mount(ATTRIBUTES | read_only)?;
    let nothing = open_null().map_err(|failure| failure.at(b"/dev/null"))?;
    for name in MASKED {
        let part = [target, b"/", name.as_bytes()].concat();
        cover(mount, name, |found| {
            if FileType::from_raw_mode(fstat(found)?.st_mode) == FileType::Directory {
                return Ok(copy(&empty, Reach::One)?);
            }
            let copy = copy(&nothing, Reach::One)?;
            // It is a device, and reads as nothing only as long as it is one.
            let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | read_only;
            add_attributes(&copy, Reach::One, attributes)?;
            Ok(copy)
        })
        .map_err(failed_at(Step::Processes, &part))?;
    }
    Ok(())
}

/// Mounts something over a part of the processes, if this kernel has it.
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
