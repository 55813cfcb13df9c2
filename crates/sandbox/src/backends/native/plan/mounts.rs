//! Mounts of the user: volumes, bound directories and the launch directory.

use std::path::{Path, PathBuf};

use super::layout::{Access, MountLayout};
use crate::backend::BackendError;
use crate::backends::native::facts::SystemDirKind;
use crate::backends::native::plan::PlannedFor;
use crate::backends::native::resolve;
use crate::backends::native::tier::Tier;
use crate::backends::own_system::{MountAt, NEVER, refused, vet};

/// Adds the user's mounts. They come before most others, which are left out where
/// the target is taken.
pub(super) fn add_user_mounts(layout: &mut MountLayout<'_>) -> Result<(), BackendError> {
    let settings = layout.input.settings;
    let (mounts, home) = (settings.user_mounts(), settings.user_home.as_deref());
    for volume in settings.volumes.iter() {
        let source = mounts.source(volume)?;
        let access = if volume.read_only { Access::Read } else { Access::Write };
        add_mount(layout, &source, Path::new(&volume.target), access)?;
    }
    for dir in &settings.binds {
        vet(dir)?;
        match MountAt::among(&settings.volumes, home, dir) {
            MountAt::Nothing => add_mount(layout, dir, dir, Access::Write)?,
            MountAt::Itself => {}
            MountAt::Another => {
                return Err(refused(
                    dir,
                    "the settings mount something else there, or mount it read-only",
                    "remove it from terminal.docker_volumes",
                ));
            }
        }
    }
    Ok(())
}

fn add_mount(
    layout: &mut MountLayout<'_>,
    source: &Path,
    asked: &Path,
    access: Access,
) -> Result<(), BackendError> {
    let target = resolve_target(layout, asked)?;
    if NEVER.iter().any(|never| target.starts_with(never)) {
        return Err(cannot_mount(asked, "the kernel or Vestal uses that path"));
    }
    if !can_mount_at(layout, &target) {
        return Err(cannot_mount(
            asked,
            "an ordinary user's sandboxes can only read the system directories of this machine, \
             and the path does not exist there",
        ));
    }
    layout.add_user_bind(&target, source, access)
}

/// Resolves a path by the links of the sandbox: the stage would replace a link in
/// the target's path.
pub(super) fn resolve_target(
    layout: &MountLayout<'_>,
    asked: &Path,
) -> Result<PathBuf, BackendError> {
    let input = layout.input;
    if let Some(rootfs) = input.rootfs.filter(|_| input.tier == Tier::Rootfs) {
        return resolve::real_target(rootfs, asked)
            .map_err(|error| cannot_mount(asked, &error.to_string()));
    }
    let mut target = asked.to_owned();
    if let Ok(rest) = asked.strip_prefix("/var/run") {
        target = Path::new("/run").join(rest);
    } else if let Ok(rest) = asked.strip_prefix("/var/lock") {
        target = Path::new("/run/lock").join(rest);
    }
    for dir in &input.facts.system {
        let SystemDirKind::Link(text) = &dir.kind else {
            continue;
        };
        if let Ok(rest) = asked.strip_prefix(Path::new("/").join(dir.name)) {
            // A mount in place of the link itself is not resolved.
            if !rest.as_os_str().is_empty() {
                target = resolve::lexical(&Path::new("/").join(text).join(rest));
            }
        }
    }
    Ok(target)
}

/// Returns whether a mount target exists or can be made.
pub(super) fn can_mount_at(layout: &MountLayout<'_>, target: &Path) -> bool {
    let input = layout.input;
    // Inside of a mount of the user, the target can be made.
    if input.tier != Tier::ReadOnly || layout.is_in_user_mount(target) {
        return true;
    }
    let is_here = input.machine == PlannedFor::ThisMachine;
    if let Ok(rest) = target.strip_prefix("/etc") {
        return is_here && input.etc_dir.join(rest).exists();
    }
    let shown = input.facts.system.iter().find_map(|dir| match &dir.kind {
        SystemDirKind::Directory { source, .. } => {
            let rest = target.strip_prefix(Path::new("/").join(dir.name)).ok()?;
            Some(source.join(rest))
        }
        SystemDirKind::Link(_) => None,
    });
    shown.is_none_or(|source| is_here && source.exists())
}

fn cannot_mount(target: &Path, problem: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("nothing can be mounted at {}: {problem}", target.display()),
        advice: "choose another path in the sandbox".to_owned(),
    }
}
