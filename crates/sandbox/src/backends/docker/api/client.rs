//! The connection to an engine.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, ClientVersion, Docker};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use vestal_config::Settings;

use super::address::{Address, AddressSource, EngineTransport, TlsFiles};
use super::context::{ContextSearch, EngineChoice, PodmanProgram, choose_engine};
use super::error::{self, EngineFault, classify, error_text};
use super::info::{EngineInfo, Flavour};
use super::podman::PodmanService;
use super::registry::Keyring;
use super::socket::{PING_TIMEOUT, Ping, PingError, SocketPath, make_private, parse_version, ping};
use super::ssh;
use super::tunnel::{EngineDialer, EngineTunnel, TunnelFailure};
use crate::backend::BackendError;

/// Longest time for a call, in seconds.
const CALL_SECONDS: u64 = 120;

/// The oldest supported version of the API: that of Docker 20.10.
const OLDEST: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// A connection to an engine. Cloning is cheap.
#[derive(Clone)]
pub(in crate::backends::docker) struct EngineClient {
    inner: Arc<ClientState>,
}

struct ClientState {
    api: Docker,
    address: Address,
    display_address: String,
    route: EngineRoute,
    ping: Ping,
    keyring: Keyring,
    info: OnceCell<EngineInfo>,
    /// Engines that come first and that this user may not use.
    denied: Vec<String>,
}

/// Whether a service may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starting {
    Allowed,
    Forbidden,
}

/// How the connection reaches the engine. Dropping it may close the connection.
enum EngineRoute {
    /// The engine's socket.
    Socket(SocketPath),
    /// The socket of a service that this program starts when needed.
    Service(PodmanService, SocketPath),
    /// A tunnel to another machine.
    Tunnel(EngineTunnel),
    /// A network connection.
    Network,
}

impl EngineRoute {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Socket(socket) | Self::Service(_, socket) => Some(socket.as_path()),
            Self::Tunnel(tunnel) => Some(tunnel.path()),
            Self::Network => None,
        }
    }
}

impl EngineClient {
    /// Connects to the engine that the settings choose. Sockets and logs that this
    /// takes are in `run_dir`.
    pub(in crate::backends::docker) async fn connect(
        settings: &Settings,
        run_dir: &Path,
    ) -> Result<Self, BackendError> {
        Self::connect_with(settings, run_dir, Starting::Allowed).await
    }

    /// Connects likewise, without starting a service.
    pub(in crate::backends::docker) async fn connect_to_running(
        settings: &Settings,
        run_dir: &Path,
    ) -> Result<Self, BackendError> {
        Self::connect_with(settings, run_dir, Starting::Forbidden).await
    }

    async fn connect_with(
        settings: &Settings,
        run_dir: &Path,
        starting: Starting,
    ) -> Result<Self, BackendError> {
        let keyring = Keyring::new(settings.environment());
        match choose_engine(settings)? {
            EngineChoice::Fixed(address) => {
                Self::connect_to(address, settings, run_dir, keyring).await
            }
            EngineChoice::Search(search) => {
                let service = match &search.podman {
                    PodmanProgram::At(program) => {
                        Some(PodmanService::new(program.clone(), run_dir, settings.environment()))
                    }
                    PodmanProgram::Missing | PodmanProgram::NotUsed => None,
                };
                Self::connect_first(search, service, starting, PING_TIMEOUT, keyring).await
            }
        }
    }

    /// Connects to the engine at an address.
    async fn connect_to(
        address: Address,
        settings: &Settings,
        run_dir: &Path,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        match &address.transport {
            EngineTransport::Unix(path) => {
                let socket = SocketPath::new(path)
                    .map_err(|e| error::ping_failed(&address, &PingError::NotListening(e)))?;
                let ping = ping(socket.as_path(), PING_TIMEOUT)
                    .await
                    .map_err(|why| error::ping_failed(&address, &why))?;
                Self::on_socket(address, EngineRoute::Socket(socket), ping, keyring)
            }
            EngineTransport::Tcp { authority, tls } => {
                let api = match tls {
                    None => Docker::connect_with_http(authority, CALL_SECONDS, API_DEFAULT_VERSION),
                    Some(tls) => connect_with_tls(authority, tls),
                };
                let api = api.map_err(|error| error::login_failed(&address, error_text(&error)))?;
                Self::over_network(address, api, keyring).await
            }
            EngineTransport::Ssh(login) => {
                let tunnel = ssh::open(login, run_dir, settings.environment())?;
                Self::by_tunnel(address, tunnel, keyring).await
            }
            EngineTransport::Streams(_) => Err(error::connection_failed(
                &address,
                "its streams are opened by a backend".to_owned(),
            )),
        }
    }

    /// Connects to the engine that streams of another backend lead to.
    pub(in crate::backends::docker) async fn connect_through(
        dialer: Arc<dyn EngineDialer>,
        settings: &Settings,
        run_dir: &Path,
    ) -> Result<Self, BackendError> {
        make_private(run_dir).map_err(BackendError::io(format!(
            "create {} for this user only",
            run_dir.display()
        )))?;
        let transport = EngineTransport::Streams(dialer.address());
        let address = Address { transport, source: AddressSource::Default };
        let tunnel = EngineTunnel::through(run_dir, dialer)?;
        Self::by_tunnel(address, tunnel, Keyring::new(settings.environment())).await
    }

    async fn by_tunnel(
        address: Address,
        tunnel: EngineTunnel,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let ping =
            ping(tunnel.path(), PING_TIMEOUT).await.map_err(|why| match tunnel.last_failure() {
                Some(failure) => error::not_carried(&address, failure),
                None => error::ping_failed(&address, &why),
            })?;
        Self::on_socket(address, EngineRoute::Tunnel(tunnel), ping, keyring)
    }

    /// Connects to the first engine that answers, or to a service that can be
    /// started.
    async fn connect_first(
        search: ContextSearch,
        service: Option<PodmanService>,
        starting: Starting,
        timeout: Duration,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let mut tried = Vec::new();
        for address in search.sockets {
            let EngineTransport::Unix(path) = &address.transport else { continue };
            let outcome = match SocketPath::new(path) {
                Ok(socket) => ping(socket.as_path(), timeout).await.map(|g| (socket, g)),
                Err(error) => Err(PingError::NotListening(error)),
            };
            match outcome {
                Ok((socket, ping)) => {
                    let route = EngineRoute::Socket(socket);
                    let client = Self::on_socket(address, route, ping, keyring)?;
                    return Ok(client.with_denied(&tried));
                }
                // A slow engine may have containers of this home. Another engine
                // would create them a second time.
                Err(why @ PingError::TimedOut(_)) => {
                    return Err(error::ping_failed(&address, &why));
                }
                Err(why) => tried.push((address, why)),
            }
        }
        let Some(service) = service else {
            return Err(error::no_engine(&tried, &search.podman));
        };
        let ping = match starting {
            Starting::Allowed => service.ensure().await?,
            Starting::Forbidden => match ping(&service.socket(), timeout).await {
                Ok(ping) => ping,
                Err(_) => return Err(error::no_engine(&tried, &search.podman)),
            },
        };
        let address = service.address();
        let socket = SocketPath::new(&service.socket())
            .map_err(|e| error::ping_failed(&address, &PingError::NotListening(e)))?;
        let client =
            Self::on_socket(address, EngineRoute::Service(service, socket), ping, keyring)?;
        Ok(client.with_denied(&tried))
    }

    fn on_socket(
        address: Address,
        route: EngineRoute,
        ping: Ping,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let path = route.path().and_then(Path::to_str).ok_or_else(|| {
            error::connection_failed(&address, "the path of its socket is not UTF-8".to_owned())
        })?;
        let api = Docker::connect_with_unix(path, CALL_SECONDS, API_DEFAULT_VERSION)
            .map_err(|error| error::connection_failed(&address, error_text(&error)))?;
        Self::new(address, route, api, ping, keyring)
    }

    async fn over_network(
        address: Address,
        api: Docker,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let not_an_engine = |reason| error::ping_failed(&address, &PingError::NotAnEngine(reason));
        let version = match timeout(PING_TIMEOUT, api.version()).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) if classify(&error) == EngineFault::Unreachable => {
                return Err(error::login_failed(&address, error_text(&error)));
            }
            Ok(Err(error)) => return Err(not_an_engine(error_text(&error))),
            Err(_) => {
                let timed_out = PingError::TimedOut(PING_TIMEOUT);
                return Err(error::ping_failed(&address, &timed_out));
            }
        };
        let api_version = version.api_version.as_deref().and_then(parse_version);
        let api_version =
            api_version.ok_or_else(|| not_an_engine("it reports no API version".to_owned()))?;
        let ping = Ping { api: api_version, flavour: Flavour::of(&version) };
        Self::new(address, EngineRoute::Network, api, ping, keyring)
    }

    fn new(
        address: Address,
        route: EngineRoute,
        api: Docker,
        ping: Ping,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        if ping.api < OLDEST {
            return Err(BackendError::Advised {
                problem: format!(
                    "the container engine at {address} is too old: its API version is {}, and \
                     {OLDEST} is required",
                    ping.api
                ),
                advice: "install Docker 20.10, Podman 4 or newer".to_owned(),
            });
        }
        let api_version =
            if ping.api < *API_DEFAULT_VERSION { ping.api } else { *API_DEFAULT_VERSION };
        let api = api.with_request_modifier(move |request| versioned(request, api_version));
        let ping = Ping { api: api_version, ..ping };
        let display_address = address.to_string();
        let info = OnceCell::new();
        let inner = ClientState {
            api,
            address,
            display_address,
            route,
            ping,
            keyring,
            info,
            denied: Vec::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Records the engines that were tried before and denied access.
    fn with_denied(mut self, tried: &[(Address, PingError)]) -> Self {
        let denied = tried.iter().filter(|(_, why)| matches!(why, PingError::Denied));
        let denied = denied.map(|(address, _)| address.to_string());
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.denied = denied.collect();
        }
        self
    }

    /// Returns the notice on engines that come first and deny access.
    pub(in crate::backends::docker) fn denied_notice(&self) -> Option<String> {
        let denied = &self.inner.denied;
        (!denied.is_empty()).then(|| {
            format!(
                "permission denied for the engine at {}, so the one at {} is used; to choose, set \
                 DOCKER_HOST or terminal.docker_binary",
                denied.join(", "),
                self.address()
            )
        })
    }

    /// Returns the engine's API. Calls time out after two minutes.
    pub(in crate::backends::docker) fn api(&self) -> &Docker {
        &self.inner.api
    }

    /// Returns the engine's API for calls without a time limit. `amend` changes every
    /// request.
    pub(in crate::backends::docker) fn api_without_timeout(
        &self,
        amend: fn(&mut BollardRequest),
    ) -> Docker {
        let api_version = self.inner.ping.api;
        // The limit is on the time to the first byte of the answer. A pull may
        // answer only when the registry has.
        let year = Duration::from_hours(365 * 24);
        self.inner.api.clone().with_timeout(year).with_request_modifier(move |mut request| {
            amend(&mut request);
            versioned(request, api_version)
        })
    }

    /// Returns the address of the engine and its source, for messages.
    pub(in crate::backends::docker) fn address(&self) -> &str {
        &self.inner.display_address
    }

    /// Returns whether the engine may be on another machine.
    pub(in crate::backends::docker) fn is_remote(&self) -> bool {
        self.inner.address.transport.is_remote()
    }

    pub(in crate::backends::docker) fn flavour(&self) -> Flavour {
        self.inner.ping.flavour
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.inner.keyring
    }

    /// Starts the service again if this program started it and it has exited after
    /// being idle. Does nothing for other engines.
    pub(in crate::backends::docker) async fn ensure_running(&self) -> Result<(), BackendError> {
        match &self.inner.route {
            EngineRoute::Service(service, _) => service.ensure().await.map(drop),
            EngineRoute::Socket(_) | EngineRoute::Tunnel(_) | EngineRoute::Network => Ok(()),
        }
    }

    /// Returns whether the engine's socket belongs to another user than root.
    fn belongs_to_a_user(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        match &self.inner.address.transport {
            EngineTransport::Unix(path) => {
                std::fs::metadata(path).is_ok_and(|socket| socket.uid() != 0)
            }
            EngineTransport::Tcp { .. }
            | EngineTransport::Ssh { .. }
            | EngineTransport::Streams(_) => false,
        }
    }

    /// Returns the description of the engine, which is requested once.
    pub(in crate::backends::docker) async fn info(&self) -> Result<&EngineInfo, BackendError> {
        let ask = || async {
            let info = self.api().info().await.map_err(self.error("describe itself"))?;
            let Ping { api, flavour } = self.inner.ping;
            let info = EngineInfo::new(info, flavour, api.to_string());
            Ok(if flavour == Flavour::Podman && self.belongs_to_a_user() {
                info.into_rootless()
            } else {
                info
            })
        };
        self.inner.info.get_or_try_init(ask).await
    }

    /// Returns a function that turns an error of the client library into one that
    /// names the failed action.
    pub(in crate::backends::docker) fn error(
        &self,
        action: impl Into<String>,
    ) -> impl FnOnce(Error) -> BackendError {
        let (inner, action) = (Arc::clone(&self.inner), action.into());
        move |error| inner.to_backend_error(action, &error)
    }
}

/// Shows only address and version: requests and answers may hold secrets.
impl fmt::Debug for EngineClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineClient")
            .field("address", &self.inner.display_address)
            .field("ping", &self.inner.ping)
            .finish_non_exhaustive()
    }
}

impl ClientState {
    fn to_backend_error(&self, action: String, error: &Error) -> BackendError {
        // An answer that cannot be parsed says nothing about the container, and
        // another attempt would fail the same way.
        if matches!(error, Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) {
            return BackendError::Advised {
                problem: format!(
                    "cannot {action}: the answer of the container engine at {} cannot be parsed: {}",
                    self.display_address,
                    error_text(error)
                ),
                advice: "a newer vestal may support this engine; `vestal doctor` shows its version"
                    .to_owned(),
            };
        }
        match classify(error) {
            EngineFault::Unreachable => {
                let failure = match &self.route {
                    EngineRoute::Tunnel(tunnel) => tunnel.last_failure(),
                    EngineRoute::Socket(_) | EngineRoute::Service(..) | EngineRoute::Network => {
                        None
                    }
                };
                match failure {
                    Some(TunnelFailure { reason, advice: Some(advice) }) => {
                        let address = self.address.to_string();
                        BackendError::Unreachable { address, reason, advice }
                    }
                    Some(TunnelFailure { reason, advice: None }) => {
                        error::connection_failed(&self.address, reason)
                    }
                    None => error::connection_failed(&self.address, error_text(error)),
                }
            }
            EngineFault::NameTaken(name) => BackendError::NameTaken { name },
            EngineFault::Absent | EngineFault::Conflict | EngineFault::Refused { .. } => {
                BackendError::Engine { action, message: error_text(error) }
            }
        }
    }
}

fn connect_with_tls(authority: &str, tls: &TlsFiles) -> Result<Docker, Error> {
    // Without a CA file the engine must have a certificate that the system trusts.
    // The library requires a file nevertheless.
    let ca = if tls.ca.exists() { tls.ca.as_path() } else { Path::new("/dev/null") };
    let version = API_DEFAULT_VERSION;
    Docker::connect_with_ssl(authority, &tls.key, &tls.cert, ca, CALL_SECONDS, version)
}

/// Puts the API version into a request's path. The client library loses it, and
/// without it an engine answers in its newest version.
fn versioned(mut request: BollardRequest, version: ClientVersion) -> BollardRequest {
    let uri = request.uri().to_string();
    let path = uri.find("://").and_then(|at| uri[at + 3..].find('/').map(|slash| at + 3 + slash));
    if let Some(path) = path {
        let (host, path) = uri.split_at(path);
        if !path.starts_with("/v1.")
            && let Ok(uri) = format!("{host}/v{version}{path}").parse()
        {
            *request.uri_mut() = uri;
        }
    }
    request
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
