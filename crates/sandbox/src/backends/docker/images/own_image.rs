//! Images that this program makes: their names, and those that nothing names any
//! more.
//!
//! They carry no label: whoever makes a container of one gets nothing of ours.
//! What says whose they are is the name, in which the home is. It begins with
//! `localhost/`, so that no registry is ever asked for it.
//!
//! Nothing names what a process that died, or an engine that went on without one,
//! has left.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bollard::query_parameters::ListImagesOptionsBuilder;
use jiff::Timestamp;

use super::commit;
use super::snapshot::named_below;
use crate::HomeId;
use crate::backend::{BackendError, DoctorNote, FoundInstance, InstanceState};
use crate::backends::docker::api::{Client, Fault, fault};
use crate::backends::docker::backend::Docker;
use crate::backends::docker::identity::{DockerLocator, Transport};

/// What every name begins with.
const PREFIX: &str = "localhost/vestal/";

/// What the tag of an image that a container is made of begins with.
const INSTANCE: &str = "i-";

/// What the tag of an image that is kept begins with.
const SAVED: &str = "s-";

/// What the tag of one that is not finished ends with.
const DRAFT: &str = ".draft";

/// Longest tag.
const MAX_TAG: usize = 128;

/// The name of an image that this program makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) struct OwnImage {
    repository: String,
    tag: String,
}

impl OwnImage {
    /// Returns the name of the image that an instance's container is made of.
    pub(in crate::backends::docker) fn of_instance(home: &HomeId, instance: &str) -> Self {
        Self::new(home, format!("{INSTANCE}{instance}"))
    }

    /// Returns the name of an image that is kept; `random` tells it from others.
    pub(in crate::backends::docker) fn saved(home: &HomeId, random: &str) -> Self {
        Self::new(home, format!("{SAVED}{random}"))
    }

    fn new(home: &HomeId, tag: String) -> Self {
        Self { repository: repository(home), tag }
    }

    /// Reads a name; nothing for one that is not this home's.
    pub(in crate::backends::docker) fn parse(home: &HomeId, name: &str) -> Option<Self> {
        let tag = name.strip_prefix(&repository(home))?.strip_prefix(':')?;
        let plain = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let ours = tag.starts_with(INSTANCE) || tag.starts_with(SAVED);
        (plain && ours && tag.len() <= MAX_TAG).then(|| Self::new(home, tag.to_owned()))
    }

    /// Returns the name that it has until it is finished.
    pub(in crate::backends::docker) fn draft(&self) -> Self {
        Self { repository: self.repository.clone(), tag: format!("{}{DRAFT}", self.tag) }
    }

    /// Returns the name that it will have, of one that is not finished.
    pub(in crate::backends::docker) fn finished(&self) -> Self {
        let tag = self.tag.strip_suffix(DRAFT).unwrap_or(&self.tag);
        Self { repository: self.repository.clone(), tag: tag.to_owned() }
    }

    /// Returns the instance whose container is made of it, if it is for one.
    pub(in crate::backends::docker) fn instance(&self) -> Option<&str> {
        self.tag.strip_suffix(DRAFT).unwrap_or(&self.tag).strip_prefix(INSTANCE)
    }

    /// Returns the repository of a home's images.
    pub(in crate::backends::docker) fn repository_of(home: &HomeId) -> String {
        repository(home)
    }

    pub(super) fn repository(&self) -> &str {
        &self.repository
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }
}

fn repository(home: &HomeId) -> String {
    // Nothing else may stand in the name of an image, and a home's id is made of
    // such characters.
    let id: String = home.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{PREFIX}{}", id.to_ascii_lowercase())
}

impl std::fmt::Display for OwnImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

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
    pub(in crate::backends::docker) async fn stray_images(
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
    pub(in crate::backends::docker) async fn collect_image(
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
        match commit::remove(client, &name).await {
            Err(BackendError::Advised { .. }) => Ok(false),
            other => other,
        }
    }

    /// Removes the image that an instance's container was made of, if it had one
    /// of its own.
    pub(in crate::backends::docker) async fn remove_own_image(
        &self,
        client: &Client,
        instance: &str,
    ) -> Result<(), BackendError> {
        let name = OwnImage::of_instance(&self.home, instance);
        for name in [name.draft(), name] {
            match commit::remove(client, &name).await {
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
    pub(in crate::backends::docker) async fn image_remarks(
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::docker::api::Reference;

    fn home() -> HomeId {
        HomeId("feedface".into())
    }

    #[test]
    fn a_name_says_whose_it_is_and_that_no_registry_has_it() {
        let own = OwnImage::of_instance(&home(), "0123456789abcdef");
        let name = own.to_string();
        assert_eq!(name, "localhost/vestal/feedface:i-0123456789abcdef");
        assert!(matches!(
            Reference::parse(&name),
            Ok(Reference::Named { registry: "localhost", .. })
        ));
        assert_eq!(OwnImage::parse(&home(), &name), Some(own.clone()));
        assert_eq!(OwnImage::parse(&home(), &own.draft().to_string()), Some(own.draft()));
        assert_eq!(own.draft().finished(), own);
        assert_eq!(own.draft().instance(), Some("0123456789abcdef"));
        assert_eq!(OwnImage::saved(&home(), "ab").instance(), None);
    }

    #[test]
    fn what_others_have_named_is_not_ours() {
        for name in [
            "debian:12",
            "localhost/vestal/feedface",
            "localhost/vestal/feedface:latest",
            "localhost/vestal/feedface2:s-1",
            "localhost/vestal/other:s-1",
            "vestal/feedface:s-1",
            "localhost/vestal/feedface:s-1/../x",
            "localhost/vestal/feedface:s-1?force=true",
        ] {
            assert_eq!(OwnImage::parse(&home(), name), None, "{name}");
        }
    }
}
