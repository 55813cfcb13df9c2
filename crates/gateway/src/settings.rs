//! What the settings ask of a gateway.

use std::path::PathBuf;
use std::time::Duration;

use vestal_api::keys;
use vestal_config::{ConfigError, SecretText, SettingKey, Settings, Text};
use vestal_schedules::{SchedulerLimits, keys as schedule_keys};
use vestal_serve::ServeSettings;

/// The shortest key that is taken.
const MIN_KEY: usize = 16;

/// Words that stand in examples, wherever they are in a key: a key that everybody knows protects
/// nothing.
const PLACEHOLDERS: &[&str] = &[
    "changeme",
    "changethis",
    "yourkey",
    "yourapi",
    "yoursecret",
    "yourtoken",
    "youropenai",
    "replaceme",
    "replacewith",
    "placeholder",
    "example",
    "inserthere",
    "keyhere",
    "secretkey",
    "dummykey",
    "testkey",
    "notarealkey",
];

/// How long an address that is taken is tried: longer than a gateway takes to stop whose turns are
/// not waited for, and shorter than a supervisor waits for a gateway to be ready.
const LISTEN_WITHIN: Duration = Duration::from_secs(45);
/// Words with which a key does not begin that was made at random.
const FIRST_WORDS: &[&str] =
    &["secret", "password", "xxxx", "apikey", "12345678", "01234567", "abcdefgh"];

/// Different characters that a key has at least.
const MIN_DIFFERENT: usize = 6;

/// What the settings ask of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewaySettings {
    /// The API server, if there is to be one.
    pub api_server: Option<ApiServer>,
    /// Turns that may run at once.
    pub max_runs: usize,
    /// How long turns that run may take to end before they are interrupted.
    pub drain: Duration,
    /// Whether the board is dispatched.
    pub dispatch: bool,
    /// How schedules are run, if they are.
    pub schedules: Option<SchedulerLimits>,
    /// How long the address of the API server is tried while another process has it.
    pub listen_within: Duration,
}

/// An API server that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServer {
    /// The address or name it listens on; none for a socket alone.
    pub host: Option<String>,
    /// The port; 0 for any that is free.
    pub port: u16,
    /// A socket it listens on.
    pub socket: Option<PathBuf>,
    /// The name of the model that clients see.
    pub model_name: String,
    /// Origins whose pages may ask from a browser.
    pub cors_origins: Vec<String>,
    /// Backends that a request may name.
    pub backends: Vec<String>,
    /// What is asked of sessions over WebSocket.
    pub serve: ServeSettings,
    /// How long clients may take over a request.
    pub timeouts: RequestTimeouts,
    key: SecretText,
}

/// How long clients may take over a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// Over its head, and idle between two requests.
    pub head: Duration,
    /// Over the next piece of its body.
    pub piece: Duration,
}

impl Default for RequestTimeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(30), piece: Duration::from_secs(30) }
    }
}

impl ApiServer {
    /// Returns the key that requests must carry; it is there, and long enough.
    pub(crate) fn key(&self) -> &str {
        self.key.expose().unwrap_or_default()
    }

    /// Reports whether a request may name a backend.
    pub(crate) fn permits(&self, backend: &str) -> bool {
        self.backends.iter().any(|name| name == backend)
    }
}

/// Why the API server cannot be started as the settings have it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiServerError {
    /// There is no key.
    #[error(
        "the API server is enabled and has no key; put API_SERVER_KEY=… into {}, with what `openssl rand -hex 32` prints",
        file.display()
    )]
    NoKey {
        /// The file of the profile for secrets.
        file: PathBuf,
    },
    /// The key is too short to protect anything.
    #[error(
        "the key of the API server has {length} characters and needs at least {MIN_KEY}; make one with: openssl rand -hex 32"
    )]
    ShortKey {
        /// How long it is.
        length: usize,
    },
    /// An origin that is none.
    #[error(
        "{origin:?} in api_server.cors_origins is not an origin; write it as https://host or http://host:port"
    )]
    BadOrigin {
        /// What is written there.
        origin: String,
    },
    /// The key stands in examples.
    #[error("the key of the API server is a placeholder; make one with: openssl rand -hex 32")]
    PlaceholderKey,
}

impl ApiServerError {
    /// Returns a name for it that stays the same.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoKey { .. } => "key_missing",
            Self::ShortKey { .. } => "key_too_short",
            Self::PlaceholderKey => "key_placeholder",
            Self::BadOrigin { .. } => "cors_origin_invalid",
        }
    }
}

impl GatewaySettings {
    /// Reads them. A key that protects nothing is an error of its own: the server must not be
    /// started without one, on loopback either, where every page in a browser can ask.
    pub fn new(settings: &Settings) -> Result<Result<Self, ApiServerError>, ConfigError> {
        let api_server = match api_server(settings)? {
            Ok(api_server) => api_server,
            Err(error) => return Ok(Err(error)),
        };
        let runs = settings.get(&keys::API_SERVER_MAX_CONCURRENT_RUNS)?.value.get();
        Ok(Ok(Self {
            api_server,
            max_runs: usize::try_from(runs).unwrap_or(usize::MAX),
            drain: settings.get(&keys::AGENT_RESTART_DRAIN_TIMEOUT)?.value.duration(),
            dispatch: settings.get(&keys::KANBAN_DISPATCH_IN_GATEWAY)?.value,
            schedules: schedules(settings)?,
            listen_within: LISTEN_WITHIN,
        }))
    }
}

fn schedules(settings: &Settings) -> Result<Option<SchedulerLimits>, ConfigError> {
    if !settings.get(&schedule_keys::CRON_ENABLED)?.value {
        return Ok(None);
    }
    let at_once = settings.get(&schedule_keys::CRON_MAX_CONCURRENT)?.value.get();
    Ok(Some(SchedulerLimits {
        max_concurrent: usize::try_from(at_once).unwrap_or(usize::MAX),
        timeout: settings.get(&schedule_keys::CRON_TIMEOUT_SECONDS)?.value.duration(),
    }))
}

fn api_server(
    settings: &Settings,
) -> Result<Result<Option<ApiServer>, ApiServerError>, ConfigError> {
    if !settings.get(&keys::API_SERVER_ENABLED)?.value {
        return Ok(Ok(None));
    }
    let key = settings.get(&keys::API_SERVER_KEY)?.value;
    if let Err(error) = check_key(key.expose(), || settings.home().dir().join(".env")) {
        return Ok(Err(error));
    }
    let text = |key: &SettingKey<Text>| -> Result<Option<String>, ConfigError> {
        Ok(settings.get(key)?.value.get().map(str::to_owned))
    };
    let profile = settings.home().profile();
    let default_name =
        if profile.is_default() { "vestal-agent".to_owned() } else { profile.to_string() };
    let origins = text(&keys::API_SERVER_CORS_ORIGINS)?.unwrap_or_default();
    let origins = origins.split(',').map(|origin| origin.trim().trim_end_matches('/'));
    let origins: Vec<&str> = origins.filter(|origin| !origin.is_empty()).collect();
    if let Some(bad) = origins.iter().find(|origin| !is_origin(origin)) {
        return Ok(Err(ApiServerError::BadOrigin { origin: (*bad).to_owned() }));
    }
    let port = settings.get(&keys::API_SERVER_PORT)?.value.get();
    let socket = text(&keys::API_SERVER_SOCKET)?.map(|socket| settings.home().dir().join(socket));
    Ok(Ok(Some(ApiServer {
        host: text(&keys::API_SERVER_HOST)?
            .or_else(|| socket.is_none().then(|| "127.0.0.1".to_owned())),
        socket,
        port: u16::try_from(port).unwrap_or(u16::MAX),
        model_name: text(&keys::API_SERVER_MODEL_NAME)?.unwrap_or(default_name),
        cors_origins: origins.into_iter().map(str::to_owned).collect(),
        backends: backends(settings)?,
        serve: ServeSettings::new(settings)?,
        timeouts: RequestTimeouts::default(),
        key,
    })))
}

/// Returns the backends that a request may name: the configured one, and those that are listed. A
/// client must not choose a backend that isolates less than the operator wants.
fn backends(settings: &Settings) -> Result<Vec<String>, ConfigError> {
    let configured = settings.get_by_name("terminal.backend")?.value.to_string();
    let listed = settings.get(&keys::API_SERVER_BACKENDS)?.value;
    let listed = listed.get().unwrap_or_default().split(',').map(str::trim);
    let listed = listed.filter(|name| !name.is_empty()).map(str::to_owned);
    Ok(std::iter::once(configured).chain(listed).collect())
}

/// A wildcard is refused: with the key, any page could use the API.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]_".contains(&byte);
        !host.is_empty() && host.bytes().all(is_fine)
    })
}

fn check_key(key: Option<&str>, file: impl FnOnce() -> PathBuf) -> Result<(), ApiServerError> {
    let key = key.ok_or_else(|| ApiServerError::NoKey { file: file() })?;
    if is_placeholder(key) {
        return Err(ApiServerError::PlaceholderKey);
    }
    if key.len() < MIN_KEY {
        return Err(ApiServerError::ShortKey { length: key.len() });
    }
    Ok(())
}

/// Reports whether a key stands in examples, or was typed to fill a line.
fn is_placeholder(key: &str) -> bool {
    // `your-api-key`, `your_api_key` and `YOUR API KEY` are the same word.
    let is_part = |c: &char| c.is_ascii_alphanumeric();
    let folded: String = key.to_ascii_lowercase().chars().filter(is_part).collect();
    let different = folded.chars().collect::<std::collections::BTreeSet<_>>().len();
    let is_repeated = |width: usize| {
        let (first, rest) = folded.split_at(width.min(folded.len()));
        !rest.is_empty()
            && rest.as_bytes().chunks(width).all(|piece| first.as_bytes().starts_with(piece))
    };
    let is_filler = key.len() >= MIN_KEY && different < MIN_DIFFERENT;
    is_filler
        || (key.len() >= MIN_KEY && (1..=8).any(is_repeated))
        || PLACEHOLDERS.iter().any(|known| folded.contains(known))
        || FIRST_WORDS.iter().any(|known| folded.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for good in ["https://a.example", "http://localhost:3000", "http://[::1]:80"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["*", "a.example", "https://", "https://a/b", "https://a b", "file:///x", "null"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
    }

    #[test]
    fn a_key_that_protects_nothing_is_refused() {
        let check_key = |key| check_key(key, || PathBuf::from("/home/ada/.vestal/.env"));
        let missing = check_key(None).unwrap_err().to_string();
        assert!(missing.contains("into /home/ada/.vestal/.env,"), "{missing}");
        assert_eq!(check_key(Some("short")), Err(ApiServerError::ShortKey { length: 5 }));
        for known in [
            "changeme-changeme-changeme",
            "your-api-key-goes-in-here",
            "xxxxxxxxxxxxxxxxxxxx",
            "0000000000000000",
            "abababababababababab",
            "your-secret-key-here",
            "YOUR_OPENAI_KEY_GOES_HERE",
            "sk-1234567890example",
            "sk-proj-placeholder-0001",
            "secretsecretsecret",
            "deadbeefdeadbeefdeadbeef",
        ] {
            assert_eq!(check_key(Some(known)), Err(ApiServerError::PlaceholderKey), "{known}");
        }
        assert_eq!(check_key(Some("9f86d081884c7d659a2feaa0c55ad015")), Ok(()));
    }
}
