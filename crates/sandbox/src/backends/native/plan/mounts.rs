//! What the user mounts, and where that cannot be.

use std::path::{Component, Path, PathBuf};

use super::layout::{Access, Layout};
use super::sources::source;
use crate::backend::BackendError;
use crate::backends::binds::{At, NEVER, refused, vet};
use crate::backends::native::facts::SystemDirKind;
use crate::backends::native::inside;
use crate::backends::native::tier::Tier;

/// Lays out what the user mounts. It goes before ours, which is left out where
/// its place is taken.
pub(super) fn mounts(layout: &mut Layout<'_>) -> Result<(), BackendError> {
    let settings = layout.input.settings;
    let home = settings.user_home.as_deref();
    for volume in settings.volumes.iter() {
        let source = source(volume, home)?;
        let access = if volume.read_only { Access::Read } else { Access::Write };
        mount(layout, &source, Path::new(&volume.target), access)?;
    }
    for dir in &settings.binds {
        vet(dir)?;
        match At::among(&settings.volumes, home, dir) {
            At::Nothing => mount(layout, dir, dir, Access::Write)?,
            At::Itself => {}
            At::Another => {
                return Err(refused(
                    dir,
                    "the settings mount something else there, or that read-only",
                    "remove it from terminal.docker_volumes",
                ));
            }
        }
    }
    Ok(())
}

fn mount(
    layout: &mut Layout<'_>,
    source: &Path,
    asked: &Path,
    access: Access,
) -> Result<(), BackendError> {
    let target = place(layout, asked)?;
    if NEVER.iter().any(|never| target.starts_with(never)) {
        return Err(not_there(asked, "that place is the kernel's or Vestal's"));
    }
    if !can_be_made(layout, &target) {
        return Err(not_there(
            asked,
            "the directory is this machine's, which an ordinary user's sandboxes can only read, \
             and there is nothing of that name in it",
        ));
    }
    layout.put_for_user(&target, source, access)
}

/// Returns where a path leads in the sandbox, whose own links are followed: the
/// stage would put them out of the way.
pub(super) fn place(layout: &Layout<'_>, asked: &Path) -> Result<PathBuf, BackendError> {
    let input = layout.input;
    if let Some(rootfs) = input.rootfs.filter(|_| input.tier == Tier::Rootfs) {
        return inside::real_target(rootfs, asked)
            .map_err(|error| not_there(asked, &error.to_string()));
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
            // Something in place of the link itself stays where it was asked.
            if !rest.as_os_str().is_empty() {
                target = lexical(&Path::new("/").join(text).join(rest));
            }
        }
    }
    Ok(target)
}

/// Returns whether there is something to mount over, or it can be made.
pub(super) fn can_be_made(layout: &Layout<'_>, target: &Path) -> bool {
    let input = layout.input;
    // What the user has put above it is the user's to have it in.
    if input.tier != Tier::ReadOnly || layout.is_of_user(target) {
        return true;
    }
    if let Ok(rest) = target.strip_prefix("/etc") {
        return input.etc_dir.join(rest).exists();
    }
    let shown = input.facts.system.iter().find_map(|dir| match &dir.kind {
        SystemDirKind::Directory { source, .. } => {
            let rest = target.strip_prefix(Path::new("/").join(dir.name)).ok()?;
            Some(source.join(rest))
        }
        SystemDirKind::Link(_) => None,
    });
    shown.is_none_or(|source| source.exists())
}

fn not_there(target: &Path, problem: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("nothing can be mounted at {}: {problem}", target.display()),
        advice: "choose another place for it".to_owned(),
    }
}

/// Resolves `.` and `..` by name.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}
