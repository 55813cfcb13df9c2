//! What every sandbox has: the kernel's and our places, its files and memory,
//! the system directories and `/etc`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use vestal_wire::{Mapping, OverlayDirs, Root, SandboxMount};

use super::layout::{Access, Layout, bytes};
use crate::backend::BackendError;
use crate::backends::layout::{BOOT_DIR, IO_DIR, STATE_DIR, WORKSPACE};
use crate::backends::native::etc::APT_ALONE;
use crate::backends::native::facts::{SystemDirKind, is_shown};
use crate::backends::native::tier::Tier;

/// The home of whoever runs commands.
pub(super) const HOME: &str = "/root";

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of memory that processes share by name.
const SHARED_MEMORY: u64 = 64 * MIB;

/// Memory that is gone with the sandbox's processes.
const MEMORY: [Memory; 3] = [
    Memory { target: "/tmp", size: 512 * MIB, mode: 0o1777, exec: true },
    Memory { target: "/var/tmp", size: 256 * MIB, mode: 0o1777, exec: false },
    Memory { target: "/run", size: 64 * MIB, mode: 0o755, exec: false },
];

/// What the workspace is where it is not kept.
const WORKSPACE_IN_MEMORY: Memory =
    Memory { target: WORKSPACE, size: 10 * GIB, mode: 0o777, exec: true };

/// What the home is where it is not kept.
const HOME_IN_MEMORY: Memory = Memory { target: HOME, size: GIB, mode: 0o700, exec: true };

#[derive(Debug, Clone, Copy)]
struct Memory {
    target: &'static str,
    size: u64,
    mode: u32,
    exec: bool,
}

impl Memory {
    fn put(self, layout: &mut Layout<'_>) {
        let Self { target, size, mode, exec } = self;
        layout.put(Path::new(target), |target| SandboxMount::Tmpfs { target, size, mode, exec });
    }
}

/// Lays out what is the kernel's and ours. Nothing of the user's can take its
/// place.
pub(super) fn kernel_and_guest(layout: &mut Layout<'_>) {
    layout.put(Path::new("/proc"), |target| SandboxMount::Proc { target });
    layout.put(Path::new("/dev"), |target| SandboxMount::Dev {
        target,
        shared_memory: SHARED_MEMORY,
    });
    let dirs = layout.input.dirs;
    for (source, target, access) in [
        // What runs in a sandbox must not change what the host starts in it.
        (&dirs.boot, BOOT_DIR, Access::Read),
        (&dirs.io, IO_DIR, Access::Write),
        (&dirs.state, STATE_DIR, Access::Write),
    ] {
        layout.put_own(Path::new(target), source, access);
    }
    layout.make(&dirs.io, 0o700);
    layout.make(&dirs.state, 0o700);
}

/// Lays out the sandbox's files.
pub(super) fn files(layout: &mut Layout<'_>) -> Result<(), BackendError> {
    let (dirs, settings) = (layout.input.dirs, layout.input.settings);
    let workspace = Path::new(WORKSPACE);
    match &settings.mount {
        Some(_) if layout.is_taken(workspace) => {
            return Err(BackendError::Advised {
                problem: format!(
                    "both the launch directory and something else are to be mounted at {WORKSPACE}"
                ),
                advice: "remove the other from terminal.docker_volumes, or don't mount the launch \
                         directory"
                    .to_owned(),
            });
        }
        Some(mounted) => layout.put_for_user(workspace, mounted, Access::Write)?,
        None => kept(layout, &dirs.workspace, 0o755, WORKSPACE_IN_MEMORY),
    }
    kept(layout, &dirs.home, 0o700, HOME_IN_MEMORY);
    Ok(())
}

/// Lays out a directory that is on disk where files are kept.
fn kept(layout: &mut Layout<'_>, source: &Path, mode: u32, memory: Memory) {
    let target = Path::new(memory.target);
    if layout.is_taken(target) {
        return;
    }
    if !layout.input.settings.persistent {
        memory.put(layout);
        return;
    }
    layout.make(source, mode);
    layout.put_own(target, source, Access::Write);
}

/// Lays out what is kept in memory and dies with the sandbox's processes.
pub(super) fn memory(layout: &mut Layout<'_>) {
    for memory in MEMORY {
        memory.put(layout);
    }
}

/// Directories that programs expect in a system, with their permissions.
const SKELETON: [(&str, u32); 10] = [
    ("/home", 0o755),
    ("/media", 0o755),
    ("/mnt", 0o755),
    ("/srv", 0o755),
    ("/var", 0o755),
    ("/var/cache", 0o755),
    ("/var/lib", 0o755),
    ("/var/log", 0o755),
    ("/var/spool", 0o755),
    ("/run/lock", 0o1777),
];

/// Links that programs expect in a system.
const LINKS: [(&str, &str); 2] = [("/var/lock", "/run/lock"), ("/var/run", "/run")];

/// Lays out the system and returns the root.
pub(super) fn system(layout: &mut Layout<'_>) -> Result<Root, BackendError> {
    let input = layout.input;
    layout.make(&input.dirs.layers, 0o700);
    if let Some(rootfs) = input.rootfs.filter(|_| input.tier == Tier::Rootfs) {
        return Ok(Root::Overlay(layout.layers("root", rootfs, 0o755)));
    }
    if !input.facts.has_shell {
        return Err(BackendError::Advised {
            problem: "the programs of this machine are not where others have them: /bin/sh is \
                      not below /usr, /bin, /sbin, /lib or /opt"
                .to_owned(),
            advice: "set terminal.native_rootfs to a directory or archive with a system, or use \
                     the backend docker"
                .to_owned(),
        });
    }
    let root = input.dirs.layers.join("root");
    layout.make_for_sandbox(&root, 0o755);
    let covers = covers(layout);
    for dir in &input.facts.system {
        let target = Path::new("/").join(dir.name);
        programs(layout, &target, dir.name, &dir.kind);
    }
    if input.tier == Tier::Overlay {
        for list in &input.facts.packages {
            programs(layout, Path::new(list.target), list.name, &list.kind);
        }
    }
    for cover in covers {
        layout.cover(&cover);
    }
    for (dir, mode) in SKELETON {
        directory(layout, Path::new(dir), mode);
    }
    for (link, text) in LINKS {
        linked(layout, Path::new(link), OsStr::new(text));
    }
    Ok(Root::Directory(bytes(&root)))
}

/// Lays out a directory of programs as the tier has it.
fn programs(layout: &mut Layout<'_>, target: &Path, name: &str, kind: &SystemDirKind) {
    if layout.is_taken(target) {
        return;
    }
    match kind {
        SystemDirKind::Link(text) => linked(layout, target, text),
        SystemDirKind::Directory { source, mode } => {
            let layered = layout.input.tier == Tier::Overlay;
            if layered && !holds_ours(layout, source) {
                let hidden = layout.private(source);
                let layers = OverlayDirs { hidden, ..layout.layers(name, source, *mode) };
                layout.put(target, |target| SandboxMount::Overlay { target, layers });
                return;
            }
            if layered {
                layout.remarks.push(format!(
                    "{} cannot be changed in the sandbox: Vestal's own files are in it",
                    target.display()
                ));
            }
            layout.put_system(target, source);
        }
    }
}

/// Returns whether a directory has our own files somewhere below it. Layers
/// cannot be kept within what they are over.
fn holds_ours(layout: &Layout<'_>, source: &Path) -> bool {
    own_dirs(layout).iter().any(|dir| dir.starts_with(source))
}

/// Returns directories that must not be seen although they are below ones that
/// are.
fn covers(layout: &Layout<'_>) -> Vec<PathBuf> {
    let ours = own_dirs(layout).into_iter();
    let mut hidden: Vec<PathBuf> = ours
        .chain(layout.input.facts.private.iter().cloned())
        .filter(|dir| is_shown(dir) && !is_left_out(layout, dir))
        .collect();
    hidden.sort();
    // What is below another one is hidden with it.
    hidden.dedup_by(|later, earlier| later.starts_with(&*earlier));
    hidden
}

/// Returns whether a directory is not shown at all, or something above it.
fn is_left_out(layout: &Layout<'_>, dir: &Path) -> bool {
    let system = &layout.input.facts.system;
    let left_out = system.iter().filter_map(|shown| match &shown.kind {
        SystemDirKind::Directory { source, .. } => {
            let top = Path::new("/").join(shown.name);
            Some(layout.input.private.of(source).iter().map(move |path| top.join(path)))
        }
        SystemDirKind::Link(_) => None,
    });
    left_out.flatten().any(|hidden| dir.starts_with(hidden))
}

/// Returns our own directories on the host by their real names.
fn own_dirs(layout: &Layout<'_>) -> Vec<PathBuf> {
    let input = layout.input;
    let dirs = input.settings.own_dirs.iter().chain([&input.dirs.instance]);
    dirs.map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())).collect()
}

/// Has a directory made in the sandbox, unless that would be among files of the
/// user's.
pub(super) fn directory(layout: &mut Layout<'_>, target: &Path, mode: u32) {
    if !layout.is_of_user(target) {
        layout.put(target, |target| SandboxMount::Directory { target, mode });
    }
}

fn linked(layout: &mut Layout<'_>, target: &Path, text: &OsStr) {
    if !layout.is_of_user(target) {
        let text = text.as_bytes().to_vec().into();
        layout.put(target, |target| SandboxMount::Symlink { target, text });
    }
}

const ETC: &str = "/etc";

/// Files of a system of its own that only the host can know today.
const OF_THE_HOST: [&str; 2] = ["hosts", "resolv.conf"];

/// Where apt is told how to work.
const APT_CONF: &str = "/etc/apt/apt.conf.d";

/// Lays out `/etc`: the picture of the host's, or what a system of its own
/// lacks.
pub(super) fn etc(layout: &mut Layout<'_>) {
    let (tier, picture) = (layout.input.tier, layout.input.etc_dir);
    match tier {
        Tier::ReadOnly => layout.put_own(Path::new(ETC), picture, Access::Read),
        Tier::Overlay => {
            if !layout.is_taken(Path::new(ETC)) {
                let layers = layout.layers("etc", picture, 0o755);
                layout.put(Path::new(ETC), |target| SandboxMount::Overlay { target, layers });
            }
        }
        Tier::Rootfs => {
            for name in OF_THE_HOST {
                let target = Path::new(ETC).join(name);
                if !layout.is_of_user(&target) {
                    layout.put_own(&target, &picture.join(name), Access::Read);
                }
            }
            apt_alone(layout, picture);
        }
    }
}

/// Has apt do without a user of its own where there is none but root.
fn apt_alone(layout: &mut Layout<'_>, picture: &Path) {
    let alone = layout.input.users.mapping == Mapping::Own;
    let has_apt = layout.input.rootfs.is_some_and(|rootfs| {
        rootfs
            .join(APT_CONF.trim_start_matches('/'))
            .symlink_metadata()
            .is_ok_and(|dir| dir.is_dir())
    });
    let target = Path::new(APT_CONF).join("90vestal-alone");
    if alone && has_apt && !layout.is_of_user(&target) {
        layout.put_own(&target, &picture.join(APT_ALONE), Access::Read);
    }
}
