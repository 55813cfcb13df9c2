//! Choosing an engine by the settings, the environment and docker contexts.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use vestal_config::{Environment, Settings};

use super::address::{Address, AddressSource, EngineTransport, TlsFiles, TlsOptions};
use crate::backend::BackendError;
use crate::settings::keys;

/// Largest file of the docker CLI that is read.
const MAX_FILE: u64 = 1 << 20;

/// The engine to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EngineChoice {
    /// The engine at this address.
    Fixed(Address),
    /// The first engine that answers.
    Search(ContextSearch),
}

/// Where to look if no engine is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContextSearch {
    /// Sockets, in order of preference.
    pub(super) sockets: Vec<Address>,
    /// The service to start if none of them answers.
    pub(super) podman: PodmanProgram,
}

/// The podman program, which can be started as a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PodmanProgram {
    /// Found at this path.
    At(PathBuf),
    /// Not found.
    Missing,
    /// Not to be started.
    NotUsed,
}

/// Which engines may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Docker,
    Podman,
    Any,
}

/// Returns the engine to use: the one named by `DOCKER_HOST`, a docker context or
/// `CONTAINER_HOST`, in this order; else the first that answers at a default path.
///
/// `terminal.docker_binary` restricts the choice: with `docker`, `CONTAINER_HOST` is
/// ignored; with `podman`, `DOCKER_HOST` and contexts are, as by those programs.
pub(super) fn choose_engine(settings: &Settings) -> Result<EngineChoice, BackendError> {
    let environment = settings.environment();
    let binary = docker_binary(settings)?;
    let family = match &binary {
        None => Family::Any,
        Some(binary) => family(binary)?,
    };
    if family != Family::Podman
        && let Some(address) = docker_host_or_context(environment)?
    {
        return Ok(EngineChoice::Fixed(address));
    }
    if family != Family::Docker
        && let Some(address) = container_host(environment)?
    {
        return Ok(EngineChoice::Fixed(address));
    }
    let is_root = rustix::process::geteuid().is_root();
    Ok(EngineChoice::Search(ContextSearch {
        sockets: default_sockets(environment, family, is_root),
        podman: match family {
            Family::Docker => PodmanProgram::NotUsed,
            Family::Podman | Family::Any => {
                let name = binary.as_deref().unwrap_or(Path::new("podman"));
                find_program(name, environment).map_or(PodmanProgram::Missing, PodmanProgram::At)
            }
        },
    }))
}

/// Returns the directory of the docker CLI's settings.
pub(super) fn config_dir(environment: &Environment) -> Option<PathBuf> {
    match environment.non_empty("DOCKER_CONFIG") {
        Some(dir) => Some(PathBuf::from(dir)),
        None => environment.user_home().map(|home| home.join(".docker")),
    }
}

/// Reads a JSON file of the docker CLI; `None` if it does not exist.
pub(super) fn read_json<T: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<Option<T>, BackendError> {
    let unreadable = |reason: String| BackendError::Advised {
        problem: format!("{} cannot be read: {reason}", path.display()),
        advice: "correct or remove that file, or set DOCKER_HOST".to_owned(),
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(unreadable("it is too large".to_owned()));
    }
    // The error's text could quote the file, which may hold passwords.
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| unreadable(format!("line {}, column {}", error.line(), error.column())))
}

/// Returns the path of a program: the name itself if it is a path, else the first
/// match on `PATH`.
pub(super) fn find_program(name: &Path, environment: &Environment) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 || name.is_absolute() {
        return is_program(name).then(|| name.to_owned());
    }
    std::env::split_paths(environment.non_empty("PATH")?)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|path| is_program(path))
}

fn docker_binary(settings: &Settings) -> Result<Option<PathBuf>, BackendError> {
    let user_home = settings.environment().user_home();
    Ok(settings.get(&keys::DOCKER_BINARY)?.value.resolve(user_home.as_deref()))
}

fn family(binary: &Path) -> Result<Family, BackendError> {
    let name = binary.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if name.contains("podman") {
        Ok(Family::Podman)
    } else if name.contains("docker") {
        Ok(Family::Docker)
    } else {
        Err(BackendError::Advised {
            problem: format!(
                "terminal.docker_binary is {}, which is neither docker nor podman",
                binary.display()
            ),
            advice: "set it to docker or podman, or unset it; another engine that speaks Docker's \
                     API is chosen with DOCKER_HOST"
                .to_owned(),
        })
    }
}

/// Returns the engine that `DOCKER_HOST` or a context names.
fn docker_host_or_context(environment: &Environment) -> Result<Option<Address>, BackendError> {
    let config = config_dir(environment);
    let tls_options = TlsOptions::of(environment, config.as_deref().unwrap_or(Path::new("/")));
    if let Some(host) = environment.non_empty("DOCKER_HOST") {
        let transport = host
            .to_str()
            .ok_or(super::address::AddressError::Unreadable)
            .and_then(|text| EngineTransport::parse(text, &tls_options))
            .map_err(|error| BackendError::Advised {
                problem: format!("DOCKER_HOST cannot be used: {error}"),
                advice: "set it to unix:///path/of/the.sock, tcp://host:port or ssh://user@host, \
                         or unset it"
                    .to_owned(),
            })?;
        return Ok(Some(Address { transport, source: AddressSource::DockerHost }));
    }
    let Some(config) = config else { return Ok(None) };
    let (name, chosen_by) = match environment.non_empty("DOCKER_CONTEXT") {
        Some(name) => (name.to_string_lossy().into_owned(), "DOCKER_CONTEXT"),
        None => {
            let file: Option<DockerConfig> = read_json(&config.join("config.json"))?;
            match file.and_then(|file| file.current_context) {
                Some(name) => (name, "the docker CLI's current context"),
                None => return Ok(None),
            }
        }
    };
    // The docker CLI's name for using no context.
    if name.is_empty() || name == "default" {
        return Ok(None);
    }
    context(&config, &name, chosen_by, &tls_options).map(Some)
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(rename = "currentContext")]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct ContextMeta {
    #[serde(rename = "Endpoints", default)]
    endpoints: Endpoints,
}

#[derive(Deserialize, Default)]
struct Endpoints {
    docker: Option<ContextEndpoint>,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(rename = "Host", default)]
    host: String,
    #[serde(rename = "SkipTLSVerify", default)]
    skip_tls_verify: bool,
}

/// Returns the engine of a docker context.
fn context(
    config: &Path,
    name: &str,
    chosen_by: &'static str,
    tls_options: &TlsOptions,
) -> Result<Address, BackendError> {
    let shown = super::error::one_line(name);
    let refused = |reason: String| BackendError::Advised {
        problem: format!("the docker context {shown} ({chosen_by}) cannot be used: {reason}"),
        advice: "list them with `docker context ls` and choose one with `docker context use`, or \
                 set DOCKER_HOST"
            .to_owned(),
    };
    let id = crate::key::hex(&Sha256::digest(name.as_bytes()));
    let contexts = config.join("contexts");
    let path = contexts.join("meta").join(&id).join("meta.json");
    let meta: ContextMeta =
        read_json(&path)?.ok_or_else(|| refused("no context has that name".to_owned()))?;
    let endpoint = meta
        .endpoints
        .docker
        .filter(|endpoint| !endpoint.host.is_empty())
        .ok_or_else(|| refused("it names no Docker engine".to_owned()))?;
    if endpoint.skip_tls_verify {
        return Err(refused("it turns off the verification of TLS certificates".to_owned()));
    }
    let dir = contexts.join("tls").join(&id).join("docker");
    let tls_options = if dir.is_dir() {
        TlsOptions { required: true, files: TlsFiles::in_dir(&dir) }
    } else {
        TlsOptions { required: false, files: tls_options.files.clone() }
    };
    let transport = EngineTransport::parse(&endpoint.host, &tls_options)
        .map_err(|error| refused(format!("its address: {error}")))?;
    Ok(Address { transport, source: AddressSource::Context { name: shown, chosen_by } })
}

/// Returns the engine that Podman's variable names. Its ssh and tcp addresses need
/// another protocol or Podman's own settings.
fn container_host(environment: &Environment) -> Result<Option<Address>, BackendError> {
    let Some(host) = environment.non_empty("CONTAINER_HOST") else { return Ok(None) };
    let path = host.to_str().and_then(|text| text.trim().strip_prefix("unix://"));
    match path.map(PathBuf::from).filter(|path| path.is_absolute()) {
        Some(path) => Ok(Some(Address {
            transport: EngineTransport::Unix(path),
            source: AddressSource::ContainerHost,
        })),
        None => Err(BackendError::Advised {
            problem: "CONTAINER_HOST cannot be used: only unix:///path is supported".to_owned(),
            advice: "unset it, or select the engine with DOCKER_HOST".to_owned(),
        }),
    }
}

/// Returns the default paths of engines, in order of preference.
fn default_sockets(environment: &Environment, family: Family, is_root: bool) -> Vec<Address> {
    let runtime =
        environment.non_empty("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let mut paths = Vec::new();
    if family != Family::Podman {
        paths.push(PathBuf::from("/var/run/docker.sock"));
        paths.push(PathBuf::from("/run/docker.sock"));
        paths.extend(runtime.iter().map(|dir| dir.join("docker.sock")));
    }
    if family != Family::Docker {
        paths.extend(runtime.iter().map(|dir| dir.join("podman/podman.sock")));
        // Other users have no access to root's engine, or should not use it by
        // default.
        if is_root {
            paths.push(PathBuf::from("/run/podman/podman.sock"));
        }
    }
    let usual =
        |path| Address { transport: EngineTransport::Unix(path), source: AddressSource::Default };
    paths.into_iter().map(usual).collect()
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
