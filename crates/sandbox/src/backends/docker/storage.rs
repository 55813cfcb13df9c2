//! Where the files of a sandbox are: directories of this host, or volumes of the
//! engine.

use std::path::{Path, PathBuf};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptionsBuilder, RemoveVolumeOptionsBuilder};

use super::api::{EngineClient, EngineFault, classify};
use super::boot::make_open_dir;
use super::mounts;
use super::plan::{MountSource, label};
use super::prepare::Sharing;
use super::settings::DockerSettings;
use crate::backend::{BackendError, InstanceRequest, KeptVolumes};
use crate::settings::VolumeSource;
use crate::store::make_private_dir;
use crate::{HomeId, Key};

/// Mode of directories that users in a container write to. Their ids on the host
/// depend on the engine; the directory above keeps others out.
const OPEN_MODE: u32 = 0o777;

/// The directories of an instance on the host.
#[derive(Debug)]
pub(super) struct ContainerDirs {
    pub(super) boot: PathBuf,
    pub(super) io: PathBuf,
    pub(super) state: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) home: PathBuf,
}

impl ContainerDirs {
    pub(super) fn of(request: &InstanceRequest) -> Self {
        // An instance that ends with its process takes its journal and logs along.
        let state = match &request.owner {
            Some(_) => request.instance.dir.join("state"),
            None => request.sandbox_dir.join("state"),
        };
        Self {
            boot: request.instance.dir.join("boot"),
            io: io_dir(&request.instance.dir),
            state,
            workspace: request.sandbox_dir.join("workspace"),
            home: request.sandbox_dir.join("home"),
        }
    }

    /// Creates the missing directories. Called before every start: an engine does
    /// not start a container whose directories are gone.
    pub(super) fn make(
        &self,
        request: &InstanceRequest,
        settings: &DockerSettings,
    ) -> Result<(), BackendError> {
        self.make_instances(request)?;
        let mut open = vec![&self.state];
        if settings.persistent {
            open.push(&self.home);
            // A mounted directory of the user takes the place of the workspace.
            open.extend(settings.mount.is_none().then_some(&self.workspace));
        }
        for dir in open {
            make_open_dir(dir, OPEN_MODE)
                .map_err(BackendError::io(format!("create {}", dir.display())))?;
        }
        Ok(())
    }

    /// Creates the missing directories of the instance alone, for an engine that is known to keep
    /// the files itself: what has the names of the others is another backend's.
    pub(super) fn make_instances(&self, request: &InstanceRequest) -> Result<(), BackendError> {
        let failed = |error: crate::store::StoreError| BackendError::Io {
            action: "create the directories of the sandbox".to_owned(),
            source: std::io::Error::other(error),
        };
        make_private_dir(&request.sandbox_dir).map_err(failed)?;
        make_private_dir(&request.instance.dir).map_err(failed)?;
        make_open_dir(&self.io, OPEN_MODE)
            .map_err(BackendError::io(format!("create {}", self.io.display())))?;
        // The lock of an owner may have created the directory as private.
        open_to_container(&self.io)
            .map_err(BackendError::io(format!("open {} to the container", self.io.display())))
    }
}

impl ContainerDirs {
    /// Removes the directories that are not needed because the engine keeps the
    /// files in volumes. Directories with content stay.
    pub(super) fn remove_empty(&self) {
        for dir in [&self.state, &self.workspace, &self.home] {
            std::fs::remove_dir(dir).ok();
        }
    }
}

/// Checks that the directories to mount exist. The engine would report it only
/// after the previous container has been given up.
pub(super) fn check_sources(
    client: &EngineClient,
    settings: &DockerSettings,
) -> Result<(), BackendError> {
    mounts::check_binds(settings, client.is_remote())?;
    if client.is_remote() {
        return Ok(());
    }
    for volume in settings.volumes.iter() {
        let VolumeSource::Host(source) = &volume.source else {
            continue;
        };
        let Some(source) = source.resolve(settings.user_home.as_deref()) else {
            continue;
        };
        let source = Path::new(&source);
        if !source.exists() {
            return Err(BackendError::Advised {
                problem: format!("terminal.docker_volumes: {} does not exist", source.display()),
                advice: "create it, or correct terminal.docker_volumes".to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns the directory of an instance's socket.
pub(super) fn io_dir(instance_dir: &Path) -> PathBuf {
    instance_dir.join("io")
}

fn open_to_container(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let metadata = std::fs::symlink_metadata(dir)?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if own && metadata.mode() & 0o777 != OPEN_MODE {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(OPEN_MODE))?;
    }
    Ok(())
}

/// The sources of a container's mounts.
#[derive(Debug)]
pub(super) struct MountSources {
    pub(super) boot: MountSource,
    pub(super) io: MountSource,
    pub(super) state: MountSource,
    pub(super) workspace: MountSource,
    pub(super) home: MountSource,
}

impl MountSources {
    pub(super) fn of(
        request: &InstanceRequest,
        dirs: &ContainerDirs,
        settings: &DockerSettings,
        sharing: Sharing,
    ) -> Self {
        let bind = |dir: &Path| MountSource::Bind(dir.to_owned());
        let kept =
            |source: MountSource| if settings.persistent { source } else { MountSource::Tmpfs };
        match sharing {
            Sharing::Shared => Self {
                boot: bind(&dirs.boot),
                io: bind(&dirs.io),
                state: bind(&dirs.state),
                workspace: kept(bind(&dirs.workspace)),
                home: kept(bind(&dirs.home)),
            },
            Sharing::Separate => {
                let volume = |what| MountSource::Volume(volume_name(&request.key, what));
                Self {
                    boot: MountSource::Anonymous,
                    io: MountSource::Anonymous,
                    state: match &request.owner {
                        Some(_) => MountSource::Anonymous,
                        None => volume("state"),
                    },
                    workspace: kept(volume("workspace")),
                    home: kept(volume("home")),
                }
            }
        }
    }

    fn volumes(&self) -> impl Iterator<Item = &str> {
        [&self.state, &self.workspace, &self.home].into_iter().filter_map(|source| match source {
            MountSource::Volume(name) => Some(&**name),
            _ => None,
        })
    }

    /// Creates the missing volumes, with labels to find them by.
    pub(super) async fn make_volumes(
        &self,
        client: &EngineClient,
        key: &Key,
        home: &HomeId,
    ) -> Result<(), BackendError> {
        for name in self.volumes() {
            let mut labels: std::collections::HashMap<String, String> =
                key.labels().map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            labels.insert(label::KEY.to_owned(), key.hash());
            labels.insert(label::HOME.to_owned(), home.as_str().to_owned());
            let request = VolumeCreateRequest {
                name: Some(name.to_owned()),
                labels: Some(labels),
                ..VolumeCreateRequest::default()
            };
            match client.api().create_volume(request).await {
                Ok(_) => {}
                // Podman refuses to create a volume that exists; Docker does not.
                Err(error) if volume_exists(client, name).await => {
                    tracing::debug!(%error, name, "the volume exists");
                }
                Err(error) => return Err(client.error("create a volume")(error)),
            }
        }
        Ok(())
    }
}

async fn volume_exists(client: &EngineClient, name: &str) -> bool {
    client.api().inspect_volume(name).await.is_ok()
}

fn volume_name(key: &Key, what: &str) -> String {
    let hash: String = key.hash().chars().take(16).collect();
    format!("vestal-{hash}-{what}")
}

/// Returns the names of the volumes with a sandbox's files.
pub(super) async fn volumes(client: &EngineClient, key: &str) -> Result<Vec<String>, BackendError> {
    let mut names = all_volumes(client, key).await?;
    names.retain(|name| !is_state(name));
    Ok(names)
}

fn is_state(name: &str) -> bool {
    name.ends_with("-state")
}

async fn all_volumes(client: &EngineClient, key: &str) -> Result<Vec<String>, BackendError> {
    let wanted = [("label", vec![format!("{}={key}", label::KEY)])];
    let filters = wanted.map(|(name, values)| (name.to_owned(), values)).into_iter().collect();
    let options = ListVolumesOptionsBuilder::new().filters(&filters).build();
    let listed = client.api().list_volumes(Some(options)).await;
    let listed = listed.map_err(client.error("list volumes"))?.volumes.unwrap_or_default();
    let mut names: Vec<String> = listed
        .into_iter()
        .filter(|volume| volume.labels.get(label::KEY).is_some_and(|found| found == key))
        .map(|volume| volume.name)
        .collect();
    names.sort();
    Ok(names)
}

/// Removes a sandbox's volumes except those that are kept.
pub(super) async fn remove_volumes(
    client: &EngineClient,
    key: &str,
    kept: KeptVolumes,
) -> Result<(), BackendError> {
    let mut names = all_volumes(client, key).await?;
    if kept == KeptVolumes::Files {
        names.retain(|name| is_state(name));
    }
    for name in names {
        let options = RemoveVolumeOptionsBuilder::new().force(true).build();
        match client.api().remove_volume(&name, Some(options)).await {
            Ok(()) => {}
            Err(error) => match classify(&error) {
                EngineFault::Absent => {}
                _ => return Err(client.error("remove a volume")(error)),
            },
        }
    }
    Ok(())
}
