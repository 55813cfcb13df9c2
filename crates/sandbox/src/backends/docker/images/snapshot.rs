//! Snapshots of a sandbox's own filesystem, as images of the engine, and the base
//! image of a container's system.
//!
//! An image made of a container has no configuration, so that it holds nothing of
//! Vestal's. User, home, entrypoint and volumes come from the base image: the image
//! that the first container was made of. It may be gone by the time it is needed,
//! so every container has its configuration in a label.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::commit;
use super::own_image::OwnImage;
use crate::backend::{BackendError, Base, Instance, InstanceRequest, InstanceState, SavedSystem};
use crate::backends::docker::api::{self, EngineClient, ImageInfo};
use crate::backends::docker::backend::Docker;
use crate::backends::docker::identity::{DockerLocator, GuestTransport};
use crate::backends::docker::inspect::{InspectedContainer, find_container};
use crate::backends::docker::plan::{ContainerLabels, ImageUser};
use crate::key::random_hex;
use crate::store::{read_versioned, write_versioned};
use crate::{ProgressSink, failpoint};

/// Version of [`ImageFile`].
const VERSION: u64 = 1;

/// Name of the file, in the directory of a snapshot, that names its image. It is
/// written before the image is made, so that an image left by a killed process can
/// be found.
const FILE: &str = "image.json";

#[derive(Debug, Serialize, Deserialize)]
struct ImageFile {
    version: u64,
    image: String,
}

/// The record of a snapshot's image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedImage {
    /// Id of the engine that has it.
    engine: String,
    /// Address of that engine.
    address: String,
    /// Name of the image.
    image: String,
    /// Id of the image.
    id: String,
    #[serde(rename = "origin")]
    base_image: BaseImage,
}

/// The system that a new container starts with.
#[derive(Debug, Clone)]
pub(in crate::backends::docker) struct BaseSystem {
    /// Id of the image with the files.
    pub(in crate::backends::docker) id: String,
    /// The image with the configuration.
    pub(in crate::backends::docker) base_image: BaseImage,
}

impl Docker {
    /// Makes an image of a stopped container.
    pub(in crate::backends::docker) async fn save_image(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let client = self.client().await?;
        let (container, base_image) = self.copy_source(&client, instance).await?;
        let random = random_hex::<8>().map_err(BackendError::io("name an image"))?;
        let name = OwnImage::saved(&self.home, &random);
        let file = ImageFile { version: VERSION, image: name.to_string() };
        write_versioned(&into.join(FILE), &file).map_err(|error| BackendError::Io {
            action: format!("write to {}", into.display()),
            source: std::io::Error::other(error),
        })?;
        failpoint::reach("docker.snapshot.named");
        let id =
            create_image_detached(&client, container, &name, base_image.image.layers, progress)
                .await?;
        failpoint::reach("docker.snapshot.made");
        let saved = SavedImage {
            engine: client.info().await?.id.clone(),
            address: client.address().to_owned(),
            image: name.to_string(),
            id,
            base_image,
        };
        serde_json::to_value(saved).map_err(|error| BackendError::Io {
            action: "record a snapshot's image".to_owned(),
            source: error.into(),
        })
    }

    /// Removes the image of a snapshot, finished or not.
    pub(in crate::backends::docker) async fn discard_image(
        &self,
        dir: &Path,
    ) -> Result<(), BackendError> {
        // Without the file no image was made.
        let Some(name) = image_of_snapshot(&self.home, dir)? else {
            return Ok(());
        };
        let client = self.client().await?;
        commit::remove(&client, &name.draft()).await?;
        commit::remove(&client, &name).await.map(drop)
    }

    /// Makes or finds the image that a new container starts with. It gets a name of
    /// the instance and is removed with it.
    pub(in crate::backends::docker) async fn prepare_base(
        &self,
        client: &EngineClient,
        request: &InstanceRequest,
        base: &Base,
    ) -> Result<BaseSystem, BackendError> {
        let name = OwnImage::of_instance(&self.home, &request.instance.id);
        match base {
            Base::Instance(source) => {
                let (container, base_image) = self.copy_source(client, source).await?;
                let layers = base_image.image.layers;
                let id = create_image_detached(client, container, &name, layers, &request.progress)
                    .await?;
                Ok(BaseSystem { id, base_image })
            }
            Base::Saved { saved, .. } => {
                let saved: SavedImage =
                    serde_json::from_value(saved.clone()).map_err(|_| BackendError::Advised {
                        problem: "the record of the snapshot's image cannot be read".to_owned(),
                        advice: "a newer vestal may have made it; remove the snapshot if it is \
                                 not needed"
                            .to_owned(),
                    })?;
                let image = self.find_saved(client, &saved).await?;
                commit::tag(client, &image, &name).await?;
                Ok(BaseSystem { id: saved.id, base_image: saved.base_image })
            }
        }
    }

    /// Returns the name of a snapshot's image, if this engine has it unchanged.
    async fn find_saved(
        &self,
        client: &EngineClient,
        saved: &SavedImage,
    ) -> Result<OwnImage, BackendError> {
        let name = OwnImage::parse(&self.home, &saved.image);
        if let Some(name) = name
            && commit::id_of(client, &name).await?.as_deref() == Some(&*saved.id)
        {
            return Ok(name);
        }
        let elsewhere = saved.engine != client.info().await?.id;
        Err(BackendError::NoImage {
            image: saved.image.clone(),
            reason: if elsewhere {
                format!(
                    "the snapshot was made on the engine at {}, and another engine answers, at {}",
                    saved.address,
                    client.address()
                )
            } else {
                "the snapshot's image was removed from the engine".to_owned()
            },
            advice: if elsewhere {
                "start that engine or select it with DOCKER_HOST".to_owned()
            } else {
                "the system in the snapshot is lost; its workspace and home are in the snapshot's \
                 directory"
                    .to_owned()
            },
        })
    }

    /// Returns the container of an instance, which must be stopped and local, and its
    /// base image.
    async fn copy_source(
        &self,
        client: &EngineClient,
        instance: &Instance,
    ) -> Result<(String, BaseImage), BackendError> {
        self.check_engine(client, instance).await?;
        let refuse = |problem: &str, advice: &str| BackendError::Advised {
            problem: problem.to_owned(),
            advice: advice.to_owned(),
        };
        let Some(seen) = find_container(client, &self.home, instance).await? else {
            return Err(refuse(
                "the sandbox has no container to copy",
                "run a command in it, which creates the container",
            ));
        };
        match seen.state {
            InstanceState::Running | InstanceState::Paused => {
                return Err(refuse("the sandbox is running", "stop it with `vestal stop` first"));
            }
            InstanceState::Stopped { .. }
            | InstanceState::Broken { .. }
            | InstanceState::Absent => {}
        }
        let apart = DockerLocator::of_instance(instance)
            .is_some_and(|locator| matches!(locator.transport, GuestTransport::Exec));
        if apart {
            return Err(refuse(
                "the files of the sandbox are in volumes of the container engine, which are not \
                 copied",
                "use an engine on this machine with terminal.docker_transport `socket`, or the \
                 backend native",
            ));
        }
        let base_image = BaseImage::of(client, &seen).await?;
        Ok((seen.id, base_image))
    }
}

/// Returns the image that a snapshot's directory names.
pub(in crate::backends::docker) fn image_of_snapshot(
    home: &crate::HomeId,
    dir: &Path,
) -> Result<Option<OwnImage>, BackendError> {
    let path: PathBuf = dir.join(FILE);
    let file: Option<ImageFile> =
        read_versioned(&path, VERSION).map_err(|error| BackendError::Io {
            action: format!("read {}", path.display()),
            source: std::io::Error::other(error),
        })?;
    // A directory copied from another home names an image of that home.
    Ok(file.and_then(|file| OwnImage::parse(home, &file.image)))
}

/// Returns the images that all snapshots of a home name.
pub(in crate::backends::docker) fn images_of_snapshots(
    home: &crate::HomeId,
    sandboxes: &Path,
) -> std::io::Result<Vec<OwnImage>> {
    let mut named = Vec::new();
    for sandbox in list(sandboxes)? {
        for copy in list(&sandbox.join("snapshots"))? {
            named.extend(
                image_of_snapshot(home, &copy.join("system")).map_err(std::io::Error::other)?,
            );
        }
    }
    Ok(named)
}

fn list(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Makes an image in a task of its own. An engine finishes the request even if the
/// caller goes away; the task then removes the image.
async fn create_image_detached(
    client: &EngineClient,
    container: String,
    name: &OwnImage,
    original: usize,
    progress: &ProgressSink,
) -> Result<String, BackendError> {
    let (sender, receiver) = oneshot::channel();
    let (client, name, progress) = (client.clone(), name.clone(), progress.clone());
    tokio::spawn(async move {
        let taken = commit::create_image(&client, &container, &name, original, &progress).await;
        if let Err(Ok(_)) = sender.send(taken)
            && let Err(error) = commit::remove(&client, &name).await
        {
            tracing::warn!(%error, image = %name, "an image is left to the reaper");
        }
    });
    receiver.await.unwrap_or_else(|_| {
        Err(BackendError::Engine {
            action: "copy the system of a sandbox".to_owned(),
            message: "the program is shutting down".to_owned(),
        })
    })
}

/// Label with the [`BaseImage`] of a container.
const LABEL: &str = "vestal-origin";

/// The image that a container's system is based on, and its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct BaseImage {
    pub(in crate::backends::docker) image: ImageInfo,
    /// The user of jobs, if it was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::backends::docker) user: Option<KnownUser>,
}

/// A user that was looked up in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct KnownUser {
    /// The user as requested; `None` for root.
    #[serde(rename = "asked")]
    pub(in crate::backends::docker) requested: Option<String>,
    /// The user as found.
    pub(in crate::backends::docker) user: ImageUser,
}

impl BaseImage {
    pub(in crate::backends::docker) fn add_label(&self, body: &mut ContainerCreateBody) {
        // A struct of strings always serializes.
        let text = serde_json::to_string(self).unwrap_or_default();
        body.labels.get_or_insert_default().insert(LABEL.to_owned(), text);
    }

    /// Reads the label; `None` for a container of a version without it.
    fn on(inspected: &ContainerInspectResponse) -> Option<Self> {
        let labels = inspected.config.as_ref()?.labels.as_ref()?;
        serde_json::from_str(labels.get(LABEL)?).ok()
    }

    /// Returns whether a container was made of a copy rather than of the base image.
    pub(in crate::backends::docker) fn is_copy(inspected: &ContainerInspectResponse) -> bool {
        let bare = |id: &str| id.strip_prefix("sha256:").unwrap_or(id).to_owned();
        let made_of = inspected.image.as_deref().map(bare);
        Self::on(inspected).is_some_and(|base_image| Some(bare(&base_image.image.id)) != made_of)
    }

    /// Returns the base image of a container.
    pub(in crate::backends::docker) async fn of(
        client: &EngineClient,
        seen: &InspectedContainer,
    ) -> Result<Self, BackendError> {
        if let Some(base_image) = Self::on(&seen.response) {
            return Ok(base_image);
        }
        // A container without the label was made of the base image itself.
        let id = seen.response.image.clone().unwrap_or_default();
        let labels = seen.response.config.as_ref().and_then(|config| config.labels.as_ref());
        let name = labels.and_then(ContainerLabels::parse).and_then(|labels| labels.image);
        match api::find_by_id(client, &id).await? {
            Some(image) => {
                let image = ImageInfo { name: name.unwrap_or(image.name), ..image };
                Ok(Self { image, user: None })
            }
            None => Err(BackendError::Advised {
                problem: format!(
                    "image {} of the sandbox is gone, and with it the configuration of its \
                     copies",
                    name.as_deref().unwrap_or(&id)
                ),
                advice: "pull it again, or rebuild the sandbox with `vestal rebuild`".to_owned(),
            }),
        }
    }

    /// Returns the description of an image with the files of a copy and this
    /// configuration.
    pub(in crate::backends::docker) fn image_info(&self, id: String) -> ImageInfo {
        ImageInfo { id, is_bare: true, ..self.image.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base_image() -> BaseImage {
        let image = serde_json::json!({
            "name": "debian:12", "id": "sha256:1", "user": "app", "entrypoint": ["/init"],
            "cmd": [], "volumes": ["/data"], "env": ["PATH=/bin"], "working_dir": "",
            "layers": 3,
        });
        let user = ImageUser { uid: 7, gid: 8, name: Some("app".into()), home: "/home/app".into() };
        BaseImage {
            image: serde_json::from_value(image).unwrap(),
            user: Some(KnownUser { requested: Some("app".into()), user }),
        }
    }

    #[test]
    fn the_base_image_of_a_container_is_read_from_its_label() {
        let mut body = ContainerCreateBody::default();
        base_image().add_label(&mut body);
        // Containers of earlier versions have these names in their labels.
        let label: serde_json::Value =
            serde_json::from_str(&body.labels.as_ref().unwrap()[LABEL]).unwrap();
        assert_eq!(label["image"]["id"], "sha256:1");
        assert_eq!(label["user"]["asked"], "app");
        for (made_of, is_copy) in [("sha256:1", false), ("1", false), ("sha256:2", true)] {
            let inspected =
                serde_json::json!({ "Image": made_of, "Config": { "Labels": body.labels } });
            let inspected = serde_json::from_value(inspected).unwrap();
            assert_eq!(BaseImage::on(&inspected), Some(base_image()));
            assert_eq!(BaseImage::is_copy(&inspected), is_copy, "{made_of}");
        }
        let damaged = serde_json::json!({ "Config": { "Labels": { (LABEL): "{" } } });
        assert_eq!(BaseImage::on(&serde_json::from_value(damaged).unwrap()), None);
    }

    #[test]
    fn the_record_of_a_snapshot_keeps_its_stored_names() {
        let saved = serde_json::json!({
            "engine": "e", "address": "a", "image": "i", "id": "sha256:2", "origin": base_image(),
        });
        let read: SavedImage = serde_json::from_value(saved.clone()).unwrap();
        assert_eq!(read.base_image, base_image());
        assert_eq!(serde_json::to_value(read).unwrap(), saved);
    }

    #[test]
    fn a_copy_has_the_files_of_its_own_image_and_the_rest_of_the_first() {
        let image = base_image().image_info("sha256:2".into());
        assert!(image.is_bare);
        assert_eq!((&*image.id, &*image.name, image.layers), ("sha256:2", "debian:12", 3));
        assert_eq!((image.user, image.env), (Some("app".into()), vec!["PATH=/bin".into()]));
    }
}
