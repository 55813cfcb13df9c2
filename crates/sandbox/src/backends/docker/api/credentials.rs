//! What the user may log in to registries with, as the docker program keeps it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bollard::auth::DockerCredentials;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use vestal_config::Environment;

use super::context::{config_dir, find_program, read_json};

/// How long a helper may think, or wait for somebody to unlock a wallet.
const HELPER_WITHIN: Duration = Duration::from_mins(1);

/// Most that is read from a helper.
const MAX_HELPER_OUTPUT: u64 = 1 << 20;

/// Name of Docker's own registry among credentials.
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// Where credentials are found.
#[derive(Debug, Clone)]
pub(super) struct Keyring {
    config: Option<PathBuf>,
    environment: Environment,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConfigFile {
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
    /// Returns the keyring of the user with this environment.
    pub(super) fn new(environment: &Environment) -> Self {
        Self { config: config_dir(environment), environment: environment.clone() }
    }

    /// Returns the credentials for a registry, if there are any; or why those
    /// that there may be cannot be had, without anything secret.
    pub(super) async fn get(&self, registry: &str) -> Result<Option<DockerCredentials>, String> {
        let Some(config) = &self.config else { return Ok(None) };
        let file: ConfigFile = read_json(&config.join("config.json"))
            .map_err(|error| error.to_string())?
            .unwrap_or_default();
        let server = if is_hub(registry) { HUB_KEY } else { registry };
        let helper = file.helpers.get(registry).or_else(|| file.helpers.get(server));
        if let Some(helper) = helper.or(file.store.as_ref()).filter(|name| !name.is_empty()) {
            return self.ask(helper, server).await;
        }
        Ok(find(&file.auths, registry, server).and_then(|auth| auth.read(server)))
    }

    /// Asks a helper program.
    async fn ask(&self, helper: &str, server: &str) -> Result<Option<DockerCredentials>, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let name = format!("docker-credential-{}", helper.chars().take(64).collect::<String>());
        if !helper.bytes().all(plain) {
            return Err("the credential helper's name is not one".to_owned());
        }
        let program = find_program(Path::new(&name), &self.environment)
            .ok_or_else(|| format!("{name} is not on PATH"))?;
        match tokio::time::timeout(HELPER_WITHIN, self.run(&program, server)).await {
            Ok(Ok(Some(answer))) => Ok(Some(answer.read(server))),
            Ok(Ok(None)) => Ok(None),
            Ok(Err(reason)) => Err(format!("{name} {reason}")),
            Err(_) => Err(format!("{name} did not answer within {} s", HELPER_WITHIN.as_secs())),
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
            // A helper that does not want to know the server says so below.
            stdin.write_all(format!("{server}\n").as_bytes()).await.ok();
        }
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_HELPER_OUTPUT).read_to_end(&mut output).await.map_err(failed)?;
        }
        let status = child.wait().await.map_err(failed)?;
        if status.success() {
            let answer = serde_json::from_slice(&output);
            return answer.map(Some).map_err(|_| "said something unexpected".to_owned());
        }
        // This is how helpers say that they know nothing.
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
    /// Returns the credentials, if there is anything in them.
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

/// Decodes base64 with or without its padding.
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

/// Returns what is kept for a registry, under its exact name or as an address.
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
#[path = "credentials_tests.rs"]
mod tests;
