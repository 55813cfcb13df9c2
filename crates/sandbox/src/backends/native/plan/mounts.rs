//! What the user mounts, and where that cannot be.

use std::path::{Path, PathBuf};

use vestal_config::{Propagation, Volume, VolumeSource};

use super::layout::{Access, Layout};
use crate::backend::BackendError;
use crate::backends::binds::{self, At, NEVER, refused, vet};
use crate::backends::native::facts::SystemDirKind;
use crate::backends::native::resolve;
use crate::backends::native::settings::NativeSettings;
use crate::backends::native::tier::Tier;
use crate::mounts::Wanted;

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
        return resolve::real_target(rootfs, asked)
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
                target = resolve::lexical(&Path::new("/").join(text).join(rest));
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

/// Returns what of the host the settings mount.
pub(in crate::backends::native) fn wanted(
    settings: &NativeSettings,
) -> Result<Vec<Wanted>, BackendError> {
    let home = settings.user_home.as_deref();
    let volume = |volume: &Volume| {
        Ok::<_, BackendError>(Wanted { path: source(volume, home)?, writable: !volume.read_only })
    };
    let mut wanted = settings.volumes.iter().map(volume).collect::<Result<Vec<_>, _>>()?;
    let whole = settings.binds.iter().chain(&settings.mount);
    wanted.extend(whole.map(|path| Wanted { path: path.clone(), writable: true }));
    Ok(wanted)
}

/// Checks what is to be mounted before anything is made or given up.
pub(in crate::backends::native) fn check_sources(
    settings: &NativeSettings,
) -> Result<(), BackendError> {
    for volume in settings.volumes.iter() {
        let source = source(volume, settings.user_home.as_deref())?;
        if !source.exists() {
            return Err(BackendError::Advised {
                problem: format!("terminal.docker_volumes: {} does not exist", source.display()),
                advice: "make it, or mend terminal.docker_volumes".to_owned(),
            });
        }
    }
    for bind in &settings.binds {
        binds::vet(bind)?;
        if !bind.is_dir() {
            return Err(refused(bind, "it is not a directory any more", "make it"));
        }
    }
    match &settings.mount {
        Some(mount) if !mount.is_dir() => Err(BackendError::Advised {
            problem: format!("{} cannot be the workspace: it is no directory", mount.display()),
            advice: "make it, or remove the sandbox and start in another directory".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Returns the path of the host that a volume shows.
pub(super) fn source(volume: &Volume, home: Option<&Path>) -> Result<PathBuf, BackendError> {
    let path = match &volume.source {
        VolumeSource::Host(path) => path,
        VolumeSource::Named(name) => {
            return Err(BackendError::Advised {
                problem: format!(
                    "terminal.docker_volumes: {name} is a volume of a container engine, and native \
                     sandboxes have none"
                ),
                advice: "mount a directory in its place, or use the backend docker".to_owned(),
            });
        }
    };
    match volume.propagation {
        None | Some(Propagation::Private | Propagation::Rprivate) => {}
        Some(other) => {
            return Err(BackendError::Advised {
                problem: format!(
                    "terminal.docker_volumes: {} asks for {}, and mounts of a native sandbox are \
                     its own",
                    volume.spec(),
                    other.as_str()
                ),
                advice: "leave the word out, or use the backend docker".to_owned(),
            });
        }
    }
    path.resolve(home).map(PathBuf::from).ok_or_else(|| BackendError::Advised {
        problem: format!("{} cannot be mounted: your home is not known", volume.spec()),
        advice: "write the whole path, or set HOME".to_owned(),
    })
}
