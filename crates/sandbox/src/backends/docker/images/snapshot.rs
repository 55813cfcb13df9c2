//! Keeping copies of a sandbox's own filesystem, as images of the engine, and
//! what a container's system began with.
//!
//! An image that was made of a container says nothing, so that nothing of ours
//! is in it. Whom jobs run as, where their home is, what starts first and where
//! volumes belong is told by the image that all began with. It may be gone by
//! the time it is needed, so every container carries that along.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::commit;
use super::own_image::OwnImage;
use crate::backend::{BackendError, Base, Instance, InstanceRequest, InstanceState, SavedSystem};
use crate::backends::docker::api::{self, Client, ImageFacts};
use crate::backends::docker::backend::Docker;
use crate::backends::docker::inspect::{Seen, look};
use crate::backends::docker::identity::{DockerLocator, Transport};
use crate::backends::docker::plan::{JobUser, Marks};
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
pub(in crate::backends::docker) struct Beginning {
    /// Id of the image that has the files.
    pub(in crate::backends::docker) id: String,
    /// What tells the rest.
    pub(in crate::backends::docker) origin: Origin,
}

impl Docker {
    /// Makes an image of a container that does not run.
    pub(in crate::backends::docker) async fn save_image(
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
    pub(in crate::backends::docker) async fn discard_image(
        &self,
        dir: &Path,
    ) -> Result<(), BackendError> {
        // What was never named was never made.
        let Some(name) = named_in(&self.home, dir)? else {
            return Ok(());
        };
        let client = self.client().await?;
        commit::remove(&client, &name.draft()).await?;
        commit::remove(&client, &name).await.map(drop)
    }

    /// Has an image made, or found, that a new container's system begins with.
    /// It has a name of the instance's own and goes with it.
    pub(in crate::backends::docker) async fn begin_with(
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
                commit::tag(client, &image, &name).await?;
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
            && commit::id_of(client, &name).await?.as_deref() == Some(&*saved.id)
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
pub(in crate::backends::docker) fn named_in(
    home: &crate::HomeId,
    dir: &Path,
) -> Result<Option<OwnImage>, BackendError> {
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
pub(in crate::backends::docker) fn named_below(
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
        let taken = commit::take(&client, &container, &name, original, &progress).await;
        if let Err(Ok(_)) = tell.send(taken)
            && let Err(error) = commit::remove(&client, &name).await
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

/// The label that says it.
const LABEL: &str = "vestal-origin";

/// What a container's system began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct Origin {
    /// The image.
    pub(in crate::backends::docker) image: ImageFacts,
    /// Whom jobs run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::backends::docker) user: Option<KnownUser>,
}

/// A user who was looked up in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct KnownUser {
    /// Who was asked for; absent: root.
    pub(in crate::backends::docker) asked: Option<String>,
    /// Who that is.
    pub(in crate::backends::docker) user: JobUser,
}

impl Origin {
    /// Puts it on a container to be made.
    pub(in crate::backends::docker) fn mark(&self, body: &mut ContainerCreateBody) {
        // A struct of texts always has a JSON form.
        let text = serde_json::to_string(self).unwrap_or_default();
        body.labels.get_or_insert_default().insert(LABEL.to_owned(), text);
    }

    /// Reads it off a container; nothing for one that was made before containers
    /// said so.
    fn on(inspected: &ContainerInspectResponse) -> Option<Self> {
        let labels = inspected.config.as_ref()?.labels.as_ref()?;
        serde_json::from_str(labels.get(LABEL)?).ok()
    }

    /// Returns whether a container was made of a copy rather than of the image
    /// that its system began with.
    pub(in crate::backends::docker) fn is_elsewhere(inspected: &ContainerInspectResponse) -> bool {
        let bare = |id: &str| id.strip_prefix("sha256:").unwrap_or(id).to_owned();
        let made_of = inspected.image.as_deref().map(bare);
        Self::on(inspected).is_some_and(|origin| Some(bare(&origin.image.id)) != made_of)
    }

    /// Returns what the system of a container began with.
    pub(in crate::backends::docker) async fn of(
        client: &Client,
        seen: &Seen,
    ) -> Result<Self, BackendError> {
        if let Some(origin) = Self::on(&seen.inspected) {
            return Ok(origin);
        }
        // Such a container was made of the image itself.
        let id = seen.inspected.image.clone().unwrap_or_default();
        let labels = seen.inspected.config.as_ref().and_then(|config| config.labels.as_ref());
        let name = labels.and_then(Marks::parse).and_then(|marks| marks.image);
        match api::known(client, &id).await? {
            Some(image) => {
                let image = ImageFacts { name: name.unwrap_or(image.name), ..image };
                Ok(Self { image, user: None })
            }
            None => Err(BackendError::Advised {
                problem: format!(
                    "the image of the sandbox, {}, is gone, and with it what its copies are to \
                     be like",
                    name.as_deref().unwrap_or(&id)
                ),
                advice: "fetch it again, or make the sandbox anew with `vestal rebuild`".to_owned(),
            }),
        }
    }

    /// Returns what is known of an image that has the files of such a container.
    pub(in crate::backends::docker) fn facts(&self, id: String) -> ImageFacts {
        ImageFacts { id, is_bare: true, ..self.image.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        let image = serde_json::json!({
            "name": "debian:12", "id": "sha256:1", "user": "app", "entrypoint": ["/init"],
            "cmd": [], "volumes": ["/data"], "env": ["PATH=/bin"], "working_dir": "",
            "layers": 3,
        });
        let user = JobUser { uid: 7, gid: 8, name: Some("app".into()), home: "/home/app".into() };
        Origin {
            image: serde_json::from_value(image).unwrap(),
            user: Some(KnownUser { asked: Some("app".into()), user }),
        }
    }

    #[test]
    fn what_a_container_began_with_is_read_off_it_again() {
        let mut body = ContainerCreateBody::default();
        origin().mark(&mut body);
        for (made_of, is_copy) in [("sha256:1", false), ("1", false), ("sha256:2", true)] {
            let inspected =
                serde_json::json!({ "Image": made_of, "Config": { "Labels": body.labels } });
            let inspected = serde_json::from_value(inspected).unwrap();
            assert_eq!(Origin::on(&inspected), Some(origin()));
            assert_eq!(Origin::is_elsewhere(&inspected), is_copy, "{made_of}");
        }
        let damaged = serde_json::json!({ "Config": { "Labels": { (LABEL): "{" } } });
        assert_eq!(Origin::on(&serde_json::from_value(damaged).unwrap()), None);
    }

    #[test]
    fn a_copy_has_the_files_of_its_own_image_and_the_rest_of_the_first() {
        let facts = origin().facts("sha256:2".into());
        assert!(facts.is_bare);
        assert_eq!((&*facts.id, &*facts.name, facts.layers), ("sha256:2", "debian:12", 3));
        assert_eq!((facts.user, facts.env), (Some("app".into()), vec!["PATH=/bin".into()]));
    }
}
