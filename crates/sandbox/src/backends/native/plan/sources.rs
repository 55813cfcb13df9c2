//! What of the host is to be mounted: whether it is there.

use std::path::{Path, PathBuf};

use crate::backend::BackendError;
use crate::backends::binds::{self, refused};
use crate::backends::native::settings::NativeSettings;
use crate::mounts::Wanted;
use crate::settings::{Propagation, Volume, VolumeSource};

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
