//! Images that Vestal makes: their names, and the orphans among them.
//!
//! They carry no labels, so that a container made of one has none of Vestal's. Their
//! name identifies the home. It begins with `localhost/`, so that no registry is
//! ever asked for it.
//!
//! An orphan is an image that no snapshot and no instance uses. A process that was
//! killed leaves one, and so does an engine that finishes a request nobody waits for.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bollard::query_parameters::ListImagesOptionsBuilder;
use jiff::Timestamp;

use super::commit;
use super::snapshot::images_of_snapshots;
use crate::HomeId;
use crate::backend::{BackendError, DoctorNote, FoundInstance, InstanceState};
use crate::backends::docker::api::{EngineClient, EngineFault, classify};
use crate::backends::docker::backend::Docker;
use crate::backends::docker::identity::{DockerLocator, GuestTransport};
use crate::settings::SandboxSettings as _;

/// Prefix of every name.
const PREFIX: &str = "localhost/vestal/";

/// Prefix of the tag of an image that an instance's container is made of.
const INSTANCE: &str = "i-";

/// Prefix of the tag of a snapshot's image.
const SAVED: &str = "s-";

/// Suffix of the tag of an image that is not finished.
const DRAFT: &str = ".draft";

/// Longest tag.
const MAX_TAG: usize = 128;

/// The name of an image that Vestal makes.
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

    /// Returns the name of a snapshot's image; `random` makes it unique.
    pub(in crate::backends::docker) fn saved(home: &HomeId, random: &str) -> Self {
        Self::new(home, format!("{SAVED}{random}"))
    }

    fn new(home: &HomeId, tag: String) -> Self {
        Self { repository: repository(home), tag }
    }

    /// Parses a name; `None` for one that is not this home's.
    pub(in crate::backends::docker) fn parse(home: &HomeId, name: &str) -> Option<Self> {
        let tag = name.strip_prefix(&repository(home))?.strip_prefix(':')?;
        let plain = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        let ours = tag.starts_with(INSTANCE) || tag.starts_with(SAVED);
        (plain && ours && tag.len() <= MAX_TAG).then(|| Self::new(home, tag.to_owned()))
    }

    /// Returns the name of the image until it is finished.
    pub(in crate::backends::docker) fn draft(&self) -> Self {
        Self { repository: self.repository.clone(), tag: format!("{}{DRAFT}", self.tag) }
    }

    /// Returns the final name of an image.
    pub(in crate::backends::docker) fn finished(&self) -> Self {
        let tag = self.tag.strip_suffix(DRAFT).unwrap_or(&self.tag);
        Self { repository: self.repository.clone(), tag: tag.to_owned() }
    }

    /// Returns the instance whose container is made of the image, if any.
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
    // An image name allows no other characters; a home's id has no others.
    let id: String = home.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{PREFIX}{}", id.to_ascii_lowercase())
}

impl std::fmt::Display for OwnImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.repository, self.tag)
    }
}

/// How often a list of images is repeated that fails because images change.
const LIST_TRIES: usize = 50;

/// Time between two such attempts.
const LIST_PAUSE: Duration = Duration::from_millis(20);

/// An image of this home.
#[derive(Debug)]
struct ListedImage {
    name: OwnImage,
    id: String,
    created_at: Option<Timestamp>,
}

impl Docker {
    /// Returns the images of this home that no snapshot names, as instances that may
    /// be removed once they are old. An image of an instance's container has the
    /// instance's id and shares its fate.
    pub(in crate::backends::docker) async fn orphan_images(
        &self,
        client: &EngineClient,
    ) -> Result<Vec<FoundInstance>, BackendError> {
        let named = self.snapshot_images()?;
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
                    transport: GuestTransport::Exec,
                    unenforced: Vec::new(),
                    weakened: Vec::new(),
                    is_copy: false,
                }
                .to_locator(),
            })
            .collect())
    }

    /// Removes an orphan image, unless a container or a snapshot uses it by now.
    pub(in crate::backends::docker) async fn remove_orphan_image(
        &self,
        client: &EngineClient,
        image: &str,
    ) -> Result<bool, BackendError> {
        let Some(name) = OwnImage::parse(&self.home, image) else {
            return Ok(false);
        };
        if self.snapshot_images()?.contains(&name.finished()) {
            return Ok(false);
        }
        match commit::remove(client, &name).await {
            Err(BackendError::Advised { .. }) => Ok(false),
            other => other,
        }
    }

    /// Removes the image made for an instance's container, if there is one.
    pub(in crate::backends::docker) async fn remove_own_image(
        &self,
        client: &EngineClient,
        instance: &str,
    ) -> Result<(), BackendError> {
        let name = OwnImage::of_instance(&self.home, instance);
        for name in [name.draft(), name] {
            match commit::remove(client, &name).await {
                // Another container uses the image. The sandbox is removed all the
                // same.
                Err(error @ BackendError::Advised { .. }) => {
                    tracing::warn!(%error, "an image is left to the reaper");
                }
                other => other.map(drop)?,
            }
        }
        Ok(())
    }

    /// Returns the notes of `doctor` on this home's images, given the known
    /// instances.
    pub(in crate::backends::docker) async fn image_notes(
        &self,
        client: &EngineClient,
        known: &BTreeSet<String>,
    ) -> Vec<DoctorNote> {
        let counted = async {
            let named = self.snapshot_images()?;
            let listed = self.own_images(client).await?;
            let is_orphan = |image: &&ListedImage| match image.name.instance() {
                Some(instance) => !known.contains(instance),
                None => !named.contains(&image.name.finished()),
            };
            Ok::<_, BackendError>((listed.len(), listed.iter().filter(is_orphan).count()))
        };
        let (all, orphans) = match counted.await {
            Ok(counts) => counts,
            Err(error) => {
                return vec![DoctorNote {
                    topic: "images".to_owned(),
                    text: error.to_string(),
                    advice: error.advice().map(str::to_owned),
                }];
            }
        };
        let mut notes = Vec::new();
        if all > orphans {
            notes.push(DoctorNote {
                topic: "images".to_owned(),
                text: format!("{} of snapshots and sandboxes of this home", all - orphans),
                advice: None,
            });
        }
        if orphans > 0 {
            notes.push(DoctorNote {
                topic: "images".to_owned(),
                text: format!("{orphans} of this home that nothing uses"),
                advice: Some("`vestal prune` removes them once they are old".to_owned()),
            });
        }
        notes
    }

    fn snapshot_images(&self) -> Result<Vec<OwnImage>, BackendError> {
        let sandboxes = self.settings.sandboxes_dir()?.value;
        images_of_snapshots(&self.home, &sandboxes)
            .map_err(BackendError::io(format!("list the snapshots in {}", sandboxes.display())))
    }

    async fn own_images(&self, client: &EngineClient) -> Result<Vec<ListedImage>, BackendError> {
        let filters = HashMap::from([("reference", vec![OwnImage::repository_of(&self.home)])]);
        let options = ListImagesOptionsBuilder::new().filters(&filters).build();
        let mut tries = 0;
        let listed = loop {
            match client.api().list_images(Some(options.clone())).await {
                // Podman fails if an image is removed while it lists them.
                Err(error) if classify(&error) == EngineFault::Absent && tries < LIST_TRIES => {
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
                Some(ListedImage { name: OwnImage::parse(&self.home, &tag)?, id, created_at })
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
