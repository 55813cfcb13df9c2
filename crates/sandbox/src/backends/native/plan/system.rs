//! The mounts that every sandbox has: kernel filesystems, the guest, workspace and
//! home, tmpfs, the system directories and `/etc`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use vestal_stage::survey::etc::APT_NO_SANDBOX;
use vestal_wire::{Mapping, OverlayDirs, Root, SandboxMount};

use super::layout::{Access, MountLayout, bytes};
use crate::backend::BackendError;
use crate::backends::native::facts::{SystemDirKind, is_shown};
use crate::backends::native::plan::PlannedFor;
use crate::backends::native::tier::Tier;
use crate::backends::own_system::{BOOT_DIR, IO_DIR, STATE_DIR, WORKSPACE};

/// The home of the sandbox's user.
pub(in crate::backends::native) const HOME: &str = "/root";

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Size of `/dev/shm`.
const SHARED_MEMORY: u64 = 64 * MIB;

/// Directories on tmpfs, which are lost when the sandbox stops.
const TMPFS: [SystemTmpfs; 3] = [
    SystemTmpfs { target: "/tmp", size: 512 * MIB, mode: 0o1777, exec: true },
    SystemTmpfs { target: "/var/tmp", size: 256 * MIB, mode: 0o1777, exec: false },
    SystemTmpfs { target: "/run", size: 64 * MIB, mode: 0o755, exec: false },
];

/// The workspace of a sandbox that is not persistent.
const WORKSPACE_ON_TMPFS: SystemTmpfs =
    SystemTmpfs { target: WORKSPACE, size: 10 * GIB, mode: 0o777, exec: true };

/// The home of a sandbox that is not persistent.
const HOME_ON_TMPFS: SystemTmpfs = SystemTmpfs { target: HOME, size: GIB, mode: 0o700, exec: true };

#[derive(Debug, Clone, Copy)]
struct SystemTmpfs {
    target: &'static str,
    size: u64,
    mode: u32,
    exec: bool,
}

impl SystemTmpfs {
    fn add(self, layout: &mut MountLayout<'_>) {
        let Self { target, size, mode, exec } = self;
        layout.add(Path::new(target), |target| SandboxMount::Tmpfs { target, size, mode, exec });
    }
}

/// Adds the kernel's filesystems and the guest. They come first, so that no mount of
/// the user can replace them.
pub(super) fn add_kernel_and_guest(layout: &mut MountLayout<'_>) {
    layout.add(Path::new("/proc"), |target| SandboxMount::Proc { target });
    layout.add(Path::new("/dev"), |target| SandboxMount::Dev {
        target,
        shared_memory: SHARED_MEMORY,
    });
    let dirs = layout.input.dirs;
    for (source, target, access) in [
        // Read-only: the sandbox must not change the program that the host starts.
        (&dirs.boot, BOOT_DIR, Access::Read),
        (&dirs.io, IO_DIR, Access::Write),
        (&dirs.state, STATE_DIR, Access::Write),
    ] {
        layout.add_bind(Path::new(target), source, access);
    }
    layout.plan_dir(&dirs.io, 0o700);
    layout.plan_dir(&dirs.state, 0o700);
}

pub(super) fn add_workspace_and_home(layout: &mut MountLayout<'_>) -> Result<(), BackendError> {
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
        Some(mounted) => layout.add_user_bind(workspace, mounted, Access::Write)?,
        None => add_persistent_dir(layout, &dirs.workspace, 0o755, WORKSPACE_ON_TMPFS),
    }
    add_persistent_dir(layout, &dirs.home, 0o700, HOME_ON_TMPFS);
    Ok(())
}

/// Adds a directory that is on disk in a persistent sandbox, else on tmpfs.
fn add_persistent_dir(layout: &mut MountLayout<'_>, source: &Path, mode: u32, tmpfs: SystemTmpfs) {
    let target = Path::new(tmpfs.target);
    if layout.is_taken(target) {
        return;
    }
    if !layout.input.settings.persistent {
        tmpfs.add(layout);
        return;
    }
    layout.plan_dir(source, mode);
    layout.add_bind(target, source, Access::Write);
}

pub(super) fn add_tmpfs(layout: &mut MountLayout<'_>) {
    for tmpfs in TMPFS {
        tmpfs.add(layout);
    }
}

/// Directories that programs expect, with their modes.
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

/// Links that programs expect.
const LINKS: [(&str, &str); 2] = [("/var/lock", "/run/lock"), ("/var/run", "/run")];

/// Adds the system directories and returns the root.
pub(super) fn add_system(layout: &mut MountLayout<'_>) -> Result<Root, BackendError> {
    let input = layout.input;
    layout.plan_dir(&input.dirs.layers, 0o700);
    if let Some(rootfs) = input.rootfs.filter(|_| input.tier == Tier::Rootfs) {
        return Ok(Root::Overlay(layout.layers("root", rootfs, 0o755)));
    }
    if !input.facts.has_shell {
        return Err(BackendError::Advised {
            problem: "the programs of this machine are not in the usual directories: /bin/sh is \
                      not below /usr, /bin, /sbin, /lib or /opt"
                .to_owned(),
            advice: "set terminal.native_rootfs to a directory or archive with a system, or use \
                     the backend docker"
                .to_owned(),
        });
    }
    let root = input.dirs.layers.join("root");
    layout.plan_sandbox_dir(&root, 0o755);
    let to_hide = dirs_to_hide(layout);
    for dir in &input.facts.system {
        let target = Path::new("/").join(dir.name);
        add_system_dir(layout, &target, dir.name, &dir.kind);
    }
    if input.tier == Tier::Overlay {
        for list in &input.facts.packages {
            add_system_dir(layout, Path::new(list.target), list.name, &list.kind);
        }
    }
    for dir in to_hide {
        layout.hide(&dir);
    }
    for (dir, mode) in SKELETON {
        add_directory(layout, Path::new(dir), mode);
    }
    for (link, text) in LINKS {
        add_link(layout, Path::new(link), OsStr::new(text));
    }
    Ok(Root::Directory(bytes(&root)))
}

/// Adds a system directory as the tier requires.
fn add_system_dir(layout: &mut MountLayout<'_>, target: &Path, name: &str, kind: &SystemDirKind) {
    if layout.is_taken(target) {
        return;
    }
    match kind {
        SystemDirKind::Link(text) => add_link(layout, target, text),
        SystemDirKind::Directory { source, mode } => {
            let layered = layout.input.tier == Tier::Overlay;
            if layered && !contains_own_files(layout, source) {
                let hidden = layout.hidden_paths(source);
                let public_only = layout.is_public_only();
                let layers =
                    OverlayDirs { hidden, public_only, ..layout.layers(name, source, *mode) };
                layout.add(target, |target| SandboxMount::Overlay { target, layers });
                return;
            }
            if layered {
                layout.remarks.push(format!(
                    "{} cannot be changed in the sandbox: Vestal's own files are in it",
                    target.display()
                ));
            }
            layout.add_system_bind(target, source);
        }
    }
}

/// Returns whether a directory contains Vestal's own files. Overlay layers cannot
/// lie inside of the directory that they are over.
fn contains_own_files(layout: &MountLayout<'_>, source: &Path) -> bool {
    own_dirs(layout).iter().any(|dir| dir.starts_with(source))
}

/// Returns the directories to hide inside of the system directories.
fn dirs_to_hide(layout: &MountLayout<'_>) -> Vec<PathBuf> {
    let ours = own_dirs(layout).into_iter();
    let mut hidden: Vec<PathBuf> = ours
        .chain(layout.input.facts.restricted.iter().cloned())
        .filter(|dir| is_shown(dir) && !is_left_out_by_layers(layout, dir))
        .collect();
    hidden.sort();
    // A directory below a hidden one is hidden with it.
    hidden.dedup_by(|later, earlier| later.starts_with(&*earlier));
    hidden
}

/// Returns whether the overlay layers already leave out a directory or a parent.
fn is_left_out_by_layers(layout: &MountLayout<'_>, dir: &Path) -> bool {
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

/// Returns Vestal's own directories on the host by their real paths.
fn own_dirs(layout: &MountLayout<'_>) -> Vec<PathBuf> {
    let input = layout.input;
    let dirs = input.settings.own_dirs.iter().chain([&input.dirs.instance]);
    match input.machine {
        PlannedFor::ThisMachine => {
            dirs.map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.clone())).collect()
        }
        PlannedFor::AnotherMachine => dirs.cloned().collect(),
    }
}

/// Plans a directory in the sandbox, except inside of a mount of the user.
pub(super) fn add_directory(layout: &mut MountLayout<'_>, target: &Path, mode: u32) {
    if !layout.is_in_user_mount(target) {
        layout.add(target, |target| SandboxMount::Directory { target, mode });
    }
}

fn add_link(layout: &mut MountLayout<'_>, target: &Path, text: &OsStr) {
    if !layout.is_in_user_mount(target) {
        let text = text.as_bytes().to_vec().into();
        layout.add(target, |target| SandboxMount::Symlink { target, text });
    }
}

const ETC: &str = "/etc";

/// Files of a root filesystem that are replaced by those of the host.
const HOST_FILES: [&str; 2] = ["hosts", "resolv.conf"];

/// The directory of apt's settings.
const APT_CONF: &str = "/etc/apt/apt.conf.d";

/// Adds `/etc`: the snapshot of the host's, or single files over that of a root
/// filesystem.
pub(super) fn add_etc(layout: &mut MountLayout<'_>) {
    let (tier, snapshot) = (layout.input.tier, layout.input.etc_dir);
    match tier {
        Tier::ReadOnly => layout.add_bind(Path::new(ETC), snapshot, Access::Read),
        Tier::Overlay => {
            if !layout.is_taken(Path::new(ETC)) {
                let layers = layout.layers("etc", snapshot, 0o755);
                layout.add(Path::new(ETC), |target| SandboxMount::Overlay { target, layers });
            }
        }
        Tier::Rootfs => {
            for name in HOST_FILES {
                let target = Path::new(ETC).join(name);
                if !layout.is_in_user_mount(&target) {
                    layout.add_bind(&target, &snapshot.join(name), Access::Read);
                }
            }
            add_apt_settings(layout, snapshot);
        }
    }
}

/// Configures apt for a root filesystem in which root is the only user.
fn add_apt_settings(layout: &mut MountLayout<'_>, snapshot: &Path) {
    let alone = layout.input.users.mapping == Mapping::Own;
    let has_apt = layout.input.rootfs.is_some_and(|rootfs| {
        rootfs
            .join(APT_CONF.trim_start_matches('/'))
            .symlink_metadata()
            .is_ok_and(|dir| dir.is_dir())
    });
    let target = Path::new(APT_CONF).join("90vestal-alone");
    if alone && has_apt && !layout.is_in_user_mount(&target) {
        layout.add_bind(&target, &snapshot.join(APT_NO_SANDBOX), Access::Read);
    }
}
