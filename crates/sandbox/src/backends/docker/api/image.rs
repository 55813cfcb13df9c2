//! Names of images, and what an engine knows about one.

use std::borrow::Cow;

use bollard::models::ImageInspect;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::error::{Fault, fault};
use super::registry::{no_image, pull};
use crate::ProgressSink;
use crate::backend::BackendError;

/// Longest name of an image.
const MAX_NAME: usize = 1024;

/// Registry of names that begin with none.
const HUB: &str = "docker.io";

/// A name of an image, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::backends::docker) enum Reference<'a> {
    /// The id of an image: it is there or it is not.
    Id,
    /// A name that a registry may know.
    Named {
        /// The registry's host.
        registry: &'a str,
        /// Whether the name says so itself.
        is_qualified: bool,
        /// The name without tag, with a digest if it has one.
        repository: Cow<'a, str>,
        /// The tag to ask for; none with a digest.
        tag: Option<&'a str>,
    },
}

impl<'a> Reference<'a> {
    /// Takes a name apart. Nothing but a well-formed one may become part of
    /// the path of a request.
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
            return Err("what follows @ is no digest such as sha256:0123…");
        }
        // A colon before the last slash is a registry's port.
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let colon = tagged[last..].find(':').map(|colon| last + colon);
        let (path, tag) = match colon {
            Some(colon) => (&tagged[..colon], Some(&tagged[colon + 1..])),
            None => (tagged, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("a tag consists of letters, digits, dots, dashes and underscores");
        }
        let (registry, is_qualified, rest) = match path.split_once('/') {
            Some((host, rest)) if is_registry(host) => (host, true, rest),
            _ => (HUB, false, path),
        };
        if is_qualified && !is_host(registry) {
            return Err("its registry is no host");
        }
        if !rest.split('/').all(is_component) {
            return Err(
                "it consists of lower-case letters and digits, with dots, dashes and underscores \
                 only between them, and slashes between the parts",
            );
        }
        Ok(Self::Named {
            registry,
            is_qualified,
            repository: match digest {
                Some(digest) => Cow::Owned(format!("{path}@{digest}")),
                None => Cow::Borrowed(path),
            },
            // Beside a digest, a tag says nothing.
            tag: if digest.is_some() { None } else { Some(tag.unwrap_or("latest")) },
        })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether a name is an image's id, whole or as engines shorten it.
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
        image: super::error::one_line(name),
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
pub(in crate::backends::docker) fn full_id(id: String) -> String {
    if id.contains(':') { id } else { format!("sha256:{id}") }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
