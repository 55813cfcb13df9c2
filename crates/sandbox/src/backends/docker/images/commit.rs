//! Making an image of a container's filesystem.
//!
//! A commit alone is not enough: it writes labels, environment, user, command and
//! working directory of the container into the image, and labels can be overwritten
//! but never removed. So the committed image is only a draft. Loading an archive
//! with an empty configuration and no layers makes the final image: engines take
//! the layers that they already have. Only the container's changes are copied. If
//! the engine does not support that, or there are too many layers, the whole
//! filesystem is exported and imported as one layer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bollard::models::{ContainerConfig, ImageInspect};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateImageOptionsBuilder, ImportImageOptionsBuilder,
    RemoveImageOptionsBuilder, TagImageOptionsBuilder,
};
use futures_util::StreamExt as _;
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::own_image::OwnImage;
use crate::backend::BackendError;
use crate::backends::docker::api::{
    EngineClient, EngineFault, Flavour, classify, error_text, full_id, one_line,
};
use crate::key::hex;
use crate::notice::Progress;
use crate::{ProgressSink, failpoint};

/// Most layers on top of those of the base image. Each one slows file access down,
/// and engines allow 127.
const MAX_ADDED_LAYERS: usize = 8;

/// Time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What is copied, for messages.
const WHAT: &str = "the sandbox's system";

/// The layers of an image and their platform.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ImageLayers {
    id: String,
    diffs: Vec<String>,
    architecture: String,
    os: String,
    variant: Option<String>,
    /// Whether the image has no configuration.
    is_bare: bool,
}

/// Makes an image without configuration of a stopped container and returns its id.
/// `original` is the number of layers of the base image.
///
/// A failure leaves no image, unless the engine is unreachable.
pub(in crate::backends::docker) async fn create_image(
    client: &EngineClient,
    container: &str,
    name: &OwnImage,
    original: usize,
    progress: &ProgressSink,
) -> Result<String, BackendError> {
    let draft = name.draft();
    let taken = async {
        progress.report(copying(0));
        commit(client, container, &draft).await?;
        failpoint::reach("docker.snapshot.committed");
        let committed =
            describe(client, &draft.to_string()).await?.ok_or_else(|| missing_image(&draft))?;
        finish(client, container, name, &committed, original, progress).await
    };
    let taken = taken.await;
    let tidied = remove(client, &draft).await;
    match (taken, tidied) {
        (Ok(id), Ok(_)) => Ok(id),
        (Ok(_), Err(error)) | (Err(error), _) => {
            if let Err(left) = remove(client, name).await {
                tracing::warn!(%left, image = %name, "an image is left to the reaper");
            }
            Err(error)
        }
    }
}

/// Makes the final image of a committed one.
async fn finish(
    client: &EngineClient,
    container: &str,
    name: &OwnImage,
    committed: &ImageLayers,
    original: usize,
    progress: &ProgressSink,
) -> Result<String, BackendError> {
    let layers = committed.diffs.len();
    if layers <= original.saturating_add(MAX_ADDED_LAYERS) {
        match strip_config(client, committed, name).await {
            Ok(id) => return Ok(id),
            Err(StripError::Unreachable(error)) => return Err(error),
            Err(StripError::Unsupported(reason)) => {
                tracing::debug!(reason, "copying the whole filesystem instead");
            }
        }
    }
    flatten(client, container, name, progress).await?;
    let flat = describe(client, &name.to_string()).await?.ok_or_else(|| missing_image(name))?;
    if !flat.is_bare {
        return Err(BackendError::Engine {
            action: "copy the system of a sandbox".to_owned(),
            message: "the imported image has a configuration".to_owned(),
        });
    }
    Ok(flat.id)
}

fn missing_image(name: &OwnImage) -> BackendError {
    BackendError::Engine {
        action: "copy the system of a sandbox".to_owned(),
        message: format!("it made image {name} and does not have it"),
    }
}

fn copying(bytes: u64) -> Progress {
    Progress::Copying { what: WHAT.to_owned(), files: 0, bytes, total: None }
}

async fn commit(
    client: &EngineClient,
    container: &str,
    name: &OwnImage,
) -> Result<(), BackendError> {
    let options = CommitContainerOptionsBuilder::new()
        .container(container)
        .repo(name.repository())
        .tag(name.tag())
        // The container is stopped, and a rootless engine may not pause it.
        .pause(false)
        .build();
    let api = client.api_without_timeout(|_| {});
    let made = api.commit_container(options, ContainerConfig::default()).await;
    made.map(drop).map_err(client.error("copy the system of a sandbox"))
}

async fn describe(client: &EngineClient, name: &str) -> Result<Option<ImageLayers>, BackendError> {
    match client.api().inspect_image(name).await {
        Ok(found) => Ok(ImageLayers::of(found)),
        Err(error) if classify(&error) == EngineFault::Absent => Ok(None),
        Err(error) => Err(client.error(format!("look for image {name}"))(error)),
    }
}

impl ImageLayers {
    fn of(image: ImageInspect) -> Option<Self> {
        let is_bare = is_bare(&image);
        Some(Self {
            id: image.id.map(full_id)?,
            diffs: image.root_fs?.layers.filter(|layers| !layers.is_empty())?,
            architecture: image.architecture?,
            os: image.os.filter(|os| !os.is_empty()).unwrap_or_else(|| "linux".to_owned()),
            variant: image.variant.filter(|variant| !variant.is_empty()),
            is_bare,
        })
    }
}

/// Returns whether an image has no configuration.
fn is_bare(image: &ImageInspect) -> bool {
    let Some(config) = &image.config else { return true };
    let no_text = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let no_list = |list: &Option<Vec<String>>| list.as_deref().is_none_or(<[String]>::is_empty);
    no_text(&config.user)
        && no_text(&config.working_dir)
        && no_text(&config.stop_signal)
        && no_list(&config.env)
        && no_list(&config.cmd)
        && no_list(&config.entrypoint)
        && no_list(&config.volumes)
        && no_list(&config.exposed_ports)
        && no_list(&config.on_build)
        && no_list(&config.shell)
        && config.labels.as_ref().is_none_or(std::collections::HashMap::is_empty)
        && config
            .healthcheck
            .as_ref()
            .is_none_or(|check| check.test.as_deref().is_none_or(<[String]>::is_empty))
}

/// Why the configuration of an image could not be removed.
enum StripError {
    /// The engine does not answer.
    Unreachable(BackendError),
    /// The engine does not support it.
    Unsupported(String),
}

/// Makes an image of the same layers without configuration.
async fn strip_config(
    client: &EngineClient,
    layers: &ImageLayers,
    name: &OwnImage,
) -> Result<String, StripError> {
    let archive = archive(layers, name, Timestamp::now())
        .map_err(|error| StripError::Unsupported(error.to_string()))?;
    let api = client.api_without_timeout(|_| {});
    let options = ImportImageOptionsBuilder::new().quiet(true).build();
    let mut messages = api.import_image(options, bollard::body_full(archive.into()), None);
    while let Some(message) = messages.next().await {
        if let Err(error) = message {
            return Err(match classify(&error) {
                EngineFault::Unreachable => {
                    StripError::Unreachable(client.error("copy the system of a sandbox")(error))
                }
                _ => StripError::Unsupported(error_text(&error)),
            });
        }
    }
    // The result is checked: engines differ in what they load.
    match describe(client, &name.to_string()).await {
        Ok(Some(made)) if made.is_bare && made.diffs == layers.diffs => Ok(made.id),
        Ok(_) => Err(StripError::Unsupported("the engine loaded something else".to_owned())),
        Err(error) => Err(StripError::Unreachable(error)),
    }
}

/// Returns an archive of an image without its layers, in Docker's format and in the
/// OCI format: each engine reads one of them.
fn archive(layers: &ImageLayers, name: &OwnImage, now: Timestamp) -> io::Result<Vec<u8>> {
    let created = now.to_string();
    let mut config = json!({
        "architecture": layers.architecture,
        "os": layers.os,
        "created": created,
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": layers.diffs },
        "history": layers.diffs.iter().map(|_| json!({ "created": created })).collect::<Vec<_>>(),
    });
    if let Some(variant) = &layers.variant {
        config["variant"] = json!(variant);
    }
    let config = config.to_string().into_bytes();
    let config_digest = digest(&config);
    let files: Vec<String> = layers
        .diffs
        .iter()
        .map(|diff| format!("{}/layer.tar", diff.strip_prefix("sha256:").unwrap_or(diff)))
        .collect();
    let docker = json!([{
        "Config": format!("{config_digest}.json"),
        "RepoTags": [name.to_string()],
        "Layers": files,
    }]);
    let blobs: Vec<serde_json::Value> = layers
        .diffs
        .iter()
        .map(|diff| {
            json!({
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": diff,
                // No engine reads the size of a layer that it has.
                "size": 1024,
            })
        })
        .collect();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": format!("sha256:{config_digest}"),
            "size": config.len(),
        },
        "layers": blobs,
    });
    let manifest = manifest.to_string().into_bytes();
    let manifest_digest = digest(&manifest);
    let index = json!({
        "schemaVersion": 2,
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{manifest_digest}"),
            "size": manifest.len(),
            "annotations": { "org.opencontainers.image.ref.name": name.to_string() },
        }],
    });
    let entries = [
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index.to_string().into_bytes()),
        ("manifest.json".to_owned(), docker.to_string().into_bytes()),
        (format!("{config_digest}.json"), config.clone()),
        (format!("blobs/sha256/{config_digest}"), config),
        (format!("blobs/sha256/{manifest_digest}"), manifest),
    ];
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &*content)?;
    }
    builder.into_inner()
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Makes an image of one layer with all files of a container and no configuration.
async fn flatten(
    client: &EngineClient,
    container: &str,
    name: &OwnImage,
    progress: &ProgressSink,
) -> Result<(), BackendError> {
    let action = || "copy the system of a sandbox";
    let api = client.api_without_timeout(|_| {});
    let counted = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&counted);
    let exported = api.export_container(container).map(move |piece| {
        let piece = piece.map_err(|error| io::Error::other(error_text(&error)))?;
        counting.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok(piece)
    });
    let options = CreateImageOptionsBuilder::new().from_src("-");
    let options = match client.flavour() {
        Flavour::Docker => options.repo(name.repository()).tag(name.tag()),
        // Podman ignores the separate tag.
        Flavour::Podman => options.repo(&name.to_string()),
    };
    let body = bollard::body_try_stream(exported);
    let mut messages = api.create_image(Some(options.build()), Some(body), None);
    let mut reported = Instant::now();
    loop {
        match tokio::time::timeout(PROGRESS_INTERVAL, messages.next()).await {
            Ok(Some(Err(error))) => return Err(client.error(action())(error)),
            Ok(None) => break,
            // A message of the engine, or none for a while.
            Ok(Some(Ok(_))) | Err(_) => {}
        }
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            progress.report(copying(counted.load(Ordering::Relaxed)));
        }
    }
    progress.report(copying(counted.load(Ordering::Relaxed)));
    Ok(())
}

/// Returns the id of an image; `None` if there is none.
pub(in crate::backends::docker) async fn id_of(
    client: &EngineClient,
    name: &OwnImage,
) -> Result<Option<String>, BackendError> {
    Ok(describe(client, &name.to_string()).await?.map(|layers| layers.id))
}

/// Adds a name to an image.
pub(in crate::backends::docker) async fn tag(
    client: &EngineClient,
    image: &OwnImage,
    name: &OwnImage,
) -> Result<(), BackendError> {
    let options = TagImageOptionsBuilder::new().repo(name.repository()).tag(name.tag()).build();
    let tagged = client.api().tag_image(&image.to_string(), Some(options)).await;
    tagged.map_err(client.error(format!("name image {image}")))
}

/// Removes a name of an image, and with the last name the image. Returns whether
/// there was one. An image that a container uses is an error.
pub(in crate::backends::docker) async fn remove(
    client: &EngineClient,
    name: &OwnImage,
) -> Result<bool, BackendError> {
    let options = RemoveImageOptionsBuilder::new().force(false).noprune(true).build();
    match client.api().remove_image(&name.to_string(), Some(options), None).await {
        Ok(_) => Ok(true),
        Err(error) => match classify(&error) {
            EngineFault::Absent => Ok(false),
            EngineFault::Conflict => Err(BackendError::Advised {
                problem: format!("image {name} is in use: {}", one_line(&error_text(&error))),
                advice: "remove the container that uses it; `docker ps --all` lists them"
                    .to_owned(),
            }),
            _ => Err(client.error(format!("remove image {name}"))(error)),
        },
    }
}

#[cfg(test)]
#[path = "commit_tests.rs"]
mod tests;
