//! Keeping copies of a sandbox's own filesystem, as images of the engine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::api::{Client, OwnImage, layers};
use super::backend::Docker;
use super::inspect::look;
use super::locator::{DockerLocator, Transport};
use super::origin::Origin;
use crate::backend::{BackendError, Base, Instance, InstanceRequest, InstanceState, SavedSystem};
use crate::key::random_hex;
use crate::store::{read_versioned, write_versioned};
use crate::{ProgressSink, failpoint};

/// Version of the file.
const VERSION: u64 = 1;

/// Name of the file that names the image, in the directory of a copy. It is
/// written before there is an image, so that what a dead process has begun can
/// be found, whatever the directory is called by then.
const FILE: &str = "image.json";

/// The file that names the image.
#[derive(Debug, Serialize, Deserialize)]
struct ImageFile {
    version: u64,
    image: String,
}

/// What it takes to make containers of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedImage {
    /// Id of the engine that has it.
    engine: String,
    /// Where that engine was.
    address: String,
    /// Name of the image.
    image: String,
    /// Its id.
    id: String,
    /// What it began with.
    origin: Origin,
}

/// What a new container's system begins with.
#[derive(Debug, Clone)]
pub(super) struct Beginning {
    /// Id of the image that has the files.
    pub(super) id: String,
    /// What tells the rest.
    pub(super) origin: Origin,
}

impl Docker {
    /// Makes an image of a container that does not run.
    pub(super) async fn save_image(
        &self,
        instance: &Instance,
        into: &Path,
        progress: &ProgressSink,
    ) -> Result<SavedSystem, BackendError> {
        let client = self.client().await?;
        let (container, origin) = self.source(&client, instance).await?;
        let random = random_hex::<8>().map_err(BackendError::io("name an image"))?;
        let name = OwnImage::saved(&self.home, &random);
        let file = ImageFile { version: VERSION, image: name.to_string() };
        write_versioned(&into.join(FILE), &file).map_err(|error| BackendError::Io {
            action: format!("write to {}", into.display()),
            source: std::io::Error::other(error),
        })?;
        failpoint::reach("docker.snapshot.named");
        let id = take(&client, container, &name, origin.image.layers, progress).await?;
        failpoint::reach("docker.snapshot.made");
        let saved = SavedImage {
            engine: client.info().await?.id.clone(),
            address: client.address().to_owned(),
            image: name.to_string(),
            id,
            origin,
        };
        serde_json::to_value(saved).map_err(|error| BackendError::Io {
            action: "write down what a copy is made of".to_owned(),
            source: error.into(),
        })
    }

    /// Removes the image of a copy, as far as it was made.
    pub(super) async fn discard_image(&self, dir: &Path) -> Result<(), BackendError> {
        // What was never named was never made.
        let Some(name) = named_in(&self.home, dir)? else {
            return Ok(());
        };
        let client = self.client().await?;
        layers::remove(&client, &name.draft()).await?;
        layers::remove(&client, &name).await.map(drop)
    }

    /// Has an image made, or found, that a new container's system begins with.
    /// It has a name of the instance's own and goes with it.
    pub(super) async fn begin_with(
        &self,
        client: &Client,
        request: &InstanceRequest,
        base: &Base,
    ) -> Result<Beginning, BackendError> {
        let name = OwnImage::of_instance(&self.home, &request.instance.id);
        match base {
            Base::Instance(source) => {
                let (container, origin) = self.source(client, source).await?;
                let layers = origin.image.layers;
                let id = take(client, container, &name, layers, &request.progress).await?;
                Ok(Beginning { id, origin })
            }
            Base::Saved { saved, .. } => {
                let saved: SavedImage =
                    serde_json::from_value(saved.clone()).map_err(|_| BackendError::Advised {
                        problem: "it is not known what the snapshot is made of".to_owned(),
                        advice: "a newer vestal may have made it; remove it if it is of no use"
                            .to_owned(),
                    })?;
                let image = self.find_saved(client, &saved).await?;
                layers::tag(client, &image, &name).await?;
                Ok(Beginning { id: saved.id, origin: saved.origin })
            }
        }
    }

    /// Returns the name of a saved image, if this engine has it unchanged.
    async fn find_saved(
        &self,
        client: &Client,
        saved: &SavedImage,
    ) -> Result<OwnImage, BackendError> {
        let name = OwnImage::parse(&self.home, &saved.image);
        if let Some(name) = name
            && layers::id_of(client, &name).await?.as_deref() == Some(&*saved.id)
        {
            return Ok(name);
        }
        let elsewhere = saved.engine != client.info().await?.id;
        Err(BackendError::NoImage {
            image: saved.image.clone(),
            reason: if elsewhere {
                format!(
                    "the snapshot was made on the engine at {}, and what answers is another, at {}",
                    saved.address,
                    client.address()
                )
            } else {
                "the snapshot's image was removed from the engine".to_owned()
            },
            advice: if elsewhere {
                "start that engine or name it with DOCKER_HOST".to_owned()
            } else {
                "what it kept of the system is lost; its workspace and home are in the snapshot's \
                 directory"
                    .to_owned()
            },
        })
    }

    /// Returns the container of an instance that a copy can be made of, and what
    /// its system began with.
    async fn source(
        &self,
        client: &Client,
        instance: &Instance,
    ) -> Result<(String, Origin), BackendError> {
        self.check_engine(client, instance).await?;
        let refuse = |problem: &str, advice: &str| BackendError::Advised {
            problem: problem.to_owned(),
            advice: advice.to_owned(),
        };
        let Some(seen) = look(client, &self.home, instance).await? else {
            return Err(refuse(
                "the sandbox has no container that could be copied",
                "use it once, so that one is made",
            ));
        };
        match seen.state {
            InstanceState::Running | InstanceState::Paused => {
                return Err(refuse("the sandbox runs", "stop it with `vestal stop` first"));
            }
            InstanceState::Stopped { .. }
            | InstanceState::Broken { .. }
            | InstanceState::Absent => {}
        }
        let apart = DockerLocator::of_instance(instance)
            .is_some_and(|locator| matches!(locator.transport, Transport::Exec));
        if apart {
            return Err(refuse(
                "the files of the sandbox are in volumes of the container engine, which are not \
                 copied",
                "use an engine on this machine with terminal.docker_transport `socket`, or the \
                 backend native",
            ));
        }
        let origin = Origin::of(client, &seen).await?;
        Ok((seen.id, origin))
    }
}

/// Returns the image that a copy's directory names.
pub(super) fn named_in(home: &crate::HomeId, dir: &Path) -> Result<Option<OwnImage>, BackendError> {
    let path: PathBuf = dir.join(FILE);
    let file: Option<ImageFile> =
        read_versioned(&path, VERSION).map_err(|error| BackendError::Io {
            action: format!("read {}", path.display()),
            source: std::io::Error::other(error),
        })?;
    // Another home's image is not ours to touch, as in a directory that was
    // copied here.
    Ok(file.and_then(|file| OwnImage::parse(home, &file.image)))
}

/// Returns the images that the copies below a home's sandboxes name.
pub(super) fn named_below(
    home: &crate::HomeId,
    sandboxes: &Path,
) -> std::io::Result<Vec<OwnImage>> {
    let mut named = Vec::new();
    for sandbox in list(sandboxes)? {
        for copy in list(&sandbox.join("snapshots"))? {
            named.extend(named_in(home, &copy.join("system")).map_err(std::io::Error::other)?);
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

/// Makes an image, also when nobody waits for it any more: an engine goes on
/// with what it was told, and what it makes then would be nobody's. Then what
/// was made is removed.
async fn take(
    client: &Client,
    container: String,
    name: &OwnImage,
    original: usize,
    progress: &ProgressSink,
) -> Result<String, BackendError> {
    let (tell, told) = oneshot::channel();
    let (client, name, progress) = (client.clone(), name.clone(), progress.clone());
    tokio::spawn(async move {
        let taken = layers::take(&client, &container, &name, original, &progress).await;
        if let Err(Ok(_)) = tell.send(taken)
            && let Err(error) = layers::remove(&client, &name).await
        {
            tracing::warn!(%error, image = %name, "an image is left for later");
        }
    });
    told.await.unwrap_or_else(|_| {
        Err(BackendError::Engine {
            action: "copy the system of a sandbox".to_owned(),
            message: "this program is ending".to_owned(),
        })
    })
}
