//! What the user mounts in sandboxes that are made without an engine: directories and files
//! of this machine, and nothing else.

use std::path::{Path, PathBuf};

use super::own_system::{refused, vet};
use crate::backend::BackendError;
use crate::mounts::MountRequest;
use crate::settings::{Propagation, Volume, VolumeSource, Volumes};

/// What the user mounts in a sandbox.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserMounts<'a> {
    /// What the settings mount.
    pub(super) volumes: &'a Volumes,
    /// Directories of the host that are in the sandbox at the same path.
    pub(super) binds: &'a [PathBuf],
    /// The directory of the host that is the workspace.
    pub(super) mount: Option<&'a Path>,
    /// The user's home on this machine, for sources that begin with `~`.
    pub(super) user_home: Option<&'a Path>,
    /// The sandboxes, for people.
    pub(super) sandboxes: &'static str,
}

impl UserMounts<'_> {
    /// Returns the host directories and files that are mounted.
    pub(super) fn requests(&self) -> Result<Vec<MountRequest>, BackendError> {
        let volume = |volume: &Volume| {
            let path = self.source(volume)?;
            Ok::<_, BackendError>(MountRequest { path, writable: !volume.read_only })
        };
        let mut requests = self.volumes.iter().map(volume).collect::<Result<Vec<_>, _>>()?;
        let whole = self.binds.iter().map(PathBuf::as_path).chain(self.mount);
        requests.extend(whole.map(|path| MountRequest { path: path.to_owned(), writable: true }));
        Ok(requests)
    }

    /// Checks that they exist, before anything is changed.
    pub(super) fn check(&self) -> Result<(), BackendError> {
        for volume in self.volumes.iter() {
            let source = self.source(volume)?;
            if !source.exists() {
                return Err(BackendError::Advised {
                    problem: format!(
                        "terminal.docker_volumes: {} does not exist",
                        source.display()
                    ),
                    advice: "make it, or correct terminal.docker_volumes".to_owned(),
                });
            }
        }
        for bind in self.binds {
            vet(bind)?;
            if !bind.is_dir() {
                return Err(refused(bind, "it is not a directory any more", "make it"));
            }
        }
        match self.mount {
            Some(mount) if !mount.is_dir() => Err(BackendError::Advised {
                problem: format!(
                    "{} cannot be the workspace: it is not a directory",
                    mount.display()
                ),
                advice: "make it, or remove the sandbox and start in another directory".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the host path of a volume.
    pub(super) fn source(&self, volume: &Volume) -> Result<PathBuf, BackendError> {
        let sandboxes = self.sandboxes;
        let path = match &volume.source {
            VolumeSource::Host(path) => path,
            VolumeSource::Named(name) => {
                return Err(BackendError::Advised {
                    problem: format!(
                        "terminal.docker_volumes: {name} is a volume of a container engine, and \
                         {sandboxes} have none"
                    ),
                    advice: "mount a directory instead, or use the backend docker".to_owned(),
                });
            }
        };
        match volume.propagation {
            None | Some(Propagation::Private | Propagation::Rprivate) => {}
            Some(other) => {
                return Err(BackendError::Advised {
                    problem: format!(
                        "terminal.docker_volumes: {} asks for {}, but {sandboxes} have only \
                         private mounts",
                        volume.spec(),
                        other.as_str()
                    ),
                    advice: "remove that option, or use the backend docker".to_owned(),
                });
            }
        }
        path.resolve(self.user_home).map(PathBuf::from).ok_or_else(|| BackendError::Advised {
            problem: format!("{} cannot be mounted: your home directory is unknown", volume.spec()),
            advice: "write the full path, or set HOME".to_owned(),
        })
    }
}
