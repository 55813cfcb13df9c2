//! Images of this home that nothing names any more: what a process that died,
//! or an engine that went on without one, has left.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bollard::query_parameters::ListImagesOptionsBuilder;
use jiff::Timestamp;

use super::api::{Client, Fault, OwnImage, fault, layers};
use super::backend::Docker;
use super::locator::{DockerLocator, Transport};
use super::save::named_below;
use crate::backend::{BackendError, DoctorNote, FoundInstance, InstanceState};
use crate::settings::SandboxSettings as _;

/// How often images are listed again that change meanwhile.
const LIST_TRIES: usize = 50;

/// Time between two such attempts.
const LIST_PAUSE: Duration = Duration::from_millis(20);

/// An image of this home.
#[derive(Debug)]
struct Listed {
    name: OwnImage,
    id: String,
    created_at: Option<Timestamp>,
}

impl Docker {
    /// Returns the images of this home that no snapshot names, each as something
    /// that may be removed once it is old. One that a container is made of bears
    /// the container's id, and is judged like it.
    pub(super) async fn stray_images(
        &self,
        client: &Client,
    ) -> Result<Vec<FoundInstance>, BackendError> {
        let named = self.named_images()?;
        let engine = client.info().await?.id.clone();
        let listed = self.own_images(client).await?.into_iter();
        Ok(listed
            .filter(|image| !named.contains(&image.name.finished()))
            .map(|image| FoundInstance {
                id: image.name.instance().unwrap_or(&image.id).to_owned(),
                key: String::new(),
                task: image.name.to_string(),
                generation: 0,
                persistent: false,
                owner: None,
                spec: String::new(),
                state: InstanceState::Broken { since: image.created_at },
                created_at: image.created_at,
                locator: DockerLocator {
                    engine: engine.clone(),
                    address: client.address().to_owned(),
                    container: String::new(),
                    name: String::new(),
                    image: image.name.to_string(),
                    image_id: image.id,
                    transport: Transport::Exec,
                    unenforced: Vec::new(),
                    weakened: Vec::new(),
                    is_copy: false,
                }
                .to_locator(),
            })
            .collect())
    }

    /// Removes an image that was found to be a stray, unless a container is made
    /// of it or a snapshot names it by now.
    pub(super) async fn collect_image(
        &self,
        client: &Client,
        image: &str,
    ) -> Result<bool, BackendError> {
        let Some(name) = OwnImage::parse(&self.home, image) else {
            return Ok(false);
        };
        if self.named_images()?.contains(&name.finished()) {
            return Ok(false);
        }
        match layers::remove(client, &name).await {
            Err(BackendError::Advised { .. }) => Ok(false),
            other => other,
        }
    }

    /// Removes the image that an instance's container was made of, if it had one
    /// of its own.
    pub(super) async fn remove_own_image(
        &self,
        client: &Client,
        instance: &str,
    ) -> Result<(), BackendError> {
        let name = OwnImage::of_instance(&self.home, instance);
        for name in [name.draft(), name] {
            match layers::remove(client, &name).await {
                // Somebody has made a container of it, which is no reason for the
                // sandbox to stay.
                Err(error @ BackendError::Advised { .. }) => {
                    tracing::warn!(%error, "an image is left for later");
                }
                other => other.map(drop)?,
            }
        }
        Ok(())
    }

    /// Returns what `doctor` says of this home's images, given the instances
    /// that it knows of.
    pub(super) async fn image_remarks(
        &self,
        client: &Client,
        known: &BTreeSet<String>,
    ) -> Vec<DoctorNote> {
        let counted = async {
            let named = self.named_images()?;
            let listed = self.own_images(client).await?;
            let stray = |image: &&Listed| match image.name.instance() {
                Some(instance) => !known.contains(instance),
                None => !named.contains(&image.name.finished()),
            };
            Ok::<_, BackendError>((listed.len(), listed.iter().filter(stray).count()))
        };
        let (all, strays) = match counted.await {
            Ok(counts) => counts,
            Err(error) => {
                return vec![DoctorNote {
                    topic: "images".to_owned(),
                    text: error.to_string(),
                    advice: error.advice().map(str::to_owned),
                }];
            }
        };
        let mut remarks = Vec::new();
        if all > strays {
            remarks.push(DoctorNote {
                topic: "images".to_owned(),
                text: format!("{} of snapshots and sandboxes of this home", all - strays),
                advice: None,
            });
        }
        if strays > 0 {
            remarks.push(DoctorNote {
                topic: "images".to_owned(),
                text: format!("{strays} of this home that nothing is made of"),
                advice: Some("`vestal prune` removes them once they are old".to_owned()),
            });
        }
        remarks
    }

    fn named_images(&self) -> Result<Vec<OwnImage>, BackendError> {
        let sandboxes = self.settings.sandboxes_dir()?.value;
        named_below(&self.home, &sandboxes)
            .map_err(BackendError::io(format!("list the snapshots in {}", sandboxes.display())))
    }

    async fn own_images(&self, client: &Client) -> Result<Vec<Listed>, BackendError> {
        let filters = HashMap::from([("reference", vec![OwnImage::repository_of(&self.home)])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let mut tries = 0;
        let listed = loop {
            match client.api().list_images(Some(options.clone())).await {
                // Podman fails over an image that goes while it is listed.
                Err(error) if fault(&error) == Fault::Absent && tries < LIST_TRIES => {
                    tries += 1;
                    tokio::time::sleep(LIST_PAUSE).await;
                }
                other => break other.map_err(client.error("list its images"))?,
            }
        };
        Ok(listed
            .into_iter()
            .flat_map(|image| {
                let created_at = Timestamp::from_second(image.created).ok();
                let id = image.id;
                image.repo_tags.into_iter().map(move |tag| (tag, id.clone(), created_at))
            })
            .filter_map(|(tag, id, created_at)| {
                let created_at = created_at.filter(|time| *time > Timestamp::UNIX_EPOCH);
                Some(Listed { name: OwnImage::parse(&self.home, &tag)?, id, created_at })
            })
            .collect())
    }
}
