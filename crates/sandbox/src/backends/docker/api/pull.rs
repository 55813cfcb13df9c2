//! Fetching an image.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::BollardRequest;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;

use super::client::Client;
use super::fault::{Fault, fault, words};
use super::info::Flavour;
use super::reference::Reference;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::progress::Progress;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Most layers that are counted; an image has at most 127.
const MAX_LAYERS: usize = 1024;

/// Fetches an image from its registry, however long that takes.
pub(super) async fn pull(
    client: &Client,
    name: &str,
    reference: &Reference<'_>,
    progress: &ProgressSink,
) -> Result<(), BackendError> {
    let Reference::Named { registry, repository, tag, .. } = reference else {
        let reason = "there is none of that id, and registries know names only";
        return Err(no_image(client, name, reference, reason.to_owned()));
    };
    let (credentials, no_credentials) = match client.keyring().get(registry).await {
        Ok(found) => (found, None),
        Err(reason) => (None, Some(reason)),
    };
    let mut options = CreateImageOptionsBuilder::new().from_image(repository);
    if let Some(tag) = tag {
        options = options.tag(tag);
    }
    let api = client.patient_api(encode_for_urls);
    let mut events = api.create_image(Some(options.build()), None, credentials);
    let mut tally = Tally::new(name, client.flavour());
    let mut told: Option<Instant> = None;
    progress.tell(tally.progress());
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| match fault(&error) {
            Fault::Unreachable => client.error(format!("fetch image {name}"))(error),
            _ => no_image(
                client,
                name,
                reference,
                match &no_credentials {
                    Some(why) => format!("{} (asked without credentials: {why})", words(&error)),
                    None => words(&error),
                },
            ),
        })?;
        tally.count(event);
        if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            told = Some(Instant::now());
            progress.tell(tally.progress());
        }
    }
    progress.tell(tally.progress());
    progress.tell(Progress::Pulled { image: name.to_owned() });
    Ok(())
}

/// Returns the error for an image that cannot be had.
pub(super) fn no_image(
    client: &Client,
    name: &str,
    reference: &Reference<'_>,
    reason: String,
) -> BackendError {
    let advice = advice(client.flavour(), name, reference, &reason);
    BackendError::NoImage { image: name.to_owned(), reason, advice }
}

/// Returns what to do about an image that cannot be had.
fn advice(flavour: Flavour, name: &str, reference: &Reference<'_>, why: &str) -> String {
    let program = match flavour {
        Flavour::Docker => "docker",
        Flavour::Podman => "podman",
    };
    let (registry, is_qualified) = match reference {
        Reference::Named { registry, is_qualified, .. } => (*registry, *is_qualified),
        Reference::Id => return format!("load it with `{program} load`, or name another image"),
    };
    let why = why.to_ascii_lowercase();
    let is_locked = ["credential", "unauthorized", "denied", "authentication"];
    let mut steps = vec!["check the name in terminal.docker_image".to_owned()];
    if flavour == Flavour::Podman && !is_qualified {
        let library = if name.contains('/') { "" } else { "library/" };
        steps.push(format!("write it in full, such as docker.io/{library}{name}"));
    }
    if is_locked.iter().any(|word| why.contains(word)) {
        steps.push(format!("log in with `{program} login {registry}`"));
    }
    steps.push(format!("see what `{program} pull {name}` says"));
    format!("{}, or load the image with `{program} load`", steps.join(", "))
}

/// Engines read the header with the alphabet that is safe in addresses; the
/// client library writes the other one, and they take that for no login.
fn encode_for_urls(request: &mut BollardRequest) {
    let Some(header) = request.headers_mut().get_mut("x-registry-auth") else { return };
    let safe = header.to_str().map(|text| text.replace('+', "-").replace('/', "_"));
    if let Some(safe) = safe.ok().and_then(|text| text.parse().ok()) {
        *header = safe;
        header.set_sensitive(true);
    }
}

/// What has come so far.
#[derive(Debug)]
struct Tally {
    image: String,
    flavour: Flavour,
    layers: HashMap<String, Layer>,
}

#[derive(Debug, Default)]
struct Layer {
    is_done: bool,
    bytes: u64,
    total: u64,
}

impl Tally {
    fn new(image: &str, flavour: Flavour) -> Self {
        Self { image: image.to_owned(), flavour, layers: HashMap::new() }
    }

    fn count(&mut self, event: CreateImageInfo) {
        let (Some(id), Some(status)) = (event.id, event.status) else { return };
        let step = match status.as_str() {
            "Pulling fs layer" | "Waiting" | "Verifying Checksum" | "Retrying" | "Extracting" => {
                Step::Known
            }
            "Downloading" => Step::Downloading,
            // With Podman there is nothing to see after this.
            "Download complete" if self.flavour == Flavour::Podman => Step::Done,
            "Download complete" => Step::Downloaded,
            "Pull complete" | "Already exists" => Step::Done,
            // Whatever else comes with an id is about the image as a whole.
            _ => return,
        };
        if self.layers.len() >= MAX_LAYERS && !self.layers.contains_key(&id) {
            return;
        }
        let layer = self.layers.entry(id).or_default();
        let amount = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        match step {
            Step::Known => {}
            Step::Downloading => {
                let detail = event.progress_detail.unwrap_or_default();
                layer.bytes = amount(detail.current).unwrap_or(layer.bytes);
                layer.total = amount(detail.total).unwrap_or(layer.total).max(layer.bytes);
            }
            Step::Downloaded => layer.bytes = layer.total,
            Step::Done => {
                layer.bytes = layer.total;
                layer.is_done = true;
            }
        }
    }

    fn progress(&self) -> Progress {
        let sum = |amount: fn(&Layer) -> u64| {
            self.layers.values().map(amount).fold(0, u64::saturating_add)
        };
        Progress::Pulling {
            image: self.image.clone(),
            layers_done: self.layers.values().filter(|layer| layer.is_done).count(),
            layers: self.layers.len(),
            bytes: sum(|layer| layer.bytes),
            total: sum(|layer| layer.total),
        }
    }
}

enum Step {
    Known,
    Downloading,
    Downloaded,
    Done,
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
