//! Names of images, and the description of an image.

use std::borrow::Cow;

use bollard::models::ImageInspect;
use serde::{Deserialize, Serialize};

use super::client::EngineClient;
use super::error::{EngineFault, classify};
use super::registry::{no_image, pull};
use crate::ProgressSink;
use crate::backend::BackendError;

/// Longest name of an image.
const MAX_NAME: usize = 1024;

/// Registry of names without one.
const HUB: &str = "docker.io";

/// A parsed name of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum Reference<'a> {
    /// The id of an image, which no registry knows.
    Id,
    /// A name in a registry.
    Named {
        /// The registry's host.
        registry: &'a str,
        /// Whether the name includes the registry.
        is_qualified: bool,
        /// The name without the tag, with the digest if there is one.
        repository: Cow<'a, str>,
        /// The tag to pull; `None` with a digest.
        tag: Option<&'a str>,
    },
}

impl<'a> Reference<'a> {
    /// Parses a name. Only a well-formed name may become part of a request's path.
    pub(in crate::backends::docker) fn parse(name: &'a str) -> Result<Self, &'static str> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err("a name has 1 to 1024 characters");
        }
        if is_id(name) {
            return Ok(Self::Id);
        }
        let (tagged, digest) = match name.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (name, None),
        };
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err("@ must be followed by a digest such as sha256:0123…");
        }
        // A colon before the last slash is a registry's port.
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let colon = tagged[last..].find(':').map(|colon| last + colon);
        let (path, tag) = match colon {
            Some(colon) => (&tagged[..colon], Some(&tagged[colon + 1..])),
            None => (tagged, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("a tag may have letters, digits, dots, dashes and underscores");
        }
        let (registry, is_qualified, rest) = match path.split_once('/') {
            Some((host, rest)) if is_registry(host) => (host, true, rest),
            _ => (HUB, false, path),
        };
        if is_qualified && !is_host(registry) {
            return Err("its registry is not a host");
        }
        if !rest.split('/').all(is_component) {
            return Err("its parts must be lower-case letters and digits, with dots, dashes and \
                 underscores only between them");
        }
        Ok(Self::Named {
            registry,
            is_qualified,
            repository: match digest {
                Some(digest) => Cow::Owned(format!("{path}@{digest}")),
                None => Cow::Borrowed(path),
            },
            // With a digest the tag has no meaning.
            tag: if digest.is_some() { None } else { Some(tag.unwrap_or("latest")) },
        })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a name is an image's id, full or short.
fn is_id(name: &str) -> bool {
    match name.strip_prefix("sha256:") {
        Some(digits) => (1..=64).contains(&digits.len()) && is_hex(digits),
        None => matches!(name.len(), 12 | 64) && is_hex(name),
    }
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, digits)) = text.split_once(':') else { return false };
    algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
        && algorithm.bytes().all(|b| b.is_ascii_alphanumeric() || b"+._-".contains(&b))
        && digits.len() >= 32
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_tag(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with(['.', '-'])
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_registry(host: &str) -> bool {
    host == "localhost" || host.contains(['.', ':']) || host.contains(char::is_uppercase)
}

fn is_host(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}

fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_word(*byte))
        && bytes.last().is_some_and(|byte| is_word(*byte))
        && bytes.iter().all(|byte| is_word(*byte) || b"._-".contains(byte))
        && !text.contains("..")
}

/// The description of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::backends::docker) struct ImageInfo {
    /// The name it was requested by.
    pub(in crate::backends::docker) name: String,
    pub(in crate::backends::docker) id: String,
    /// The user of its commands; `None` for root.
    pub(in crate::backends::docker) user: Option<String>,
    pub(in crate::backends::docker) entrypoint: Vec<String>,
    pub(in crate::backends::docker) cmd: Vec<String>,
    /// Mount points of its volumes.
    pub(in crate::backends::docker) volumes: Vec<String>,
    /// Variables, as `NAME=value`.
    pub(in crate::backends::docker) env: Vec<String>,
    /// The directory of its commands; empty for the root directory.
    pub(in crate::backends::docker) working_dir: String,
    /// The signal that stops its program.
    #[serde(default)]
    pub(in crate::backends::docker) stop_signal: Option<String>,
    /// Number of its layers.
    #[serde(default)]
    pub(in crate::backends::docker) layers: usize,
    /// Whether the engine's image has no configuration, so that this one is passed to
    /// containers: the image of a copied system.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::backends::docker) is_bare: bool,
}

/// Returns the description of an image, which is pulled if the engine does not have
/// it.
pub(in crate::backends::docker) async fn find_or_pull(
    client: &EngineClient,
    name: &str,
    progress: &ProgressSink,
) -> Result<ImageInfo, BackendError> {
    let reference = parse(name)?;
    if let Some(facts) = inspect(client, name).await? {
        return Ok(facts);
    }
    pull(client, name, &reference, progress).await?;
    inspect(client, name).await?.ok_or_else(|| {
        let reason = "the engine pulled it and does not have it".to_owned();
        no_image(client, name, &reference, reason)
    })
}

/// Returns whether the engine has an image. Pulls nothing.
pub(in crate::backends::docker) async fn exists(
    client: &EngineClient,
    name: &str,
) -> Result<bool, BackendError> {
    parse(name)?;
    inspect(client, name).await.map(|facts| facts.is_some())
}

/// Returns the description of the image with this id. Pulls nothing.
pub(in crate::backends::docker) async fn find_by_id(
    client: &EngineClient,
    id: &str,
) -> Result<Option<ImageInfo>, BackendError> {
    parse(id)?;
    inspect(client, id).await
}

fn parse(name: &str) -> Result<Reference<'_>, BackendError> {
    Reference::parse(name).map_err(|reason| BackendError::NoImage {
        image: super::error::one_line(name),
        reason: format!("not a valid image name: {reason}"),
        advice: "write it as in `docker pull`, such as debian:12 or registry.example/team/tool:1"
            .to_owned(),
    })
}

async fn inspect(client: &EngineClient, name: &str) -> Result<Option<ImageInfo>, BackendError> {
    match client.api().inspect_image(name).await {
        Ok(found) => ImageInfo::new(name, found).map(Some).ok_or_else(|| BackendError::Engine {
            action: format!("describe image {name}"),
            message: "the answer has no id".to_owned(),
        }),
        Err(error) if classify(&error) == EngineFault::Absent => Ok(None),
        Err(error) => Err(client.error(format!("look for image {name}"))(error)),
    }
}

impl ImageInfo {
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

/// Returns an id in Docker's form; Podman may leave the algorithm out.
pub(in crate::backends::docker) fn full_id(id: String) -> String {
    if id.contains(':') { id } else { format!("sha256:{id}") }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
