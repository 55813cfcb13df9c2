//! What a container's system began with.
//!
//! An image that was made of a container says nothing, so that nothing of ours
//! is in it. Whom jobs run as, where their home is, what starts first and where
//! volumes belong is told by the image that all began with. It may be gone by
//! the time it is needed, so every container carries that along.

use bollard::models::{ContainerCreateBody, ContainerInspectResponse};
use serde::{Deserialize, Serialize};

use super::api::{self, Client, ImageFacts};
use super::inspect::Seen;
use super::plan::{JobUser, Marks};
use crate::backend::BackendError;

/// The label that says it.
const LABEL: &str = "vestal-origin";

/// What a container's system began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// The image.
    pub(super) image: ImageFacts,
    /// Whom jobs run as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<KnownUser>,
}

/// A user who was looked up in an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownUser {
    /// Who was asked for; absent: root.
    pub(super) asked: Option<String>,
    /// Who that is.
    pub(super) user: JobUser,
}

impl Origin {
    /// Puts it on a container to be made.
    pub(super) fn mark(&self, body: &mut ContainerCreateBody) {
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
    pub(super) fn is_elsewhere(inspected: &ContainerInspectResponse) -> bool {
        let bare = |id: &str| id.strip_prefix("sha256:").unwrap_or(id).to_owned();
        let made_of = inspected.image.as_deref().map(bare);
        Self::on(inspected).is_some_and(|origin| Some(bare(&origin.image.id)) != made_of)
    }

    /// Returns what the system of a container began with.
    pub(super) async fn of(client: &Client, seen: &Seen) -> Result<Self, BackendError> {
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
    pub(super) fn facts(&self, id: String) -> ImageFacts {
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
