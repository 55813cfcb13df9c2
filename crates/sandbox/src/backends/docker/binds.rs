//! Directories of the host that are in a container at the same path.

use std::path::Path;

use super::facts::Reach;
use super::settings::DockerSettings;
use crate::backend::BackendError;
use crate::backends::binds::{At, refused, vet};
use crate::settings::{DockerTransport, MountKind};

/// Checks that directories can be mounted at the same path.
pub(super) fn check(settings: &DockerSettings, is_remote: bool) -> Result<(), BackendError> {
    for bind in &settings.binds {
        if is_remote {
            return Err(refused(
                bind,
                "the container engine is on another machine",
                "use an engine on this machine, or the backend local",
            ));
        }
        wanted(settings, bind)?;
        if !bind.is_dir() {
            return Err(refused(bind, "it is not a directory any more", "make it"));
        }
    }
    Ok(())
}

/// Refuses directories of this machine where the engine has shown that it does
/// not see them: it would mount its own, or none.
pub(super) fn check_shared(settings: &DockerSettings, reach: Reach) -> Result<(), BackendError> {
    let apart = reach == Reach::Apart && settings.transport == DockerTransport::Auto;
    match settings.binds.first() {
        Some(bind) if apart => Err(refused(
            bind,
            "the container engine does not see the files of this machine",
            "use an engine that does, or the backend local",
        )),
        _ => Ok(()),
    }
}

/// Returns where a directory is to be mounted, unless the settings mount it
/// there already.
pub(super) fn wanted<'a>(
    settings: &DockerSettings,
    bind: &'a Path,
) -> Result<Option<&'a str>, BackendError> {
    vet(bind)?;
    let Some(path) = bind.to_str() else {
        return Err(refused(
            bind,
            "its name is not UTF-8, and container engines take no other names",
            "use a directory elsewhere, or the backend local",
        ));
    };
    match at(settings, bind) {
        At::Nothing => Ok(Some(path)),
        At::Itself => Ok(None),
        At::Another => Err(refused(
            bind,
            "the settings mount something else there, or that read-only",
            "remove it from terminal.docker_volumes or terminal.docker_extra_args",
        )),
    }
}

fn at(settings: &DockerSettings, path: &Path) -> At {
    let home = settings.user_home.as_deref();
    let of_volumes = At::among(&settings.volumes, home, path);
    if of_volumes != At::Nothing {
        return of_volumes;
    }
    let extra = &settings.extra_args;
    if let Some(mount) = extra.mounts.iter().find(|mount| Path::new(&mount.target) == path) {
        return match &mount.kind {
            MountKind::Bind { source, .. } => At::of(source.resolve(home), mount.read_only, path),
            MountKind::Volume { .. } | MountKind::Tmpfs { .. } => At::Another,
        };
    }
    if extra.tmpfs.iter().any(|(target, _)| Path::new(target) == path) {
        return At::Another;
    }
    At::Nothing
}
