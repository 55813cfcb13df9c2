//! What a sandbox is made of, with everything of the host that it takes open.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use minicbor::bytes::ByteVec;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};
use vestal_wire::{Bind, Enclosure, Layers, Place, Root};

use super::memory::Memory;
use crate::failure::{Failure, Step, failed_at};

/// What the root is made of.
#[derive(Debug)]
pub(super) enum RootPart<'p> {
    Directory { path: &'p [u8], source: OwnedFd },
    Layers(OpenLayers),
}

/// What is below the root.
#[derive(Debug)]
pub(super) enum Part<'p> {
    Bind { bind: &'p Bind, source: OwnedFd },
    Layers { target: &'p [u8], layers: OpenLayers },
    Memory { target: &'p [u8], memory: Memory },
    Processes { target: &'p [u8] },
    Devices { target: &'p [u8], shared_memory: u64 },
    Link { target: &'p [u8], text: &'p [u8] },
    Directory { target: &'p [u8], mode: u32 },
}

/// Layers with their directories.
#[derive(Debug)]
pub(super) struct OpenLayers {
    pub(super) lower: OwnedFd,
    pub(super) shifted: bool,
    pub(super) upper: OwnedFd,
    pub(super) work: OwnedFd,
    pub(super) hidden: Vec<PathBuf>,
}

/// Opens all that a plan names on the host, before anything covers it.
pub(super) fn open(plan: &Enclosure) -> Result<(RootPart<'_>, Vec<Part<'_>>), Failure> {
    let root = match &plan.root {
        Root::Directory(path) => RootPart::Directory { path, source: source(path)? },
        Root::Layers(layers) => RootPart::Layers(open_layers(layers)?),
    };
    let parts = plan.places.iter().map(part).collect::<Result<_, _>>()?;
    Ok((root, parts))
}

fn part(place: &Place) -> Result<Part<'_>, Failure> {
    Ok(match place {
        Place::Bind(bind) => Part::Bind { bind, source: bound(bind)? },
        Place::Layers { target, layers } => Part::Layers { target, layers: open_layers(layers)? },
        Place::Memory { target, size, mode, exec } => {
            Part::Memory { target, memory: Memory { size: *size, mode: *mode, exec: *exec } }
        }
        Place::Processes { target } => Part::Processes { target },
        Place::Devices { target, shared_memory } => {
            Part::Devices { target, shared_memory: *shared_memory }
        }
        Place::Link { target, text } => Part::Link { target, text },
        Place::Directory { target, mode } => Part::Directory { target, mode: *mode },
    })
}

fn open_layers(layers: &Layers) -> Result<OpenLayers, Failure> {
    Ok(OpenLayers {
        lower: source(&layers.lower)?,
        shifted: layers.shifted,
        upper: source(&layers.upper)?,
        work: source(&layers.work)?,
        hidden: paths(&layers.hidden),
    })
}

/// Returns paths as the system takes them.
pub(super) fn paths(bytes: &[ByteVec]) -> Vec<PathBuf> {
    bytes.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Opens what is to be shown. What has to be a certain file has no link in its
/// path, and is looked at once it is open: what its name stands for may change
/// at any moment, what is open may not.
fn bound(bind: &Bind) -> Result<OwnedFd, Failure> {
    let Some(expected) = bind.identity else {
        return source(&bind.source);
    };
    let opened = open_at(&bind.source, ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS)?;
    let found = fstat(&opened).map_err(failed_at(Step::Source, &bind.source))?;
    if (found.st_dev, found.st_ino) == (expected.device, expected.inode) {
        return Ok(opened);
    }
    Err(Failure::new(Step::Source, "it was replaced while the sandbox was built").at(&bind.source))
}

/// Opens something of the host by its whole path. Links of the host are the
/// host's business; those by which the kernel lends descriptors and roots of
/// other processes lead nowhere.
fn source(path: &[u8]) -> Result<OwnedFd, Failure> {
    open_at(path, ResolveFlags::NO_MAGICLINKS)
}

fn open_at(path: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, Failure> {
    if !path.starts_with(b"/") {
        return Err(Failure::of(Step::Source, rustix::io::Errno::INVAL).at(path));
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, OsStr::from_bytes(path), flags, Mode::empty(), resolve)
        .map_err(failed_at(Step::Source, path))
}
