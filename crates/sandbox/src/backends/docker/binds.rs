//! Directories of the host that are in a container at the same path.

use std::path::Path;

use vestal_config::{DockerTransport, MountKind, VolumeSource};

use super::facts::Reach;
use super::settings::DockerSettings;
use crate::backend::BackendError;

/// Places that are the kernel's or ours, with all that is below them.
const NEVER: [&str; 4] = ["/.vestal", "/dev", "/proc", "/sys"];

/// Places of the image that must not be hidden; what is below them may.
const OF_THE_IMAGE: [&str; 12] = [
    "/", "/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/run", "/sbin", "/usr",
    "/var",
];

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
    let other = "use a directory elsewhere, or the backend local";
    let Some(path) = bind.to_str() else {
        let problem = "its name is not UTF-8, and container engines take no other names";
        return Err(refused(bind, problem, other));
    };
    if NEVER.iter().any(|never| bind.starts_with(never)) {
        return Err(refused(bind, "that place in a container is not for files of the host", other));
    }
    if OF_THE_IMAGE.contains(&path) {
        return Err(refused(bind, "it would hide the image's own", other));
    }
    match at(settings, path) {
        At::Nothing => Ok(Some(path)),
        At::Itself => Ok(None),
        At::Another => Err(refused(
            bind,
            "the settings mount something else there, or that read-only",
            "remove it from terminal.docker_volumes or terminal.docker_extra_args",
        )),
    }
}

/// What the settings mount at a place.
enum At {
    Nothing,
    Itself,
    Another,
}

fn at(settings: &DockerSettings, path: &str) -> At {
    let home = settings.user_home.as_deref();
    let same = |source: Option<String>, read_only: bool| {
        let same = source.is_some_and(|source| Path::new(&source) == Path::new(path));
        if same && !read_only { At::Itself } else { At::Another }
    };
    if let Some(volume) = settings.volumes.iter().find(|volume| volume.target == path) {
        return match &volume.source {
            VolumeSource::Host(source) => same(source.resolve(home), volume.read_only),
            VolumeSource::Named(_) => At::Another,
        };
    }
    if let Some(mount) = settings.extra_args.mounts.iter().find(|mount| mount.target == path) {
        return match &mount.kind {
            MountKind::Bind { source, .. } => same(source.resolve(home), mount.read_only),
            MountKind::Volume { .. } | MountKind::Tmpfs { .. } => At::Another,
        };
    }
    if settings.extra_args.tmpfs.iter().any(|(target, _)| target == path) {
        return At::Another;
    }
    At::Nothing
}

fn refused(bind: &Path, problem: &str, advice: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("{} cannot be in the sandbox at the same path: {problem}", bind.display()),
        advice: advice.to_owned(),
    }
}
