//! Pulling images from registries, and the user's credentials for them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bollard::BollardRequest;
use bollard::auth::DockerCredentials;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt as _;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use vestal_config::Environment;

use super::client::EngineClient;
use super::context::{config_dir, find_program, read_json};
use super::error::{EngineFault, classify, error_text};
use super::image::Reference;
use super::info::Flavour;
use crate::ProgressSink;
use crate::backend::BackendError;
use crate::notice::Progress;

/// Time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Most layers that are counted. An image has at most 127.
const MAX_LAYERS: usize = 1024;

/// Pulls an image from its registry, without a time limit.
pub(super) async fn pull(
    client: &EngineClient,
    name: &str,
    reference: &Reference<'_>,
    progress: &ProgressSink,
) -> Result<(), BackendError> {
    let Reference::Named { registry, repository, tag, .. } = reference else {
        let reason = "no image has that id, and a registry knows only names";
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
    let api = client.api_without_timeout(encode_for_urls);
    let mut events = api.create_image(Some(options.build()), None, credentials);
    let mut pulled = PullProgress::new(name, client.flavour());
    let mut reported: Option<Instant> = None;
    progress.report(pulled.progress());
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| match classify(&error) {
            EngineFault::Unreachable => client.error(format!("pull image {name}"))(error),
            _ => no_image(
                client,
                name,
                reference,
                match &no_credentials {
                    Some(why) => {
                        format!("{} (pulled without credentials: {why})", error_text(&error))
                    }
                    None => error_text(&error),
                },
            ),
        })?;
        pulled.update(event);
        if reported.is_none_or(|at| at.elapsed() >= PROGRESS_INTERVAL) {
            reported = Some(Instant::now());
            progress.report(pulled.progress());
        }
    }
    progress.report(pulled.progress());
    progress.report(Progress::Pulled { image: name.to_owned() });
    Ok(())
}

/// Returns the error for an image that cannot be pulled.
pub(super) fn no_image(
    client: &EngineClient,
    name: &str,
    reference: &Reference<'_>,
    reason: String,
) -> BackendError {
    let advice = advice(client.flavour(), name, reference, &reason);
    BackendError::NoImage { image: name.to_owned(), reason, advice }
}

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

/// Rewrites the credentials of a request to URL-safe base64. Engines expect that
/// alphabet and ignore credentials in the one that the client library writes.
fn encode_for_urls(request: &mut BollardRequest) {
    let Some(header) = request.headers_mut().get_mut("x-registry-auth") else { return };
    let safe = header.to_str().map(|text| text.replace('+', "-").replace('/', "_"));
    if let Some(safe) = safe.ok().and_then(|text| text.parse().ok()) {
        *header = safe;
        header.set_sensitive(true);
    }
}

#[derive(Debug)]
struct PullProgress {
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

impl PullProgress {
    fn new(image: &str, flavour: Flavour) -> Self {
        Self { image: image.to_owned(), flavour, layers: HashMap::new() }
    }

    fn update(&mut self, event: CreateImageInfo) {
        let (Some(id), Some(status)) = (event.id, event.status) else { return };
        let step = match status.as_str() {
            "Pulling fs layer" | "Waiting" | "Verifying Checksum" | "Retrying" | "Extracting" => {
                LayerStep::Known
            }
            "Downloading" => LayerStep::Downloading,
            // Podman reports nothing after this.
            "Download complete" if self.flavour == Flavour::Podman => LayerStep::Done,
            "Download complete" => LayerStep::Downloaded,
            "Pull complete" | "Already exists" => LayerStep::Done,
            // Other messages with an id are about the whole image.
            _ => return,
        };
        if self.layers.len() >= MAX_LAYERS && !self.layers.contains_key(&id) {
            return;
        }
        let layer = self.layers.entry(id).or_default();
        let amount = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
        match step {
            LayerStep::Known => {}
            LayerStep::Downloading => {
                let detail = event.progress_detail.unwrap_or_default();
                layer.bytes = amount(detail.current).unwrap_or(layer.bytes);
                layer.total = amount(detail.total).unwrap_or(layer.total).max(layer.bytes);
            }
            LayerStep::Downloaded => layer.bytes = layer.total,
            LayerStep::Done => {
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

enum LayerStep {
    Known,
    Downloading,
    Downloaded,
    Done,
}

/// Longest time for a credential helper, which may wait for the user to unlock a
/// wallet.
const HELPER_TIMEOUT: Duration = Duration::from_mins(1);

/// Most output of a credential helper that is read.
const MAX_HELPER_OUTPUT: u64 = 1 << 20;

/// Key of Docker's own registry in the docker CLI's settings.
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// The docker CLI's credentials of the user.
#[derive(Debug, Clone)]
pub(super) struct Keyring {
    config: Option<PathBuf>,
    environment: Environment,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerConfigFile {
    auths: BTreeMap<String, Auth>,
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    #[serde(rename = "auth")]
    pair: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    username: String,
    #[serde(rename = "Secret")]
    secret: String,
}

impl Keyring {
    pub(super) fn new(environment: &Environment) -> Self {
        Self { config: config_dir(environment), environment: environment.clone() }
    }

    /// Returns the credentials for a registry, if there are any. The error says why
    /// they cannot be read and contains no secret.
    pub(super) async fn get(&self, registry: &str) -> Result<Option<DockerCredentials>, String> {
        let Some(config) = &self.config else { return Ok(None) };
        let file: DockerConfigFile = read_json(&config.join("config.json"))
            .map_err(|error| error.to_string())?
            .unwrap_or_default();
        let server = if is_hub(registry) { HUB_KEY } else { registry };
        let helper = file.helpers.get(registry).or_else(|| file.helpers.get(server));
        if let Some(helper) = helper.or(file.store.as_ref()).filter(|name| !name.is_empty()) {
            return self.ask(helper, server).await;
        }
        Ok(find(&file.auths, registry, server).and_then(|auth| auth.read(server)))
    }

    async fn ask(&self, helper: &str, server: &str) -> Result<Option<DockerCredentials>, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let name = format!("docker-credential-{}", helper.chars().take(64).collect::<String>());
        if !helper.bytes().all(plain) {
            return Err("the name of the credential helper is not valid".to_owned());
        }
        let program = find_program(Path::new(&name), &self.environment)
            .ok_or_else(|| format!("{name} is not on PATH"))?;
        match tokio::time::timeout(HELPER_TIMEOUT, self.run(&program, server)).await {
            Ok(Ok(Some(answer))) => Ok(Some(answer.read(server))),
            Ok(Ok(None)) => Ok(None),
            Ok(Err(reason)) => Err(format!("{name} {reason}")),
            Err(_) => Err(format!("{name} did not answer within {} s", HELPER_TIMEOUT.as_secs())),
        }
    }

    async fn run(&self, program: &Path, server: &str) -> Result<Option<HelperAnswer>, String> {
        let failed = |error: std::io::Error| format!("cannot be run: {error}");
        let mut child = Command::new(program)
            .arg("get")
            .env_clear()
            .envs(self.environment.iter())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A helper that does not read its input fails below.
            stdin.write_all(format!("{server}\n").as_bytes()).await.ok();
        }
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_HELPER_OUTPUT).read_to_end(&mut output).await.map_err(failed)?;
        }
        let status = child.wait().await.map_err(failed)?;
        if status.success() {
            let answer = serde_json::from_slice(&output);
            return answer.map(Some).map_err(|_| "printed an unexpected answer".to_owned());
        }
        // The message of helpers that have no credentials.
        if String::from_utf8_lossy(&output).contains("credentials not found") {
            return Ok(None);
        }
        Err(format!("failed ({status})"))
    }
}

impl HelperAnswer {
    fn read(self, server: &str) -> DockerCredentials {
        let serveraddress = Some(server.to_owned());
        if self.username == "<token>" {
            let identitytoken = Some(self.secret);
            return DockerCredentials { identitytoken, serveraddress, ..Default::default() };
        }
        DockerCredentials {
            username: Some(self.username),
            password: Some(self.secret),
            serveraddress,
            ..Default::default()
        }
    }
}

impl Auth {
    /// Returns the credentials, if there are any.
    fn read(&self, server: &str) -> Option<DockerCredentials> {
        let present = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let decoded = self.pair.as_deref().and_then(user_and_password);
        let (user, password) = decoded.unzip();
        let found = DockerCredentials {
            username: user.or_else(|| present(&self.username)),
            password: password.or_else(|| present(&self.password)),
            identitytoken: present(&self.identitytoken),
            registrytoken: present(&self.registrytoken),
            serveraddress: Some(server.to_owned()),
            auth: None,
            email: None,
        };
        let is_any = found.username.is_some()
            || found.identitytoken.is_some()
            || found.registrytoken.is_some();
        is_any.then_some(found)
    }
}

fn user_and_password(auth: &str) -> Option<(String, String)> {
    let text = String::from_utf8(decode_base64(auth)?).ok()?;
    let (user, password) = text.trim_end_matches('\0').split_once(':')?;
    (!user.is_empty()).then(|| (user.to_owned(), password.to_owned()))
}

/// Decodes base64 with or without padding.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.trim().trim_end_matches('=').bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff).try_into().ok()?);
        }
    }
    Some(bytes)
}

fn is_hub(registry: &str) -> bool {
    matches!(registry, "docker.io" | "index.docker.io" | "registry-1.docker.io")
}

/// Returns the entry of a registry, by its exact name or by its address.
fn find<'a>(auths: &'a BTreeMap<String, Auth>, registry: &str, key: &str) -> Option<&'a Auth> {
    let host = |name: &str| {
        let name = name.split_once("://").map_or(name, |(_, rest)| rest);
        name.split('/').next().unwrap_or_default().to_ascii_lowercase()
    };
    auths.get(key).or_else(|| auths.get(registry)).or_else(|| {
        let wanted = registry.to_ascii_lowercase();
        let is_it = |name: &str| host(name) == wanted || is_hub(&wanted) && is_hub(&host(name));
        auths.iter().find(|(name, _)| is_it(name)).map(|(_, auth)| auth)
    })
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
