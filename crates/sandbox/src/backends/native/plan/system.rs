//! The system of a sandbox: its root and the directories of programs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use vestal_wire::{OverlayDirs, Root, SandboxMount};

use super::layout::{Layout, bytes};
use crate::backend::BackendError;
use crate::backends::native::facts::{SystemDirKind, is_shown};
use crate::backends::native::tier::Tier;

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
