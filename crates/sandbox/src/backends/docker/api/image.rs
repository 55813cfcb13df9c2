//! What an engine knows about an image.

use bollard::models::ImageInspect;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::fault::{Fault, fault};
use super::pull::{no_image, pull};
use super::reference::Reference;
use crate::ProgressSink;
use crate::backend::BackendError;

/// What matters about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct ImageFacts {
    /// The name it was asked for by.
    pub(in crate::backends::docker) name: String,
    /// Its id.
    pub(in crate::backends::docker) id: String,
    /// Whom its commands run as; absent: root.
    pub(in crate::backends::docker) user: Option<String>,
    /// What it starts with.
    pub(in crate::backends::docker) entrypoint: Vec<String>,
    /// What it passes to that, or starts without it.
    pub(in crate::backends::docker) cmd: Vec<String>,
    /// Where it wants volumes.
    pub(in crate::backends::docker) volumes: Vec<String>,
    /// Its variables, as `NAME=value`.
    pub(in crate::backends::docker) env: Vec<String>,
    /// Where its commands start; empty: the root.
    pub(in crate::backends::docker) working_dir: String,
    /// The signal that ends what it starts.
    #[serde(default)]
    pub(in crate::backends::docker) stop_signal: Option<String>,
    /// Number of its layers.
    #[serde(default)]
    pub(in crate::backends::docker) layers: usize,
    /// Whether the engine's image has its files and says none of this, so that
    /// containers have to be told: a copy of a sandbox's system is such.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::backends::docker) is_bare: bool,
}

/// Returns what the engine knows about an image, which is fetched if it is not
/// there.
pub(in crate::backends::docker) async fn resolve(
    client: &Client,
    name: &str,
    progress: &ProgressSink,
) -> Result<ImageFacts, BackendError> {
    let reference = parse(name)?;
    if let Some(facts) = inspect(client, name).await? {
        return Ok(facts);
    }
    pull(client, name, &reference, progress).await?;
    inspect(client, name).await?.ok_or_else(|| {
        let reason = "the engine has fetched it and does not have it".to_owned();
        no_image(client, name, &reference, reason)
    })
}

/// Returns whether the engine has an image; nothing is fetched.
pub(in crate::backends::docker) async fn exists(
    client: &Client,
    name: &str,
) -> Result<bool, BackendError> {
    parse(name)?;
    inspect(client, name).await.map(|facts| facts.is_some())
}

/// Returns what the engine knows about an image of this id; nothing is fetched.
pub(in crate::backends::docker) async fn known(
    client: &Client,
    id: &str,
) -> Result<Option<ImageFacts>, BackendError> {
    parse(id)?;
    inspect(client, id).await
}

fn parse(name: &str) -> Result<Reference<'_>, BackendError> {
    Reference::parse(name).map_err(|reason| BackendError::NoImage {
        image: super::fault::one_line(name),
        reason: format!("that is no name of an image: {reason}"),
        advice: "write it as in `docker pull`, such as debian:12 or registry.example/team/tool:1"
            .to_owned(),
    })
}

async fn inspect(client: &Client, name: &str) -> Result<Option<ImageFacts>, BackendError> {
    match client.api().inspect_image(name).await {
        Ok(found) => ImageFacts::new(name, found).map(Some).ok_or_else(|| BackendError::Engine {
            action: format!("describe image {name}"),
            message: "its answer names no id".to_owned(),
        }),
        Err(error) if fault(&error) == Fault::Absent => Ok(None),
        Err(error) => Err(client.error(format!("look for image {name}"))(error)),
    }
}

impl ImageFacts {
    fn new(name: &str, image: ImageInspect) -> Option<Self> {
        let config = image.config.unwrap_or_default();
        Some(Self {
            name: name.to_owned(),
            id: image.id.filter(|id| !id.is_empty()).map(full_id)?,
            user: config.user.filter(|user| !user.trim().is_empty()),
            entrypoint: config.entrypoint.unwrap_or_default(),
            cmd: config.cmd.unwrap_or_default(),
            volumes: config.volumes.unwrap_or_default(),
            env: config.env.unwrap_or_default(),
            working_dir: config.working_dir.unwrap_or_default(),
            stop_signal: config.stop_signal.filter(|signal| !signal.is_empty()),
            layers: image.root_fs.and_then(|root| root.layers).map_or(0, |layers| layers.len()),
            is_bare: false,
        })
    }
}

/// Returns an id as Docker writes it; Podman may leave the algorithm out.
pub(super) fn full_id(id: String) -> String {
    if id.contains(':') { id } else { format!("sha256:{id}") }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
