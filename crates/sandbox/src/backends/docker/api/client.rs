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

use super::address::{Address, Tls, Transport};
use super::context::{Choice, PodmanProgram, Search, choose};
use super::error;
use super::error::{Fault, fault, words};
use super::info::{EngineInfo, Flavour};
use super::podman::Service;
use super::registry::Keyring;
use super::socket::SocketPath;
use super::socket::{ANSWER_WITHIN, Greeting, NoGreeting, greet, parse_version};
use super::ssh::Bridge;
use crate::backend::BackendError;

/// How long an engine may take for a call, in seconds.
const CALL_SECONDS: u64 = 120;

/// The oldest version of the API that will do: that of Docker 20.10.
const OLDEST: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// A connection to an engine. Cloning is cheap.
#[derive(Clone)]
pub(in crate::backends::docker) struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    api: Docker,
    address: Address,
    shown: String,
    way: Way,
    greeting: Greeting,
    keyring: Keyring,
    info: OnceCell<EngineInfo>,
    /// Engines that are there and may not be used, so that this one is.
    passed_over: Vec<String>,
}

/// Whether an engine may be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starting {
    Allowed,
    Forbidden,
}

/// What a connection goes through, and is valid as long as.
enum Way {
    /// The engine's own socket.
    Socket(SocketPath),
    /// The socket of a service that is started again when it has ended.
    Service(Service, SocketPath),
    /// A login elsewhere.
    Ssh(Bridge),
    /// Nothing but the network.
    Network,
}

impl Way {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Socket(socket) | Self::Service(_, socket) => Some(socket.as_path()),
            Self::Ssh(bridge) => Some(bridge.path()),
            Self::Network => None,
        }
    }
}

impl Client {
    /// Connects to the engine that the settings choose. What this program puts
    /// on disk for it is in `run_dir`.
    pub(in crate::backends::docker) async fn connect(
        settings: &Settings,
        run_dir: &Path,
    ) -> Result<Self, BackendError> {
        Self::connect_with(settings, run_dir, Starting::Allowed).await
    }

    /// Connects likewise, but starts nothing: for somebody who only asks.
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
        match choose(settings)? {
            Choice::Named(address) => Self::at(address, settings, run_dir, keyring).await,
            Choice::Any(search) => {
                let service = match &search.podman {
                    PodmanProgram::At(program) => {
                        Some(Service::new(program.clone(), run_dir, settings.environment()))
                    }
                    PodmanProgram::Missing | PodmanProgram::Unwanted => None,
                };
                Self::any(search, service, starting, ANSWER_WITHIN, keyring).await
            }
        }
    }

    /// Connects to one engine and no other.
    async fn at(
        address: Address,
        settings: &Settings,
        run_dir: &Path,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        match &address.transport {
            Transport::Unix(path) => {
                let socket = SocketPath::new(path)
                    .map_err(|e| error::no_greeting(&address, &NoGreeting::Absent(e)))?;
                let greeting = greet(socket.as_path(), ANSWER_WITHIN)
                    .await
                    .map_err(|why| error::no_greeting(&address, &why))?;
                Self::on_socket(address, Way::Socket(socket), greeting, keyring)
            }
            Transport::Tcp { authority, tls } => {
                let api = match tls {
                    None => Docker::connect_with_http(authority, CALL_SECONDS, API_DEFAULT_VERSION),
                    Some(tls) => connect_with_tls(authority, tls),
                };
                let api = api.map_err(|error| error::refused(&address, words(&error)))?;
                Self::over_network(address, api, keyring).await
            }
            Transport::Ssh(login) => {
                let bridge = Bridge::open(login, run_dir, settings.environment())?;
                let greeting =
                    greet(bridge.path(), ANSWER_WITHIN).await.map_err(|why| {
                        match bridge.complaint() {
                            Some(complaint) => error::refused(&address, complaint),
                            None => error::no_greeting(&address, &why),
                        }
                    })?;
                Self::on_socket(address, Way::Ssh(bridge), greeting, keyring)
            }
        }
    }

    /// Connects to the first engine that answers, and at last to a service that
    /// can be started.
    async fn any(
        search: Search,
        service: Option<Service>,
        starting: Starting,
        patience: Duration,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let mut tried = Vec::new();
        for address in search.sockets {
            let Transport::Unix(path) = &address.transport else { continue };
            let outcome = match SocketPath::new(path) {
                Ok(socket) => greet(socket.as_path(), patience).await.map(|g| (socket, g)),
                Err(error) => Err(NoGreeting::Absent(error)),
            };
            match outcome {
                Ok((socket, greeting)) => {
                    let way = Way::Socket(socket);
                    let client = Self::on_socket(address, way, greeting, keyring)?;
                    return Ok(client.past(&tried));
                }
                // Somebody is there and will have containers of ours. To turn
                // to another engine now would make them twice.
                Err(why @ NoGreeting::Slow(_)) => {
                    return Err(error::no_greeting(&address, &why));
                }
                Err(why) => tried.push((address, why)),
            }
        }
        let Some(service) = service else {
            return Err(error::no_engine(&tried, &search.podman));
        };
        let greeting = match starting {
            Starting::Allowed => service.ensure().await?,
            Starting::Forbidden => match greet(&service.socket(), patience).await {
                Ok(greeting) => greeting,
                Err(_) => return Err(error::no_engine(&tried, &search.podman)),
            },
        };
        let address = service.address();
        let socket = SocketPath::new(&service.socket())
            .map_err(|e| error::no_greeting(&address, &NoGreeting::Absent(e)))?;
        let client = Self::on_socket(address, Way::Service(service, socket), greeting, keyring)?;
        Ok(client.past(&tried))
    }

    fn on_socket(
        address: Address,
        way: Way,
        greeting: Greeting,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let path = way.path().and_then(Path::to_str).ok_or_else(|| {
            error::lost(&address, "the path of its socket is not UTF-8".to_owned())
        })?;
        let api = Docker::connect_with_unix(path, CALL_SECONDS, API_DEFAULT_VERSION)
            .map_err(|error| error::lost(&address, words(&error)))?;
        Self::new(address, way, api, greeting, keyring)
    }

    async fn over_network(
        address: Address,
        api: Docker,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        let foreign = |reason| error::no_greeting(&address, &NoGreeting::Foreign(reason));
        let version = match timeout(ANSWER_WITHIN, api.version()).await {
            Ok(Ok(version)) => version,
            Ok(Err(error)) if fault(&error) == Fault::Unreachable => {
                return Err(error::refused(&address, words(&error)));
            }
            Ok(Err(error)) => return Err(foreign(words(&error))),
            Err(_) => {
                let slow = NoGreeting::Slow(ANSWER_WITHIN);
                return Err(error::no_greeting(&address, &slow));
            }
        };
        let spoken = version.api_version.as_deref().and_then(parse_version);
        let spoken =
            spoken.ok_or_else(|| foreign("it names no version of the engine's API".to_owned()))?;
        let greeting = Greeting { api: spoken, flavour: Flavour::of(&version) };
        Self::new(address, Way::Network, api, greeting, keyring)
    }

    fn new(
        address: Address,
        way: Way,
        api: Docker,
        greeting: Greeting,
        keyring: Keyring,
    ) -> Result<Self, BackendError> {
        if greeting.api < OLDEST {
            return Err(BackendError::Advised {
                problem: format!(
                    "the container engine at {address} is too old: it speaks version {} of the \
                     API, and {OLDEST} is the oldest that will do",
                    greeting.api
                ),
                advice: "install Docker 20.10, Podman 4 or newer".to_owned(),
            });
        }
        let spoken =
            if greeting.api < *API_DEFAULT_VERSION { greeting.api } else { *API_DEFAULT_VERSION };
        let api = api.with_request_modifier(move |request| versioned(request, spoken));
        let greeting = Greeting { api: spoken, ..greeting };
        let shown = address.to_string();
        let info = OnceCell::new();
        let inner =
            Inner { api, address, shown, way, greeting, keyring, info, passed_over: Vec::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Remembers the engines that were tried before and may not be used.
    fn past(mut self, tried: &[(Address, NoGreeting)]) -> Self {
        let denied = tried.iter().filter(|(_, why)| matches!(why, NoGreeting::Denied));
        let denied = denied.map(|(address, _)| address.to_string());
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.passed_over = denied.collect();
        }
        self
    }

    /// Returns what users should hear of engines that are there and that they
    /// may not use.
    pub(in crate::backends::docker) fn passed_over(&self) -> Option<String> {
        let denied = &self.inner.passed_over;
        (!denied.is_empty()).then(|| {
            format!(
                "you may not use the engine at {} (permission denied), so the one at {} is used; \
                 to choose, set DOCKER_HOST or terminal.docker_binary",
                denied.join(", "),
                self.address()
            )
        })
    }

    /// Returns the engine's API. A call is given two minutes.
    pub(in crate::backends::docker) fn api(&self) -> &Docker {
        &self.inner.api
    }

    /// Returns the engine's API for calls that may take as long as they take.
    /// `amend` changes every request.
    pub(in crate::backends::docker) fn patient_api(
        &self,
        amend: fn(&mut BollardRequest),
    ) -> Docker {
        let spoken = self.inner.greeting.api;
        // This limit is on the time to the first byte of the answer, which for
        // a pull may come when the registry has been heard.
        let year = Duration::from_hours(365 * 24);
        self.inner.api.clone().with_timeout(year).with_request_modifier(move |mut request| {
            amend(&mut request);
            versioned(request, spoken)
        })
    }

    /// Returns where the engine is and who says so, for people.
    pub(in crate::backends::docker) fn address(&self) -> &str {
        &self.inner.shown
    }

    /// Returns whether the engine may have other files than this machine.
    pub(in crate::backends::docker) fn is_remote(&self) -> bool {
        self.inner.address.transport.is_remote()
    }

    /// Returns whose engine it is.
    pub(in crate::backends::docker) fn flavour(&self) -> Flavour {
        self.inner.greeting.flavour
    }

    pub(super) fn keyring(&self) -> &Keyring {
        &self.inner.keyring
    }

    /// Makes sure that an engine that this program started, and that ends by
    /// itself after a while without work, is there again. Costs nothing with
    /// other engines.
    pub(in crate::backends::docker) async fn wake(&self) -> Result<(), BackendError> {
        match &self.inner.way {
            Way::Service(service, _) => service.ensure().await.map(drop),
            Way::Socket(_) | Way::Ssh(_) | Way::Network => Ok(()),
        }
    }

    /// Returns whether the engine's socket is an ordinary user's.
    fn belongs_to_a_user(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        match &self.inner.address.transport {
            Transport::Unix(path) => std::fs::metadata(path).is_ok_and(|socket| socket.uid() != 0),
            Transport::Tcp { .. } | Transport::Ssh { .. } => false,
        }
    }

    /// Returns what the engine says of itself; it is asked once.
    pub(in crate::backends::docker) async fn info(&self) -> Result<&EngineInfo, BackendError> {
        let ask = || async {
            let info = self.api().info().await.map_err(self.error("describe itself"))?;
            let Greeting { api, flavour } = self.inner.greeting;
            let info = EngineInfo::new(info, flavour, api.to_string());
            Ok(if flavour == Flavour::Podman && self.belongs_to_a_user() {
                info.without_root()
            } else {
                info
            })
        };
        self.inner.info.get_or_try_init(ask).await
    }

    /// Returns what turns an error of the engine into one that says what it
    /// could not do.
    pub(in crate::backends::docker) fn error(
        &self,
        action: impl Into<String>,
    ) -> impl FnOnce(Error) -> BackendError {
        let (inner, action) = (Arc::clone(&self.inner), action.into());
        move |error| inner.trouble(action, &error)
    }
}

/// Shows where the engine is; requests and their answers may hold secrets.
impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("address", &self.inner.shown)
            .field("greeting", &self.inner.greeting)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn trouble(&self, action: String, error: &Error) -> BackendError {
        // An answer that cannot be read says nothing about what was asked about,
        // and no other attempt will fare better.
        if matches!(error, Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) {
            return BackendError::Advised {
                problem: format!(
                    "cannot {action}: the answer of the container engine at {} cannot be read: {}",
                    self.shown,
                    words(error)
                ),
                advice: "a newer vestal may know this engine; `vestal doctor` shows its version"
                    .to_owned(),
            };
        }
        match fault(error) {
            Fault::Unreachable => {
                let complaint = match &self.way {
                    Way::Ssh(bridge) => bridge.complaint(),
                    Way::Socket(_) | Way::Service(..) | Way::Network => None,
                };
                error::lost(&self.address, complaint.unwrap_or_else(|| words(error)))
            }
            Fault::NameTaken(name) => BackendError::NameTaken { name },
            Fault::Absent | Fault::Conflict | Fault::Refused { .. } => {
                BackendError::Engine { action, message: words(error) }
            }
        }
    }
}

/// Connects with TLS. The cryptography is the one that the client library is
/// built with; being the only one, it needs no choosing.
fn connect_with_tls(authority: &str, tls: &Tls) -> Result<Docker, Error> {
    // Without an authority of its own the engine must have a certificate that
    // the system trusts. The library wants a file all the same.
    let ca = if tls.ca.exists() { tls.ca.as_path() } else { Path::new("/dev/null") };
    let version = API_DEFAULT_VERSION;
    Docker::connect_with_ssl(authority, &tls.key, &tls.cert, ca, CALL_SECONDS, version)
}

/// Names the version of the API in a request's path. The client library means
/// to, but loses it; and without it an engine answers in its newest manner.
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
